"""One stage of a computation: its layout and its kernels, and how they are run in a call."""

from __future__ import annotations

import contextlib
import functools
import time
from array import array
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from scanjit import errors, types
from scanjit.config import config
from scanjit.runtime import processors
from scanjit.runtime.choice import Choice, numbers
from scanjit.runtime.kernels import Kernel
from scanjit.runtime.layout import Layout
from scanjit.runtime.native import native, running
from scanjit.runtime.recipe import StageRecipe
from scanjit.runtime.sized import ResultView, Sized, sized
from scanjit.runtime.stages import Stage
from scanjit.runtime.steps import Steps
from scanjit.runtime.workspace import Workspace
from scanjit.schedule.memory.notes import notes as memory_notes
from scanjit.schedule.nests import Program
from scanjit.schedule.threads.notes import notes as thread_notes
from scanjit.schedule.threads.sharing import Sharing, decided, sharing
from scanjit.schedule.threads.teams import ALONE, Way
from scanjit.types import Atom, Numbers, Type

if TYPE_CHECKING:
    # the front end, which is not imported at run time: a recipe from the cache does not need it
    from scanjit.codegen.generate import Generated
    from scanjit.runtime.front import MadeStage

Run = Callable[[list[np.ndarray]], list[np.ndarray]]
"""Makes new arrays, one for each output, from the values of the origins."""
Finish = Callable[[list[np.ndarray]], Any]
"""Makes what a call returns from the results."""
AtOnce = Callable[[tuple[Any, ...]], Any]
"""Makes a whole call with the arguments and the values of shared variables, to what `Finish` makes. Returns False if it
cannot; then `Run` can, or says what is wrong."""
MOST_SIZED = 64
"""For this many combinations of sizes, a program remembers where everything lies."""
MOST_OWN = 2**19
"""A workspace of at most so many bytes is kept for each combination of sizes."""
BRIEF = 2000
"""A program of fewer operations keeps Python's lock: to give it back and to take it again is an eighth of a small call.
(NumPy keeps it for up to 500 elements.)"""
MOST_KEPT = 4
"""How many workspaces are kept for the next calls. There are more only while more calls run at the same time."""


class Timer(Protocol):
    """Takes the time of calls."""

    def run(self, start: Callable[[], int], table: int, sized: Sized, threads: int) -> None:
        """Call `start`, which runs the code with the table at that address, and note how long that takes."""


def _results_in(made: list[np.ndarray], results: list[ResultView]) -> list[np.ndarray]:
    """The results, which lie in the arrays that were made."""
    return [made[which] if cut is None else cut(made[which]) for which, cut in results]


class CompiledStage:
    """One stage. Safe to call from several threads at once."""

    def __init__(
        self,
        recipe: StageRecipe,
        kernels: Sequence[Kernel],
        name: str,
        mode: str,
        made: Callable[[], MadeStage],
        timer: Callable[[Generated, Layout], Timer] | None = None,
    ) -> None:
        self.mode, self.kernels, self._made = mode, kernels, made
        self.layout, self.table = recipe.layout, recipe.layout.table
        self.steps = Steps(name)
        self.timer = None if timer is None else timer(self.code, self.layout)
        self._decides = any(types.as_atom(dim) for dim in decided(self.layout.costs))
        self.known: dict[tuple[Way, tuple[int, ...]], Sized] = {}
        """For the way of using threads and the sizes, all that follows from them. The newest sizes come last."""
        self.sharings: dict[tuple[Way, tuple[int, ...]], Sharing] = {}
        """For the same, how threads share the program."""
        self._last: tuple[tuple[int, ...], Numbers] | None = None
        self.choices: dict[tuple[int, ...], Choice] = {}
        """The chooser of the way of using threads, by the numbers of threads that are allowed and the magnitudes of
        the sizes."""
        self.workspaces: list[Workspace] = []
        """Those that earlier calls left for the next ones."""
        if mode == "numba":
            count = len(recipe.arguments)
            arrays = [*self.table.inputs, *((entry, count + i) for entry, i in self.table.outputs)]
            self._places = array("q", [len(arrays), *(word for pair in arrays for word in pair)])
            self._places_at = self._places.buffer_info()[0]
            self._main = kernels[-1].address
            self._run = running(self.layout.has_lapack)

    def _check_memory(self, number: Numbers) -> None:
        """Raise an error if no memory can hold a buffer: its addresses would not fit into the int64 that code counts
        with."""
        for buffer in (*self.table.out_buffers, *(life.buffer for life in self.table.lives)):
            with contextlib.suppress(KeyError):  # some are as large as is decided later
                if number(buffer.nbytes) > types.LARGEST:
                    types.check_memory(buffer.dtype.itemsize, Type(buffer.dtype, tuple(map(number, buffer.shape))))

    # ---- what is looked at: it is made again if it is not there ------------------------------------------------------

    @property
    def stage(self) -> Stage:
        """Its graph."""
        return self._made().stage

    @property
    def program(self) -> Program:
        """Its program."""
        return self._made().program

    @property
    def code(self) -> Generated:
        """Its generated code."""
        return self._made().code

    def sources(self) -> list[str]:
        """The generated source, main function first."""
        texts = [kernel.source for kernel in self.kernels] or [source.text for source in self.code.functions]
        return texts[::-1]

    def notes(self) -> list[str]:
        """The lines of `explain`: how the program was made, and what was decided for the last new sizes."""
        last = next(reversed(self.known.values()), None)
        sharing, planned = (None, None) if last is None else (last.sharing, (last.workspace, last.nbytes))
        found = [*self.program.notes, *thread_notes(self.program, sharing)]
        return [*found, *memory_notes(self.program, self.table.lives, planned)]

    # ---- calls -------------------------------------------------------------------------------------------------------

    def sized(self, sizes: Mapping[Atom, int], way: Way) -> Sized:
        """All that follows from some sizes and the way of using threads."""
        key = self._key(sizes, way)
        found = self.known.get(key)
        if found is None:
            shared = self._sharing(sizes, way)
            found = self.known[key] = sized(self.layout, self._numbers(sizes, key[1]), shared)
        return found

    def _sharing(self, sizes: Mapping[Atom, int], way: Way) -> Sharing:
        """How threads share the program in this way."""
        key = self._key(sizes, way)
        found = self.sharings.get(key)
        if found is None:
            if len(self.sharings) >= MOST_SIZED:
                self.forget()
            number = self._numbers(sizes, key[1])
            found = self.sharings[key] = sharing(self.layout.costs, number, key[0], self.layout.near_bytes)
        return found

    def forget(self) -> None:
        """Forget all that follows from sizes."""
        self.known.clear()
        self.sharings.clear()

    def _key(self, sizes: Mapping[Atom, int], way: Way) -> tuple[Way, tuple[int, ...]]:
        return way if self._decides else ALONE, tuple([sizes[atom] for atom in self.table.atoms])

    def _numbers(self, sizes: Mapping[Atom, int], values: tuple[int, ...]) -> Numbers:
        """The values of dimensions for some sizes, of which the `values` are. All ways of using threads need them."""
        last = self._last
        if last is None or last[0] != values:
            number = Numbers(sizes)
            self._check_memory(number)
            last = self._last = values, number
        return last[1]

    def _choice(self, sizes: Mapping[Atom, int], most: int, other: bool | None) -> Choice | None:
        """The chooser of the way of using threads for some sizes: the same for all sizes with equally many binary
        digits. None if there is only one way."""
        fixed = bool(config.threads)
        if most == 1 or self.timer is not None or (fixed and other is None):
            return None
        key = (most, fixed, *(sizes[atom].bit_length() for atom in self.table.atoms))
        found = self.choices.get(key)
        if found is None:
            if len(self.choices) >= MOST_SIZED:
                self.choices.clear()
            found = self.choices[key] = Choice([most] if fixed else numbers(most), other)
        return found

    def for_sizes(self, sizes: Mapping[Atom, int]) -> Run:
        """What makes new arrays, one for each output, from the arrays of the stage's origins."""
        alone = self._alone(sizes)
        if alone is not None:
            return functools.partial(self._run_in_way, alone, ALONE, None)
        return functools.partial(self._run_by_choice, dict(sizes))

    def _alone(self, sizes: Mapping[Atom, int]) -> Sized | None:
        """All that follows from sizes for which calls always use one thread. None for other sizes."""
        way = Way(processors.count())
        shared = self._sharing(sizes, way)
        always = shared.small or not (self._decides or shared.several)
        return self.sized(sizes, way) if always else None

    def at_once(self, sizes: Mapping[Atom, int], alike: array[int], finish: Finish) -> AtOnce | None:
        """See `Executable.at_once`. A call is one step if it uses one thread and little memory, and nothing has to be
        done before its code."""
        if self.mode != "numba" or self.timer is not None or self.layout.kept_from or self.layout.has_lapack:
            return None
        sized = self._alone(sizes)
        if sized is None or sized.workspace > MOST_OWN:
            return None
        workspace = Workspace()
        workspace.fill(sized, self.table)
        results, ready = sized.results, self.table.ready  # what follows from sizes alone stays there
        brief = sized.sharing.operations < BRIEF and not self.layout.has_guests
        words = array("q", [self._main, workspace.table, workspace.status, brief, *self._places, len(ready), *ready])
        whole = finish if results is None else lambda made: finish(_results_in(made, results))
        return native().call(words + alike, tuple(sized.buffers), self.steps, whole, workspace)

    def _run_by_choice(self, sizes: Mapping[Atom, int], arrays: list[np.ndarray]) -> list[np.ndarray]:
        """Run the program in the way that is chosen for this call."""
        most = Way(processors.count())
        shared = self._sharing(sizes, most)
        if not shared.several:
            return self._run_in_way(self.sized(sizes, most), ALONE, None, arrays)
        choice = self._choice(sizes, most.threads, shared.other)
        way = most if choice is None else choice.way()
        return self._run_in_way(self.sized(sizes, way), way, choice, arrays)

    def _run_in_way(self, sized: Sized, way: Way, choice: Choice | None, arrays: list[np.ndarray]) -> list[np.ndarray]:
        made = [make() for make in sized.buffers]
        if self.mode == "emulate":
            from scanjit.runtime.emulation import check_written, emulate

            code, written = emulate(self.code, self.table, sized, arrays, made)
            if not code:
                check_written(written if sized.results is None else _results_in(written, sized.results))
        else:
            code = self._call(sized, way, choice, arrays + made)
        if code:
            node = self.program.codes[code - 1]
            if "guest" in node.params:
                raise node.params["guest"].failed("an exception of Numba's, such as for a division by zero", node.where)
            raise errors.OutOfBoundsError(
                f"an index of {node.op.name} is out of bounds",
                got=f"indexing {node.args[0]!r}",
                fix="run it with mode='reference', which says the index, the axis and the step",
                where=node.where,
            )
        return made if sized.results is None else _results_in(made, sized.results)

    def _call(self, sized: Sized, way: Way, choice: Choice | None, arrays: list[np.ndarray]) -> int:
        """Run the program in this way, with its arguments and the arrays for its results. Returns the status. `choice`
        is told how long it takes."""
        table, places, threads = self.table, self._places_at, way.threads
        try:
            workspace = self.workspaces.pop()
        except IndexError:  # as many calls run at the same time
            workspace = Workspace()
        if workspace.filled_for is not sized:
            workspace.fill(sized, table)
        values = None
        if table.ready:
            values = [arrays[i] for i in self.layout.kept_from]
            held = workspace.holds(values)
            for entry in table.ready:
                workspace.entries[entry] = held
        if threads > 1:
            for entry in table.sync:
                workspace.entries[entry] = native().place
        at = workspace.table
        if self.timer is not None:
            start = functools.partial(self._run, self._main, at, threads, self.steps, places, arrays)
            self.timer.run(start, at, sized, threads)
        elif choice is None:
            self._run(self._main, at, threads, self.steps, places, arrays)
        else:
            began = time.perf_counter()
            used = self._run(self._main, at, threads, self.steps, places, arrays)
            passed = time.perf_counter() - began
            choice.note(way.on(used % 256), used // 256, sized.sharing.operations, passed)
        status = workspace.entries[workspace.status]
        if not status:  # after an error, only a part of the lasting buffers may be filled
            workspace.values = values
            if len(self.workspaces) < MOST_KEPT:
                self.workspaces.append(workspace)
        return status

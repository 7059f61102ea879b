"""Compiled programs: schedule, generate, load; and run with the sizes and arrays of a call."""

from __future__ import annotations

import math
import operator
import sys
from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from scanjit import codegen, errors, schedule, types
from scanjit.codegen.frame import PREPARED, SCRATCH, STATUS, SYNC, SYNC_WORDS
from scanjit.ir import SHARED, Node, as_dim
from scanjit.rewrite import lower
from scanjit.rewrite import run as rewrite
from scanjit.rewrite.unfit import without_unfit
from scanjit.runtime import host, processors, threads
from scanjit.runtime import sizes as runtime_sizes
from scanjit.runtime.addresses import address
from scanjit.runtime.bounds import explained
from scanjit.runtime.stages import Stage, stages
from scanjit.schedule.memory.lifetimes import ALIGNMENT, Lifetime, assign, lifetimes
from scanjit.schedule.memory.prepared import prepared
from scanjit.schedule.nests import Beside, Buffer, LapackCall, Ref, TimeLoop, leaves_of
from scanjit.schedule.threads.beside import arrange
from scanjit.schedule.threads.parallel import Choice, choice, chosen, keeping, numbers, piece, worth
from scanjit.schedule.threads.rows import find_rows
from scanjit.types import Atom, Dim, Type

TAIL = 8 + SYNC_WORDS
"""Entries after the table proper: the status, and (8 further on, in cache lines of their own) where threads meet; then,
where loops stand side by side, where the threads of each meet."""
KEPT_LAYOUTS = 64
"""For how many combinations of sizes a program remembers where everything lies."""
KEPT_WORKSPACES = 4
"""How many workspaces are kept for the next calls; more only while more calls run at once."""


def compile_program(leaves: list[Node], outputs: list[Node], name: str, mode: str) -> Executable:
    """Compile the computation of `outputs` from `leaves` (inputs and shared variables)."""
    return Executable(leaves, outputs, name, mode)


class _Unfit(errors.ShapeError):
    """A size that a branch computes is none that the branch can be run with."""


class Executable:
    """A compiled computation. Safe to call from several threads at once."""

    def __init__(
        self, leaves: list[Node], outputs: list[Node], name: str, mode: str, part: type[Part] | None = None
    ) -> None:
        self.leaves, self.name, self.mode, self._asked = leaves, name, mode, outputs
        self._conditions = [c for c in runtime_sizes.conditions(outputs) if _on_values(c)]
        sized = _sized_by(self._conditions, leaves)
        rewritten = rewrite([*outputs, *sized])
        lowered, unfit = without_unfit(lower(rewritten.outputs))
        self.outputs, self.notes = lowered[: len(outputs)], rewritten.notes
        self._unfit = unfit
        found = [as_dim(node) for node in lowered[len(outputs) :]]
        self._checked = [(node.dim_atom, dim) for node, dim in zip(sized, found, strict=True) if node.dim_atom]
        self.parts = [(part or Part)(stage, name, mode) for stage in stages(leaves, [*lowered, *unfit])]

    def __call__(self, arrays: list[np.ndarray], sizes: dict[Atom, int]) -> list[np.ndarray]:
        """New arrays, one an output."""
        try:
            return self._results(arrays, sizes)
        except (errors.OutOfBoundsError, _Unfit) as error:
            raise explained(error, self._asked, dict(zip(self.leaves, arrays, strict=True))) from None

    def _results(self, arrays: list[np.ndarray], sizes: dict[Atom, int]) -> list[np.ndarray]:
        if len(self.parts) == 1 and not self._conditions and not self._unfit and self.parts[0].simple:
            return self.parts[0].run(arrays, sizes)
        values: dict[Node, np.ndarray] = dict(zip(self.leaves, arrays, strict=True))
        sizes = dict(sizes)
        sizes |= {leaf.dim_atom: int(a) for leaf, a in values.items() if leaf.dim_atom is not None}
        self._learn(sizes, values)
        left = runtime_sizes.check(self._conditions, sizes)
        for part in self.parts:
            results = part.run([values[leaf] for leaf in part.stage.leaves], sizes)
            values |= dict(zip(part.stage.outputs, results, strict=True))
            sizes |= {atom: int(values[node]) for atom, node in part.stage.values.items()}
            self._learn(sizes, values)
            left = runtime_sizes.check(left, sizes)
        if any(values[node] for node in self._unfit):
            raise _Unfit("a size that is computed in a branch of ifelse does not fit")
        return [values[node] for node in self.outputs]

    def _learn(self, sizes: dict[Atom, int], values: Mapping[Node, np.ndarray]) -> None:
        """Add the sizes that conditions are about and that are known by now."""
        for atom, dim in self._checked:
            for other in types.atoms(dim):
                if other.kind == "value" and (node := other.args[0]) in values:
                    sizes[other] = int(values[node])
            if all(other in sizes for other in types.atoms(dim)):
                sizes[atom] = types.evaluate(dim, sizes)

    @property
    def source(self) -> str:
        """All generated code: for each part its main function, then the functions that it calls."""
        return "\n\n".join(text for part in self.parts for text in part.sources())

    def explain(self) -> str:
        """What was done to make it fast, and what was not: rewrites, loops, nests, memory."""
        notes = [str(note) for note in self.notes]
        for part in self.parts:
            notes += [*part.program.notes, *part.beside_notes(), *part.rows_notes(), part.memory()]
            kept = ", ".join(statement.title for statement in part.prepared)
            notes += [f"{kept}: once for each value of the shared variables, not in every call"] if kept else []
        return "\n".join([f"{self.name}:", *(f"  {note}" for note in notes)]) + "\n"

    def inspect_asm(self) -> str:
        """The assembly of all kernels."""
        return "\n\n".join(kernel.asm() for part in self.parts for kernel in part.kernels)


def _on_values(condition: runtime_sizes.Check) -> bool:
    return any(atom.kind == "value" for atom in condition.atoms())


def _sized_by(conditions: list[runtime_sizes.Check], leaves: list[Node]) -> list[Node]:
    """The nodes whose values conditions are about. The rewritten graph computes them too: it has sizes of its own."""
    atoms = dict.fromkeys(atom for c in conditions if c.body is None for atom in c.atoms() if atom.kind == "value")
    nodes = [atom.args[0] for atom in atoms]
    return [node for node in nodes if not any(node is leaf for leaf in leaves)]


class Layout(NamedTuple):
    """Where everything lies, for the sizes of a call: the table but for addresses, which temporary begins where in the
    workspace and how large it is, the parts of the workspace that are kept between calls (and the sizes that decide
    what is in them), the shapes of the buffers for results, where the results lie in them, what the threads do with
    loops side by side, and in which loops they keep their rows, how many threads that was decided for, and whether the
    work is enough for several threads."""

    table: array[int]
    workspace: int
    temporaries: list[tuple[int, int]]
    sizes: list[int]
    kept: list[tuple[int, int]]
    shapes: list[tuple[int, ...]]
    results: list[tuple[int, int, int, tuple[int, ...]]]
    choices: dict[Beside, Choice]
    rows: dict[TimeLoop, bool]
    threads: int
    large: bool


def _beside_note(beside: Beside, layout: Layout | None) -> str:
    names = Counter(branch.title for branch in beside.branches).items()
    text = f"side by side: {', '.join(name if many == 1 else f'{many} of {name}' for name, many in names)}"
    if layout is None:
        return f"{text}; whether each gets threads of its own depends on sizes"
    if not layout.large or layout.threads < 2:
        return f"{text}; {'one thread' if layout.threads < 2 else 'too little work for several threads'}"
    teams, apart, together = layout.choices[beside]
    costs = f"about {apart:.1e} operations apart, {together:.1e} together"
    if teams is None:
        return f"{text}; all {layout.threads} threads share the steps of each ({costs})"
    numbers = [f"{t.first}" if t.many == 1 else f"{t.first}-{t.first + t.many - 1}" for t in teams]
    return f"{text}; on threads {', '.join(numbers)}, without waiting for each other ({costs})"


def _rows_note(loop: TimeLoop, layout: Layout | None) -> str:
    text = f"{loop.label}: its rows never meet"
    if layout is None:
        return f"{text}; whether each thread keeps its rows through all steps depends on sizes"
    if not layout.large or layout.threads < 2:
        return f"{text}; {'one thread' if layout.threads < 2 else 'too little work for several threads'}"
    return (
        f"{text}; {'each thread keeps its rows through all steps' if layout.rows[loop] else 'threads share each step'}"
    )


class _Workspace:
    """Memory for the temporaries of a call, and what is kept in it: for which layout, from which shared values; with a
    table for the next call, in which only the addresses of arguments and results are missing."""

    __slots__ = ("layout", "memory", "table", "values")

    def __init__(self) -> None:
        self.memory = np.empty(0, np.uint8)
        self.layout: Layout | None = None
        self.values: list[np.ndarray] = []
        self.table = array("q")

    def holds(self, layout: Layout, values: list[np.ndarray]) -> bool:
        """Whether what is kept is there. Values are compared by identity: nobody writes to the array of a shared
        variable, a new value is a new array (which this one, being referred to, cannot be mistaken for)."""
        same = self.layout is not None and (self.layout is layout or self.layout.kept == layout.kept)
        return same and all(map(operator.is_, self.values, values))


class Part:
    """One stage, compiled."""

    def __init__(self, stage: Stage, name: str, mode: str) -> None:
        self.stage, self.mode = stage, mode
        self.program = schedule.schedule(stage.leaves, stage.outputs, host.target())
        pairs = list(zip(stage.leaves, self.program.inputs, strict=True))
        self.prepared, self.kept = prepared(self.program)
        self.beside = arrange(self.program, self.prepared)
        self.rows = find_rows(self.program)
        self.shared = [i for i, (leaf, _) in enumerate(pairs) if leaf.op is SHARED]
        self.lives = lifetimes(self.program)
        self._check_memory({})
        self.code = self._generate(name)
        self.tail = TAIL + SYNC_WORDS * max((len(beside.branches) for beside in self.beside), default=0)
        self._sort_table()
        self.simple = not any(atom.kind == "value" for atom in self.atoms)
        self._layouts: dict[tuple[int, ...], Layout] = {}
        self._workspaces: list[_Workspace] = []
        self.kernels: list[Any] = []
        if mode == "numba":
            self._load()

    def _generate(self, name: str) -> codegen.Generated:
        return codegen.generate(self.program, name, kept=self.prepared)

    def _check_memory(self, sizes: Mapping[Atom, int]) -> None:
        """An error for a buffer that no memory can hold, as far as sizes are known: the addresses in it would not fit
        into the int64 that generated code counts with."""
        places = {ref.buffer: node.where for ref, node in zip(self.program.outputs, self.stage.outputs, strict=True)}
        for buffer in (*places, *(life.buffer for life in self.lives)):
            known = (types.evaluate(d, sizes) if all(a in sizes for a in types.atoms(d)) else d for d in buffer.shape)
            types.check_memory(buffer.dtype.itemsize, Type(buffer.dtype, tuple(known)), places.get(buffer))

    def _sort_table(self) -> None:
        """Which entries of the table are what; and which sizes they depend on."""
        place = {entry: i for i, entry in enumerate(self.code.table) if isinstance(entry, Buffer)}
        self.inputs = [place.get(buffer) for buffer in self.program.inputs]
        self.given = [(i, number) for number, i in enumerate(self.inputs) if i is not None]
        self.arguments = [(i, number) for i, number in self.given if number not in self.shared]
        self.out_buffers = list(dict.fromkeys(ref.buffer for ref in self.program.outputs))
        self.outputs = [place.get(buffer) for buffer in self.out_buffers]
        kept = [Lifetime(buffer, -1, sys.maxsize) for buffer in self.kept if buffer in place]
        self.lives = kept + [life for life in self.lives if life.buffer in place and life.buffer not in self.kept]
        self.kept = [life.buffer for life in kept]
        if SCRATCH in place:
            self.lives.append(Lifetime(SCRATCH, 0, sys.maxsize))
        self.temporary = [place[life.buffer] for life in self.lives]
        self.constants = [(i, b.data) for b, i in place.items() if b.data is not None]
        self.status, self.sync, self.flag = place.get(STATUS), place.get(SYNC), place.get(PREPARED)
        dims = [entry for entry in self.code.table if isinstance(entry, Dim)]
        dims += [d for b in (*self.out_buffers, *(life.buffer for life in self.lives)) for d in b.shape]
        dims += [d for ref in self.program.outputs for d in (*ref.shape, ref.offset)]
        decided = [d for beside in self.beside for d in (beside.apart, *beside.first, *beside.many)]
        decided += [loop.rows.kept for loop in self.rows if loop.rows is not None]
        decided += [turns for _, turns in self.code.pieces]
        ours = {atom for dim in decided for atom in types.atoms(dim)}
        self.atoms = [a for a in dict.fromkeys(atom for dim in dims for atom in types.atoms(dim)) if a not in ours]

    def _load(self) -> None:
        from scanjit.runtime.kernels import kernels

        arity = {source.name: source.arity for source in self.code.functions}
        functions = [(f.text, f.name, {name: arity[name] for name in f.calls}) for f in self.code.functions]
        self.kernels = kernels(functions)
        self._main = self.kernels[-1].address
        lapack = any(isinstance(leaf, LapackCall) for leaf in leaves_of(self.program.body))
        self._run = threads.running(lapack)

    def sources(self) -> list[str]:
        """The generated source, main function first."""
        return [source.text for source in reversed(self.code.functions)]

    def beside_notes(self) -> list[str]:
        """Which loops stand side by side, and what was decided for the last new sizes."""
        layout = next(reversed(self._layouts.values()), None)
        notes = Counter(_beside_note(beside, layout) for beside in self.beside)
        return [note if times == 1 else f"{note} (so {times} times)" for note, times in notes.items()]

    def rows_notes(self) -> list[str]:
        """In which loops threads may keep their rows, and what was decided for the last new sizes."""
        layout = next(reversed(self._layouts.values()), None)
        return [_rows_note(loop, layout) for loop in self.rows]

    def memory(self) -> str:
        """The planned memory in words."""
        listed = ", ".join(f"{life.buffer.name} {tuple(life.buffer.shape)}" for life in self.lives) or "none"
        text = f"memory: {len(self.lives)} temporaries in one workspace, which is kept between calls: {listed}"
        if self._layouts:
            layout = next(reversed(self._layouts.values()))
            text += f"; {layout.workspace} bytes for the last new sizes, {sum(layout.sizes)} without sharing"
        return text

    def _layout(self, sizes: dict[Atom, int]) -> Layout:
        count = processors.count() if self.beside or self.rows else 0
        key = (count, *[sizes[atom] for atom in self.atoms])
        found = self._layouts.get(key)
        if found is None:
            if len(self._layouts) >= KEPT_LAYOUTS:
                self._layouts.clear()
            found = self._layouts[key] = self._new_layout(sizes, count)
        return found

    def _new_layout(self, sizes: dict[Atom, int], count: int) -> Layout:
        choices = {beside: choice(beside, sizes, max(count, 1), self.program.target) for beside in self.beside}
        kept_rows = keeping(self.program, sizes, choices, max(count, 1))
        large = worth(self.program, sizes, choices, kept_rows)
        sizes = sizes | {k: v for beside, made in choices.items() for k, v in chosen(beside, made).items()}
        sizes |= numbers((loop.rows.kept for loop in kept_rows if loop.rows is not None), map(int, kept_rows.values()))
        self._check_memory(sizes)
        pieces = [turns for _, turns in self.code.pieces]
        sizes |= numbers(pieces, (piece(nest, sizes) for nest, _ in self.code.pieces))
        table = array("q", bytes(8 * (len(self.code.table) + self.tail)))
        for i, entry in enumerate(self.code.table):
            if not isinstance(entry, Buffer):
                table[i] = types.evaluate(entry, sizes)
        for i, data in self.constants:
            table[i] = address(data)
        offsets, total = assign(self.lives, sizes)
        shapes = [tuple(types.evaluate(d, sizes) for d in buffer.shape) for buffer in self.out_buffers]
        results = [self._result(ref, sizes) for ref in self.program.outputs]
        nbytes = [types.evaluate(life.buffer.nbytes, sizes) for life in self.lives]
        temporaries = list(zip(self.temporary, offsets, strict=True))
        kept = list(zip(offsets, nbytes, strict=True))[: len(self.kept)]
        kept += [(-1, types.evaluate(dim, sizes)) for dim in self.code.kept_sizes]
        return Layout(table, total, temporaries, nbytes, kept, shapes, results, choices, kept_rows, count, large)

    def _result(self, ref: Ref, sizes: dict[Atom, int]) -> tuple[int, int, int, tuple[int, ...]]:
        shape = tuple(types.evaluate(d, sizes) for d in ref.shape)
        start, count = types.evaluate(ref.offset, sizes), math.prod(shape)
        which = next(i for i, buffer in enumerate(self.out_buffers) if buffer is ref.buffer)
        return which, start, start + count, shape

    def run(self, arrays: Sequence[np.ndarray], sizes: dict[Atom, int]) -> list[np.ndarray]:
        """Run with these arrays (in the order of the stage's leaves)."""
        layout = self._layout(sizes)
        made = [np.empty(shape, buffer.dtype) for shape, buffer in zip(layout.shapes, self.out_buffers, strict=True)]
        if self.mode == "emulate":
            from scanjit.runtime.emulation import emulate

            code = emulate(self, layout, arrays, made)
        else:
            code = self._call(layout, arrays, made)
        if code:
            node = self.program.codes[code - 1]
            raise errors.OutOfBoundsError(
                f"an index of {node.op.name} is out of bounds",
                got=f"indexing {node.args[0]!r}",
                fix="run it with mode='reference', which says the index, the axis and the step",
                where=node.where,
            )
        return [
            made[which]
            if start == 0 and stop == made[which].size and shape == made[which].shape
            else made[which].reshape(-1)[start:stop].reshape(shape)
            for which, start, stop, shape in layout.results
        ]

    def _call(self, layout: Layout, arrays: Sequence[np.ndarray], made: Sequence[np.ndarray]) -> int:
        """Fill the table and run; returns the status."""
        if not layout.workspace:
            return self._run_table(layout, layout.table[:], self.given, arrays, made)
        workspace = self._take(layout.workspace)
        values = [arrays[i] for i in self.shared] if self.flag is not None else []
        held = self.flag is not None and workspace.holds(layout, values)
        if held and workspace.layout is layout:
            code = self._run_table(layout, workspace.table[:], self.arguments, arrays, made)
        else:
            filled = self._filled(layout, workspace, held)
            code = self._run_table(layout, filled, self.given, arrays, made)
            self._keep(layout, workspace, values, filled)
        if len(self._workspaces) < KEPT_WORKSPACES:
            self._workspaces.append(workspace)
        return code

    def _filled(self, layout: Layout, workspace: _Workspace, held: bool) -> array[int]:
        """A table with the addresses of temporaries; and with whether what is kept is there."""
        table = layout.table[:]
        base = -(-address(workspace.memory) // ALIGNMENT) * ALIGNMENT
        for i, offset in layout.temporaries:
            table[i] = base + offset
        if self.flag is not None:
            table[self.flag] = held
        return table

    def _keep(self, layout: Layout, workspace: _Workspace, values: list[np.ndarray], table: array[int]) -> None:
        """Note, after a call, what a workspace holds."""
        if self.flag is None:
            return
        table[self.flag] = True
        table[len(table) - self.tail :] = array("q", bytes(8 * self.tail))
        workspace.layout, workspace.values, workspace.table = layout, values, table

    def _run_table(
        self,
        layout: Layout,
        table: array[int],
        given: Sequence[tuple[int, int]],
        arrays: Sequence[np.ndarray],
        made: Sequence[np.ndarray],
    ) -> int:
        """Run with a table, into which the addresses of these arguments and of the results are put."""
        here = table.buffer_info()[0]
        for i, number in given:
            table[i] = address(arrays[number])
        for place, result in zip(self.outputs, made, strict=True):
            if place is not None:
                table[place] = address(result)
        tail = len(table) - self.tail
        if self.status is not None:
            table[self.status] = here + 8 * tail
        if self.sync is not None:
            table[self.sync] = here + 8 * (tail + 8)
        self._start(here, layout)
        return table[tail]

    def _start(self, table: int, layout: Layout) -> None:
        """Run the main function, on several threads if that is worth it."""
        self._run(self._main, table, (layout.threads or processors.count()) if layout.large else 1)

    def _take(self, nbytes: int) -> _Workspace:
        """A workspace for one call: one that an earlier call left, or a new one; with so much memory."""
        try:
            workspace = self._workspaces.pop()
        except IndexError:
            workspace = _Workspace()
        if workspace.memory.size < nbytes + ALIGNMENT:
            workspace.memory, workspace.layout = np.empty(nbytes + ALIGNMENT, np.uint8), None
        return workspace


__all__ = ["Executable", "Layout", "Part", "compile_program"]

"""`f.profile()`: how long each statement of a compiled program takes, beside what the machine allows."""

import copy
import ctypes
import functools
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from scanjit import errors
from scanjit.codegen.generate import Generated
from scanjit.codegen.places import PROFILE
from scanjit.ir import Node
from scanjit.runtime import limits
from scanjit.runtime.addresses import address
from scanjit.runtime.kernels import kernel
from scanjit.runtime.layout import Layout
from scanjit.runtime.locks import holding, new_lock
from scanjit.runtime.program import Staged
from scanjit.runtime.sized import Sized
from scanjit.runtime.waiting import told
from scanjit.schedule.cost.statements import Cost, costs
from scanjit.schedule.threads.sharing import team_of_each
from scanjit.show import Document, Table


@dataclass
class Line:
    """A statement of a program, in all profiled calls together.

    Attributes
    ----------
    label : its name, as in the name of its generated function.
    runs : how often it ran.
    seconds : how long that took; with several threads, until all had finished.
    operations, nbytes : how many operations (an fma is two) it made, and how many bytes it touched.
    limit : the seconds that the machine needs at least: for the operations or for the bytes, whichever is more.
    bound : which of the two: "operations" or "bytes".
    """

    label: str
    runs: int = 0
    seconds: float = 0.0
    operations: float = 0.0
    nbytes: float = 0.0
    limit: float = 0.0
    bound: str = "operations"

    @property
    def fraction(self) -> float:
        """The limit divided by the time: 1 is as fast as the machine allows."""
        return self.limit / self.seconds if self.seconds else 0.0


@dataclass
class Profile:
    """The times of a function's statements, made by `CompiledFunction.profile`. Print it, or draw it with
    `scanjit.plot.profile`.

    Attributes
    ----------
    name : the name of the function.
    calls, seconds : how many calls were profiled, and how long their programs ran.
    threads : how many threads the largest of them used.
    lines : one a statement (`label`, `runs`, `seconds`, `operations`, `nbytes`, `limit`, `fraction`). Of loops that run
        side by side, each counts with all of its time.
    """

    name: str
    calls: int
    seconds: float
    threads: int
    lines: list[Line]

    def __repr__(self) -> str:
        return self._document()

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return self._document().forms(include, exclude)

    def _document(self) -> Document:
        per, many = 1e3 / max(self.calls, 1), "s" if self.threads > 1 else ""
        rows = [
            (
                f"{line.seconds * per:.4f}",
                f"{line.seconds / max(self.seconds, 1e-12):.1%}",
                f"{line.runs // max(self.calls, 1)}",
                f"{line.operations / max(line.seconds, 1e-12) / 1e9:.1f}",
                f"{line.nbytes / max(line.seconds, 1e-12) / 1e9:.1f}",
                f"{line.fraction:.2f}",
                line.bound,
                line.label,
            )
            for line in sorted(self.lines, key=lambda line: -line.seconds)
        ]
        rest = max(self.seconds - sum(line.seconds for line in self.lines), 0.0)
        return Document(
            f"{self.name}: {self.calls} calls, {self.seconds * per:.3f} ms each, {self.threads} thread{many}",
            Table(_COLUMNS, [*rows, (f"{rest * per:.4f}", *("",) * 6, "between the statements")]),
        )


_COLUMNS = ("ms a call", "share", "runs", "GFLOP/s", "GB/s", "of limit", "bound by", "statement")


class StageTimer:
    """Takes the time of each statement of a stage, whose code was generated for it, and adds it up in `lines`."""

    def __init__(self, code: Generated, layout: Layout) -> None:
        self.suite = layout.costs
        self.lines = [Line(statement.title) for statement in code.timed]
        self.seconds, self.threads = 0.0, 1
        self._places = [i for i, entry in enumerate(code.table) if entry is PROFILE]
        self._costs: dict[int, tuple[Sized, list[tuple[Cost, int]]]] = {}
        self._lock = new_lock()

    def run(self, start: Callable[[], int], table: int, sized: Sized, threads: int) -> None:
        """Call `start`, which runs the code with the table at that address, and add up how long each statement
        takes."""
        counters = np.zeros((len(self.lines), 2), np.int64)
        for place in self._places:
            ctypes.c_int64.from_address(table + 8 * place).value = address(counters)
        if id(sized) not in self._costs:
            self._costs[id(sized)] = sized, list(self.expected(sized))
        begin = time.perf_counter()
        start()
        seconds = time.perf_counter() - begin
        holding([self._lock], self._add, counters, seconds, self._costs[id(sized)][1], threads)

    def expected(self, sized: Sized) -> Iterator[tuple[Cost, int]]:
        """The operations and bytes of each statement, and the number of threads that run it (0 stands for all)."""
        for statement in self.suite:
            for priced, team in zip(statement.branches, team_of_each(statement, sized.sharing.teams), strict=True):
                yield from ((cost, team.many if team else 0) for cost in costs(priced, sized.number))

    def _add(self, counters: np.ndarray, seconds: float, expected: Sequence[tuple[Cost, int]], threads: int) -> None:
        """Add the times of a call. If an exception comes meanwhile, nothing is added."""
        tick, lines = _seconds_a_tick(), [copy.copy(line) for line in self.lines]
        for line, (ticks, runs), (cost, team) in zip(lines, counters.tolist(), expected, strict=True):
            count = min(team or threads, threads)
            line.runs, line.seconds = line.runs + runs, line.seconds + ticks * tick
            line.operations += runs * cost.operations
            line.nbytes += runs * cost.nbytes
            compute = cost.operations / (limits.operations(cost.dtype) * count)
            memory = cost.nbytes / (limits.bandwidth(cost.nbytes / count) * count)
            line.limit += runs * max(compute, memory)
            line.bound = "bytes" if memory > compute else "operations"
        most = max(self.threads, threads)
        self.lines, self.seconds, self.threads = lines, self.seconds + seconds, most


def timed(origins: list[Any], outputs: list[Any], name: str, changing: Collection[Node]) -> Staged:
    """The computation of `outputs`, with a clock around each statement."""
    with told(name):
        return Staged(origins, outputs, name, "numba", StageTimer, changing)


def profile_of(executable: Staged | None, name: str, calls: int) -> Profile:
    """The profile of the calls so far; an error if no call was profiled."""
    if executable is None or not calls:
        raise errors.ArgumentError(
            f"no call of {name} was profiled",
            fix='set sj.config.profile = True, call the function (of mode="numba"), and ask then',
        )
    timers = [stage.timer for stage in executable.stages if isinstance(stage.timer, StageTimer)]
    lines = [line for timer in timers for line in timer.lines if line.runs]
    seconds, most = sum(timer.seconds for timer in timers), max((timer.threads for timer in timers), default=1)
    return Profile(name, calls, seconds, most, lines)


@functools.cache
def _seconds_a_tick() -> float:
    """The length of one tick of the clock that generated code reads. Measured once."""
    read = kernel("\n".join(_CLOCK), "limit_clock").call
    memory = np.zeros(1, np.int64)
    marks = []
    for wait in (0.0, 0.01):
        time.sleep(wait)
        read(address(memory))
        marks.append((int(memory[0]), time.perf_counter()))
    (first, begin), (last, end) = marks
    return (end - begin) / max(last - first, 1)


_CLOCK = [
    "from scanjit.simd import clock, store_i64",
    "",
    "",
    "def limit_clock(memory):",
    "    store_i64(memory, clock())",
    "",
]

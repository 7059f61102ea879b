"""What is measured: a recurrence, the data, and for each engine the program that computes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from benchmarks import tape

Sizes = Mapping[str, int]
Arrays = dict[str, np.ndarray]


class Program(NamedTuple):
    """A computation that is ready to run.

    `call` is what is timed: it takes no arguments (an engine has its own kind of arrays, made before) and computes all
    results. `read` makes NumPy arrays of what it returned: the value, then the gradients in the order of `Case.wrt`.
    """

    call: Callable[[], Any]
    read: Callable[[Any], list[np.ndarray]]


class Work(NamedTuple):
    """What has to be done at least, in the forward pass: the limit is the slowest of the three.

    `flops` are multiplications and additions that can be done side by side, `stream` bytes that have to come from the
    caches (in all, from an array of `footprint` bytes), `chain` multiply-adds of which each needs the one before.
    """

    flops: float = 0
    stream: float = 0
    footprint: float = 0
    chain: float = 0


@dataclass(frozen=True)
class Case:
    """A recurrence.

    Parameters
    ----------
    name : as in the tables.
    group : the word of the command line that it belongs to.
    sizes : the rows of its table.
    quick : one small row.
    data : the arguments by name, from sizes, dtype and a generator of random numbers.
    reference : the value, from `tape.Array`s; None if results are not checked, and only starting is measured.
    make : for each engine, what makes a `Program` of a `Task`.
    value : the shape of what it computes, as names of sizes; a number if there are none.
    wrt : which arguments gradients are taken of.
    weights : which arguments are parameters, which an engine may prepare once when there is no gradient.
    free : the axes whose sizes a compiled function is not told, for each argument that has such.
    work : see `Work`.
    tolerance : the largest difference from the reference, relative to the largest element, in float32 and float64.
    scalar : whether the state is one number.
    backward : how much longer than the value alone value and gradient are: `work` times this.
    dtypes : of each row.
    absent : why an engine that could be expected has no program.
    starts : the kinds of tasks whose start `compile` measures.
    kinds : the kinds of tasks that each row has.
    """

    name: str
    group: str
    sizes: list[dict[str, int]]
    quick: dict[str, int]
    data: Callable[[Sizes, str, np.random.Generator], Arrays]
    reference: Callable[..., tape.Array] | None
    make: Mapping[str, Callable[[Task], Program]]
    value: tuple[str, ...] = ()
    wrt: tuple[str, ...] = ()
    weights: tuple[str, ...] = ()
    free: Mapping[str, dict[int, str]] = field(default_factory=dict)
    work: Callable[[Sizes, int], Work] = lambda sizes, itemsize: Work()
    tolerance: tuple[float, float] = (2e-4, 1e-9)
    scalar: bool = False
    backward: float = 3
    dtypes: tuple[str, ...] = ("float32",)
    absent: Mapping[str, str] = field(default_factory=dict)
    starts: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ("forward", "gradient")

    def tasks(self, quick: bool) -> list[Task]:
        """All that is measured of it: each row of each kind."""
        rows = [(self.quick, dtype) for dtype in self.dtypes[-1:]] if quick else []
        rows = rows or [(s, d) for d in self.dtypes for s in self._of_dtype(d)]
        return [Task(self, dict(sizes), dtype, kind) for sizes, dtype in rows for kind in self.kinds]

    def _of_dtype(self, dtype: str) -> list[dict[str, int]]:
        """All rows, and of a second dtype two."""
        return self.sizes if dtype == self.dtypes[0] else self.sizes[2:4] or self.sizes[:1]


@dataclass(frozen=True)
class Task:
    """One row, of some kind: "forward", "gradient" (with the value), "hessian" (with value and gradient; of a number,
    and for each argument in `wrt` alone) or "training" (a step that also changes parameters).

    `unroll` and `mode` are for scanjit's program, which is told how to unroll. There are at most so many `threads`, of
    which others are told too. scanjit chooses how many of them it uses, as it does for users, unless the number is
    `fixed`.
    """

    case: Case
    sizes: dict[str, int]
    dtype: str
    kind: str
    unroll: int | bool = False
    threads: int = 1
    fixed: bool = False
    mode: str = "numba"

    @property
    def gradient(self) -> bool:
        """Whether derivatives are computed."""
        return self.kind != "forward"

    @property
    def title(self) -> str:
        """A name that says all."""
        sizes = " ".join(f"{name}={value:,}" for name, value in self.sizes.items())
        return f"{self.case.name}, {self.kind}: {sizes}, {self.dtype}"

    def arguments(self) -> Arrays:
        """The same arrays in every process."""
        return self.case.data(self.sizes, self.dtype, np.random.default_rng(0))

    def cotangent(self) -> np.ndarray:
        """What the value is multiplied with and summed, to have a number to differentiate; 1 for a number."""
        if not self.case.value:
            return np.ones((), self.dtype)
        shape = [self.sizes[name] for name in self.case.value]
        return np.random.default_rng(1).standard_normal(shape).astype(self.dtype)

    def expected(self) -> list[np.ndarray]:
        """The value in float64, and the derivatives if there are to be any; second ones from differences of first ones,
        which are right to ten digits."""
        arguments = self.arguments()
        first = self._expected(arguments)
        if self.kind != "hessian":
            return first
        second = []
        for number, name in enumerate(self.case.wrt, 1):
            x = np.asarray(arguments[name], np.float64)
            moves = 2e-4 * np.eye(x.size).reshape(x.size, *x.shape)
            at = lambda step, move, name=name, x=x, number=number: self._expected(arguments | {name: x + step * move})[
                number
            ]
            rows = [(8 * (at(1, m) - at(-1, m)) - (at(2, m) - at(-2, m))) / 2.4e-3 for m in moves]
            second.append(np.reshape(rows, x.shape * 2))
        return first + second

    def _expected(self, arguments: Arrays) -> list[np.ndarray]:
        """The value, and the gradients."""
        assert self.case.reference is not None
        leaves = {name: tape.Array(value) for name, value in arguments.items() if value.dtype.kind == "f"}
        y = self.case.reference(**{**arguments, **leaves})
        if not self.gradient:
            return [y.value]
        found = tape.gradients(y, self.cotangent(), {name: leaves[name] for name in self.case.wrt})
        return [y.value, *(found[name] for name in self.case.wrt)]

    def work(self) -> Work:
        """What has to be done for it."""
        work = self.case.work(self.sizes, np.dtype(self.dtype).itemsize)
        return Work(*(part * self.case.backward for part in work[:2]), work[2], work[3] * 2) if self.gradient else work


def check(task: Task, name: str, results: list[np.ndarray], expected: list[np.ndarray]) -> float:
    """The largest difference of an engine's results from the reference, relative to the largest element.

    Raises
    ------
    AssertionError
        If it is larger than the case allows, or a dtype or shape is not the expected one.
    """
    tolerance = task.case.tolerance[task.dtype == "float64"]
    assert len(results) == len(expected), f"{task.title}, {name}: {len(results)} results, not {len(expected)}"
    worst = 0.0
    for i, (got, want) in enumerate(zip(results, expected, strict=True)):
        same = got.shape == want.shape and str(got.dtype) in (task.dtype, "int64")
        assert same, f"{task.title}, {name}, result {i}: {got.dtype} of {got.shape}, not of {want.shape}"
        difference = float(np.abs(got - want).max() / max(float(np.abs(want).max()), 1e-300))
        assert difference <= tolerance, f"{task.title}, {name}, result {i}: off by {difference:.1e}"
        worst = max(worst, difference)
    return worst

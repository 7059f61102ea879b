"""What is measured: one computation, and those who compute it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

Function = Callable[..., list[np.ndarray]]
"""Takes the arguments of a task, returns the value and then the gradients: new arrays at every call."""


@dataclass(frozen=True)
class Contender:
    """A way to compute a task.

    Parameters
    ----------
    name : the row of the table.
    package : what has to be imported for it, besides NumPy. A package that is not installed is a row that is left out.
    make : everything that happens before the first call: tracing and compiling.
    """

    name: str
    package: str
    make: Callable[[], Function]


@dataclass(frozen=True)
class Task:
    """One computation.

    Parameters
    ----------
    case, kind, sizes : what it is: the name of the recurrence, "forward" or "gradient", and its sizes.
    arguments : the same arrays for everybody.
    reference : the computation by NumPy, which also works in float64.
    contenders : whose results must agree with `reference` in float64 before anything is timed.
    tolerance : the largest difference from it, relative to the largest element of an array.
    cost : of a gradient: the number that is differentiated, from the value and the arguments.
    wrt : of a gradient: the arguments that it is taken of, in the order of the results.
    flops : how much has to be computed, where that is the limit.
    chain : how many operations have to follow each other, where that is the limit.
    """

    case: str
    kind: str
    sizes: dict[str, int]
    arguments: list[np.ndarray]
    reference: Function
    contenders: list[Contender]
    tolerance: float
    cost: Callable[[np.ndarray, list[np.ndarray]], float] | None = None
    wrt: list[int] = field(default_factory=list)
    flops: int = 0
    chain: int = 0

    @property
    def title(self) -> str:
        """The headline of its table."""
        sizes = " ".join(f"{name}={value:,}" for name, value in self.sizes.items())
        return f"{self.case}, {self.kind}: {sizes}, {self.arguments[0].dtype}"

    def contender(self, name: str) -> Contender:
        """The contender of this name."""
        return next(contender for contender in self.contenders if contender.name == name)


def wide(arguments: list[np.ndarray]) -> list[np.ndarray]:
    """The arguments in float64."""
    return [np.asarray(argument, np.float64) for argument in arguments]


def check_reference(task: Task) -> None:
    """Hold the gradients of the reference against a difference of its value, along one direction, in float64.

    Raises
    ------
    AssertionError
        If they differ by more than the rounding and the curvature of such a difference explain.
    """
    if task.cost is None:
        return
    arguments = wide(task.arguments)
    rng = np.random.default_rng(1)
    small = 1e-6
    moves = [rng.standard_normal(arguments[i].shape) * np.abs(arguments[i]).max() for i in task.wrt]

    def cost(step: float) -> float:
        assert task.cost is not None
        moved = list(arguments)
        for i, move in zip(task.wrt, moves, strict=True):
            moved[i] = arguments[i] + step * move
        return task.cost(task.reference(*moved)[0], moved)

    gradients = task.reference(*arguments)[1:]
    expected = sum(float((g * move).sum()) for g, move in zip(gradients, moves, strict=True))
    found = (cost(small) - cost(-small)) / (2 * small)
    size = sum(float(np.abs(g * move).sum()) for g, move in zip(gradients, moves, strict=True))
    assert abs(found - expected) <= 1e-5 * size, f"{task.title}: the reference's gradient is {expected}, not {found}"


def check(task: Task, name: str, results: list[np.ndarray], expected: list[np.ndarray]) -> float:
    """The largest relative difference between a contender's results and those of the reference in float64.

    Raises
    ------
    AssertionError
        If it is larger than the task allows, or a dtype or shape is not the expected one.
    """
    assert len(results) == len(expected), f"{task.title}, {name}: {len(results)} results, not {len(expected)}"
    worst = 0.0
    for i, (got, want) in enumerate(zip(results, expected, strict=True)):
        same = got.shape == want.shape and got.dtype == task.arguments[0].dtype
        assert same, f"{task.title}, {name}, result {i}: {got.dtype} of {got.shape}, not of {want.shape}"
        difference = float(np.abs(got - want).max() / max(float(np.abs(want).max()), 1e-300))
        assert difference <= task.tolerance, f"{task.title}, {name}, result {i}: off by {difference:.1e}"
        worst = max(worst, difference)
    return worst

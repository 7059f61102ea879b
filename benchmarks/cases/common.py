"""What the cases share: who computes them, and in which two kinds."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from benchmarks.task import Contender, Function, Task

Graph = Callable[[int | None, int | bool, bool], tuple[list[Any], list[Any]]]
"""Makes scanjit's inputs and outputs; takes the number of steps (None: any), `unroll`, and whether with gradients."""


@dataclass(frozen=True)
class Case:
    """A recurrence, written for scanjit and by hand.

    Parameters
    ----------
    name, sizes, arguments, tolerance : see `Task`; `sizes` has the number of steps as T.
    graph : the recurrence as scanjit's graph.
    by_numpy, by_numpy_with_gradient : the loop by hand.
    module : of this package, where Numba's `forward` and `with_gradient` are; they return tuples.
    weights : arguments that only the gradient has: those that make a number of the value.
    wrt, cost : of the gradient; see `Task`.
    flops, chain : of the value. A gradient does three times as much as the value alone, in a chain twice as long.
    """

    name: str
    sizes: dict[str, int]
    arguments: list[np.ndarray]
    graph: Graph
    by_numpy: Function
    by_numpy_with_gradient: Function
    module: str
    wrt: list[int]
    cost: Callable[[np.ndarray, list[np.ndarray]], float]
    tolerance: float
    weights: list[np.ndarray] = field(default_factory=list)
    flops: int = 0
    chain: int = 0

    def tasks(self, mode: str) -> list[Task]:
        """The value, and the value with its gradient."""
        return [self._task(mode, False), self._task(mode, True)]

    def _task(self, mode: str, gradient: bool) -> Task:
        by_numpy = self.by_numpy_with_gradient if gradient else self.by_numpy
        arguments = [*self.arguments, *self.weights] if gradient else self.arguments
        return Task(
            case=self.name,
            kind="gradient" if gradient else "forward",
            sizes=self.sizes,
            arguments=arguments,
            reference=by_numpy,
            contenders=[
                Contender("scanjit", "scanjit", lambda: self._scanjit(mode, gradient, False)),
                Contender("scanjit, unroll=8", "scanjit", lambda: self._scanjit(mode, gradient, 8)),
                Contender("scanjit, unroll=True", "scanjit", lambda: self._scanjit(mode, gradient, True)),
                Contender("Numba loop", "numba", lambda: self._numba(gradient, arguments)),
                Contender("NumPy loop", "numpy", lambda: by_numpy),
            ],
            tolerance=self.tolerance,
            cost=self.cost if gradient else None,
            wrt=self.wrt if gradient else [],
            flops=self.flops * (3 if gradient else 1),
            chain=self.chain * (2 if gradient else 1),
        )

    def _scanjit(self, mode: str, gradient: bool, unroll: int | bool) -> Function:
        """Only where there is to be no loop at all, the number of steps is known."""
        import scanjit as sj

        inputs, outputs = self.graph(self.sizes["T"] if unroll is True else None, unroll, gradient)
        return sj.function(inputs, outputs, mode=mode)

    def _numba(self, gradient: bool, arguments: list[np.ndarray]) -> Function:
        import numba

        loops = importlib.import_module(f"benchmarks.cases.{self.module}")
        loop = loops.with_gradient if gradient else loops.forward
        loop.compile(tuple(numba.typeof(argument) for argument in arguments))
        return lambda *values: list(loop(*values))


def normal(rng: np.random.Generator, *shape: int, scale: float = 1.0) -> np.ndarray:
    """Normally distributed float32."""
    return rng.standard_normal(shape, dtype=np.float32) * np.float32(scale)

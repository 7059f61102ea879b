"""The common part of the methods of `minimize`. All of it is written for one problem; a batch is a `vmap` of it.

A method computes the loss once in each step, at one trial point. It keeps the point if the loss falls as expected, and
otherwise tries a shorter step next time. So many problems can take their steps together, each with its own length.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from scanjit.autodiff import grad
from scanjit.ir import Node
from scanjit.optimize.result import AT_BOUND, CONVERGED, NO_DESCENT, NOT_FINITE, RUNNING
from scanjit.tensor import cast, clip, isfinite, where

Loss = Callable[[Node], Any]
"""The loss of one problem, as a function of its variables alone."""


Tensor = Any
"""A symbol while programs are built; an array among their arguments and results."""


class LossPoint(NamedTuple):
    """A place, with the loss there and its derivatives. `curvature` is what a method needs besides: a matrix, or
    nothing."""

    x: Tensor
    fun: Tensor
    jac: Tensor
    curvature: Any = ()


class Box(NamedTuple):
    """The bounds of the variables; infinite where there are none."""

    lower: Tensor
    upper: Tensor

    def project(self, x: Node) -> Node:
        """The nearest point inside."""
        return clip(x, self.lower, self.upper)

    def fixed(self, point: LossPoint) -> Node:
        """The variables that are at a bound, and would leave the box to make the loss smaller."""
        return ((point.x <= self.lower) & (point.jac > 0)) | ((point.x >= self.upper) & (point.jac < 0))

    def slope(self, point: LossPoint) -> Node:
        """The gradient, with 0 for variables that are fixed."""
        return where(self.fixed(point), 0, point.jac)


class State(NamedTuple):
    """The state of a problem. `scale` is the least size of the loss so far, or 1. The tolerance is relative to it: a
    loss that falls without end never converges. `memory` belongs to the method."""

    best: LossPoint
    scale: Tensor
    status: Tensor
    nit: Tensor
    nfev: Tensor
    memory: Any


class Method(ABC):
    """A way to choose trial points. Each of its methods is for one problem."""

    steps: int
    """The most evaluations, unless the caller says another number."""
    has_inverse: bool = True
    """Whether the method knows an inverse of the second derivatives."""

    def point(self, loss: Loss, x: Node) -> LossPoint:
        """The loss and its derivatives at a place."""
        fun = loss(x)
        return LossPoint(x, fun, grad(fun, x))

    @abstractmethod
    def memory(self, start: LossPoint) -> Any:
        """What the method remembers at the start."""

    @abstractmethod
    def propose(self, loss: Loss, best: LossPoint, memory: Any, box: Box) -> tuple[Node, Node]:
        """The step to try next, and the expected fall of the loss: infinite if there is no step this time."""

    @abstractmethod
    def learn(self, best: LossPoint, trial: LossPoint, kept: Node, ratio: Node, memory: Any) -> Any:
        """The memory after a trial. `ratio` is the fall of the loss, divided by the expected fall."""

    def inverse(self, best: LossPoint, memory: Any, box: Box) -> Node:
        """The inverse of the second derivatives, or of the matrix in their place. NaN if it is not positive
        definite."""
        raise AssertionError(f"{type(self).__name__} has none")


def begin(method: Method, loss: Loss, x: Node, box: Box, tolerance: Node) -> State:
    """The state of a problem at its start."""
    best = method.point(loss, box.project(x))
    scale = np.maximum(abs(best.fun), 1)
    status = where(_finite(best), _arrived(best, box, tolerance * scale), NOT_FINITE)
    zero = cast(0 * status, "int64")
    return State(best, scale, status, zero, zero + 1, method.memory(best))


def advance(method: Method, loss: Loss, state: State, box: Box, tolerance: Node) -> State:
    """The state of a running problem after one more evaluation."""
    best = state.best
    step, promised = method.propose(loss, best, state.memory, box)
    trial = method.point(loss, box.project(best.x + step))
    noise = 8 * np.finfo(best.x.dtype).eps * np.maximum(abs(best.fun), 1)
    fell = best.fun - trial.fun
    ratio = where(_finite(trial), fell / promised, -1)
    # Where the promise is below the rounding of the loss, the gradient decides.
    flatter = _size(box.slope(trial)) <= _size(box.slope(best))
    falls = (fell >= 1e-4 * promised) | ((abs(fell) <= noise) & flatter)
    kept = _finite(trial) & isfinite(promised) & (promised > 0) & falls
    memory = method.learn(best, trial, kept, ratio, state.memory)
    now = select(kept, trial, best)
    lost = (~kept & (promised >= 0) & (promised <= noise)) | (kept & (trial.x == best.x).all())
    scale = np.minimum(state.scale, np.maximum(abs(now.fun), 1))
    near = _size(box.slope(now)) <= 1000 * tolerance * scale
    stopped = where(near, where(box.fixed(now).any(), AT_BOUND, CONVERGED), NO_DESCENT)
    arrived = _arrived(now, box, tolerance * scale)
    status = where((arrived == RUNNING) & lost, stopped, arrived)
    return State(now, scale, status, state.nit + cast(kept, "int64"), state.nfev + 1, memory)


def select(condition: Node, one: Any, other: Any) -> Any:
    """`where` for everything that two points or memories hold."""
    return mapped(lambda a, b: where(condition, a, b), one, other)


def mapped(function: Callable[..., Any], *values: Any) -> Any:
    """The results of a function of the leaves of nested tuples of one structure. None is no leaf, and stays."""
    first = values[0]
    if isinstance(first, tuple):
        parts = [mapped(function, *some) for some in zip(*values, strict=True)]
        return type(first)(*parts) if hasattr(first, "_fields") else tuple(parts)
    return None if first is None else function(*values)


def _finite(point: LossPoint) -> Node:
    finite = isfinite(point.fun) & isfinite(point.jac).all()
    return finite if isinstance(point.curvature, tuple) else finite & isfinite(point.curvature).all()


def _size(x: Node) -> Node:
    return abs(x).max()


def _arrived(point: LossPoint, box: Box, tolerance: Node) -> Node:
    """Whether the gradient is small, as a status."""
    small = _size(box.slope(point)) <= tolerance
    return cast(where(small, where(box.fixed(point).any(), AT_BOUND, CONVERGED), RUNNING), "int64")

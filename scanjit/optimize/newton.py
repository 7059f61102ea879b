"""Newton's method and Gauss and Newton's: a matrix of second derivatives, damped as Levenberg and Marquardt do.

Levenberg, K. (1944); Marquardt, D. W. (1963). How the damping changes is due to Nielsen, H. B. (1999), "Damping
parameter in Marquardt's method".
"""

from __future__ import annotations

from abc import ABC
from typing import Any, NamedTuple

import numpy as np

from scanjit.autodiff import grad
from scanjit.derivatives import hessian, jacobian
from scanjit.ir import Node
from scanjit.optimize.method import Box, Loss, LossPoint, Method
from scanjit.tensor import cho_solve, cholesky, diagonal, eye, isfinite, solve_triangular, where


class Damping(NamedTuple):
    """The number that is added to the diagonal of the matrix, relative to it, and its factor after the next bad
    step."""

    amount: Node
    growth: Node


class Damped(Method, ABC):
    """Steps to the minimum of a parabola whose matrix is the curvature of a point."""

    steps = 200

    def memory(self, start: LossPoint) -> Any:
        return Damping(0 * start.fun, 0 * start.fun + 2)

    def propose(self, loss: Loss, best: LossPoint, memory: Damping, box: Box) -> tuple[Node, Node]:
        matrix, slope = _free(best, box), box.slope(best)
        scale = abs(diagonal(matrix))
        top = scale.max()
        least = where(top > 0, 1e-3 * top, 1)
        damped = matrix + eye(slope.shape[0], dtype=slope.dtype) * (memory.amount * (scale + least))
        step = -cho_solve((cholesky(damped), True), slope)
        definite = isfinite(step).all()  # if not, the damping grows
        step = box.project(best.x + where(definite, step, 0)) - best.x
        return step, where(definite, -(slope @ step + step @ matrix @ step / 2), np.inf)

    def learn(self, best: LossPoint, trial: LossPoint, kept: Node, ratio: Node, memory: Damping) -> Damping:
        less = memory.amount * np.maximum(1 / 3, 1 - (2 * np.minimum(ratio, 2) - 1) ** 3)
        less = where(less < 1e-6, 0, less)
        more = np.maximum(memory.amount, 1e-3) * memory.growth
        return Damping(where(kept, less, more), where(kept, 2, 2 * memory.growth))

    def inverse(self, best: LossPoint, memory: Any, box: Box) -> Node:
        fixed, matrix = box.fixed(best), _free(best, box)
        factor = cholesky(matrix)
        half = solve_triangular(factor, eye(best.x.shape[0], dtype=best.x.dtype), lower=True)
        left = diagonal(factor) ** 2 / diagonal(matrix)  # of what a variable adds that the ones before it do not
        definite = (left > 10 * np.finfo(best.x.dtype).eps).all()
        return where(definite, where(fixed[:, None] | fixed, 0, half.T @ half), np.nan)


class Newton(Damped):
    """The parabola has the loss's first and second derivatives."""

    def point(self, loss: Loss, x: Node) -> LossPoint:
        fun = loss(x)
        return LossPoint(x, fun, grad(fun, x), hessian(fun, x))


class GaussNewton(Damped):
    """The loss is half a sum of squares. Products of the terms' first derivatives stand for its second ones."""

    def point(self, loss: Loss, x: Node) -> LossPoint:
        terms = loss(x)
        slopes = jacobian(terms, x)
        return LossPoint(x, (terms**2).sum() / 2, terms @ slopes, slopes.T @ slopes)


def _free(point: LossPoint, box: Box) -> Node:
    """The matrix, with a row and a column of the identity for each variable that is fixed at a bound."""
    fixed = box.fixed(point)
    unit = eye(point.x.shape[0], dtype=point.x.dtype)
    return where(fixed[:, None] | fixed, unit, point.curvature)

"""A trust region, searched by conjugate gradients: second derivatives are only ever multiplied by vectors.

Steihaug, T. (1983), "The conjugate gradient method and trust regions in large scale optimization".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from scanjit.derivatives import hvp
from scanjit.ir import Node
from scanjit.loops import scan
from scanjit.optimize.method import Box, Loss, LossPoint, Method, select
from scanjit.tensor import minimum, sqrt, where, zeros_like

PRODUCTS = 30
"""The search for a step multiplies the matrix at most this many times by a vector."""


class TrustRegion(NamedTuple):
    """The longest step to try, and the length of the last step."""

    radius: Node
    length: Node


class _Search(NamedTuple):
    """Conjugate gradients on their way: the step, the residual, the direction, and whether the search goes on."""

    step: Node
    residual: Node
    direction: Node
    going: Node


class Trust(Method):
    """Steps to the minimum of the parabola within a radius, which grows and shrinks with how well the parabola fits."""

    steps, has_inverse = 500, False

    def memory(self, start: LossPoint) -> TrustRegion:
        return TrustRegion(0 * start.fun + 1, 0 * start.fun)

    def propose(self, loss: Loss, best: LossPoint, memory: TrustRegion, box: Box) -> tuple[Node, Node]:
        slope, fixed = box.slope(best), box.fixed(best)
        fun = loss(best.x)

        def product(direction: Node) -> Node:
            return where(fixed, 0, hvp(fun, best.x, direction))

        length = _length(slope)
        wanted = length * where(length < 0.01, sqrt(length), 0.1)

        first = _Search(zeros_like(slope), slope, -slope, _length(slope) > 0)
        found: _Search = scan(
            lambda now: _next(now, product, memory.radius, wanted),
            outputs_info=[first],
            n_steps=minimum(best.x.shape[0], PRODUCTS),
        )
        step = box.project(best.x + found.step[-1]) - best.x
        return step, -(slope @ step + step @ product(step) / 2)

    def learn(self, best: LossPoint, trial: LossPoint, kept: Node, ratio: Node, memory: TrustRegion) -> TrustRegion:
        length = _length(trial.x - best.x)
        wider = where(length > 0.9 * memory.radius, 2 * memory.radius, memory.radius)
        radius = where(kept & (ratio > 0.75), wider, where(kept & (ratio > 0.25), memory.radius, length / 4))
        return TrustRegion(radius, length)


def _next(now: _Search, product: Callable[[Node], Node], radius: Node, wanted: Node) -> _Search:
    """One step of conjugate gradients. They end at the radius, where the loss curves down, or where it is flat."""
    times = product(now.direction)
    curvature, square = now.direction @ times, now.residual @ now.residual
    length = square / curvature
    inside = (curvature > 0) & (_length(now.step + length * now.direction) < radius)
    # To the radius: the larger root of |step + t * direction| = radius.
    a, b, c = now.direction @ now.direction, now.step @ now.direction, radius**2 - now.step @ now.step
    length = where(inside, length, (sqrt(np.maximum(b * b + a * c, 0)) - b) / a)
    step, residual = now.step + length * now.direction, now.residual + length * times
    direction = (residual @ residual) / square * now.direction - residual
    later = _Search(step, residual, direction, inside & (_length(residual) > wanted))
    return select(now.going, later, now)


def _length(x: Node) -> Node:
    return sqrt(x @ x)

"""L-BFGS: second derivatives are estimated from the last few changes of the gradient.

Nocedal, J. (1980), "Updating quasi-Newton matrices with limited storage".
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from scanjit.batching import vmap
from scanjit.ir import Node
from scanjit.optimize.method import Box, Loss, LossPoint, Method, select
from scanjit.tensor import concatenate, eye, isfinite, where, zeros

KEPT = 8
"""This many changes are remembered."""


class Changes(NamedTuple):
    """The last steps, the changes of the gradient by them, and one over the products of the two; the oldest first.
    Zeros stand where there is none yet. `shortened` is the factor of the next step."""

    steps: Node
    slopes: Node
    inverse: Node
    shortened: Node


class LBFGS(Method):
    """Steps along a direction of descent, shortened until the loss falls enough."""

    steps = 2000

    def memory(self, start: LossPoint) -> Changes:
        none = zeros((KEPT, *start.x.shape), start.x.dtype)
        first = 1 / np.maximum(abs(start.jac).sum(), 1)
        return Changes(none, none, zeros((KEPT,), start.x.dtype), where(isfinite(first), first, 0))

    def propose(self, loss: Loss, best: LossPoint, memory: Changes, box: Box) -> tuple[Node, Node]:
        slope = box.slope(best)
        downhill = where(box.fixed(best), 0, -_times(memory, slope))
        downhill = where(slope @ downhill < 0, downhill, -slope)
        step = box.project(best.x + memory.shortened * downhill) - best.x
        return step, -(slope @ step)

    def learn(self, best: LossPoint, trial: LossPoint, kept: Node, ratio: Node, memory: Changes) -> Changes:
        step, change = trial.x - best.x, trial.jac - best.jac
        product = step @ change
        fits = kept & (product > 1e-10 * (change @ change))
        pushed = _push(memory.steps, step), _push(memory.slopes, change), _push(memory.inverse, 1 / product)
        # The parabola through the loss, its slope and the loss at the trial has its least value here.
        least = 1 / np.maximum(2 * (1 - ratio), 1)
        shorter = memory.shortened * where(isfinite(least), np.minimum(np.maximum(least, 0.1), 0.5), 0.1)
        steps, slopes, inverse = select(fits, pushed, memory[:3])
        return Changes(steps, slopes, inverse, where(kept, 1, shorter))

    def inverse(self, best: LossPoint, memory: Changes, box: Box) -> Node:
        columns = vmap(lambda unit: _times(memory, unit))(eye(best.x.shape[0], dtype=best.x.dtype))
        fixed = box.fixed(best)
        return where(fixed[:, None] | fixed, 0, columns)


def _times(memory: Changes, x: Node) -> Node:
    """The estimate of the inverse matrix, times a vector."""
    shares = []
    for i in reversed(range(KEPT)):
        shares.append(memory.inverse[i] * (memory.steps[i] @ x))
        x = x - shares[-1] * memory.slopes[i]
    last = memory.inverse[-1] * (memory.slopes[-1] @ memory.slopes[-1])
    x = x / where(last > 0, last, 1)
    for i, share in enumerate(reversed(shares)):
        x = x + memory.steps[i] * (share - memory.inverse[i] * (memory.slopes[i] @ x))
    return x


def _push(rows: Node, row: Node) -> Node:
    return concatenate([rows[1:], row[None]])

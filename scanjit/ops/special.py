"""References, in NumPy alone, of functions that NumPy lacks. Exact rather than fast."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from scanjit.signatures import Array

Function = Callable[[Array], Array]


def _in_doubles(function: Callable[[float], float]) -> Function:
    """A function of one double, applied to each element."""
    each = np.vectorize(function, otypes=[np.float64])

    def apply(x: Array) -> Array:
        return np.asarray(each(x) if x.size else x).astype(x.dtype)

    return apply


def _gammaln(x: float) -> float:
    return math.inf if x <= 0 and x == math.floor(x) else math.lgamma(x)


def _digamma(x: float) -> float:
    if x != x or x == -math.inf:
        return math.nan
    if x == 0:
        return math.copysign(math.inf, -x)
    if x < 0:  # reflection
        angle = math.pi * (x - round(x))
        return math.nan if angle == 0 else _digamma(1 - x) - math.pi / math.tan(angle)
    steps = []
    while x < 20:
        steps.append(-1 / x)
        x += 1
    square = 1 / (x * x)
    series = 0.0
    for b in (1 / 12, -691 / 32760, 1 / 132, -1 / 240, 1 / 252, -1 / 120, 1 / 12):
        series = b + series * square
    return math.fsum([*steps, math.log(x), -0.5 / x, -square * series]) if x < math.inf else x


erf = _in_doubles(math.erf)
erfc = _in_doubles(math.erfc)
gammaln = _in_doubles(_gammaln)
digamma = _in_doubles(_digamma)


def sigmoid(x: Array) -> Array:
    """`1 / (1 + exp(-x))` without overflow."""
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + small), small / (1 + small)).astype(x.dtype)


def softplus(x: Array) -> Array:
    """`log(1 + exp(x))` without overflow."""
    return np.asarray(np.maximum(x, x.dtype.type(0)) + np.log1p(np.exp(-np.abs(x)))).astype(x.dtype)

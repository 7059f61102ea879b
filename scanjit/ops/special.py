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


def _erfinv(x: float) -> float:
    if not abs(x) < 1:
        return math.copysign(math.inf, x) if abs(x) == 1 else math.nan
    beyond = 1 - abs(x)
    y = math.sqrt(-math.log(beyond * (2 - beyond)))  # at least the value, from where Newton's method falls
    for _ in range(30):
        off = math.erfc(y) - beyond if beyond < 0.5 else abs(x) - math.erf(y)
        y += off * math.exp(y * y) * math.sqrt(math.pi) / 2
    return math.copysign(y, x)


def _bessel(order: int, x: float) -> float:
    """`exp(-|x|)` times the modified Bessel function of order 0 or 1."""
    size = abs(x)
    if size > 30:  # the asymptotic series
        terms = [1.0]
        for k in range(1, 40):
            terms.append(terms[-1] * ((2 * k - 1) ** 2 - 4 * order) / (8 * k * size))
        return math.copysign(math.fsum(terms) / math.sqrt(2 * math.pi * size), x if order else 1)
    terms = [(size / 2) ** order * math.exp(-size)]
    for k in range(1, 120):
        terms.append(terms[-1] * (size / 2) ** 2 / (k * (k + order)))
    return math.copysign(math.fsum(terms), x if order else 1)


erf = _in_doubles(math.erf)
erfinv = _in_doubles(_erfinv)
i0e = _in_doubles(lambda x: _bessel(0, x))
i1e = _in_doubles(lambda x: _bessel(1, x))
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

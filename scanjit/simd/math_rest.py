"""Functions that loops rarely need: libm lane by lane, and digamma, which libm lacks."""

from __future__ import annotations

from collections.abc import Callable

from .lanes import Lanes, abs_, fma, polynomial, select, wide
from .math_log import INF, NAN, log
from .math_trig import tan


def from_libm(symbol: str) -> Callable[..., Lanes]:
    """A function of one or two vectors that calls libm's function of doubles in every lane."""

    def function(x: Lanes, *others: Lanes) -> Lanes:
        return x.libm(symbol, *others)

    function.__name__ = symbol
    function.__doc__ = f"libm's {symbol} in every lane (float32 through float64)."
    return function


# digamma(x)/(x - root) on 1 <= x <= 2, as a polynomial of x - 1.5 (our own Remez fit, relative error 2**-53)
ROOT_HIGH, ROOT_LOW = 1.4616321449683622, 9.549995429965697e-17
# fmt: off
NEAR_ROOT = (
    0.0002572663507554921, -0.00037866891858659603, 0.0002302556699079036, -0.000354433827484275,
    0.0007217212702206505, -0.0010778509153125133, 0.001557103796334141, -0.0023375077627854793, 0.003518922525424827,
    -0.005280910341075059, 0.007926953869845184, -0.01190814580157949, 0.017907251822036736, -0.02697580007021234,
    0.040760833836157244, -0.061922133189452284, 0.09498872445447784, -0.1484049230548761, 0.24054248424077773,
    -0.4236274212814572, 0.9510558760318328,
)
# Bernoulli numbers over 2k, k = 7 .. 1: digamma(x) = log(x) - 1/2x - sum b_k / x**2k
ASYMPTOTIC = (1 / 12, -691 / 32760, 1 / 132, -1 / 240, 1 / 252, -1 / 120, 1 / 12)
PI = 3.141592653589793
# fmt: on


def digamma(x: Lanes) -> Lanes:
    """Logarithmic derivative of gamma: near 1..2 a polynomial that knows the root, the asymptotic series from 10 on.

    Between, ``digamma(x + 1) = digamma(x) + 1/x`` moves the argument; below 0 the reflection formula applies.
    """
    kind, x = x.kind, wide(x)
    negative = x < 0.0
    positive = select(negative, 1.0 - x, x)
    # x in (0, 1) goes one step up; x in (2, 10) goes down to (1, 2], in steps that add positive terms only
    below = positive < 1.0
    near = select(below, positive + 1.0, positive)
    total = select(below, -1.0 / positive, 0.0)
    far = positive > 10.0
    near = select(far, 1.5, near)

    def step(value: Lanes, harmonic: Lanes) -> tuple[Lanes, Lanes]:
        lower = value - 1.0
        moves = value > 2.0
        return select(moves, lower, value), select(moves, harmonic + 1.0 / lower, harmonic)

    near, total = near.repeat((near, total), lambda value, _: value > 2.0, step)
    close = fma((near - ROOT_HIGH) - ROOT_LOW, polynomial(near - 1.5, NEAR_ROOT), total)
    inverse = 1.0 / select(far, positive, 10.0)
    square = inverse * inverse
    series = log(select(far, positive, 10.0)) - inverse * 0.5 - square * polynomial(square, ASYMPTOTIC)
    result = select(far, series, close)
    # digamma(x) = digamma(1 - x) - pi/tan(pi x), with the angle reduced exactly
    angle = (x - x.unary("rint")) * PI
    pole = abs_(x).unary("trunc") == abs_(x)
    reflected = result.rescue(negative, lambda: result - PI / tan(angle))
    result = select(negative, select(pole, NAN, reflected), result)
    result = select(x == 0.0, (-x).splat(-INF).copysign(-x), result)
    return select(x == INF, INF, select(x == x, result, NAN)).cast(kind)

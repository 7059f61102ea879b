"""sin, cos and tan: Cody-Waite reduction by pi/2 for moderate arguments, libm for huge ones.

The splits of pi/2 and the float64 polynomials are fdlibm's; the float32 functions work in float64 with the shorter
polynomials of FreeBSD's ``k_sinf.c`` and ``k_cosf.c``.
"""

from typing import NamedTuple

from .lanes import Lanes, abs_, bits, fma, format_of, polynomial, select, wide
from .math_log import Pair, quick_sum

# fmt: off
TWO_OVER_PI = 0.6366197723675814
# float32: |x| below this has an exact n*HIGH in float64
NARROW_LIMIT = 1.0e8
NARROW_HIGH, NARROW_LOW = 1.57079631090164184570e00, 1.58932547735281966916e-08
NARROW_SIN = (2.718311493989822e-06, -0.00019839334836096632, 0.008333329385889463, -0.16666666641626524)
NARROW_COS = (2.439044879627741e-05, -0.001388676377460993, 0.04166662332373906, -0.499999997251031)
# float64: pi/2 in 33 + 33 + 53 bits
WIDE_LIMIT = 1.0e6
WIDE_HIGH, WIDE_MIDDLE, WIDE_LOW = 1.57079632673412561417e00, 6.07710050630396597660e-11, 2.02226624879595063154e-21
WIDE_SIN = (
    1.58969099521155010221e-10, -2.50507602534068634195e-08, 2.75573137070700676789e-06, -1.98412698298579493134e-04,
    8.33333333332248946124e-03, -1.66666666666666324348e-01,
)
WIDE_COS = (
    -1.13596475577881948265e-11, 2.08757232129817482790e-09, -2.75573143513906633035e-07, 2.48015872894767294178e-05,
    -1.38888888888741095749e-03, 4.16666666666666019037e-02,
)
# fmt: on


def _quadrant(x: Lanes, turn: int) -> tuple[Lanes, Lanes]:
    """An integer with the low bits of ``n + turn``, and n: how many right angles are nearest to the angle x."""
    magic = format_of(x).magic + turn
    shifted = fma(x, TWO_OVER_PI, magic)
    return bits(shifted), shifted - magic


def _by_quadrant(quadrant: Lanes, sine: Lanes, cosine: Lanes) -> Lanes:
    """Sine of the reduced angle plus `quadrant` right angles."""
    value = select((quadrant & 1) != 0, cosine, sine)
    return select((quadrant & 2) != 0, -value, value)


class _Parts(NamedTuple):
    """A reduced angle: an integer whose low bits count right angles; sine and cosine of the rest, each as a number and
    a small one beside it; and where these are not exact enough."""

    quadrant: Lanes
    sine: Pair
    cosine: Pair
    hard: Lanes


def _narrow(x: Lanes, turn: int) -> _Parts:
    """The parts of a float32 angle, as float64."""
    hard, x = abs_(x) > NARROW_LIMIT, wide(x)
    quadrant, n = _quadrant(x, turn)
    r = fma(n, -NARROW_LOW, fma(n, -NARROW_HIGH, x))
    z, nothing = r * r, x.splat(-0.0)
    sine = fma(z * r, polynomial(z, NARROW_SIN), r).copysign(r)  # the sum of -0 and 0 is 0
    return _Parts(quadrant, (sine, nothing), (polynomial(z, (*NARROW_COS, 1.0)), nothing), hard)


def _wide(x: Lanes, turn: int) -> _Parts:
    """The parts of a float64 angle."""
    quadrant, n = _quadrant(x, turn)
    # every product with the first two parts is exact for |n| < 2**20; the angle is r + r_low
    first = fma(n, -WIDE_HIGH, x)
    r = fma(n, -WIDE_MIDDLE, first)
    r_low = ((first - r) - n * WIDE_MIDDLE) - n * WIDE_LOW
    z = r * r
    half = z * 0.5
    sine = r, -fma(-(z * r), polynomial(z, WIDE_SIN), fma(half, r_low, -r_low))  # in signs that keep -0
    head = 1.0 - half
    cosine = head, fma(z * z, polynomial(z, WIDE_COS), ((1.0 - head) - half) - r * r_low)
    # next to a multiple of pi/2 the three parts run out of bits
    hard = (abs_(x) > WIDE_LIMIT) | ((abs_(r) < 2.0**-40) & (n != 0.0))
    return _Parts(quadrant, sine, cosine, hard)


_WAYS = {"f32": _narrow, "f64": _wide}


def sin(x: Lanes) -> Lanes:
    """Sine."""
    return _turned(x, 0, "sin")


def cos(x: Lanes) -> Lanes:
    """Cosine."""
    return _turned(x, 1, "cos")


def _turned(x: Lanes, turn: int, symbol: str) -> Lanes:
    """The sine of an angle plus `turn` right angles."""
    parts = _WAYS[x.kind.name](x, turn)
    sine, cosine = (head + rest for head, rest in (parts.sine, parts.cosine))
    value = _by_quadrant(parts.quadrant, sine, cosine).cast(x.kind)
    return value.rescue(parts.hard, lambda: x.libm(symbol))


def tan(x: Lanes) -> Lanes:
    """Tangent: sine over cosine, or minus cosine over sine, with what the rounding of all three takes."""
    parts = _WAYS[x.kind.name](x, 0)
    odd, sine, cosine = (parts.quadrant & 1) != 0, quick_sum(*parts.sine), quick_sum(*parts.cosine)
    above, above_low = (select(odd, -of_cosine, of_sine) for of_sine, of_cosine in zip(sine, cosine, strict=True))
    below, below_low = (select(odd, of_sine, of_cosine) for of_sine, of_cosine in zip(sine, cosine, strict=True))
    inverse = 1.0 / below
    value = above * inverse
    product, error = value.two_product(below)
    lost = ((above - product) - error) + (above_low - value * below_low)
    value = select(x == 0.0, x, fma(lost, inverse, value).cast(x.kind))
    return value.rescue(parts.hard, lambda: x.libm("tan"))

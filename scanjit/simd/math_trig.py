"""sin, cos and tan: Cody-Waite reduction by pi/2 for moderate arguments, that of Payne and Hanek for huge ones.

The splits of pi/2 and the float64 polynomials are fdlibm's; the float32 functions work in float64 with the shorter
polynomials of FreeBSD's ``k_sinf.c`` and ``k_cosf.c``.
"""

from collections.abc import Callable
from typing import NamedTuple

from .lanes import Lanes, abs_, bits, fma, format_of, polynomial, rint, select, wide
from .math_exp import power_of_two
from .math_log import Pair, exponent_as_float, pair_product, quick_sum, split, two_sum

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
HALF_PI_PAIR = (1.5707963267948966, 6.123233995736766e-17)
# the digits of 2/pi behind the point, in base 2**24
DIGITS = (
    10680707, 7228996, 1387004, 2578385, 16069853, 12639074, 9804092, 4427841, 16666979, 11263675, 12935607, 2387514,
    4345298, 14681673, 3074569, 13734428, 16653803, 1880361, 10960616, 8533493, 3062596, 8710556, 7349940, 6258241,
    3772886, 3769171, 3798172, 8675211, 12450088, 3874808, 9961438, 366607, 15675153, 9132554, 7151469, 3571407,
    2607881, 12013382, 4155038, 6285869, 7677882, 13102053, 15825725, 473591, 9065106, 15363067, 6271263, 9264392,
    5636912, 4652155, 7056368, 13614112, 10155062, 1944035, 9527646, 15080200, 6658437, 6231200, 6832269, 16767104,
    5075751, 3212806, 1398474, 7579849,
)
SMALL = 0.785  # a little less than pi/4
DIGITS_TAKEN = 9  # of these, 8 are less than a part in 2**52 of the angle that is next to a multiple of pi/2
# fmt: on


def _quadrant(x: Lanes, turn: int) -> tuple[Lanes, Lanes]:
    """An integer with the low bits of ``n + turn``, and n: how many right angles are nearest to the angle x."""
    magic = format_of(x).magic + turn
    shifted = fma(x, TWO_OVER_PI, magic)
    return bits(shifted), shifted - magic


def _by_quadrant(quadrant: Lanes, sine: Lanes, cosine: Lanes) -> Lanes:
    """Sine of the reduced angle plus `quadrant` right angles."""
    value = select((quadrant & 1) != 0, cosine, sine)
    return (bits(value) ^ ((quadrant & 2) << (value.kind.bits - 2))).bitcast(value.kind)


class _Angle(NamedTuple):
    """A reduced angle: an integer whose low bits count right angles; the rest of the angle, as a number and a small one
    beside it; and where these are not exact enough."""

    quadrant: Lanes
    r: Lanes
    low: Lanes
    hard: Lanes


class _Parts(NamedTuple):
    """An integer whose low bits count right angles; sine and cosine of the rest of an angle, each as a number and a
    small one beside it."""

    quadrant: Lanes
    sine: Pair
    cosine: Pair


def _narrow(x: Lanes, turn: int) -> _Angle:
    """A float32 angle, as float64."""
    hard, x = abs_(x) > NARROW_LIMIT, wide(x)
    quadrant, n = _quadrant(x, turn)
    return _Angle(quadrant, fma(n, -NARROW_LOW, fma(n, -NARROW_HIGH, x)), x.splat(0.0), hard)


def _narrow_parts(quadrant: Lanes, r: Lanes, low: Lanes) -> _Parts:
    """The parts of a float32 angle of so many right angles and r."""
    z, nothing = r * r, r.splat(-0.0)
    sine = fma(z * r, polynomial(z, NARROW_SIN), r).copysign(r)  # the sum of -0 and 0 is 0
    return _Parts(quadrant, (sine, nothing), (polynomial(z, (*NARROW_COS, 1.0)), nothing))


def _wide(x: Lanes, turn: int) -> _Angle:
    """A float64 angle."""
    quadrant, n = _quadrant(x, turn)
    # every product with the first two parts is exact for |n| < 2**20; the angle is r + low
    first = fma(n, -WIDE_HIGH, x)
    r = fma(n, -WIDE_MIDDLE, first)
    low = ((first - r) - n * WIDE_MIDDLE) - n * WIDE_LOW
    # next to a multiple of pi/2 the three parts run out of bits
    return _Angle(quadrant, r, low, (abs_(x) > WIDE_LIMIT) | ((abs_(r) < 2.0**-40) & (n != 0.0)))


def _wide_parts(quadrant: Lanes, r: Lanes, low: Lanes) -> _Parts:
    """The parts of a float64 angle of so many right angles and r + low."""
    z = r * r
    half = z * 0.5
    sine = r, -fma(-(z * r), polynomial(z, WIDE_SIN), fma(half, low, -low))  # in signs that keep -0
    head = 1.0 - half
    cosine = head, fma(z * z, polynomial(z, WIDE_COS), ((1.0 - head) - half) - r * low)
    return _Parts(quadrant, sine, cosine)


def _far(x: Lanes, turn: int) -> _Parts:
    """The parts of an angle that `_narrow` or `_wide` find hard. Its product with 2/pi is exact: a sum of products with
    digits of 2/pi, each less a multiple of 4. The digits before them make such multiples only."""
    x = wide(x)
    k, m = split(abs_(x))
    exponent = exponent_as_float(k, x)
    skipped = ((exponent - 55.0) * (1 / 24)).unary("floor")
    skipped = select(skipped > 0.0, skipped, 0.0)
    magic = format_of(x).magic
    m = m.copysign(x)
    m_high = (bits(m) & (-1 << 27)).bitcast(x.kind)
    zero = x.splat(0.0)

    def step(taken: Lanes, place: Lanes, unit: Lanes, *total: Lanes) -> tuple[Lanes, ...]:
        digit = place.lookup(DIGITS, x.kind) * unit
        for factor in (m_high, m - m_high):
            product = factor * digit
            total = _added(product - rint(product * 0.25) * 4.0, *total)
        return taken + 1.0, place + 1, unit * 2.0**-24, *total

    start = (zero, bits(skipped + magic), power_of_two(exponent - skipped * 24.0 - 24.0), zero, zero, zero)
    high, middle, low = x.repeat(start, lambda taken, *_: taken < DIGITS_TAKEN, step)[3:]
    shifted = high + (magic + turn)
    high, middle = two_sum(high - (shifted - (magic + turn)), middle)
    angle = pair_product(quick_sum(high, middle + low), HALF_PI_PAIR)
    return _wide_parts(bits(shifted), angle[0] + (x - x), angle[1])  # infinity less itself is NaN


def _added(term: Lanes, high: Lanes, middle: Lanes, low: Lanes) -> tuple[Lanes, Lanes, Lanes]:
    """The sum in three parts."""
    high, term = two_sum(high, term)
    middle, term = two_sum(middle, term)
    return high, middle, low + term


_WAYS = {"f32": (_narrow, _narrow_parts), "f64": (_wide, _wide_parts)}


def sin(x: Lanes) -> Lanes:
    """Sine."""
    return _turned(x, 0)


def cos(x: Lanes) -> Lanes:
    """Cosine."""
    return _turned(x, 1)


def _turned(x: Lanes, turn: int) -> Lanes:
    """The sine of an angle plus `turn` right angles."""

    def of(x: Lanes, parts: _Parts) -> Lanes:
        sine, cosine = (head + rest for head, rest in (parts.sine, parts.cosine))
        return _by_quadrant(parts.quadrant, sine, cosine).cast(x.kind)

    return _by_difficulty("sin" if turn == 0 else "cos", x, turn, of)


def _by_difficulty(name: str, x: Lanes, turn: int, of: Callable[[Lanes, _Parts], Lanes]) -> Lanes:
    """What `of` makes of an angle and its parts: the function with this name. The parts of a small angle are those of
    no right angle and the angle itself, which one lane knows without reducing it."""
    reduced, parts = _WAYS[x.kind.name]

    def small() -> Lanes:
        r = wide(x)
        return of(x, parts(bits(r).splat(turn), r, r.splat(0.0)))

    def far(x: Lanes) -> Lanes:
        return of(x, _far(x, turn))

    def general(x: Lanes) -> Lanes:
        quadrant, r, low, hard = reduced(x, turn)
        return of(x, parts(quadrant, r, low)).rescue(hard, lambda: x.apart(f"{name} of far angles", far))

    if x.lanes > 1:
        return general(x)
    return (abs_(x) < SMALL).either(small, lambda: x.apart(f"{name} of large angles", general))


def tan(x: Lanes) -> Lanes:
    """Tangent."""
    return _by_difficulty("tan", x, 0, lambda x, parts: select(x == 0.0, x, _tangent(parts).cast(x.kind)))


def _tangent(parts: _Parts) -> Lanes:
    """Sine over cosine, or minus cosine over sine, with what the rounding of all three takes."""
    odd, sine, cosine = (parts.quadrant & 1) != 0, quick_sum(*parts.sine), quick_sum(*parts.cosine)
    above, above_low = (select(odd, -of_cosine, of_sine) for of_sine, of_cosine in zip(sine, cosine, strict=True))
    below, below_low = (select(odd, of_sine, of_cosine) for of_sine, of_cosine in zip(sine, cosine, strict=True))
    inverse = 1.0 / below
    value = above * inverse
    product, error = value.two_product(below)
    lost = ((above - product) - error) + (above_low - value * below_low)
    return fma(lost, inverse, value)

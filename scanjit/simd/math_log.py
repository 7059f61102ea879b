"""Logarithms: log, log1p, log2, log10, softplus, log_sigmoid, and the inverses of sinh, cosh and tanh.

``x = 2**k * m``, m next to 1. A table of 16 intervals has a number next to ``1/m``, so that ``r = m*inverse - 1`` is
small, and a short polynomial of r is enough: nothing is divided. The scheme is that of P. T. P. Tang, "Table-driven
implementation of the logarithm function" (1990); tables and polynomials are our own.

`softplus` and the logarithms in twice the precision take ``s = f/(2 + f)`` with ``f = m - 1`` instead, as fdlibm does.
"""

import functools
from decimal import Decimal, localcontext
from typing import NamedTuple

from .lanes import FORMATS, Lanes, abs_, bits, fma, format_of, polynomial, select, sqrt
from .math_exp import but_for, exp_small, rarely

# fmt: off
USUAL = {"f32": 2.0**100, "f64": 2.0**1000}  # between its inverse and this, x is a normal number
INF, NAN = float("inf"), float("nan")
# a number of six bits next to 1/c, for the centres c of 16 intervals of m, from 0.6875 on, one of which is 1
INVERSE = (
    1.46875, 1.40625, 1.34375, 1.28125, 1.21875, 1.1875, 1.15625, 1.09375, 1.0625, 1.03125, 1.0, 0.9375,
    0.890625, 0.84375, 0.796875, 0.765625,
)
# log(1 + r) = r + r*r*(this polynomial) for |r| <= 0.0333 (our own)
LOG1P = {
    "f32": (
        0.20044206082820892, -0.2502254843711853, 0.3333331048488617, -0.4999999403953552,
    ),
    "f64": (
        0.11159474421903565, -0.12524425090078267, 0.14285646225239196, -0.1666664683445534, 0.2000000003420421,
        -0.25000000005936257, 0.3333333333332816, -0.4999999999999953,
    ),
}
# log(1 + f) = 2s + s*z*(this polynomial of z = s*s), s = f/(2 + f), for 0 <= f <= 1 (our own)
UNIT_LOG_TAIL = {
    "f32": (0.2430717796087265, 0.21426211297512054, 0.28616994619369507, 0.39998874068260193, 0.6666667461395264),
    "f64": (
        0.16477022662688073, 0.06988873367522405, 0.10973886437055834, 0.11715769039495659, 0.1333682117482631,
        0.15384451110464128, 0.18181823230551203, 0.22222222124911134, 0.28571428572516233, 0.39999999999993946,
        0.6666666666666667,
    ),
}
LOWEST_BITS = {"f32": 0x3F2C0000, "f64": 0x3FE5800000000000}  # of 0.671875, where the first interval begins
SQRT_HALF_BITS = {"f32": 0x3F3504F3, "f64": 0x3FE6A09E667F3BCD}
# fmt: on


def split(x: Lanes) -> tuple[Lanes, Lanes]:
    """``k`` (as integers) and ``m`` of a positive normal number ``2**k * m``, m in [sqrt(1/2), sqrt(2))."""
    form = format_of(x)
    whole = bits(x)
    # subtracting the bits of sqrt(1/2) makes the exponent field count from there
    k = (whole - SQRT_HALF_BITS[x.kind.name]) >> form.mantissa
    return k, (whole - (k << form.mantissa)).bitcast(x.kind)


def normalize(x: Lanes) -> tuple[Lanes, Lanes]:
    """Scale subnormals up; returns the scaled number and the exponent to add (float, 0 for normal numbers)."""
    form = format_of(x)
    tiny = x < form.smallest_normal
    lift = 2.0 ** (form.mantissa + 1)
    return select(tiny, x * lift, x), select(tiny, x.splat(-float(form.mantissa + 1)), 0.0)


def exponent_as_float(k: Lanes, like: Lanes) -> Lanes:
    """Small integers as floats by bit tricks: AVX2 has no conversion from int64, and that of one lane is slow."""
    if like.kind.bits <= 32 and like.lanes > 1:
        return k.cast(like.kind)
    form = format_of(like)
    return (k + form.magic_bits).bitcast(like.kind) - form.magic


Parts = tuple[float, float]
_DIGITS = {"f32": 15, "f64": 41}  # behind the binary point: the others hold the logarithm of every 2**k
_CENTRES = (*((22 + k) / 32 for k in range(10)), *((16 + k) / 16 for k in range(6)))


class Base(NamedTuple):
    """The tables for logarithms to a base: the logarithm of 2 in two parts, and those of the centres c (and what c
    times the inverse is above 1) in two parts. Multiples of first parts are added without rounding. `unit` is the
    logarithm of e, unless that is the base."""

    octave: Parts
    heads: tuple[float, ...]
    rests: tuple[float, ...]
    unit: Parts | None


def _parts(x: Decimal, digits: int) -> Parts:
    """A number of so many binary digits behind the point, and the rest."""
    first = round(x * 2**digits) / 2.0**digits
    return first, float(x - Decimal(first))


@functools.cache
def _tables(base: int | None, kind: str) -> Base:
    """The tables of a base; those of natural logarithms for None."""
    with localcontext(prec=50):
        unit = 1 / Decimal(base).ln() if base else Decimal(1)
        octave = _parts(Decimal(2).ln() * unit, _DIGITS[kind])
        above = [(Decimal(c) * Decimal(i) - 1, Decimal(i)) for c, i in zip(_CENTRES, INVERSE, strict=True)]
        heads, rests = zip(*(_parts((more - i.ln()) * unit, _DIGITS[kind]) for more, i in above), strict=True)
        return Base(octave, heads, rests, _parts(unit, FORMATS[kind].mantissa) if base else None)


class Reduced(NamedTuple):
    """``2**k * m`` as a table's interval: `shortened` is ``(m - c)*inverse``, exact; `r` is ``m*inverse - 1``."""

    head: Lanes
    rest: Lanes
    shortened: Lanes
    r: Lanes


def reduced(x: Lanes, more: Lanes | float = 0.0, base: int | None = None) -> Reduced:
    """A positive normal number times ``2**more``, as an interval of the table and the distance from its centre."""
    name, form = x.kind.name, format_of(x)
    tables = _tables(base, name)
    step = form.mantissa - 4
    whole = bits(x)
    above = whole - LOWEST_BITS[name]
    m = (whole - (above & (-1 << form.mantissa))).bitcast(x.kind)
    centre = ((above & (15 << step)) + (LOWEST_BITS[name] + (1 << (step - 1)))).bitcast(x.kind)
    place = above >> step
    inverse, head, rest = (place.lookup(table, x.kind) for table in (INVERSE, tables.heads, tables.rests))
    k = exponent_as_float(above >> form.mantissa, x) + more
    high, low = tables.octave
    if low:
        rest = fma(k, low, rest)
    shortened = (m - centre) * inverse
    r = fma(m, inverse, -1.0) if x.fuses else shortened + fma(centre, inverse, -1.0)  # both are rounded once
    return Reduced(fma(k, high, head), rest, shortened, r)


def log_of(parts: Reduced, base: int | None = None) -> Lanes:
    """The logarithm of a reduced number."""
    head, rest, shortened, r = parts
    factors, unit = LOG1P[r.kind.name], _tables(base, r.kind.name).unit
    if unit:
        product, error = shortened.two_product(shortened.splat(unit[0]))
        rest = rest + fma(shortened, unit[1], error)
        shortened, factors = product, tuple(factor * unit[0] for factor in factors)
    total = head + shortened
    lost = shortened - (total - head)
    return total + fma(r * r, polynomial(r, factors), lost + rest)


def log_special(x: Lanes, result: Lanes) -> Lanes:
    """Logarithms of arguments that are not positive finite numbers."""
    result = select(x < INF, result, x)  # inf and NaN are their own logarithms
    return select(x > 0.0, result, select(x == 0.0, x.splat(-INF), NAN))


def log2(x: Lanes) -> Lanes:
    """Logarithm to base 2; exact for powers of two."""
    return log(x, 2)


def log10(x: Lanes) -> Lanes:
    """Logarithm to base 10; exact for powers of ten."""
    return log(x, 10)


def log(x: Lanes, base: int | None = None) -> Lanes:
    """The natural logarithm, or that to a base: NaN below 0, -inf at 0."""

    def of(x: Lanes) -> Lanes:
        usual = (x > 1.0 / USUAL[x.kind.name]) & (x < USUAL[x.kind.name])
        general = lambda: log_special(x, log_of(reduced(*normalize(x), base), base))
        return rarely(x, usual, lambda: log_of(reduced(x, 0.0, base), base), general)

    return but_for(x, x == 0.0, 1.0, -INF, of)


def log1p(x: Lanes) -> Lanes:
    """``log(1 + x)`` without losing the bits of a small x."""
    u = x + 1.0
    # the rounding error of 1 + x, relative to u
    lost = select(abs_(x) < 1.0, x - (u - 1.0), 1.0 - (u - x)) / u
    # next to 1, x itself is what is reduced, and nothing is lost
    head, rest, shortened, r = reduced(u)
    direct = head == 0.0
    shortened, r = select(direct, x, shortened), select(direct, x, r)
    usual = (u > 0.0) & (u < USUAL[x.kind.name])

    def with_lost(keep: Lanes) -> Lanes:
        return log_of(Reduced(head, rest + select(keep, lost, 0.0), shortened, r))

    general = lambda: log_special(u, with_lost(~direct & (u < INF)))
    result = rarely(x, usual, lambda: with_lost(~direct), general)
    return select(abs_(x) < format_of(x).eps * 0.5, x, result)


def softplus(x: Lanes) -> Lanes:
    """``log(1 + exp(x))``, as ``max(x, 0) + log1p(exp(-|x|))``: no overflow, full accuracy at both ends."""
    e = exp_small(-abs_(x))
    # log1p of e in [0, 1]: a longer polynomial costs less than splitting 1 + e, and is exact for a tiny e
    s = e / (e + 2.0)
    z = s * s
    half_square = e * e * 0.5
    tail = e - (half_square - s * fma(z, polynomial(z, UNIT_LOG_TAIL[x.kind.name]), half_square))
    return select(x < 0.0, x.splat(0.0), x) + tail


def log_sigmoid(x: Lanes) -> Lanes:
    """``log(sigmoid(x)) = -softplus(-x)``."""
    return -softplus(-x)


HUGE = 1e18  # 1 is nothing beside it, and its square is no infinity


def arcsinh(x: Lanes) -> Lanes:
    """``log(|x| + sqrt(x*x + 1))`` without losing the bits of a small x."""
    size = abs_(x)
    square = size * size
    return _log1p_or_doubled(size, size + square / (1.0 + sqrt(square + 1.0))).copysign(x)


def arccosh(x: Lanes) -> Lanes:
    """``log(x + sqrt(x*x - 1))`` without losing bits next to 1."""
    above = x - 1.0
    return select(x >= 1.0, _log1p_or_doubled(x, above + sqrt(above * (above + 2.0))), NAN)


def arctanh(x: Lanes) -> Lanes:
    """``log((1 + x) / (1 - x)) / 2`` without losing the bits of a small x."""
    size = abs_(x)
    return (log1p(2.0 * size / (1.0 - size)) * 0.5).copysign(x)


def _log1p_or_doubled(x: Lanes, usual: Lanes) -> Lanes:
    """``log1p(usual)``; ``log(2*x)`` where x is huge."""
    huge = x > HUGE
    return log1p(select(huge, x, usual)) + select(huge, x.splat(LN2_PAIR[0]), 0.0)


# ---- logarithms to about twice the precision, for pow --------------------------------------------------------------

# log(m) = 2s + s**3 * (2/3 + z*(2/5 + ...)), z = s*s <= 0.0295; the head 2/3 is added in two parts
# fmt: off
PAIR_TAIL = (
    0.13195132458214967, 0.1325696377363438, 0.153867501596331, 0.1818178454730112, 0.2222222251750278,
    0.28571428570115837, 0.4000000000000221,
)
# fmt: on
TWO_THIRDS = (0.6666666666666666, 3.700743415417188e-17)
LN2_PAIR = (0.6931471805599453, 2.3190468138462996e-17)
Pair = tuple[Lanes, Lanes]


def quick_sum(a: Lanes, b: Lanes) -> Pair:
    """The exact sum as a pair, for ``|a| >= |b|``."""
    total = a + b
    return total, b - (total - a)


def two_sum(a: Lanes, b: Lanes) -> Pair:
    """The exact sum as a pair."""
    total = a + b
    t = total - a
    return total, (a - (total - t)) + (b - t)


def pair_product(a: Pair, b: tuple[Lanes, Lanes] | tuple[float, float]) -> Pair:
    """Product of two pairs."""
    high = a[0].like(b[0])
    product, error = a[0].two_product(high)
    return quick_sum(product, fma(a[0], b[1], fma(a[1], high, error)))


def log_pair_mantissa(m: Lanes) -> Pair:
    """``log(m)`` of a float64 in [sqrt(1/2), sqrt(2)] as a pair, good to about 2**-66 relative."""
    f = m - 1.0  # exact
    d, d_low = quick_sum(m.splat(2.0), f)
    s = f / d
    product, error = s.two_product(d)
    s_low = (((f - product) - error) - s * d_low) / d
    z, z_low = s.two_product(s)
    z_low = fma(s * 2.0, s_low, z_low)
    cube = pair_product((z, z_low), (s, s_low))
    tail = z * polynomial(z, PAIR_TAIL)
    factor = quick_sum(m.splat(TWO_THIRDS[0]), tail + TWO_THIRDS[1])
    rest = pair_product(cube, factor)
    high, low = quick_sum(s * 2.0, rest[0])
    return quick_sum(high, low + fma(s_low, 2.0, rest[1]))


def log_pair(x: Lanes) -> Pair:
    """``log(x)`` of a positive finite float64 as a pair."""
    scaled, shift = normalize(x)
    k, m = split(scaled)
    count = exponent_as_float(k, x) + shift
    log_m = log_pair_mantissa(m)
    product, error = count.two_product(count.splat(LN2_PAIR[0]))
    high, low = two_sum(product, log_m[0])
    return quick_sum(high, low + (log_m[1] + fma(count, LN2_PAIR[1], error)))

"""Arithmetic that is more than one instruction: NumPy's minimum, division and remainder, sign, reductions."""

import operator
from collections.abc import Callable

from scanjit.kinds import KINDS

from .lanes import FORMATS, Lanes, abs_, format_of, rint, select
from .math_exp import power_of_two
from .math_log import INF, NAN, exponent_as_float, normalize, split


def minimum(a: Lanes, b: Lanes) -> Lanes:
    """The smaller of two; NaN if either is."""
    return a.extremum("minimum", b) if a.kind.floating else select(a < b, a, b)


def maximum(a: Lanes, b: Lanes) -> Lanes:
    """The larger of two; NaN if either is."""
    return a.extremum("maximum", b) if a.kind.floating else select(a > b, a, b)


def abs_any(x: Lanes) -> Lanes:
    """The magnitude. The lowest integer stays as it is, as in NumPy."""
    return x.unary("abs") if x.kind.floating or x.kind.signed else x


def sign(x: Lanes) -> Lanes:
    """-1, 0 or 1 (0 for -0, as in NumPy); NaN stays."""
    if x.kind.family == "u":
        return select(x > 0, x.splat(1), 0)
    result = select(x > 0, x.splat(1), select(x < 0, x.splat(-1), 0))
    return select(x != x, x, result) if x.kind.floating else result


def _divide_int(a: Lanes, b: Lanes) -> Lanes:
    """The truncated quotient. The divisor must be neither 0 nor -1."""
    if a.kind.bits <= 32:  # float64 division is exact enough for 32 bits, and vectorised
        wide = KINDS["f64"]
        quotient = (a.cast(wide) / b.cast(wide)).cast(KINDS["i64"])
        return quotient.cast(a.kind)
    return a.divide(b)


def _plain_divisor(b: Lanes) -> tuple[Lanes, Lanes]:
    """Where a divisor is 0 or -1, and the divisor with 1 in these places. There is no rest by 1, either."""
    plain = b == 0
    if b.kind.signed:
        plain = plain | (b == -1)  # the lowest integer has no quotient by it, and processors stop
    return plain, select(plain, 1, b)


def divmod_int(a: Lanes, b: Lanes) -> tuple[Lanes, Lanes]:
    """Floor division and remainder; both 0 where the divisor is 0, as in NumPy. The lowest integer by -1 wraps."""
    plain, divisor = _plain_divisor(b)
    quotient = _divide_int(a, divisor)
    rest = a - quotient * divisor
    if not a.kind.signed:
        return select(plain, 0, quotient), rest
    below = (rest != 0) & ((rest ^ divisor) < 0)
    quotient = select(below, quotient - 1, quotient)
    return select(plain, -a & b, quotient), select(below, rest + divisor, rest)


_SMALL = 50
"""Integers between -2**50 and 2**50 are divided as floats. Their quotient is rounded by less than a quarter of what the
nearest other quotient by the same divisor is away, so it is on the right side of all whole numbers."""


def _in_floats(a: Lanes, b: Lanes, quotient: bool, other: Callable[[], Lanes]) -> Lanes:
    """The floor quotient or the remainder of long integers, which are usually small. Processors divide vectors of
    floats, but integers one by one. `other` computes it of all integers."""
    limit, form = 1 << _SMALL, FORMATS["f64"]
    far = ((a + limit) | (b + limit)) >> (_SMALL + 1)
    x, y = ((each + form.magic_bits).bitcast(form.kind) - form.magic for each in (a, select(b == 0, 1, b)))
    whole = (x / y).unary("floor")
    found = whole if quotient else x - whole * y
    result = (found + form.magic).bitcast(a.kind) - form.magic_bits
    return select(b == 0, 0, result).rescue(far != 0, other)


def _divided(a: Lanes, b: Lanes, quotient: bool) -> Lanes:
    """The floor quotient or the remainder of integers."""

    def other() -> Lanes:
        return divmod_int(a, b)[not quotient]

    if a.kind.bits < 64 or not a.kind.signed or a.lanes == 2:
        return other()
    if a.lanes > 2:
        return _in_floats(a, b, quotient, other)
    # A processor guesses the signs of one lane.
    usual = lambda: a.divide(b) if quotient else a - a.divide(b) * b
    return ((a >= 0) & (b > 0)).either(usual, other)


def floordiv(a: Lanes, b: Lanes) -> Lanes:
    """NumPy's ``//``."""
    if not a.kind.floating:
        return _divided(a, b, True)
    rest = fmod(a, b)
    quotient = (a - rest) / b
    quotient = select((rest != 0.0) & ((b < 0.0) != (rest < 0.0)), quotient - 1.0, quotient)
    whole = quotient.unary("floor")
    whole = select(quotient - whole > 0.5, whole + 1.0, whole)
    whole = select(quotient == 0.0, quotient.splat(0.0).copysign(a / b), whole)
    return select(b == 0.0, a / b, whole)


def mod(a: Lanes, b: Lanes) -> Lanes:
    """NumPy's ``%``: the sign of the divisor."""
    if not a.kind.floating:
        return _divided(a, b, False)
    rest = fmod(a, b)
    wrapped = select((b < 0.0) != (rest < 0.0), rest + b, rest)
    return select(b == 0.0, rest, select(rest == 0.0, rest.splat(0.0).copysign(b), wrapped))


def fmod(a: Lanes, b: Lanes) -> Lanes:
    """C's remainder: exact, with the sign of the dividend; integers 0 where the divisor is 0."""
    if a.kind.floating:
        return _fmod_float(a, b)
    _, divisor = _plain_divisor(b)
    return a - _divide_int(a, divisor) * divisor


def _fmod_float(a: Lanes, b: Lanes) -> Lanes:
    size, divisor, most = abs_(a), abs_(b), 2.0 ** (format_of(a).bias - 30)
    rest, quotient = _rest_of_division(size, divisor)
    easy = (quotient < 2.0**22) & (size < most) & (divisor < most)
    return rest.rescue(~easy, lambda: _long_division(size, divisor)).copysign(a)


def _rest_of_division(a: Lanes, b: Lanes) -> tuple[Lanes, Lanes]:
    """What is left of a positive number, exact, and the quotient, which must not be large."""
    quotient = (a / b).unary("trunc")
    product, error = quotient.two_product(b)
    rest = (a - product) - error
    return select(rest < 0.0, rest + b, rest), quotient  # the rounded quotient can only be one too large


def _long_division(a: Lanes, b: Lanes) -> Lanes:
    """What is left of any positive number: 20 bits of the quotient after another."""
    bits_a_turn = 20.0
    (size, a_mantissa), (exponent, b_mantissa) = _parts(a), _parts(b)

    def step(rest: Lanes, left: Lanes) -> tuple[Lanes, Lanes]:
        taken = select(left < bits_a_turn, left, bits_a_turn)
        return _rest_of_division(rest * power_of_two(taken), b_mantissa)[0], left - taken

    start = _rest_of_division(a_mantissa, b_mantissa)[0], select(a < b, 0.0, size - exponent)
    rest, _ = a.repeat(start, lambda _, left: left > 0.0, step)
    half = rint(exponent * 0.5)  # the power of two itself may be out of range
    result = select(a < b, a, rest * power_of_two(half) * power_of_two(exponent - half))
    return select((a < INF) & (b > 0.0), result, NAN)


def _parts(x: Lanes) -> tuple[Lanes, Lanes]:
    """k and m of ``2**k * m``, m next to 1."""
    scaled, shift = normalize(x)
    k, m = split(scaled)
    return exponent_as_float(k, x) + shift, m


def isnan(x: Lanes) -> Lanes:
    """Mask of NaN lanes."""
    return x != x


def isinf(x: Lanes) -> Lanes:
    """Mask of infinite lanes."""
    return x.unary("abs") == float("inf")


def isfinite(x: Lanes) -> Lanes:
    """Mask of lanes that are neither infinite nor NaN."""
    return x.unary("abs") < float("inf")


def tree(combine: Callable[[Lanes, Lanes], Lanes]) -> Callable[[Lanes], Lanes]:
    """A reduction to one lane: halves are combined until one lane is left, so that its order never changes."""

    def reduce(x: Lanes) -> Lanes:
        while x.lanes > 1:
            x = combine(*x.halves())
        return x

    return reduce


def either(x: Lanes) -> Lanes:
    """All lanes, joined by "or". The bits of a mask are compared with zero, all at once."""
    return x.any_lane() if x.kind.is_mask else tree(operator.or_)(x)


def both(x: Lanes) -> Lanes:
    """All lanes, joined by "and"."""
    return ~(~x).any_lane() if x.kind.is_mask else tree(operator.and_)(x)

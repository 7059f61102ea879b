"""Logarithms: log, log1p, log2, log10, softplus, log_sigmoid.

``x = 2**k * m`` with ``sqrt(1/2) <= m < sqrt(2)`` and ``f = m - 1``. With ``s = f/(2 + f)``, ``log(1 + f)`` is
``f - f*f/2 + s*(f*f/2 + R(s*s))``: fdlibm's scheme, also in float32 where R is short. R's coefficients are fdlibm's in
float64 and ours (Remez) in float32.
"""

from scanjit.kinds import KINDS

from .lanes import Lanes, abs_, bits, fma, format_of, polynomial, select
from .math_exp import LN2_HIGH, LN2_LOW, exp_small

# fmt: off
INF, NAN = float("inf"), float("nan")
# log(1 + f) = 2s + s*z*(this polynomial of z = s*s)
LOG_TAIL = {
    "f32": (0.2987166941165924, 0.39977550506591797, 0.6666677594184875),
    "f64": (
        1.479819860511658591e-01, 1.531383769920937332e-01, 1.818357216161805012e-01, 2.222219843214978396e-01,
        2.857142874366239149e-01, 3.999999999940941908e-01, 6.666666666666735130e-01,
    ),
}
# the same for all of 0 <= f <= 1, our own in both (relative error 2**-33 and 2**-64)
UNIT_LOG_TAIL = {
    "f32": (0.2430717796087265, 0.21426211297512054, 0.28616994619369507, 0.39998874068260193, 0.6666667461395264),
    "f64": (
        0.16477022662688073, 0.06988873367522405, 0.10973886437055834, 0.11715769039495659, 0.1333682117482631,
        0.15384451110464128, 0.18181823230551203, 0.22222222124911134, 0.28571428572516233, 0.39999999999993946,
        0.6666666666666667,
    ),
}
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
    """Small integers as floats by bit tricks: AVX2 has no conversion from int64."""
    if like.kind.bits <= 32:
        return k.cast(like.kind)
    form = format_of(like)
    return (k + form.magic_bits).bitcast(like.kind) - form.magic


def log_of_mantissa(f: Lanes, k: Lanes, correction: Lanes) -> Lanes:
    """``k*ln2 + log(1 + f) + correction``."""
    name = f.kind.name
    s = f / (f + 2.0)
    z = s * s
    tail = z * polynomial(z, LOG_TAIL[name])
    half_square = f * f * 0.5
    low = fma(k, LN2_LOW[name], correction)
    return fma(k, LN2_HIGH[name], f - (half_square - fma(s, half_square + tail, low)))


def log_special(x: Lanes, result: Lanes) -> Lanes:
    """Logarithms of what is not a positive finite number."""
    result = select(x < INF, result, x)  # inf and NaN are their own logarithms
    return select(x > 0.0, result, select(x == 0.0, x.splat(-INF), NAN))


def log(x: Lanes) -> Lanes:
    """Natural logarithm: NaN below 0, -inf at 0."""
    scaled, shift = normalize(x)
    k, m = split(scaled)
    result = log_of_mantissa(m - 1.0, exponent_as_float(k, x) + shift, x.splat(0.0))
    return log_special(x, result)


def log1p(x: Lanes) -> Lanes:
    """``log(1 + x)`` without losing the bits of a small x."""
    u = x + 1.0
    # the rounding error of 1 + x, relative to u
    lost = select(abs_(x) < 1.0, x - (u - 1.0), 1.0 - (u - x)) / u
    k, m = split(u)
    direct = k == 0
    f = select(direct, x, m - 1.0)
    correction = select(direct | ~(u < INF), x.splat(0.0), lost)
    result = log_special(u, log_of_mantissa(f, exponent_as_float(k, x), correction))
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


# ---- logarithms to about twice the precision, for log2, log10 and pow ---------------------------------------------

# log(m) = 2s + s**3 * (2/3 + z*(2/5 + ...)), z = s*s <= 0.0295; the head 2/3 is added in two parts
# fmt: off
PAIR_TAIL = (
    0.13195132458214967, 0.1325696377363438, 0.153867501596331, 0.1818178454730112, 0.2222222251750278,
    0.28571428570115837, 0.4000000000000221,
)
# fmt: on
TWO_THIRDS = (0.6666666666666666, 3.700743415417188e-17)
LN2_PAIR = (0.6931471805599453, 2.3190468138462996e-17)
LOG2E_PAIR = (1.4426950408889634, 2.0355273740931033e-17)
LOG10E_PAIR = (0.4342944819032518, 1.098319650216765e-17)
LOG10_2_PAIR = (0.30102999566398120, -2.8037281277851704e-18)
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


def _log_base(x: Lanes, factor: tuple[float, float], per_octave: tuple[float, float]) -> Lanes:
    original = x
    x = x.cast(KINDS["f64"])
    scaled, shift = normalize(x)
    k, m = split(scaled)
    count = exponent_as_float(k, x) + shift
    high, low = pair_product(log_pair_mantissa(m), factor)
    product, error = count.two_product(count.splat(per_octave[0]))
    total, rest = two_sum(product, high)
    result = total + (rest + (low + fma(count, per_octave[1], error)))
    return log_special(original, result.cast(original.kind))


def log2(x: Lanes) -> Lanes:
    """Logarithm to base 2; exact for powers of two."""
    return _log_base(x, LOG2E_PAIR, (1.0, 0.0))


def log10(x: Lanes) -> Lanes:
    """Logarithm to base 10."""
    return _log_base(x, LOG10E_PAIR, LOG10_2_PAIR)

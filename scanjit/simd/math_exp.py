"""The exponential family: exp, exp2, expm1, tanh, sigmoid, sinh, cosh.

All reduce ``x = n*ln2 + r`` with ``|r| <= ln2/2`` and evaluate ``exp(r) = 1 + r + r*r*q(r)``. The polynomials q are our
own (Remez exchange in 50 digits); the splits of ln 2 are those of Cephes (float32) and fdlibm (float64).
"""

from .lanes import Lanes, abs_, bits, fma, format_of, horner, select

# fmt: off
LOG2E = 1.4426950408889634
LN2_HIGH = {"f32": 0.693359375, "f64": 6.93147180369123816490e-01}
LN2_LOW = {"f32": -2.12194440e-4, "f64": 1.90821492927058770002e-10}
# (exp(r) - 1 - r)/r**2 on |r| <= 0.347, for a small relative error of exp(r)
EXP_TAIL = {
    "f32": (0.001381443697027862, 0.008368796668946743, 0.041668396443128586, 0.1666651964187622, 0.4999999403953552),
    "f64": (
        2.499911703301417e-08, 2.763040194309185e-07, 2.7557590448499845e-06, 2.480149271482271e-05,
        0.00019841269500798185, 0.0013888888943947855, 0.008333333333497664, 0.04166666666652919,
        0.16666666666666408, 0.5000000000000011,
    ),
}
# the same for a small relative error of exp(r) - 1
EXPM1_TAIL = {
    "f32": (
        0.00019914377480745316, 0.0013941129436716437, 0.00833327230066061, 0.04166635498404503, 0.1666666716337204,
        0.5,
    ),
    "f64": (
        2.092454508483114e-09, 2.5109171639821065e-08, 2.755724243520244e-07, 2.7557243848582922e-06,
        2.4801587360929078e-05, 0.000198412698864566, 0.0013888888888866652, 0.008333333333321513,
        0.0416666666666667, 0.16666666666666677, 0.5,
    ),
}
# outside of this range exp is inf or 0; inside, `scale_by_power` can scale by 2**n in two steps
EXP_RANGE = {"f32": (-104.0, 89.0), "f64": (-746.0, 710.0)}
EXP2_RANGE = {"f32": (-151.0, 129.0), "f64": (-1076.0, 1025.0)}
EXPM1_LOWEST = {"f32": -18.0, "f64": -40.0}  # the result is -1 below

# (exp(2r) - 1)/2 = r + r*r*q(r): the coefficients of q are those above times powers of two
TANH_TAIL = {
    name: tuple(c * 2.0 ** (k + 1) for k, c in zip(range(len(tail) - 1, -1, -1), tail, strict=True))
    for name, tail in EXPM1_TAIL.items()
}
TANH_LIMIT = {"f32": 10.0, "f64": 20.0}  # tanh rounds to 1 before
# fmt: on


def clamp(x: Lanes, low: float, high: float) -> Lanes:
    """Limit `x`; a NaN passes (this order of operands is one minps and one maxps)."""
    x = select(x > high, high, x)
    return select(x < low, low, x)


def round_scaled(x: Lanes, factor: float) -> tuple[Lanes, Lanes]:
    """``n = round(x*factor)`` as a float, and the integer whose low bits, shifted into place, are n."""
    magic = format_of(x).magic
    shifted = fma(x, factor, magic)
    return shifted - magic, bits(shifted)


def power_of_two(n_bits: Lanes, like: Lanes) -> Lanes:
    """``2**n`` for n in the range of normal numbers, from the bits of `round_scaled`."""
    form = format_of(like)
    return ((n_bits + form.bias) << form.mantissa).bitcast(like.kind)


def scale_by_power(p: Lanes, n: Lanes, n_bits: Lanes) -> Lanes:
    """``p * 2**n`` rounded once, also where the result overflows or is subnormal."""
    scaled = p.scale(n)
    if scaled is not None:
        return scaled
    form = format_of(p)
    whole = n_bits - form.magic_bits
    half = whole >> 1  # 2**n itself may be out of range, the halves are not
    return p * power_of_two(half, p) * power_of_two(whole - half, p)


def reduce_ln2(x: Lanes) -> tuple[Lanes, Lanes, Lanes]:
    """n, its bits and r of ``x = n*ln2 + r``."""
    n, n_bits = round_scaled(x, LOG2E)
    r = fma(n, -LN2_HIGH[x.kind.name], x)
    return n, n_bits, fma(n, -LN2_LOW[x.kind.name], r)


def exp_of_remainder(r: Lanes) -> Lanes:
    """``exp(r)`` for a reduced r."""
    return fma(r * r, horner(r, EXP_TAIL[r.kind.name]), r) + 1.0


def exp_small(x: Lanes) -> Lanes:
    """``exp(x)`` for x that cannot overflow (NaN, and anything below the maximum's logarithm)."""
    low = EXP_RANGE[x.kind.name][0]
    n, n_bits, r = reduce_ln2(select(x < low, low, x))
    return scale_by_power(exp_of_remainder(r), n, n_bits)


def exp(x: Lanes) -> Lanes:
    """e to the x."""
    return exp_small(select(x > EXP_RANGE[x.kind.name][1], EXP_RANGE[x.kind.name][1], x))


def exp2(x: Lanes) -> Lanes:
    """2 to the x."""
    x = clamp(x, *EXP2_RANGE[x.kind.name])
    n, n_bits = round_scaled(x, 1.0)
    return scale_by_power(exp_of_remainder((x - n) * 0.6931471805599453), n, n_bits)


def _expm1_parts(x: Lanes) -> tuple[Lanes, Lanes]:
    """``2**(n-1)`` and ``exp(r) - 1`` of a clamped x."""
    _, n_bits, r = reduce_ln2(x)
    return power_of_two(n_bits - 1, x), fma(r * r, horner(r, EXPM1_TAIL[x.kind.name]), r)


def expm1(x: Lanes) -> Lanes:
    """``exp(x) - 1`` without cancellation."""
    name = x.kind.name
    half, p = _expm1_parts(clamp(x, EXPM1_LOWEST[name], EXP_RANGE[name][1]))
    # half of the result first: 2**1024 would overflow where the result need not
    result = fma(half, p, half - 0.5) * 2.0
    # tiny arguments are their own result; this also keeps -0 and every bit of subnormals
    return select(abs_(x) < format_of(x).eps * 0.25, x, result)


def tanh(x: Lanes) -> Lanes:
    """Hyperbolic tangent: ``e/(e + 1)`` with ``e = expm1(2|x|)/2``.

    A rational minimax function would take 6 instructions fewer, but its rounding errors reach 5 ULP near 1.
    """
    name, form = x.kind.name, format_of(x)
    size = abs_(x)
    size = select(size > TANH_LIMIT[name], TANH_LIMIT[name], size)
    # the exponent's bias is part of the magic number, so that one shift makes 2**n; all is scaled by a half
    magic = form.magic + form.bias
    shifted = fma(size, 2.0 * LOG2E, magic)
    n = shifted - magic
    power = (bits(shifted) << form.mantissa).bitcast(x.kind)
    r = fma(n, -0.5 * LN2_LOW[name], fma(n, -0.5 * LN2_HIGH[name], size))
    p = fma(r * r, horner(r, TANH_TAIL[name]), r)
    e = fma(power, p, fma(power, 0.5, -0.5))
    return (e / (e + 1.0)).copysign(x)


def sigmoid(x: Lanes) -> Lanes:
    """``1/(1 + exp(-x))``, with full relative accuracy on both sides."""
    e = exp_small(-abs_(x))
    return select(x < 0.0, e, 1.0) / (e + 1.0)


def sinh(x: Lanes) -> Lanes:
    """Hyperbolic sine: ``(t + t/(t + 1))/2`` with ``t = expm1(|x|)``."""
    size = abs_(x)
    # exp(|x|)/2 may be finite where exp(|x|) is not: take exp(|x|/2) twice there
    root = exp(size * 0.5)
    t = expm1(size)
    small = fma(t, 0.5, t / (t + 1.0) * 0.5)
    big = size > EXP_RANGE[x.kind.name][1] - 2.0
    result = select(big, root * 0.5 * root, small)
    return select(size < format_of(x).eps, size, result).copysign(x)


def cosh(x: Lanes) -> Lanes:
    """Hyperbolic cosine: ``exp(|x|)/2 + exp(-|x|)/2``."""
    size = abs_(x)
    root = exp(size * 0.5)
    e = exp(size)
    big = size > EXP_RANGE[x.kind.name][1] - 2.0
    return select(big, root * 0.5 * root, fma(e, 0.5, 0.5 / e))

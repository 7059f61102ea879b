"""The exponential family: exp, exp2, expm1, tanh, sigmoid, sinh, cosh.

All reduce ``x = n*ln2 + r`` with ``|r| <= ln2/2`` and evaluate ``exp(r) - 1 = r + r*r*q(r)``. The polynomials q are our
own (Remez exchange in 50 digits, and Lawson's iteration of weighted least squares for `LONG_EXP`); the splits of ln 2
are those of Cephes (float32) and fdlibm (float64).

A loop over time whose state is one number waits for each step of a function. With one lane, the work that only extreme
arguments need is therefore done in a branch (`in_one_lane`). Vectors do it in a branch if it is long (`rarely`), else
always, with the same result.
"""

from collections.abc import Callable, Sequence

import numpy as np

from scanjit.kinds import Kind

from .lanes import FORMATS, Lanes, abs_, bits, fma, format_of, polynomial, select

# fmt: off
LOG2E = 1.4426950408889634
LN2 = 0.6931471805599453
LN2_HIGH = {"f32": 0.693359375, "f64": 6.93147180369123816490e-01}
LN2_LOW = {"f32": -2.12194440e-4, "f64": 1.90821492927058770002e-10}
PARTS = {"f32": 16, "f64": 8}  # of an octave, each with a root of 2 in a table
# 2**(k/PARTS) rounded, and what is left of it, relative to the rounded number
ROOTS = {
    "f32": (
        1.0, 1.0442737340927124, 1.0905077457427979, 1.1387885808944702, 1.1892070770263672, 1.2418577671051025,
        1.2968395948410034, 1.3542555570602417, 1.4142135381698608, 1.4768261909484863, 1.5422108173370361,
        1.610490322113037, 1.6817928552627563, 1.7562521696090698, 1.8340080976486206, 1.9152065515518188,
    ),
    "f64": (
        1.0, 1.0905077326652577, 1.189207115002721, 1.2968395546510096, 1.4142135623730951, 1.5422108254079407,
        1.681792830507429, 1.8340080864093424,
    ),
}
ROOTS_REST = {
    "f32": (
        0.0, 4.6285471455576044e-08, -1.199215748926008e-08, 4.7297824323777604e-08, 3.1934181521364735e-08,
        3.621057231839586e-08, -3.0990719324108795e-08, -7.475213337215791e-09, 1.7114270889351246e-08,
        -3.047683350132502e-08, 5.233334210430485e-09, 6.10759176566944e-09, -1.4719605090363075e-08,
        -5.258795177098818e-09, -6.128259677495862e-09, 5.140609271592211e-09,
    ),
    "f64": (
        0.0, -2.7939114859515733e-17, 3.3484623336251524e-17, 1.9572585293112036e-17, -6.835808657661922e-17,
        5.1548301170786783e-17, 4.875160526227062e-17, 1.790126907604513e-17,
    ),
}
# exp(r) - 1 = r + r*r*(this polynomial), for a small relative error of exp(r)
EXP = {
    "f32": (
        0.16666719317436218, 0.5000162124633789,
    ),
    "f64": (
        0.00019840556223374412, 0.0013889784060999474, 0.008333333371652814, 0.04166666656934307,
        0.1666666666666367, 0.50000000000003,
    ),
}
# the same on |r| <= 0.347
LONG_EXP = {
    "f32": (
        0.0013820747844874859, 0.008368677459657192, 0.04166826605796814, 0.1666652113199234, 0.4999999403953552,
    ),
    "f64": (
        2.5005820720898083e-08, 2.763049636212479e-07, 2.755756830173355e-06, 2.480149235749453e-05,
        0.00019841269526710674, 0.001388888894440953, 0.008333333333485186, 0.04166666666652682,
        0.16666666666666427, 0.5000000000000011,
    ),
}
# on |r| <= 0.347, for a small relative error of exp(r) - 1
EXPM1 = {
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
# outside of this range exp is inf or 0; inside, `scaled_exp` can scale by 2**n in two steps
EXP_RANGE = {"f32": (-104.0, 89.0), "f64": (-746.0, 710.0)}
EXP2_RANGE = {"f32": (-151.0, 129.0), "f64": (-1076.0, 1025.0)}
EXPM1_LOWEST = {"f32": -18.0, "f64": -40.0}  # the result is -1 below

USUAL = {"f32": 86.0, "f64": 700.0}  # for |x| below, 2**n is a normal number
USUAL2 = {"f32": 125.0, "f64": 1021.0}  # the same for exp2
SIGMOID_SCALE = {"f32": 32, "f64": 64}
SIGMOID_RANGE = {"f32": (-40.0, 106.0), "f64": (-60.0, 748.0)}  # of -x: the result rounds to 1 below, to 0 above

TANH_LIMIT = {"f32": 10.0, "f64": 20.0}  # tanh rounds to 1 before
# fmt: on


def clamp(x: Lanes, low: float, high: float) -> Lanes:
    """Limit `x`; a NaN passes (this order of operands is one minps and one maxps)."""
    x = select(x > high, high, x)
    return select(x < low, low, x)


def in_one_lane(x: Lanes, usual: Lanes, short: Callable[[], Lanes], general: Callable[[], Lanes]) -> Lanes:
    """A function that has a short form for `usual` arguments: one lane takes it, with a branch for the others."""
    return general() if x.lanes > 1 else short().rescue(~usual, general)


def rarely(x: Lanes, usual: Lanes, short: Callable[[], Lanes], general: Callable[[], Lanes]) -> Lanes:
    """As `in_one_lane`, for a `general` form so long that vectors have a branch, too, unless their processor selects
    lanes in any instruction."""
    return short().rescue(~usual, general) if x.branches else general()


def but_for(x: Lanes, known: Lanes, argument: float, result: float, function: Callable[[Lanes], Lanes]) -> Lanes:
    """A function that is `rarely` general. Its result is known in the lanes of `known`, of which rows with masks have
    many: vectors compute the function of `argument` there, and take no branch."""
    if x.lanes == 1 or not x.branches:
        return function(x)
    return select(known, result, function(select(known, argument, x)))


def round_scaled(x: Lanes, factor: float, parts: int = 1, offset: int = 0) -> tuple[Lanes, Lanes]:
    """n, the multiple of ``1/parts`` nearest to ``x*factor``, and an integer whose low bits are ``(n +
    offset)*parts``."""
    magic = format_of(x).magic / parts + offset
    shifted = fma(x, factor, magic)
    return shifted - magic, bits(shifted)


def power_of_two(n: Lanes) -> Lanes:
    """``2**n`` for whole n in the range of normal numbers."""
    form = format_of(n)
    return (bits(n + (form.magic + form.bias)) << form.mantissa).bitcast(n.kind)


Reduced = tuple[Lanes, Lanes, Lanes]
"""n, the bits of `round_scaled`, and r of an argument ``n*ln2 + r``."""


def reduce_ln2(x: Lanes, parts: int, factor: float = 1.0, offset: int = 0, ln2: Sequence[float] = ()) -> Reduced:
    """n and r of ``factor*x = n*ln2 + r``, n a multiple of ``1/parts``; between them the bits of `round_scaled`. `ln2`
    are terms of this logarithm; by default two, whose products with n are nearly exact."""
    n, n_bits = round_scaled(x, LOG2E * factor, parts, offset)
    r = x * factor
    for term in ln2 or (LN2_HIGH[x.kind.name], LN2_LOW[x.kind.name]):
        r = fma(n, -term, r)
    return n, n_bits, r


def exp_less_1(r: Lanes, n_bits: Lanes) -> Lanes:
    """``exp(r) - 1`` for a reduced r, corrected by the error of the root that `power_of_root` takes."""
    name = r.kind.name
    return polynomial(r, (*EXP[name], 1.0, n_bits.lookup(ROOTS_REST[name], r.kind)))


def power_of_root(n_bits: Lanes, kind: Kind) -> Lanes:
    """``2**n`` rounded, if it is a normal number, from the bits of `reduce_ln2`."""
    name, parts = kind.name, PARTS[kind.name]
    shift = FORMATS[name].mantissa - parts.bit_length() + 1
    # the number of a root stands below the exponent when shifted with it: the words of the table make up for that
    words = [
        word - (k << shift) for k, word in enumerate(np.array(ROOTS[name], kind.dtype).view(n_bits.kind.dtype).tolist())
    ]
    return ((n_bits << shift) + n_bits.lookup(words, n_bits.kind)).bitcast(kind)


def scaled_exp(n: Lanes, n_bits: Lanes, r: Lanes, then: Callable[[Lanes], Lanes] = lambda p: p) -> Lanes:
    """``2**n * then(exp(r))``, rounded once more if it is subnormal."""
    roots = ROOTS[r.kind.name]
    root = n_bits.lookup(roots, r.kind)
    p = then(fma(root, exp_less_1(r, n_bits), root))
    scaled = p.scale(n)
    if scaled is not None:
        return scaled
    # the power of two itself may be out of range, its halves are not
    whole, _ = round_scaled(n - 0.5 * (1.0 - 1.0 / len(roots)), 1.0)
    half, _ = round_scaled(whole, 0.5)
    return p * power_of_two(half) * power_of_two(whole - half)


def _usual(n_bits: Lanes, r: Lanes) -> Lanes:
    """``2**n * exp(r)`` that is a normal number."""
    power = power_of_root(n_bits, r.kind)
    return fma(power, exp_less_1(r, n_bits), power)


def _to_roots(x: Lanes) -> Reduced:
    """n and r of ``exp(x) = 2**n * exp(r)``, n a multiple of the steps of the table of roots."""
    return reduce_ln2(x, PARTS[x.kind.name])


def _to_roots_of_2(x: Lanes) -> Reduced:
    """The same of ``2**x``."""
    n, n_bits = round_scaled(x, 1.0, PARTS[x.kind.name])
    return n, n_bits, (x - n) * LN2


def exp_usual(x: Lanes) -> Lanes:
    """``exp(x)`` that is a normal number."""
    return _usual(*_to_roots(x)[1:])


def _general(x: Lanes, reduced: Callable[[Lanes], Reduced], lowest: float) -> Lanes:
    """``2**n * exp(r)`` of the `reduced` x, which cannot overflow (NaN, and anything below the maximum's logarithm)."""
    tiny = x < lowest  # the result is 0, but to round it to that takes a processor 150 cycles
    return select(tiny, 0.0, scaled_exp(*reduced(select(tiny, 0.0, x))))


def exp_small(x: Lanes) -> Lanes:
    """``exp(x)`` for x that cannot overflow."""
    return _general(x, _to_roots, EXP_RANGE[x.kind.name][0])


def exp(x: Lanes) -> Lanes:
    """e to the x."""
    return _of_any(x, _to_roots, EXP_RANGE[x.kind.name], USUAL[x.kind.name])


def exp2(x: Lanes) -> Lanes:
    """2 to the x."""
    return _of_any(x, _to_roots_of_2, EXP2_RANGE[x.kind.name], USUAL2[x.kind.name])


def _of_any(x: Lanes, reduced: Callable[[Lanes], Reduced], limits: tuple[float, float], usual: float) -> Lanes:
    """``2**n * exp(r)`` of the `reduced` x: 0 below the `limits`, inf above, and a normal number for |x| < `usual`."""
    lowest, highest = limits

    def of(x: Lanes) -> Lanes:
        general = lambda: _general(select(x > highest, highest, x), reduced, lowest)
        return rarely(x, abs_(x) < usual, lambda: _usual(*reduced(x)[1:]), general)

    return but_for(x, x < lowest, 0.0, 0.0, of)


def _scaled_expm1(x: Lanes, unit: float = 1.0, factor: float = 1.0, ln2: Sequence[float] = ()) -> Lanes:
    """``(exp(factor*x) - 1)*unit``, where the power of two in it is a normal number; `unit` is a power of two, too.

    A table of roots of 2 would have to be more precise than the numbers are: ``2**(n/8) - 1`` loses bits.
    """
    form = format_of(x)
    _, n_bits, r = reduce_ln2(x, 1, factor, form.bias + (-1 if unit == 0.5 else 0), ln2)
    power = (n_bits << form.mantissa).bitcast(x.kind)
    return fma(r * r * power, polynomial(r, EXPM1[x.kind.name]), fma(power, r, power - unit))


def expm1(x: Lanes) -> Lanes:
    """``exp(x) - 1`` without cancellation."""
    name = x.kind.name
    # half of the result first: 2**1024 would overflow where the result need not
    general = lambda: _scaled_expm1(clamp(x, EXPM1_LOWEST[name], EXP_RANGE[name][1]), 0.5) * 2.0
    result = in_one_lane(x, abs_(x) < USUAL[name], lambda: _scaled_expm1(x), general)
    # tiny arguments are their own result; this also keeps -0 and every bit of subnormals
    return select(abs_(x) < format_of(x).eps * 0.25, x, result)


def tanh(x: Lanes) -> Lanes:
    """Hyperbolic tangent: ``e/(e + 2)`` with ``e = expm1(2|x|)``.

    A rational minimax function would take 6 instructions fewer, but its rounding errors reach 5 ULP near 1.
    """
    size, limit = abs_(x), TANH_LIMIT[x.kind.name]
    sign = bits(x) ^ bits(size)
    e = _scaled_expm1(select(size > limit, limit, size), factor=2.0, ln2=(LN2,))  # a large argument need not be precise
    return (bits(e / (e + 2.0)) | sign).bitcast(x.kind)  # the quotient has no sign


def sigmoid(x: Lanes) -> Lanes:
    """``1/(1 + exp(-x))``, with full relative accuracy on both sides.

    All but the last division is scaled by a power of two, so that ``exp(-x)`` is finite where the result is subnormal.
    There is no table of roots: the longer polynomial takes as long as to look up a root and its rest, or half as long
    where a register holds half of a table.
    """
    name, form = x.kind.name, format_of(x)
    low, high = SIGMOID_RANGE[name]
    scale = SIGMOID_SCALE[name]

    def of_negated(y: Lanes) -> Lanes:
        _, n_bits, r = reduce_ln2(y, 1, offset=form.bias - scale)
        power = (n_bits << form.mantissa).bitcast(x.kind)
        unit = 2.0**-scale
        return unit / fma(power, polynomial(r, (*LONG_EXP[name], 1.0, 0.0)), power + unit)

    return in_one_lane(x, abs_(x) < -low, lambda: of_negated(-x), lambda: of_negated(clamp(-x, low, high)))


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

"""Powers: float ``x**y`` as ``exp(y*log(x))`` in twice the precision, integer powers by repeated squaring; and the cube
root."""

from scanjit.kinds import KINDS

from .lanes import Lanes, abs_, bits, fma, format_of, polynomial, select, wide
from .math_exp import LN2_HIGH, LN2_LOW, LOG2E, PARTS, clamp, power_of_two, reduce_ln2, round_scaled, scaled_exp
from .math_log import INF, NAN, Pair, exponent_as_float, log, log_pair, normalize, pair_product, split


def _positive_wide(logarithm: Pair, y: Lanes) -> Lanes:
    """``x**y`` of a positive finite float64 x with this logarithm."""
    # a y beyond 2**80 overflows or underflows with every x but 1; limited, the pair's arithmetic stays finite
    high, low = pair_product(logarithm, (clamp(y, -(2.0**80), 2.0**80), y.splat(0.0)))
    limited = clamp(high, -750.0, 715.0)
    low = select(limited == high, low, 0.0)
    n, n_bits = round_scaled(limited, LOG2E, PARTS["f64"])
    r = fma(n, -LN2_HIGH["f64"], limited)
    return scaled_exp(n, n_bits, r + fma(n, -LN2_LOW["f64"], low))


def _positive_narrow(logarithm: Lanes, y: Lanes) -> Lanes:
    """``x**y`` of a positive finite float32 x with this float64 as logarithm, in float64."""
    product = clamp(logarithm * wide(y), -120.0, 100.0)
    return scaled_exp(*reduce_ln2(product, PARTS["f64"])).cast(KINDS["f32"])


def pow_of_known(y: Lanes, high: Lanes, low: Lanes) -> Lanes:
    """``x**y`` of a positive finite x, not 1, whose logarithm is ``high + low``."""
    short = format_of(y).short
    result = _positive_narrow(wide(high) + wide(low), y) if short else _positive_wide((high, low), y)
    return select(y == y, result, NAN)


def _float_power(x: Lanes, y: Lanes) -> Lanes:
    form = format_of(x)
    size, y_size = abs_(x), abs_(y)
    usable = (size > 0.0) & (size < INF)
    base = select(usable, size, 1.0)
    known = select(y == y, y, 1.0)
    result = _positive_narrow(log(wide(base)), known) if form.short else _positive_wide(log_pair(base), known)
    # 0 and inf: the sign of y decides
    grows = (y > 0.0) == (size > 1.0)
    result = select(usable, result, select(grows, x.splat(INF), 0.0))
    # beyond 2**mantissa+1 all numbers are even; below, the last whole bit says
    whole = y.unary("trunc") == y
    halved = y * 0.5
    odd = whole & (halved.unary("trunc") != halved) & (y_size < 2.0 ** (form.mantissa + 1))
    negative = bits(x) < 0
    result = select(negative & odd, -result, result)
    result = select((x < 0.0) & ~whole & (size < INF), NAN, result)
    result = select((x == x) & (y == y), result, NAN)
    # |x| = 1 with an infinite y, 1 with a NaN, and anything to the power 0
    return select((x == 1.0) | (y == 0.0) | ((x == -1.0) & (y_size == INF)), 1.0, result)


def _integer_power(x: Lanes, y: Lanes) -> Lanes:
    one = x.splat(1)

    def step(result: Lanes, square: Lanes, left: Lanes) -> tuple[Lanes, Lanes, Lanes]:
        return select((left & 1) != 0, result * square, result), square * square, left >> 1

    result = x.repeat((one, x, y), lambda _, __, left: left > 0, step)[0]
    # NumPy raises for negative powers; without traps the truncated value is what is left: 0, or +-1 for +-1
    if not x.kind.signed:
        return result
    of_unit = select(x == 1, one, select(x == -1, select((y & 1) != 0, x, 1), 0))
    return select(y < 0, of_unit, result)


def pow(x: Lanes, y: Lanes) -> Lanes:
    """``x**y`` with the special cases of C's pow; integers wrap, their negative powers truncate to 0 or +-1."""
    return _float_power(x, y) if x.kind.floating else _integer_power(x, y)


# the cube root of a number in [sqrt(1/2), sqrt(2)], to 17 bits (our own Remez fit); those of 2 and 4
ROOT = (-0.03778829542030614, 0.21693791600100445, -0.5356309833923854, 0.9048186853858164, 0.4516669212198543)
ROOT_OF_2, ROOT_OF_4 = 1.2599210498948732, 1.5874010519681994


def cbrt(x: Lanes) -> Lanes:
    """Cube root: a polynomial, then one step of Halley's, and in float64 one of Newton's with the exact cube."""
    size = abs_(wide(x))
    usable = (size > 0.0) & (size < INF)
    scaled, shift = normalize(select(usable, size, 1.0))
    k, m = split(scaled)
    exponent = exponent_as_float(k, size) + shift
    third = ((exponent + 0.5) * (1 / 3)).unary("floor")
    left = exponent - 3.0 * third
    number = m * power_of_two(left)
    root = polynomial(m, ROOT) * select(left == 0.0, 1.0, select(left == 1.0, m.splat(ROOT_OF_2), ROOT_OF_4))
    cube = root * root * root
    inverse = 1.0 / fma(cube, 2.0, number)  # about 1/(3*number)
    root = root * fma(number, 2.0, cube) * inverse
    if not format_of(x).short:
        square, square_low = root.two_product(root)
        cube, cube_low = square.two_product(root)
        root = fma(((number - cube) - cube_low) - square_low * root, root * inverse, root)
    result = select(usable, root * power_of_two(third), size)
    return result.cast(x.kind).copysign(x)

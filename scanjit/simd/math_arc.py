"""Angles of sines, cosines and tangents: arctan, arctan2, arcsin, arccos.

The angle of a ratio ``a/b`` is that of the nearest of five ratios c, from a table, plus the arctangent of ``t =
(a - c*b)/(b + c*a)``, which is at most 7/16: the scheme of fdlibm's atan, here with one division for both arguments of
arctan2. The arcsine of a large x goes through ``sqrt((1 - x)/2)``, as in fdlibm. Polynomials are our own (Remez).

float32 is computed in float64, with shorter polynomials. In float64, what rounding takes from t or from the square root
is added to the result.
"""

from .lanes import FORMATS, Lanes, abs_, bits, fma, format_of, polynomial, select, sqrt, wide
from .math_log import INF, NAN, two_sum

# fmt: off
BORDERS = (7 / 16, 11 / 16, 19 / 16, 39 / 16)  # of the ratios that are near 0, 1/2, 1, 3/2 and infinity
CENTRES = (0.0, 0.5, 1.0, 1.5, 0.0, 0.0, 0.0, 0.0)
# their arctangents in two parts, then pi less these; the last of five is that of infinity
HALF_PI = (1.5707963267948966, 6.123233995736766e-17)
PI = (3.141592653589793, 1.2246467991473532e-16)
HIGH = (
    0.0, 0.4636476090008061, 0.7853981633974483, 0.982793723247329, HALF_PI[0], 0.0, 0.0, 0.0,
    PI[0], 2.677945044588987, 2.356194490192345, 2.158798930342464, HALF_PI[0], 0.0, 0.0, 0.0,
)
LOW = (
    0.0, 2.2698777452961687e-17, 3.061616997868383e-17, 1.3903311031230998e-17, HALF_PI[1], 0.0, 0.0, 0.0,
    PI[1], 1.5527705369303147e-16, 9.184850993605148e-17, 2.1958367134601997e-16, HALF_PI[1], 0.0, 0.0, 0.0,
)
# arctan(t) = t + t*z*(this polynomial of z = t*t) for |t| <= 7/16
ARCTAN = {
    "f32": (
        0.045072165586878356, -0.0836069254526977, 0.11023883699146288, -0.14280324908744543, 0.199998452966365,
        -0.3333333184761873,
    ),
    "f64": (
        -0.01628328997135336, 0.03652895221256192, -0.049767605229375886, 0.05833540281297327, -0.06661068406177335,
        0.07691875720430909, -0.09090887101286753, 0.11111110404116943, -0.14285714272470101, 0.19999999999876053,
        -0.3333333333333293,
    ),
}
# arcsin(x) = x + x*z*(this polynomial of z = x*x) for |x| <= 1/2
ARCSIN = {
    "f32": (
        0.03293849061778711, 0.0019521547535802529, 0.02065737420026809, 0.02186338828056807, 0.030426795335191482,
        0.04464069072909402, 0.07500005033199095, 0.16666666626809842,
    ),
    "f64": (
        0.032679461348636946, -0.02108130742127717, 0.021766266928943987, 0.003681933406027928, 0.010786814761126908,
        0.011397726420593023, 0.013980967334880438, 0.01735159961589136, 0.02237221568595117, 0.030381942682738167,
        0.044642857175138426, 0.07499999999970244, 0.16666666666666763,
    ),
}
# fmt: on
USUAL = 2.0**100, 2.0**900
"""The larger coordinate of a point lies between these, or is multiplied by a power of two. Then its inverse is not
subnormal, and exact products do not overflow on the way; their errors do not underflow, unless the angle does."""


def arctan(x: Lanes) -> Lanes:
    """The angle between -pi/2 and pi/2 whose tangent is x."""
    size = abs_(wide(x))
    beyond = size > 2.0**60  # from here on, the angle is pi/2
    angle = _angle(select(beyond, 2.0**60, size), size.splat(1.0), None, x.kind.name)
    return select(x == x, angle.cast(x.kind).copysign(x), x)


def arctan2(y: Lanes, x: Lanes) -> Lanes:
    """The angle between -pi and pi of the point (x, y)."""
    up, along = abs_(wide(y)), abs_(wide(x))
    larger = select(up > along, up, along)
    endless = larger == INF
    up, along = (select(endless, select(part == INF, part.splat(1.0), 0.0), part) for part in (up, along))
    if not format_of(x).short:
        factor = select(larger < USUAL[0], larger.splat(2.0**200), 1.0)
        factor = select(~endless & (larger > USUAL[1]), 2.0**-200, factor)
        up, along = up * factor, along * factor
    along = select(larger == 0.0, 1.0, along)
    angle = _angle(up, along, bits(wide(x)) < 0, x.kind.name)
    return select((x == x) & (y == y), angle.cast(x.kind).copysign(y), NAN)


def _angle(a: Lanes, b: Lanes, left: Lanes | None, name: str) -> Lanes:
    """The angle of the point ``(b, a)``, or of ``(-b, a)`` where it lies `left`; a and b are not negative."""
    above, zero = [a > b * border for border in BORDERS], bits(a).splat(0)
    place = select(above[1], select(above[3], zero + 4, select(above[2], zero + 3, 2)), select(above[0], zero + 1, 0))
    centre, endless = place.lookup(CENTRES, a.kind), place == len(BORDERS)
    product, error = (centre * b, b.splat(0.0)) if FORMATS[name].short else b.two_product(centre)
    numerator = select(endless, -b, (a - product) - error)
    denominator = select(endless, a, fma(centre, a, b))
    inverse = 1.0 / denominator
    t = numerator * inverse
    z = t * t
    tail = (t * z) * polynomial(z, ARCTAN[name])
    if not FORMATS[name].short:
        product, error = t.two_product(denominator)
        tail = fma((numerator - product) - error, inverse, tail)
    if left is not None:
        t, tail, place = select(left, -t, t), select(left, -tail, tail), select(left, place + len(CENTRES), place)
    high, low = (place.lookup(table, a.kind) for table in (HIGH, LOW))
    return high + (t + (tail + low))


def arcsin(x: Lanes) -> Lanes:
    """The angle between -pi/2 and pi/2 whose sine is x; NaN beyond -1 and 1."""
    size = abs_(wide(x))
    root, lost, rest = _half_angle(size, x.kind.name)
    far = size > 0.5
    # near 1: pi/2 - 2*root; near 0: the root is x itself
    high, low = two_sum(select(far, HALF_PI[0], root), select(far, -2.0 * root, 0.0))
    low = low + select(far, HALF_PI[1] - 2.0 * (lost + rest), rest)
    return select(size <= 1.0, (high + low).cast(x.kind).copysign(x), NAN)


def arccos(x: Lanes) -> Lanes:
    """The angle between 0 and pi whose cosine is x; NaN beyond -1 and 1."""
    signed = wide(x)
    size = abs_(signed)
    root, lost, rest = _half_angle(size, x.kind.name)
    far, negative = size > 0.5, signed < 0.0
    # near 1: 2*root; near -1: pi - 2*root; near 0: pi/2 - x, where the root is |x|
    angle, tail = select(far, 2.0 * root, root), select(far, 2.0 * (lost + rest), rest)
    turned = far == negative  # the angle is subtracted
    start = [select(far, select(negative, size.splat(PI[i]), 0.0), HALF_PI[i]) for i in (0, 1)]
    high, low = two_sum(start[0], select(turned, -angle, angle))
    result = high + (low + (start[1] + select(turned, -tail, tail)))
    return select(size <= 1.0, result.cast(x.kind), NAN)


def _half_angle(size: Lanes, name: str) -> tuple[Lanes, Lanes, Lanes]:
    """A number s, what its rounding took from it, and what its arcsine is more: for a `size` up to 1/2, s is the size;
    beyond, it is ``sqrt((1 - size)/2)``, the sine of half the angle between the size and 1."""
    far = size > 0.5
    z = select(far, fma(size, -0.5, 0.5), size * size)
    root = select(far, sqrt(z), size)
    lost = root.splat(0.0)
    if not FORMATS[name].short:
        product, error = root.two_product(root)
        lost = select(far & (root > 0.0), ((z - product) - error) / (2.0 * root), 0.0)
    return root, lost, (root * z) * polynomial(z, ARCSIN[name])

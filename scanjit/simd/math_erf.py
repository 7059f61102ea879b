"""The error function, its complement and its inverse. Polynomials are our own (Remez exchange in 50 digits; those of
the complement and the inverse: Chebyshev fits in 60)."""

from collections.abc import Callable

from .lanes import Lanes, abs_, fma, polynomial, select, sqrt
from .math_exp import PARTS, exp_less_1, exp_usual, power_of_root, rarely, reduce_ln2, scaled_exp
from .math_log import INF, log

# fmt: off
SMALL_LIMIT = 0.84
# erf(x)/x - 1 as a polynomial of x*x for |x| <= 0.85
SMALL = {
    "f32": (
        -0.0006315126665867865, 0.005051097366958857, -0.02680255100131035, 0.11282717436552048, -0.3761257231235504,
        0.12837916612625122,
    ),
    "f64": (
        -8.826992785908684e-10, 1.4185513453540482e-08, -1.6299795214088215e-07, 1.6457608299329698e-06,
        -1.4925445968394252e-05, 0.00012055326771894152, -0.0008548326898888271, 0.005223977623854523,
        -0.026866170645011598, 0.11283791670954658, -0.3761263890318374, 0.1283791670955126,
    ),
}
# erfc(t)*exp(t*t): of a position of t, and up to a limit of t
BIG_POSITION: dict[str, Callable[[Lanes], Lanes]] = {"f32": lambda t: t, "f64": lambda t: (t - 3.0) / (t + 3.0)}
BIG_LIMIT = {"f32": 4.0, "f64": 6.0}
BIG = {
    "f32": (
        0.0001620735420146957, -0.0027025898452848196, 0.020144648849964142, -0.0893263891339302, 0.26522013545036316,
        -0.5642431974411011, 0.8990941643714905, -1.0961655378341675, 0.9954002499580383,
    ),
    "f64": (
        -2.532855859911836e-06, -1.543552248208944e-05, -2.015679831624056e-05, 5.9262522417670785e-05,
        4.306407319202191e-05, -0.0005977622784283145, 0.0007075934163490253, 0.00426911503562295,
        -0.024392500801108805, 0.07166583722905136, -0.15011593648632318, 0.2456038017133049, -0.3262335600430197,
        0.17900115118138973,
    ),
}
# erfc(t)*exp(t*t)*(t + 2) as a polynomial of (t - 2)/(t + 2) from TAIL_START to TAIL_LIMIT, where erfc is 0. Up to
# TAIL_USUAL, erfc(t) is a normal number.
TAIL_START, TAIL_USUAL, TAIL_LIMIT = 0.6, {"f32": 9.0, "f64": 26.4}, {"f32": 10.2, "f64": 28.0}
TAIL = {
    "f32": (
        -0.0004938128404319286, -0.0008010844467207789, 0.0030228181276470423, 0.006468356121331453,
        -0.021499989554286003, -0.03644098341464996, 0.2794715166091919, -0.6871607303619385, 1.0215827226638794,
    ),
    "f64": (
        -5.309920560976015e-08, 1.326567232545355e-07, 1.9998262158395272e-07, -4.1966287662405776e-07,
        -7.543552065029256e-07, 1.1606242259815837e-07, 2.0973546299614054e-06, 3.572794670935111e-06,
        -1.1563529147156172e-06, -1.6094418715908787e-05, -2.168991384602533e-05, 3.414269591290945e-05,
        0.00014446992944805678, 3.437234467073224e-05, -0.0006630734391873158, -0.0008372961426061412,
        0.0030906120559958668, 0.006479185071630276, -0.021510661889400092, -0.036442231506965794,
        0.2794720925560537, -0.6871606844138101, 1.021582705242023,
    ),
}
# erfinv(x)/x as a polynomial of w - CENTRE_LIMIT/2, of sqrt(w) - EDGE_CENTRE beyond the limit, and of sqrt(w) - 5.0625
# beyond w = 16, where w = -log(1 - x*x)
CENTRE_LIMIT, EDGE_CENTRE = {"f32": 5.0, "f64": 6.25}, {"f32": 3.125, "f64": 3.25}
CENTRE = {
    "f32": (
         -8.739830973051999e-09, 2.3285844507874355e-08, 4.6542873048510424e-07, -3.46335616555326e-06,
        -4.959743495185408e-06, 0.0002183469146927874, -0.0012527484164558688, -0.0041773897590802805,
        0.24664028938940982, 1.5014093598328822 ,
    ),
    "f64": (
         3.1905586173417536e-21, -1.062661045960373e-21, -3.4715307676023003e-19, 1.1472892499658116e-18,
        1.5506009496679205e-17, -1.301058090875769e-16, -3.933508641199522e-17, 6.5955746141136816e-15,
        -4.0020617748552674e-14, -8.117720363510667e-14, 2.6305301926231066e-12, -1.2976921089952883e-11,
        -5.4143045472080583e-11, 1.0512182736096884e-09, -4.1126604066482585e-09, -2.9070382513851824e-08,
        4.2347881677716927e-07, -1.365469184753234e-06, -1.3882523393920442e-05, 0.00018673420802445552,
        -0.0007407025341546572, -0.006033670871427803, 0.24015818242558834, 1.6536545626831027 ,
    ),
}
EDGE = {
    "f32": (
         -0.00017552855749485732, -9.324879361197873e-05, 0.0013131915652350552, -0.0026573444646716396,
        0.0037805525229157185, -0.005271075607443466, 0.007049199422360008, 1.0037169250594946,
        2.9583201300110966 ,
    ),
    "f64": (
         -1.5294532436152358e-08, 6.854906430026906e-10, 1.3155760748321638e-07, -2.7131624527580294e-07,
        -2.7584506876359507e-08, 1.498682725581901e-06, -3.985726034382243e-06, 2.925746394013068e-06,
        1.2465035568283125e-05, -4.73189897999412e-05, 6.828711576985263e-05, 2.403125811582288e-05,
        -0.0003550378135746499, 0.0009532893636238467, -0.0016882755354636595, 0.0024914420969882754,
        -0.003751208508224261, 0.005370914553571544, 1.0052589676941655, 3.0838856104922208 ,
    ),
}
LAST = {
    "f64": (
        2.6044796788664182e-11, 5.183507796856996e-12, -3.7344386610186797e-10, 1.1416986136950424e-09,
        -2.4490428422349426e-09, 5.2060931761454466e-09, -1.0372566050714111e-08, 2.0462968097797642e-08,
        -5.229559325155486e-08, 1.9554095622787808e-07, -8.872288541332002e-07, 4.115367433068745e-06,
        -1.8062951475246882e-05, 7.010167344035823e-05, -0.00019677853807997328, -0.00017730336124720334,
        1.0102806778035616, 4.913049587233785 ,
    ),
}
# fmt: on


def erf(x: Lanes) -> Lanes:
    """Error function: an odd polynomial near 0, ``1 - exp(-x*x)*g(|x|)`` beyond."""
    name = x.kind.name
    size = abs_(x)
    t = select(size > BIG_LIMIT[name], BIG_LIMIT[name], size)  # erf rounds to 1 there
    square = t * t
    small = fma(t, polynomial(square, SMALL[name]), t)
    big = 1.0 - exp_usual(-square) * polynomial(BIG_POSITION[name](t), BIG[name])
    return select(size < SMALL_LIMIT, small, big).copysign(x)


def erfc(x: Lanes) -> Lanes:
    """``1 - erf(x)``: so near 0; beyond, ``exp(-x*x)*g(|x|)``, or 2 minus it. The error of ``x*x`` is taken into
    account."""
    name = x.kind.name
    size, limit = abs_(x), TAIL_LIMIT[name]
    near = 1.0 - fma(x, polynomial(x * x, SMALL[name]), x)
    t = select(size > limit, limit, size)
    square, lost = t.two_product(t)
    n, n_bits, r = reduce_ln2(-square, PARTS[name])
    r, above = r - lost, t + 2.0
    ratio = polynomial((t - 2.0) / above, TAIL[name])

    def usual() -> Lanes:
        power = power_of_root(n_bits, x.kind)
        return fma(power, exp_less_1(r, n_bits), power) * ratio / above

    tail = rarely(x, t < TAIL_USUAL[name], usual, lambda: scaled_exp(n, n_bits, r, lambda p: p * ratio / above))
    return select(size < TAIL_START, near, select(x < 0.0, 2.0 - tail, tail))


def erfinv(x: Lanes) -> Lanes:
    """Inverse of the error function: x times a polynomial of ``w = -log(1 - x*x)`` or of its root, as M. Giles does in
    "Approximating the erfinv function" (2010)."""
    name, size = x.kind.name, abs_(x)
    w = -log((1.0 - size) * (1.0 + size))
    limit = CENTRE_LIMIT[name]
    ratio = polynomial(w - limit * 0.5, CENTRE[name])
    ratio = ratio.rescue(w > limit, lambda: polynomial(sqrt(w) - EDGE_CENTRE[name], EDGE[name]))
    if name in LAST:
        ratio = ratio.rescue(w > 16.0, lambda: polynomial(sqrt(w) - 5.0625, LAST[name]))
    return select(size == 1.0, x.splat(INF).copysign(x), x * ratio)

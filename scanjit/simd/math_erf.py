"""The error function. Polynomials are our own (Remez exchange in 50 digits)."""

from collections.abc import Callable

from .lanes import Lanes, abs_, fma, polynomial, select
from .math_exp import exp_usual

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

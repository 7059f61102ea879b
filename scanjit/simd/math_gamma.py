"""The logarithm of the gamma function, and its derivative. Polynomials are our own (Chebyshev fits in 60 digits;
digamma's: Remez)."""

from .lanes import Lanes, abs_, fma, polynomial, rint, select, wide
from .math_log import INF, NAN, log
from .math_trig import tan

FAR = 6.5
# fmt: off
# log(gamma(2 + y))/y for |y| <= 1/2
NEAR = {
    "f32": (
        0.00011347282270435244, -0.0002538170956540853, 0.0005065171280875802, -0.0011858600191771984,
        0.002890795236453414, -0.00738617405295372, 0.020580800250172615, -0.0673522800207138, 0.32246702909469604,
        0.42278432846069336,
    ),
    "f64": (
        6.379047507619774e-08, -1.3412819758517287e-07, 2.0304806751615227e-07, -4.303558760359961e-07,
        9.578663334114758e-07, -2.0449201467015115e-06, 4.374374916915131e-06, -9.438458716242811e-06,
        2.050726741605779e-05, -4.4926351103833334e-05, 9.945750909889392e-05, -0.00022315475074520367,
        0.0005096695248853096, -0.0011927539120010226, 0.002890510330738737, -0.0073855510286681535,
        0.02058080842778457, -0.06735230105319814, 0.3224670334241132, 0.42278433509846713,
    ),
}
# x times what Stirling's formula lacks, as a polynomial of 1/(x*x) for x >= FAR
STIRLING = {
    "f32": (0.0007732731755822897, -0.002777598798274994, 0.0833333358168602),
    "f64": (
        0.0045368906301007815, -0.0018619001080884038, 0.000840891399401838, -0.0005952311428421684,
        0.0007936507665900421, -0.0027777777777380146, 0.08333333333333333,
    ),
}
HALF_LOG_2PI = 0.9189385332046728
# sin(pi*r)/r as a polynomial of r*r for |r| <= 1/2
SINE = {
    "f32": (0.07765591144561768, -0.5982903838157654, 2.550077438354492, -5.167710304260254, 3.1415927410125732),
    "f64": (
        7.697826768224191e-07, -2.1903497074626018e-05, 0.0004662998161898394, -0.007370430505916944,
        0.0821458865731029, -0.5992645293189447, 2.5501640398773007, -5.167712780049969, 3.141592653589793,
    ),
}
# fmt: on


def gammaln(x: Lanes) -> Lanes:
    """``log(abs(gamma(x)))``: Stirling's formula from 6.5 on; below, ``gamma(x + 1) = x*gamma(x)`` moves the argument
    next to 2. Below -1/2 the reflection formula applies."""
    mirrored = x <= -0.5
    result = _gammaln(select(mirrored, -x, x))
    return result.rescue(mirrored, lambda: _reflected(x, result))


def _gammaln(x: Lanes) -> Lanes:
    """The same above -1/2."""
    name, whole, far = x.kind.name, rint(x), x >= FAR
    moved = x - whole
    factor = select(whole == 0.0, abs_(fma(x, x, x)), x)  # of gamma(2 + moved), beside gamma(x), if whole is 0 or 1
    product = _product([select(whole > j + 1.5, x - j, 1.0) for j in (1.0, 2.0, 3.0, 4.0)])
    logarithm = log(select(far | (whole < 1.5), factor, product))
    near = fma(moved, polynomial(moved, NEAR[name]), select(whole < 1.5, -logarithm, logarithm))
    inverse = 1.0 / x
    rest = fma(inverse, polynomial(inverse * inverse, STIRLING[name]), HALF_LOG_2PI - 0.5)
    return select(far, fma(x - 0.5, logarithm - 1.0, rest), near)


def _product(factors: list[Lanes]) -> Lanes:
    while len(factors) > 1:
        factors = [a * b for a, b in zip(factors[::2], factors[1::2], strict=True)]
    return factors[0]


def _reflected(x: Lanes, other: Lanes) -> Lanes:
    """``log(abs(gamma(x)))`` from that of -x: ``gamma(x)*gamma(-x)*x*sin(pi*x) = -pi``."""
    moved = abs_(x - rint(x))
    sine = moved * polynomial(moved * moved, SINE[x.kind.name])
    return select((sine == 0.0) | (x == -INF), INF, log(PI / (sine * -x)) - other)


# digamma(x)/(x - root) on 1 <= x <= 2, as a polynomial of x - 1.5 (our own Remez fit, relative error 2**-53)
ROOT_HIGH, ROOT_LOW = 1.4616321449683622, 9.549995429965697e-17
# fmt: off
NEAR_ROOT = (
    0.0002572663507554921, -0.00037866891858659603, 0.0002302556699079036, -0.000354433827484275,
    0.0007217212702206505, -0.0010778509153125133, 0.001557103796334141, -0.0023375077627854793, 0.003518922525424827,
    -0.005280910341075059, 0.007926953869845184, -0.01190814580157949, 0.017907251822036736, -0.02697580007021234,
    0.040760833836157244, -0.061922133189452284, 0.09498872445447784, -0.1484049230548761, 0.24054248424077773,
    -0.4236274212814572, 0.9510558760318328,
)
# Bernoulli numbers over 2k, k = 7 .. 1: digamma(x) = log(x) - 1/2x - sum b_k / x**2k
ASYMPTOTIC = (1 / 12, -691 / 32760, 1 / 132, -1 / 240, 1 / 252, -1 / 120, 1 / 12)
PI = 3.141592653589793
# fmt: on


def digamma(x: Lanes) -> Lanes:
    """Logarithmic derivative of gamma: near 1..2 a polynomial that knows the root, the asymptotic series from 10 on.

    Between, ``digamma(x + 1) = digamma(x) + 1/x`` moves the argument; below 0 the reflection formula applies.
    """
    kind, x = x.kind, wide(x)
    negative = x < 0.0
    positive = select(negative, 1.0 - x, x)
    # x in (0, 1) goes one step up; x in (2, 10) goes down to (1, 2], in steps that add positive terms only
    below = positive < 1.0
    near = select(below, positive + 1.0, positive)
    total = select(below, -1.0 / positive, 0.0)
    far = positive > 10.0
    near = select(far, 1.5, near)

    def step(value: Lanes, harmonic: Lanes) -> tuple[Lanes, Lanes]:
        lower = value - 1.0
        moves = value > 2.0
        return select(moves, lower, value), select(moves, harmonic + 1.0 / lower, harmonic)

    near, total = near.repeat((near, total), lambda value, _: value > 2.0, step)
    close = fma((near - ROOT_HIGH) - ROOT_LOW, polynomial(near - 1.5, NEAR_ROOT), total)
    inverse = 1.0 / select(far, positive, 10.0)
    square = inverse * inverse
    series = log(select(far, positive, 10.0)) - inverse * 0.5 - square * polynomial(square, ASYMPTOTIC)
    result = select(far, series, close)
    # digamma(x) = digamma(1 - x) - pi/tan(pi x), with the angle reduced exactly
    angle = (x - x.unary("rint")) * PI
    pole = abs_(x).unary("trunc") == abs_(x)
    reflected = result.rescue(negative, lambda: result - PI / tan(angle))
    result = select(negative, select(pole, NAN, reflected), result)
    result = select(x == 0.0, (-x).splat(-INF).copysign(-x), result)
    return select(x == INF, INF, select(x == x, result, NAN)).cast(kind)

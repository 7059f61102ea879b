"""Elementwise ops that are functions of one number: exponentials, angles, special functions; and powers."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable

import numpy as np

from scanjit import errors
from scanjit.ir import COMPLEX, Node
from scanjit.ops import special
from scanjit.ops.elementwise import (
    ABS,
    CLIP,
    EQUAL,
    ISINF,
    ISNAN,
    MAXIMUM,
    MUL,
    ROUND,
    SIGN,
    SQRT,
    STOP_GRADIENT,
    where,
)
from scanjit.ops.parts import is_complex, joined, parts
from scanjit.ops.promotion import Elementwise
from scanjit.ops.stretch import constant_value, full, zeros_like
from scanjit.signatures import Array, OpFunction, Parameter
from scanjit.symbol import TensorLike

# ---- powers ----------------------------------------------------------------------------------------------------------


def _pow_reference(x: Array, y: Array) -> Array:
    if np.issubdtype(x.dtype, np.floating):  # exports copy this source
        return np.power(x, y)
    # NumPy raises for negative powers of integers. Here the value is truncated: 0, but 1 or -1 for 1 and -1.
    unit = np.where(x == 1, 1, np.where((x == -1) & (x < 0), np.where(y % 2 == 0, 1, -1), 0))
    return np.where(y < 0, unit, np.power(x, np.maximum(y, 0))).astype(x.dtype)


def _pow_vjp(g: Node, y: Node, x: Node, e: Node) -> tuple[Node, Node]:
    known = constant_value(e)
    if known is not None and known.ndim == 0:
        by_base = float(known) * power(x, float(known) - 1) if known else zeros_like(x)
    else:  # each `where` also guards what it does not select, so that the gradient of the gradient is finite too
        by_base = where(e == 0, 0, e * x ** (where(e == 0, 1, e) - 1))
    by_exponent = where(x == 0, 0, y * LOG(where(x == 0, 1, x)))
    return g * by_base, g * by_exponent


def _complex_pow(x: Node, e: Node) -> Node:
    nothing = EQUAL(x, zeros_like(x))
    found = EXP(e * LOG(where(nothing, 1, x)))
    return where(nothing, where(e == 0, 1, zeros_like(x)), found)


POW = Elementwise(
    "pow",
    lower="pow({0}, {1})",
    takes="if",
    reference=_pow_reference,
    of_complex=_complex_pow,
    vjp=_pow_vjp,
    formula="x ** y",
    cost=60,
    domain=((0.2, 3.0), (0.0, 3.0)),
)


def power(x: TensorLike, exponent: TensorLike) -> Node:
    """`x ** exponent`. With a constant exponent ``n`` from -16 to 16 that is whole, it is computed as products, with an
    error of at most ``|n|`` units in the last place; ``1/x**16`` is 0 where ``x**16`` is infinite.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.power([1.0, 2.0, 3.0], 2), mode="reference")()
    array([1., 4., 9.])
    """
    x, exponent = POW.prepare((x, exponent))
    real, imaginary = parts(exponent) if is_complex(exponent) else (exponent, None)
    constant = np.zeros(()) if real is None else constant_value(real)
    if constant is None or imaginary is not None or exponent.ndim:
        return POW(x, exponent)
    known, times = constant.item(), operator.mul if is_complex(x) else MUL
    if known < 0 and x.type.kind.integral:
        raise errors.ArgumentError("integers have no negative powers", got=f"exponent {known}", fix="cast to a float")
    if known == 0:
        return full(1, x.type.shape, x.dtype)
    if known in (1, 2, 3, 4):
        factors = {1: x}
        for n in range(2, int(known) + 1):
            factors[n] = times(factors[n // 2], factors[n - n // 2])
        return factors[int(known)]
    if known in (-1, -2):
        return 1 / power(x, -known)
    return SQRT(x) if known == 0.5 else POW(x, exponent)


# ---- functions of complex numbers ------------------------------------------------------------------------------------
# W. Kahan, "Branch cuts for complex elementary functions" (1987): no formula below takes the difference of two numbers
# that are nearly equal. Limits where a part is infinite are those of C's standard, Annex G.


def _unless_nan(value: Node, limit: Node) -> Node:
    """A value; a limit where the formula of the value gives NaN."""
    return where(ISNAN(value), STOP_GRADIENT(limit), value)


def _complex_arcsin(z: Node) -> Node:
    (a, b), (c, d) = SQRT(1 - z).args, SQRT(1 + z).args
    return COMPLEX(ARCTAN2(z.args[0], _unless_nan(a * c - b * d, ABS(z.args[1]))), ARCSINH(a * d - b * c))


def _complex_arccos(z: Node) -> Node:
    (a, b), (c, d) = SQRT(1 - z).args, SQRT(1 + z).args
    x, y = z.args
    angle = where(ISINF(y), STOP_GRADIENT(ARCTAN2(ABS(y), x)), 2 * ARCTAN2(a, c))
    return COMPLEX(angle, ARCSINH(c * b - d * a))


def _complex_arccosh(z: Node) -> Node:
    (a, b), (c, d) = SQRT(z - 1).args, SQRT(z + 1).args
    x, y = z.args
    angle = where(ISINF(y), STOP_GRADIENT(ARCTAN2(y, x)), 2 * ARCTAN2(b, c))
    return COMPLEX(ARCSINH(a * c + b * d), angle)


def _complex_arctanh(z: Node) -> Node:
    x, y = z.args
    size = where(x < 0, -x, x)
    scale = STOP_GRADIENT(MAXIMUM(ABS(1 - size), ABS(y)))  # keeps squares from overflowing
    scale = where((scale == 0) | ISINF(scale), 1, scale)
    a, b = (1 - size) / scale, y / scale
    real = 0.25 * LOG1P(4 * (size / scale) / (a * (1 - size) + b * y))
    real = _unless_nan(real, where(ISINF(x) | ISINF(y), 0, real))
    angle = 0.5 * ARCTAN2(b, 0.5 * (a * (1 + size) - b * y))
    return COMPLEX(where(x < 0, -real, real), where(ISINF(y), SIGN(y) * (math.pi / 2), angle))


def _turned(function: OpFunction[Node]) -> OpFunction[Node]:
    """`-1j * function(1j * z)`, with the signs of zeros."""

    def turned(z: Node) -> Node:
        real, imaginary = function(COMPLEX(-z.args[1], z.args[0])).args
        return COMPLEX(imaginary, -real)

    return turned


def _turned_by(z: Node, along: Node, across: Node) -> Node:
    """`along * cos(y) + 1j * across * sin(y)` of functions `along` and `across` of x, where `z = x + 1j * y`. What is
    exactly zero or infinite stays so where the angle y is not known."""
    x, y = z.args
    turn, exactly = SIN(y), 2 * x == x
    real, imaginary = along * COS(y), across * turn
    return COMPLEX(
        _unless_nan(real, where(exactly & (2 * along == along), along, real)),
        _unless_nan(imaginary, where(turn == 0, turn, where(exactly & (across == 0), across, imaginary))),
    )


def _complex_exp(z: Node) -> Node:
    real, imaginary = parts(z)
    size = EXP(z.args[0])
    if real is None:
        return COMPLEX(COS(z.args[1]), SIN(z.args[1]))
    return joined(size, None) if imaginary is None else _turned_by(z, size, size)


def _complex_sinh(z: Node) -> Node:
    return _turned_by(z, SINH(z.args[0]), COSH(z.args[0]))


def _complex_cosh(z: Node) -> Node:
    return _turned_by(z, COSH(z.args[0]), SINH(z.args[0]))


def _complex_tanh(z: Node) -> Node:
    x, y = CLIP(*CLIP.prepare((z.args[0], -20.0, 20.0))), z.args[1]  # outside, `tanh` is 1, and squares overflow
    sinh, cos = SINH(x), COS(y)
    size = sinh * sinh + cos * cos
    real, imaginary, far = sinh * COSH(x) / size, SIN(y) * cos / size, ISINF(z.args[0])
    return COMPLEX(
        _unless_nan(real, where(far | (x == 0), SIGN(x), real)),
        where(far, 0, _unless_nan(imaginary, where(y == 0, 0, imaginary))),
    )


def _complex_log1p(z: Node) -> Node:
    x, y = z.args
    far, angle = LOG(1 + z).args
    square = x * (2 + x) + y * y
    return COMPLEX(where(ABS(square) < 0.5, 0.5 * LOG1P(square), far), angle)


def _expm1_cos(x: Node, y: Node) -> Node:
    """`exp(x) * cos(y) - 1`, also near 0."""
    half = SIN(y / 2)
    return EXPM1(x) * COS(y) - 2 * (half * half)


_OF_COMPLEX: dict[str, OpFunction[Node]] = {
    "exp": _complex_exp,
    "exp2": lambda z: EXP(z * math.log(2)),
    "expm1": lambda z: COMPLEX(_unless_nan(_expm1_cos(*z.args), EXP(z).args[0] - 1), EXP(z).args[1]),
    "log": lambda z: COMPLEX(LOG(ABS(z)), ARCTAN2(z.args[1], z.args[0])),
    "log2": lambda z: LOG(z) * (1 / math.log(2)),
    "log10": lambda z: LOG(z) * (1 / math.log(10)),
    "log1p": _complex_log1p,
    "sin": _turned(_complex_sinh),
    "cos": lambda z: _complex_cosh(COMPLEX(-z.args[1], z.args[0])),
    "tan": _turned(_complex_tanh),
    "arcsin": _complex_arcsin,
    "arccos": _complex_arccos,
    "arctan": _turned(_complex_arctanh),
    "arcsinh": _turned(_complex_arcsin),
    "arccosh": _complex_arccosh,
    "arctanh": _complex_arctanh,
    "sinh": _complex_sinh,
    "cosh": _complex_cosh,
    "tanh": _complex_tanh,
    "sigmoid": lambda z: 1 / (1 + EXP(-z)),
}
"""The functions of one number that are also defined for complex numbers, by name."""


# ---- functions of one number -----------------------------------------------------------------------------------------


def _function(
    name: str,
    reference: OpFunction[Parameter],
    derivative: Callable[[Node, Node], object],
    formula: str | None = None,
    *domain: float,
    cost: int = 20,
    takes: str = "f",
    lower: str | None = None,
    doc: str = "",
) -> Elementwise:
    """A function of one number, with its derivative as a function of (x, y), where `y` is the value at `x`."""
    return Elementwise(
        name,
        lower=lower or name + "({0})",
        takes=takes,
        reference=reference,
        vjp=lambda g, y, x: (g * derivative(x, y),),
        formula=formula,
        of_complex=_OF_COMPLEX.get(name),
        domain=(domain or (-3.0, 3.0),),  # type: ignore[arg-type]
        cost=cost,
        doc=doc,
    )


CBRT = _function("cbrt", np.cbrt, lambda x, y: 1 / (3 * y * y), "sign(x) * Abs(x) ** Rational(1, 3)", 0.2, 3)
EXP: Elementwise = _function("exp", np.exp, lambda x, y: y, "exp(x)")
EXP2 = _function("exp2", np.exp2, lambda x, y: y * math.log(2), "2 ** x")
EXPM1: Elementwise = _function("expm1", np.expm1, lambda x, y: y + 1, "exp(x) - 1")
LOG: Elementwise = _function("log", np.log, lambda x, y: 1 / x, "log(x)", 0.1, 3)
LOG2 = _function("log2", np.log2, lambda x, y: 1 / (x * math.log(2)), "log(x, 2)", 0.1, 3)
LOG10 = _function("log10", np.log10, lambda x, y: 1 / (x * math.log(10)), "log(x, 10)", 0.1, 3)
LOG1P: Elementwise = _function("log1p", np.log1p, lambda x, y: 1 / (1 + x), "log(1 + x)", -0.8, 3)
SIN: Elementwise = _function("sin", np.sin, lambda x, y: COS(x), "sin(x)")
COS: Elementwise = _function("cos", np.cos, lambda x, y: -SIN(x), "cos(x)")
TAN = _function("tan", np.tan, lambda x, y: 1 + y * y, "tan(x)", -1.2, 1.2, cost=40)
ARCSIN: Elementwise = _function("arcsin", np.arcsin, lambda x, y: 1 / SQRT((1 - x) * (1 + x)), "asin(x)", -0.9, 0.9)
ARCCOS = _function("arccos", np.arccos, lambda x, y: -1 / SQRT((1 - x) * (1 + x)), "acos(x)", -0.9, 0.9)
ARCTAN: Elementwise = _function("arctan", np.arctan, lambda x, y: 1 / (1 + x * x), "atan(x)")
SINH: Elementwise = _function("sinh", np.sinh, lambda x, y: COSH(x), "sinh(x)")
COSH: Elementwise = _function("cosh", np.cosh, lambda x, y: SINH(x), "cosh(x)")
TANH: Elementwise = _function("tanh", np.tanh, lambda x, y: 1 - y * y, "tanh(x)")
ARCSINH: Elementwise = _function("arcsinh", np.arcsinh, lambda x, y: 1 / SQRT(1 + x * x), "asinh(x)", cost=40)
ARCCOSH = _function("arccosh", np.arccosh, lambda x, y: 1 / (SQRT(x - 1) * SQRT(x + 1)), "acosh(x)", 1.1, 4.0, cost=40)
ARCTANH = _function("arctanh", np.arctanh, lambda x, y: 1 / ((1 - x) * (1 + x)), "atanh(x)", -0.9, 0.9, cost=40)
SIGMOID = _function("sigmoid", special.sigmoid, lambda x, y: y * (1 - y), "1 / (1 + exp(-x))", doc="1 / (1 + exp(-x))")
SOFTPLUS = _function(
    "softplus", special.softplus, lambda x, y: SIGMOID(x), "log(1 + exp(x))", cost=40, doc="log(1 + exp(x))"
)
LOG_SIGMOID = _function(
    "log_sigmoid", lambda x: -special.softplus(-x), lambda x, y: SIGMOID(-x), "-log(1 + exp(-x))", cost=40
)
RELU = Elementwise(
    "relu",
    lower="maximum({0}, 0)",
    takes="if",
    reference=lambda x: np.maximum(x, x.dtype.type(0)),
    vjp=lambda g, y, x: (where(y > 0, g, 0),),
    formula="Max(x, 0)",
    doc="x where it is positive, else 0 (and so its derivative at 0)",
)
_SLOPE_OF_ERF = 2 / math.sqrt(math.pi)
ERF = _function("erf", special.erf, lambda x, y: _SLOPE_OF_ERF * EXP(-(x * x)), "erf(x)", cost=40)
ERFC = _function("erfc", special.erfc, lambda x, y: -_SLOPE_OF_ERF * EXP(-(x * x)), "1 - erf(x)", cost=60)
ERFINV = _function(
    "erfinv",
    special.erfinv,
    lambda x, y: EXP(y * y) / _SLOPE_OF_ERF,
    "erfinv(x)",
    -0.9,
    0.9,
    cost=60,
    doc="erf's inverse",
)
I0E: Elementwise = _function(
    "i0e",
    special.i0e,
    lambda x, y: I1E(x) - SIGN(x) * y,
    "exp(-Abs(x)) * besseli(0, x)",
    cost=60,
    doc="exp(-abs(x)) times the modified Bessel function of order 0",
)
I1E: Elementwise = _function(
    "i1e",
    special.i1e,
    lambda x, y: I0E(x) - where(x == 0, 0.5, y / where(x == 0, 1, x)) - SIGN(x) * y,
    "exp(-Abs(x)) * besseli(1, x)",
    cost=60,
    doc="exp(-abs(x)) times the modified Bessel function of order 1",
)
GAMMALN = _function(
    "gammaln", special.gammaln, lambda x, y: DIGAMMA(x), "loggamma(x)", 0.2, 6, cost=80, doc="log(abs(gamma(x)))"
)
DIGAMMA: Elementwise = _function(
    "digamma", special.digamma, lambda x, y: trigamma(x), "digamma(x)", 0.2, 6, cost=200, doc="gammaln's derivative"
)
ARCTAN2: Elementwise = Elementwise(
    "arctan2",
    lower="arctan2({0}, {1})",
    takes="f",
    reference=np.arctan2,
    vjp=lambda g, y, a, b: (g * b / (a * a + b * b), -(g * a) / (a * a + b * b)),
    formula="atan2(x, y)",
    cost=60,
    domain=((-3, 3), (0.5, 3)),
)


def trigamma(x: Node) -> Node:
    """The derivative of `digamma`, made of arithmetic so that it has derivatives of every order itself.

    `trigamma(x) = trigamma(x + n) + sum 1 / (x + k)**2`, then the asymptotic series; by reflection below 1/2.
    """
    low = x < 0.5
    z = where(low, 1 - x, x)
    total: Node | int = 0
    for k in range(8):
        total = total + 1 / ((z + k) * (z + k))
    inverse = 1 / (z + 8)
    square = inverse * inverse
    series: Node | int = 0
    for bernoulli in (7 / 6, -691 / 2730, 5 / 66, -1 / 30, 1 / 42, -1 / 30, 1 / 6):
        series = bernoulli + series * square
    total = total + (inverse + square * (0.5 + inverse * series))
    sine = SIN(where(low, x - ROUND(x), 0.5) * math.pi)  # whole turns change neither the square nor its derivatives
    return where(low, math.pi**2 / (sine * sine) - total, total)


def root(sums: Node, p: float = 2) -> Node:
    """The root of order `p` of sums of numbers that are not negative. Where a sum is 0, the derivative is 0: a norm
    or a deviation is smallest there."""
    none = EQUAL(sums, zeros_like(sums))
    some = where(none, 1, sums)
    return where(none, 0, SQRT(some) if p == 2 else power(some, 1 / p))

"""Formulas of sympy's against sympy's own arithmetic: values, and derivatives against sympy's derivatives."""

import pickle

import numpy as np
import pytest
import sympy
from sympy.codegen import cfunctions

import scanjit as sj
from scanjit.ops.functions import EXP
from tests.scripts import python

x, y = sympy.symbols("x y", real=True)
p = sympy.Symbol("p", positive=True)

SMOOTH = [
    x**2 + 3 * x * y - y / 7 + sympy.Rational(2, 3),
    -x / (3 * y**2),
    x / (p * (1 + y**2)) - 1 / p,
    sympy.exp(-(x**2) / (2 * p**2)) / (p * sympy.sqrt(2 * sympy.pi)),
    sympy.log(p) * p**x + 2**y + p**2.5 + x**7 - x**-3,
    p ** sympy.Rational(3, 2) + p ** sympy.Rational(-5, 2) + p ** sympy.Rational(1, 3),
    sympy.sin(x) * sympy.cos(y) + sympy.tan(x / 3) + sympy.cot(p) + sympy.sec(y / 3) - sympy.csc(p),
    sympy.asin(x / 9) + sympy.acos(y / 9) + sympy.atan(x) + sympy.atan2(x, p),
    sympy.sinh(x) + sympy.cosh(y) + sympy.tanh(x * y) + sympy.coth(p) + sympy.sech(x) - sympy.csch(p),
    sympy.erf(x) * sympy.erfc(y),
    sympy.gamma(p) + sympy.gamma(x + y / 10) + sympy.factorial(p) + sympy.loggamma(p) + sympy.beta(p, p + 1),
    sympy.digamma(p),
    sympy.Abs(x) * y + sympy.Max(x, y, 1) - sympy.Min(x, 2 * y),
    sympy.Piecewise((x**2, x > 1), (sympy.sin(x), (x > -1) & (y > 0)), (x * y, True)),
    sympy.Piecewise((1, x < y), (2, True)) * x,
    cfunctions.log1p(p) + cfunctions.expm1(x) + cfunctions.exp2(y) + cfunctions.log2(p) - cfunctions.log10(p),
    cfunctions.Cbrt(p) + cfunctions.Sqrt(p) + cfunctions.hypot(x, y) + cfunctions.fma(x, y, p),
    sympy.E * x + sympy.EulerGamma * y + sympy.sqrt(3) - sympy.zeta(3) * p,
    sympy.Derivative(sympy.sin(x * y), x) + sympy.Integral(p, (p, 0, x)),
    sympy.Piecewise((x, sympy.ITE(x > y, x > 0, y > 0)), (y, True)),
]
ROUGH = [
    sympy.sign(x) + sympy.floor(y) + sympy.ceiling(x) + sympy.frac(y) + sympy.Mod(x, p),
    sympy.Heaviside(x) + sympy.Heaviside(y, 0) * 2,
    (x > y) | (x < 0) & ~(y <= 0) ^ (sympy.Ne(x, 1)),
    sympy.Eq(x, y) & (x >= -2),
    sympy.Piecewise((x, x > 0)),
    sympy.trigamma(p),
]
POINTS = np.array([[1.3, -0.7, 2.4], [-0.4, 0.9, 0.6], [-2.6, -1.2, 1.7], [0.2, 2.2, 1.0]])


def truth(expr, point):
    """The value by sympy, to many digits."""
    found = expr.doit() if expr.is_Boolean else expr.doit().expand(func=True)
    found = found.subs(dict(zip((x, y, p), map(sympy.Float, point), strict=True)))
    if found in (sympy.true, sympy.false):
        return bool(found)
    return float(sympy.N(found, 30))


@pytest.mark.parametrize("expr", SMOOTH + ROUGH, ids=str)
def test_values(expr):
    f = sj.elementwise_from_sympy(expr, [x, y, p])
    symbols = sj.vector("a"), sj.vector("b"), sj.vector("c")
    got = sj.function(symbols, f(*symbols), mode="reference")(*POINTS.T)
    np.testing.assert_allclose(got, [truth(expr, point) for point in POINTS], rtol=1e-12, atol=1e-13)


@pytest.mark.quick(5)
@pytest.mark.parametrize("expr", SMOOTH, ids=str)
def test_derivatives(expr):
    f = sj.elementwise_from_sympy(expr, [x, y, p])
    symbols = sj.vector("a"), sj.vector("b"), sj.vector("c")
    slopes = sj.grad(f(*symbols).sum(), list(symbols), disconnected="zero")
    found = sj.function(symbols, slopes, mode="reference")(*POINTS.T)
    for by, got in zip((x, y, p), found, strict=True):
        slope = expr.doit().diff(by)
        np.testing.assert_allclose(got, [truth(slope, point) for point in POINTS], rtol=1e-10, atol=1e-12)


def test_compiled_in_a_loop_with_second_derivatives():
    u, v = sympy.symbols("u v")
    swing = sj.elementwise_from_sympy([v - u / 8, v - sympy.sin(u) / 8 - v**3 / 50], [u, v])
    start = sj.vector("start")

    def step(a, b):
        a, b = swing(a, b)
        return a + b / 8, b

    a, _ = sj.scan(step, outputs_info=[start, start * 0], n_steps=5)
    outputs = [a[-1], sj.grad(a[-1].sum(), start), sj.hvp(a[-1].sum(), start, start)]
    given = np.array([0.3, 1.0, -2.0])
    results = [sj.function([start], outputs, mode=mode)(given) for mode in ("reference", "emulate", "numba")]
    for other in results[1:]:
        for one, two in zip(results[0], other, strict=True):
            np.testing.assert_allclose(one, two, rtol=1e-12)


def test_numbers_are_weak():
    expr = sympy.Piecewise((sympy.pi, x > 0), (2, True)) * x / 3 + sympy.sqrt(2) * sympy.Heaviside(y) + y**2 + sympy.E
    f = sj.elementwise_from_sympy(expr)
    a, n = sj.vector("a", dtype="float32"), sj.ivector("n")
    assert f(a, 2.0).dtype == f(a, a).dtype == f(1, a).dtype == np.float32
    assert f(n, n).dtype == np.float64 and sj.elementwise_from_sympy(x**2 + 2 * x)(n).dtype == np.int32
    assert sj.elementwise_from_sympy(sympy.Integer(3), [x])(a).dtype == np.float32
    assert sj.elementwise_from_sympy(x > 1)(a).dtype == bool


def test_shapes_and_arguments():
    f = sj.elementwise_from_sympy([x + p, sympy.Integer(1)], ["p", "y", x])
    a, b = sj.tensor((3, 1), name="a"), sj.tensor((1, 2), name="b")
    for one in f(a, 0.0, b):
        assert one.type.shape == (3, 2)
    assert f(1.0, x=b, y=a)[1].type.shape == (3, 2) and "p + x" in f.__doc__
    assert sj.elementwise_from_sympy(y - x, None)(x=1.0, y=a).type.shape == (3, 1)
    values = sj.function([a, b], f(a, 0.0, b), mode="reference")(np.ones((3, 1)), np.ones((1, 2)))
    assert values[0].tolist() == [[2, 2]] * 3 and values[1].tolist() == [[1, 1]] * 3


def test_parts_are_computed_once():
    part = sympy.exp(x * y)
    a, b = sj.elementwise_from_sympy([part + 1, part * (part + 3)], [x, y])(sj.vector("a"), sj.vector("b"))
    assert sum(node.op is EXP for node in sj.ir.walk([a, b])) == 1


def test_functions_by_name():
    sigmoid = sympy.Function("sigmoid")
    f = sj.elementwise_from_sympy(sigmoid(2 * x), [x])
    a = sj.vector("a")
    assert f(a) is sj.sigmoid(2 * a)


def test_functions_can_be_pickled():
    f = sj.elementwise_from_sympy([x * y + 1, x > y], [x, y])
    found = pickle.loads(pickle.dumps(sj.jit(f, mode="reference")))(np.array([1.0, 3.0]), 2.0)
    assert [array.tolist() for array in found] == [[3.0, 7.0], [False, True]]
    assert pickle.loads(pickle.dumps(f)).__doc__ == f.__doc__


def test_errors():
    refused = sj.NotSupportedError
    for expr, name in (
        (sympy.zeta(x) + 1, "zeta"),
        (sympy.besselj(0, x), "besselj"),
        (sympy.polygamma(3, p), "polygamma"),
        (sympy.Function("unheard")(x), "unheard"),
        (sympy.Function("system")(x), "system"),
        (sympy.Integral(sympy.Function("unheard")(x), x), "Integral"),
    ):
        with pytest.raises(refused, match=f"sympy's {name}"):
            sj.elementwise_from_sympy(expr)
    with pytest.raises(refused, match="not real"):
        sj.elementwise_from_sympy(x * sympy.I)
    wrong = sj.ArgumentError
    for expr in ("x + 1", sympy.Matrix([x]), None, sympy.Interval(0, 1), sympy.MatrixSymbol("M", 2, 2)):
        with pytest.raises(wrong, match="expression of sympy"):
            sj.elementwise_from_sympy(expr)
    with pytest.raises(wrong, match="uses p, y"):
        sj.elementwise_from_sympy(x + y + p, [x])
    with pytest.raises(wrong, match="one name"):
        sj.elementwise_from_sympy(x, [x, x])
    with pytest.raises(wrong, match="symbols or their names"):
        sj.elementwise_from_sympy(x, [x + 1])
    f = sj.elementwise_from_sympy(x + y, [x, y])
    for values, named in (((1.0,), {}), ((1.0, 2.0, 3.0), {}), ((1.0,), {"x": 2.0}), ((1.0,), {"z": 2.0})):
        with pytest.raises(wrong, match="takes 2 arguments"):
            f(*values, **named)


def test_sympy_is_imported_when_it_is_needed():
    python("import sys, scanjit; sys.exit('sympy' in sys.modules)")

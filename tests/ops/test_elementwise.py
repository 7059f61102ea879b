"""Elementwise functions: dtypes as NumPy 2 finds them, special values, derivatives at special points."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import mpmath as mp
import numpy as np
import pytest
import scipy.special

import scanjit as T
from scanjit import errors
from scanjit.autodiff import grad
from scanjit.ir import CONSTANT, Node
from scanjit.tensor import clip, clip_gradient, scalar, stop_gradient, vector
from scanjit.types import DTYPES as ALL_DTYPES
from tests.ops.support import agrees, inputs, run, same
from tests.pairs import pairwise

DTYPES = tuple(dtype for dtype in ALL_DTYPES if dtype != np.float16)
"""Those of 16 bits are in `test_halves.py`."""

BINARY = (
    "add subtract multiply divide floor_divide mod power maximum minimum arctan2 less less_equal greater greater_equal "
    "equal not_equal logical_and logical_or logical_xor logaddexp"
).split()
BITWISE = ["bitwise_and", "bitwise_or", "bitwise_xor"]
UNARY = (
    "abs sign negative square sqrt cbrt exp exp2 expm1 log log2 log10 log1p sin cos tan arcsin arccos arctan sinh cosh "
    "tanh floor ceil trunc round rint isnan isinf isfinite logical_not positive reciprocal fabs"
).split()
SPECIAL = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0, 1e-300, 1e300, 88.8, -745.0, 1e-40]


def supported(dtype: np.dtype) -> np.dtype:
    """NumPy's dtype, or ours where it computes in half precision or in unsigned numbers that we do not have."""
    return np.dtype("float64") if dtype == np.float16 else dtype


def dtype_of_numpy(fn: Callable[..., Any], *operands: Any) -> np.dtype | None:
    try:
        with np.errstate(all="ignore"):
            return supported(fn(*operands).dtype)
    except TypeError:
        return None


@pytest.mark.parametrize("name", BINARY + BITWISE)
def test_dtypes_of_two_operands(name: str) -> None:
    fn, numpy_fn = getattr(T, name), getattr(np, name)
    for a, b in itertools.product(DTYPES, DTYPES):
        arrays = np.ones(2, a), np.ones(2, b)
        expected = dtype_of_numpy(numpy_fn, *arrays)
        if expected is None:
            with pytest.raises(errors.DtypeError):
                fn(*inputs(arrays, symbolic=False))
        elif name in ("arctan2", "logaddexp", "divide") and expected == np.float32 and a.kind + b.kind != "ff":
            assert run(fn, *arrays).dtype in (np.float32, np.float64)  # of int16 alone NumPy makes float32
        else:
            with np.errstate(all="ignore"):
                same(run(fn, *arrays), np.asarray(numpy_fn(*arrays)).astype(expected), rtol=1e-3)


@pytest.mark.parametrize("name", ["add", "multiply", "subtract", "divide", "maximum", "power", "less"])
@pytest.mark.parametrize("number", [True, 2, 2.0], ids=["bool", "int", "float"])
def test_python_numbers_are_weak(name: str, number: Any) -> None:
    fn, numpy_fn = getattr(T, name), getattr(np, name)
    for dtype in DTYPES:
        array = np.ones(2, dtype)
        for swap in (False, True):
            arguments = (number, array) if swap else (array, number)
            expected = dtype_of_numpy(numpy_fn, *arguments)
            apply = (lambda x, fn=fn: fn(number, x)) if swap else (lambda x, fn=fn: fn(x, number))
            if expected is None:
                with pytest.raises(errors.DtypeError):
                    run(apply, array)
            else:
                assert run(apply, array).dtype == expected, (dtype, swap)


def test_numpy_scalars_are_not_weak() -> None:
    assert (np.float64(2) * vector(dtype="float32")).dtype == np.float64
    assert (vector(dtype="float32") * np.float32(2)).dtype == np.float32
    assert (vector(dtype="int8") + np.int16(2)).dtype == np.int16


def test_a_python_integer_must_fit() -> None:
    x = vector(dtype="uint8")
    with pytest.raises(errors.DtypeError, match="does not fit"):
        x + 300
    with pytest.raises(errors.DtypeError):
        x + -1
    agrees(lambda x: x < 300, lambda x: x < 300, np.array([1, 255], "uint8"))


@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one_number(name: str) -> None:
    fn, numpy_fn = getattr(T, name), getattr(np, name)
    for dtype in ("float64", "float32"):
        with np.errstate(all="ignore"):
            agrees(fn, numpy_fn, np.array(SPECIAL).astype(dtype))
    for dtype in ("int8", "int64", "uint8"):
        array = np.array([0, 1, 3, 100], dtype)
        with np.errstate(all="ignore"):
            expected = numpy_fn(array)
            if expected.dtype.kind == "f" or name == "reciprocal":  # of integers, ours is no integer
                expected = numpy_fn(array.astype("float64"))
            same(run(fn, array), expected, rtol=1e-15)


@pytest.mark.parametrize("name", BINARY)
def test_special_values_of_two_operands(name: str) -> None:
    a, b = np.meshgrid(SPECIAL, SPECIAL)
    agrees(getattr(T, name), getattr(np, name), a, b, rtol=1e-15)


@pytest.mark.parametrize("mode", ["reference", "emulate", "numba"])
def test_extreme_integers_are_those_of_numpy(mode: str) -> None:
    """In vectors, in what is left of a row, and alone; divided by -1 and 0, negated, squared."""
    functions: dict[str, tuple[Any, Any, int]] = {
        "//": (T.floor_divide, np.floor_divide, 2),
        "%": (T.mod, np.mod, 2),
        "*": (T.multiply, np.multiply, 2),
        "-": (T.negative, np.negative, 1),
        "abs": (T.abs, np.abs, 1),
        "square": (T.square, np.square, 1),
    }
    symbols, outputs, wanted, given = [], [], [], []
    for dtype in ("int8", "uint8", "int16", "int32", "int64"):
        limits = np.iinfo(dtype)
        numbers = np.unique(
            np.array([limits.min, limits.min + 1, 0, 1, 2, 3, limits.max], dtype) - np.array([0, 1], dtype)[:, None]
        )
        pairs = [np.ravel(each) for each in np.meshgrid(numbers, numbers)]
        for arrays in (pairs, [each[-1] for each in pairs], [np.array(limits.min, dtype), np.array(limits.max, dtype)]):
            nodes = inputs(arrays, symbolic=True)
            symbols, given = [*symbols, *nodes], [*given, *arrays]
            outputs += [fn(*nodes[:count]) for fn, _, count in functions.values()]
            outputs += [fn(*map(T.constant, arrays[:count])) for fn, _, count in functions.values()]
            with np.errstate(all="ignore"):
                wanted += 2 * [fn(*arrays[:count]) for _, fn, count in functions.values()]
    for found, expected in zip(T.function(symbols, outputs, mode=mode)(*given), wanted, strict=True):
        same(found, expected)


@pytest.mark.parametrize("dtype", ["int8", "int32", "uint8"])
def test_integer_division_and_powers(dtype: str) -> None:
    limits = np.iinfo(dtype)
    numbers = np.array([limits.min, limits.min + 1, 0, 1, 2, 3, 7, limits.max], dtype)
    a, b = np.meshgrid(numbers, numbers)
    with np.errstate(all="ignore"):
        agrees(T.floor_divide, np.floor_divide, a, b)
        agrees(T.mod, np.mod, a, b)
        agrees(T.power, lambda x, y: np.power(x, y), a, np.abs(b) % 8)
    if dtype != "uint8":
        same(
            run(T.power, np.array([2, 1, -1, -1], dtype), np.array([-1, -2, -2, -3], dtype)),
            np.array([0, 1, 1, -1], dtype),
        )


@pytest.mark.parametrize(
    ("name", "scipy_fn"),
    [
        ("erf", scipy.special.erf),
        ("erfc", scipy.special.erfc),
        ("gammaln", scipy.special.gammaln),
        ("digamma", scipy.special.digamma),
        ("trigamma", lambda x: scipy.special.polygamma(1, x)),
        ("sigmoid", scipy.special.expit),
        ("softplus", lambda x: np.logaddexp(x, 0)),
        ("log_sigmoid", scipy.special.log_expit),
    ],
)
def test_special_functions(name: str, scipy_fn: Any) -> None:
    x = np.concatenate([np.linspace(-9.85, 30, 400), [-800.0, 800.0, 1e-8, 100.5]])
    if name == "trigamma":
        x = x[x > 0]  # scipy's has no other
    fn = getattr(T, name)
    np.testing.assert_allclose(run(fn, x), scipy_fn(x), rtol=2e-13, atol=1e-13)
    small = np.linspace(0.1, 8, 100).astype("float32")
    np.testing.assert_allclose(run(fn, small), scipy_fn(small.astype("float64")), rtol=2e-6, atol=1e-6)
    assert run(fn, small).dtype == np.float32


@pytest.mark.parametrize("name", ["gammaln", "digamma"])
def test_poles_of_gamma(name: str) -> None:
    x = np.array([0.0, -1.0, -2.0, np.inf, np.nan])
    np.testing.assert_array_equal(run(getattr(T, name), x), getattr(scipy.special, name)(x))


def test_trigamma_below_zero() -> None:
    import mpmath

    x = np.array([-0.5, -1.25, -7.9, 0.3])
    np.testing.assert_allclose(run(T.trigamma, x), [float(mpmath.psi(1, v)) for v in x], rtol=1e-12)


def test_nonlinearities() -> None:
    x = np.array([-800.0, -3.0, -0.5, -0.0, 0.0, 0.5, 3.0, 800.0])
    with np.errstate(over="ignore"):
        expm1 = np.expm1(x)
    phi = scipy.special.ndtr(x)
    for fn, expected in (
        (T.relu, np.maximum(x, 0)),
        (lambda x: T.elu(x, 2.0), np.where(x > 0, x, 2 * expm1)),
        (T.selu, 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * expm1)),
        (T.gelu, x * phi),
        (T.silu, x * scipy.special.expit(x)),
        (T.hard_sigmoid, np.clip(0.2 * x + 0.5, 0, 1)),
        (T.softsign, x / (1 + np.abs(x))),
    ):
        np.testing.assert_allclose(run(fn, x), expected, rtol=1e-13, atol=1e-300)
        slope = run(lambda x, fn=fn: grad(fn(x).sum(), x), x)
        assert np.isfinite(slope).all()
    approximate = run(lambda x: T.gelu(x, approximate=True), x)
    np.testing.assert_allclose(approximate, x * phi, atol=1e-3)
    assert run(T.gelu, np.array([-10.0]))[0] == pytest.approx(-10 * scipy.special.ndtr(-10), rel=1e-12)


def test_casts_are_defined_for_every_number() -> None:
    x = np.array([np.nan, np.inf, -np.inf, 300.7, -300.7, 2.0**31, -(2.0**40), 1e19, 0.0, -0.9])
    limits = np.iinfo("int64")
    wide = [0, limits.max, limits.min, 300, -300, 2**31, -(2**40), limits.max, 0, 0]
    same(run(lambda x: T.cast(x, "int64"), x), np.array(wide))
    narrow = np.clip([0, 2**40, -(2**40), 300, -300, 2**31, -(2**40), 2**40, 0, 0], -(2**31), 2**31 - 1)
    for dtype in ("int32", "int16", "int8", "uint8"):
        same(run(lambda x, dtype=dtype: x.astype(dtype), x), narrow.astype(dtype))
    same(run(lambda x: x.astype(bool), x), x != 0)
    assert T.constant(2.0, "int8").op is CONSTANT  # known values are converted at once


def test_round() -> None:
    x = np.array([0.5, 1.5, -2.5, 2.675, 123.456])
    for decimals in (0, 1, 2, -1, -2):
        agrees(lambda x, d=decimals: x.round(d), lambda x, d=decimals: np.round(x, d), x, rtol=1e-15)
    agrees(round, np.round, x)
    same(run(lambda x: T.round(x, 1), np.array([3])), np.array([3]))


def test_clip() -> None:
    x = np.linspace(-3, 3, 7)
    for bounds in ((-1, 2), (None, 1.5), (-1, None), (2, -2)):
        agrees(lambda x, b=bounds: clip(x, *b), lambda x, b=bounds: np.clip(x, *b), x)
        agrees(lambda x, b=bounds: np.clip(x, *b), lambda x, b=bounds: np.clip(x, *b), x.astype("float32"))
    agrees(lambda x: x.clip(1), lambda x: x.clip(1), np.arange(4, dtype="int8"))
    agrees(lambda x: clip(x, max=2), lambda x: np.clip(x, None, 2), np.arange(4, dtype="uint8"))


# ---- derivatives at special points -----------------------------------------------------------------------------------


def slope(fn: Callable[[Node], Node], *at: float, order: int = 1) -> list[float]:
    def derivative(x: Node) -> Node:
        y = fn(x)
        for _ in range(order):
            y = grad(y.sum(), x, disconnected="zero")
        return y

    return [float(v) for v in run(derivative, np.array(at))]


def test_conventions_where_there_is_no_derivative() -> None:
    assert slope(abs, 0.0, -2.0) == [0, -1]
    assert slope(T.relu, 0.0, 1.0, -1.0) == [0, 1, 0]
    assert slope(lambda x: T.maximum(x, 0), 0.0, 1.0, -1.0) == [0.5, 1, 0]
    assert slope(lambda x: T.minimum(x, 0), 0.0, 1.0, -1.0) == [0.5, 0, 1]
    assert slope(T.sqrt, 0.0) == [np.inf]
    assert slope(lambda x: clip(x, -1, 1), -2.0, -1.0, 0.0, 1.0, 2.0) == [0, 1, 1, 1, 0]
    assert slope(T.elu, 0.0) == [1]
    assert slope(T.sign, 0.0, 3.0) == [0, 0]
    assert slope(T.floor, 0.5) == [0]


def test_bounds_of_clip_have_gradients() -> None:
    def gradients(x: Node, low: Node, high: Node) -> tuple[Node, ...]:
        return tuple(grad(clip(x, low, high).sum(), [x, low, high]))

    got = run(gradients, np.array([-2.0, 0.0, 2.0]), np.array([-1.0, -1.0, -1.0]), np.array([1.0, 1.0, 1.0]))
    np.testing.assert_array_equal(got, [[0, 1, 0], [1, 0, 0], [0, 0, 1]])


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 4, 5, 2.0, -1, -2, -3, 0.5, 2.5])
def test_powers_with_known_exponents(exponent: float) -> None:
    at = [0.5, 2.0] + ([-1.5, 0.0] if exponent == int(exponent) and exponent >= 0 else [])
    x = np.array(at)
    agrees(lambda x: x**exponent, lambda x: x**exponent, x, rtol=1e-15)
    n = float(exponent)
    np.testing.assert_allclose(slope(lambda x: x**exponent, *at), n * x ** (n - 1) if n else 0 * x, rtol=1e-14)
    second = n * (n - 1) * x ** (n - 2) if n not in (0, 1) else 0 * x
    np.testing.assert_allclose(slope(lambda x: x**exponent, *at, order=2), second, rtol=1e-14)


def test_a_square_makes_nothing_for_other_powers(monkeypatch: pytest.MonkeyPatch) -> None:
    def unwanted(*_: object) -> None:
        raise AssertionError("x**0 is made")

    monkeypatch.setattr("scanjit.ops.functions.full", unwanted)
    x = vector()
    assert x**2 is x * x


@pairwise(
    mode=["numba", "emulate"],
    base=[0.9, 0.999999, 1.0000001, 2.5, 1e-30, 1e30, 1.0, 0.0, -2.0, np.inf],
    dtype=["float64", "float32"],
)
def test_powers_of_known_bases(base: float, dtype: str, mode: str) -> None:
    known, exponent = np.dtype(dtype).type(base), T.tensor((None,), dtype, "exponent")
    f = T.function([exponent], T.constant(known) ** exponent, mode=mode)
    special = np.array([0.0, -0.0, 1.0, -1.0, 3.0, np.inf, -np.inf, np.nan, 1e38, -1e38], dtype)
    rtol = 1.5 * np.finfo(dtype).eps
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(f(special), known**special, rtol=rtol)
        steps = np.random.default_rng(0).uniform(-1, 1, 200) * np.log(np.finfo(dtype).max) / np.log(np.float64(known))
    steps = steps[np.isfinite(steps) & (steps != 0)].astype(dtype)
    exact = [float(mp.mpf(float(known)) ** mp.mpf(step)) for step in steps.tolist()]
    np.testing.assert_allclose(f(steps), exact, rtol=rtol)


def test_powers_with_symbolic_exponents() -> None:
    x, e = (m.ravel() for m in np.meshgrid([-2.0, -0.5, 0.0, 0.5, 2.0], [0.0, 1.0, 2.0, 3.0]))

    def both(x: Node, e: Node) -> tuple[Node, Node]:
        first = grad((x**e).sum(), x)
        return first, grad(first.sum(), x)

    first, second = run(both, x, e)
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(first, np.where(e == 0, 0, e * x ** np.where(e == 0, 1, e - 1)), rtol=1e-14)
        expected = np.where(e * (e - 1) == 0, 0, e * (e - 1) * x ** np.where(e * (e - 1) == 0, 1, e - 2))
    np.testing.assert_allclose(second, expected, rtol=1e-14)
    by_exponent = run(lambda x, e: grad((x**e).sum(), e), np.array([0.0, 2.0]), np.array([2.0, 3.0]))
    np.testing.assert_allclose(by_exponent, [0, 8 * np.log(2)])


def test_squares_are_products() -> None:
    x = scalar("x")
    assert x**2 is x * x
    assert np.square(x) is x * x
    assert (vector(dtype="int8") ** 2).dtype == np.int8
    same(run(lambda x: x**2, np.array([3.1], "float32")), np.array([3.1], "float32") ** 2)


def test_integers_have_no_negative_powers() -> None:
    with pytest.raises(errors.ArgumentError, match="negative powers"):
        vector(dtype="int64") ** -1


def test_gradients_of_logaddexp_with_infinities() -> None:
    def gradients(a: Node, b: Node) -> tuple[Node, ...]:
        return tuple(grad(T.logaddexp(a, b).sum(), [a, b]))

    a, b = run(gradients, np.array([-np.inf, 0.0, -np.inf, 1.0]), np.array([0.0, -np.inf, -np.inf, 1.0]))
    np.testing.assert_array_equal(a, [0, 1, 0, 0.5])
    np.testing.assert_array_equal(b, [1, 0, 0, 0.5])


def test_logaddexp_of_equal_numbers_curves() -> None:
    T.check_grad(lambda x, y: T.logaddexp(x, y), [np.array([0.0, -3.0, 2.0])] * 2, order=2)
    T.check_grad(lambda x: T.logcumsumexp(x), [np.zeros(3)], order=2)


def test_where_keeps_nan_of_the_other_branch_out() -> None:
    assert slope(lambda x: T.where(x > 0, T.sqrt(T.where(x > 0, x, 1)), 0), -1.0, 4.0) == [0, 0.25]


def test_stop_and_clip_gradient() -> None:
    assert slope(lambda x: x * stop_gradient(x), 3.0) == [3]
    assert slope(lambda x: 10 * clip_gradient(x, -1, 1) ** 2, 3.0, -3.0, 0.01) == [1, -1, pytest.approx(0.2)]
    with pytest.raises(errors.ArgumentError, match="ordered numbers"):
        clip_gradient(vector(), 1, -1)
    with pytest.raises(errors.ArgumentError, match="bounds of a gradient must be ordered"):
        clip_gradient(vector(), -1, np.nan)


# ---- errors ----------------------------------------------------------------------------------------------------------


def test_errors_name_the_line() -> None:
    with pytest.raises(errors.DtypeError, match=r"neg is not defined for bool[\s\S]*test_elementwise.py"):
        -vector(dtype="bool")
    with pytest.raises(errors.DtypeError, match="sub is not defined for bool"):
        vector(dtype="bool") - vector(dtype="bool")
    with pytest.raises(errors.DtypeError, match="invert is not defined for float64"):
        ~vector()
    with pytest.raises(errors.ShapeError, match="do not broadcast") as caught:
        T.tensor((2, 3)) + T.tensor((2,))
    assert "expected: equal sizes in dimension 1, not 3 and 2\n  at: " in str(caught.value)
    with pytest.raises(errors.ArgumentError, match="truth value"):
        bool(vector() > 0)
    with pytest.raises(errors.DtypeError, match="not supported"):
        vector().astype("uint16")

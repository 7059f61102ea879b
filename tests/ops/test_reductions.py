"""Reductions against NumPy and SciPy, and their derivatives at special points."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import scipy.special

import scanjit as sj
from scanjit import errors
from scanjit.autodiff import grad
from scanjit.ir import Node
from tests.compare import all_close
from tests.fuzz.check import Config
from tests.ops.support import agrees, differences, run, same

AXES = [None, 0, 1, -1, (0, 2), (0, 1, 2), ()]


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", AXES, ids=str)
@pytest.mark.parametrize("name", ["sum", "prod", "max", "min", "mean", "var", "std", "any", "all"])
def test_against_numpy(name: str, axis: Any, keepdims: bool, rng: np.random.Generator) -> None:
    x = rng.normal(size=(2, 3, 4))
    fn, numpy_fn = getattr(sj, name), getattr(np, name)
    agrees(
        lambda x: fn(x, axis=axis, keepdims=keepdims),
        lambda x: numpy_fn(x, axis=axis, keepdims=keepdims),
        x,
        rtol=1e-13,
    )
    agrees(
        lambda x: getattr(x, name)(axis=axis, keepdims=keepdims),
        lambda x: getattr(x, name)(axis=axis, keepdims=keepdims),
        x.astype("float32"),
        rtol=1e-5,
    )


@pytest.mark.parametrize("name", ["sum", "prod", "cumsum", "cumprod", "max", "mean", "std", "any"])
@pytest.mark.parametrize("dtype", ["bool", "int8", "int32", "uint8"])
def test_dtypes_of_accumulators(name: str, dtype: str) -> None:
    x = np.array([1, 0, 1, 1, 1], dtype)
    expected = getattr(np, name)(x)
    if expected.dtype == np.uint64:
        expected = expected.astype("int64")  # there is no uint64 here
    same(run(getattr(sj, name), x), expected)


@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_positions(name: str, rng: np.random.Generator) -> None:
    x = rng.integers(-3, 3, (3, 4, 5)).astype("float64")
    x[1, 2, 3] = x[1, 0, 0] = np.nan
    fn, numpy_fn = getattr(sj, name), getattr(np, name)
    for axis in (None, 0, 1, -1):
        for keepdims in (False, True):
            agrees(
                lambda x, a=axis, k=keepdims: fn(x, a, keepdims=k),
                lambda x, a=axis, k=keepdims: np.asarray(numpy_fn(x, a, keepdims=k)),
                x,
            )
    agrees(lambda x: fn(x), lambda x: numpy_fn(x), np.array([False, True, True]))
    agrees(lambda x: fn(x), lambda x: numpy_fn(x), np.array([3, 255, 0, 255], "uint8"))


@pytest.mark.quick(3)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int8", "bool"])
def test_first_of_the_best(dtype: str) -> None:
    """Positions along rows, which fill some vectors, with several best elements, NaN and infinities in any lane."""
    x, rng = sj.tensor((None, None), dtype, "x"), np.random.default_rng(1)
    outputs = [sj.argmax(x, 1), sj.argmin(x, 1), sj.max(x, 1), sj.argmax(x), sj.argmin(x * 2, 1)]
    fs = [sj.function([x], outputs)]
    for width in (16, 64):
        with Config(width=width).active():
            fs.append(sj.function([x], outputs, mode="emulate"))
    for length in (1, 2, 3, 7, 8, 9, 16, 31, 33):
        value = rng.integers(-4, 4, (12, length)).astype(dtype)
        if value.dtype.kind == "f":
            for row, some in enumerate([(np.nan,), (np.inf, -np.inf), (-np.inf,), (np.nan, np.inf), (np.nan, np.nan)]):
                value[row, rng.integers(0, length, len(some))] = some
            value[5], value[6] = np.nan, np.inf
            value[7:9], value[9, :-1] = -np.inf, -np.inf
        expected = [value.argmax(1), value.argmin(1), value.max(1), value.argmax(), (value * 2).argmin(1)]
        for f in fs:
            np.testing.assert_equal(f(value), expected)


def test_nan_and_infinities() -> None:
    x = np.array([[1.0, np.nan], [np.inf, -np.inf], [-np.inf, -np.inf]])
    for name in ("max", "min", "sum", "prod"):
        agrees(lambda x, n=name: getattr(sj, n)(x, axis=1), lambda x, n=name: getattr(np, n)(x, axis=1), x)
    agrees(lambda x: sj.logsumexp(x, axis=1), lambda x: scipy.special.logsumexp(x, axis=1), x)


@pytest.mark.parametrize("axis", [0, 1, -1, None, (0, 1)], ids=str)
def test_softmax_and_logsumexp(axis: Any, rng: np.random.Generator) -> None:
    x = rng.normal(size=(3, 4)) * 300
    agrees(lambda x: sj.logsumexp(x, axis), lambda x: scipy.special.logsumexp(x, axis), x, rtol=1e-13)
    agrees(
        lambda x: sj.logsumexp(x, axis, keepdims=True),
        lambda x: scipy.special.logsumexp(x, axis, keepdims=True),
        x,
        rtol=1e-13,
    )
    agrees(lambda x: sj.softmax(x, axis), lambda x: scipy.special.softmax(x, axis), x, rtol=1e-13)
    agrees(lambda x: sj.log_softmax(x, axis), lambda x: scipy.special.log_softmax(x, axis), x, rtol=1e-13)
    slope = run(lambda x: grad(sj.logsumexp(x), x), x)
    np.testing.assert_allclose(slope, scipy.special.softmax(x), rtol=1e-12, atol=1e-300)


@pytest.mark.parametrize("dtype", ["int64", "int8", "uint8"])
def test_softmax_of_integers_is_that_of_floats(dtype: str) -> None:
    """However far apart they are. (SciPy subtracts integers: of uint8, 0 - 200 is 56 there, and a result NaN.)"""
    limits = np.iinfo(dtype)
    x = np.array([limits.min, limits.max, 0, limits.max], dtype)
    with np.errstate(divide="ignore"):
        for ours, theirs in ((sj.softmax, scipy.special.softmax), (sj.log_softmax, scipy.special.log_softmax)):
            agrees(ours, lambda x, f=theirs: f(x.astype(float)), x)


def test_derivatives_of_logsumexp_with_infinities() -> None:
    def derivatives(x: Node) -> list[Node]:
        first = grad(sj.logsumexp(x, axis=1)[0], x)
        return [first, grad((first * np.arange(2.0)).sum(), x)]

    infinity = np.inf
    for row, expected in (([-infinity, -infinity], [0, 0]), ([-infinity, 0], [0, 1]), ([1000, -infinity], [1, 0])):
        first, second = run(derivatives, np.array([row], float))
        np.testing.assert_array_equal(first, [expected])
        np.testing.assert_array_equal(second, [[0, 0]])


@pytest.mark.parametrize("ord", [None, 1, 2, 3, 0, np.inf, -np.inf, 2.5])
def test_norms_of_vectors(ord: Any, rng: np.random.Generator) -> None:
    x = rng.normal(size=(3, 4))
    agrees(lambda x: sj.norm(x, ord, axis=1), lambda x: np.linalg.norm(x, ord, axis=1), x, rtol=1e-13)
    agrees(lambda x: np.linalg.norm(x[0], ord), lambda x: np.linalg.norm(x[0], ord), x, rtol=1e-13)


@pytest.mark.parametrize("p", [2, 3, 4.5])
def test_derivatives_of_roots_of_zero(p: float) -> None:
    """Second derivatives, too."""
    costs = [lambda x: sj.norm(x, p, axis=0), lambda x: sj.std(x + 2), lambda x: sj.nanstd(sj.append(x, np.nan))]
    for cost in costs:
        first, second = run(lambda x, cost=cost: [grad(cost(x), x), grad(grad(cost(x), x)[0], x)], np.zeros(3))
        np.testing.assert_array_equal([first, second], np.zeros((2, 3)))
    same(run(lambda x: grad(sj.norm(x, 1.5), x), np.zeros(3)), np.zeros(3))


def test_norm_of_everything(rng: np.random.Generator) -> None:
    x = rng.normal(size=(3, 4))
    agrees(sj.norm, np.linalg.norm, x, rtol=1e-14)
    with pytest.raises(errors.ArgumentError, match="ord of a norm of vectors is unknown"):
        sj.norm(sj.vector(), "nuc")


def test_variance_with_fewer_degrees_of_freedom(rng: np.random.Generator) -> None:
    x = rng.normal(size=(3, 4))
    agrees(lambda x: sj.var(x, 0, ddof=1), lambda x: np.var(x, 0, ddof=1), x, rtol=1e-14)
    agrees(lambda x: x.std(ddof=1), lambda x: x.std(ddof=1), x, rtol=1e-14)


@pytest.mark.filterwarnings("ignore:Degrees of freedom", "ignore:invalid value", "ignore:divide by zero")
@pytest.mark.parametrize("shape", [(3, 4), ("N", "M")])
def test_more_degrees_of_freedom_than_elements(shape: tuple[int | str, ...], rng: np.random.Generator) -> None:
    """Nothing is left to divide by: it is no negative number."""
    x, value = sj.tensor(shape, name="x"), rng.normal(size=(3, 4))
    value[:, 1] = 2.0
    for ddof in (3, 4, 2.5):
        f = sj.function([x], [sj.var(x, 0, ddof=ddof), sj.std(x, 0, ddof=ddof, keepdims=True)], mode="reference")
        wanted = np.var(value, 0, ddof=ddof), np.std(value, 0, ddof=ddof, keepdims=True)
        all_close(f(value), wanted, rtol=1e-13)


# ---- derivatives -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("zeros", [0, 1, 2, 3])
def test_products_with_zeros(zeros: int) -> None:
    x = np.array([[2.0, 3.0, -1.5, 0.5], [1.0, -2.0, 0.7, 4.0]])
    x[0, :zeros] = 0
    others = np.array([[np.prod(np.delete(row, i)) for i in range(4)] for row in x])
    got = run(lambda x: grad(sj.prod(x, axis=1).sum(), x), x)
    np.testing.assert_allclose(got, others, rtol=1e-14)

    def second(x: Node) -> Node:
        first = grad(sj.prod(x, axis=1).sum(), x)
        return grad((first * np.array([1.0, 2.0, 3.0, 4.0])).sum(), x)

    expected = np.array(
        [[sum((j + 1) * np.prod(np.delete(row, [i, j])) for j in range(4) if j != i) for i in range(4)] for row in x]
    )
    np.testing.assert_allclose(run(second, x), expected, rtol=1e-14)
    np.testing.assert_allclose(run(lambda x: grad(x.prod(), x), x), differences(np.prod, [x], 0), rtol=1e-6, atol=1e-8)


def test_equal_extremes_share_the_gradient() -> None:
    x = np.array([[1.0, 3.0, 3.0], [2.0, 2.0, 2.0]])
    same(run(lambda x: grad(x.max(axis=1).sum(), x), x), np.array([[0, 0.5, 0.5], [1 / 3] * 3]))
    same(run(lambda x: grad(x.min(), x), x), np.array([[1.0, 0, 0], [0, 0, 0]]))


def test_gradient_of_the_mean_of_an_unknown_number() -> None:
    same(run(lambda x: grad(x.mean(), x), np.ones((2, 2)), symbolic=True), np.full((2, 2), 0.25))


@pytest.mark.parametrize("size", [4, 8, 9])
def test_a_step_looks_for_a_position_among_few_elements_one_by_one(size: int) -> None:
    def step(x, free):
        k = sj.argmin(free)
        return free[k].set(free[k] + x), k

    x, start = sj.tensor(("T",), "float64", "x"), sj.tensor((size,), "float64", "start")
    places = sj.scan(step, x, [start, None])[1]
    f, reference = (sj.function([x, start], places, mode=mode) for mode in ("numba", "reference"))
    given = np.random.default_rng(0).integers(1, 9, 50).astype("float64"), np.zeros(size)
    np.testing.assert_array_equal(f(*given), reference(*given))
    assert ("lane_bits" in f.source) == (size > 8)


# ---- errors ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["max", "min", "argmax", "argmin"])
def test_nothing_has_no_extreme(name: str) -> None:
    fn = getattr(sj, name)
    with pytest.raises(errors.ShapeError, match=f"{name} needs at least 1 element along axis 1, not 0"):
        fn(sj.tensor((2, 0)), axis=1)
    with pytest.raises(errors.ScanjitError, match=f"{name} needs at least 1 element along axis 0, not 0"):
        run(lambda x: fn(x, axis=0), np.zeros((0, 2)), symbolic=True)
    assert run(lambda x: fn(x, axis=0), np.zeros((2, 0)), symbolic=True).shape == (0,)


def test_axes_must_exist() -> None:
    with pytest.raises(errors.ShapeError, match="axis 2 is out of bounds for a tensor of 2 dimensions"):
        sj.sum(sj.matrix(), axis=2)
    with pytest.raises(errors.ArgumentError, match="given twice"):
        sj.sum(sj.matrix(), axis=(0, -2))
    with pytest.raises(errors.ArgumentError, match="must be an integer"):
        sj.sum(sj.matrix(), axis=1.0)


@pytest.mark.parametrize("mode", ["numba", "emulate"])
@pytest.mark.parametrize("dtype", ["float64", "float32", "int32"])
def test_extremes_of_rows_of_all_lengths(dtype: str, mode: Any, rng: np.random.Generator) -> None:
    """One vector at a time, and several side by side. NaN may be anywhere."""
    x, known = sj.tensor((None, None), dtype), sj.tensor((2, 300), dtype)
    functions: list[Any] = [lambda l, x: l.max(x, -1), lambda l, x: l.min(x, -1), lambda l, x: l.max(x) - l.min(x)]
    functions += [lambda l, x: l.nanmax(x, -1), lambda l, x: l.argmax(x, -1), lambda l, x: l.any(x > 2, -1)]
    f = sj.function([x, known], [function(sj, of) for of in (x, known) for function in functions], mode=mode)
    for n in (1, 7, 8, 33, 64, 65, 127, 128, 129, 200, 321):
        given = [rng.integers(-99, 99, shape).astype(dtype) for shape in ((6, n), (2, 300))]
        if dtype[0] == "f":
            for each in given:
                each[range(2), rng.integers(0, each.shape[1], 2)] = np.nan, -np.inf
                each[-1, -1] = np.nan
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of rows that are all NaN
            wanted = [function(np, of) for of in given for function in functions]
        np.testing.assert_equal(f(*given), wanted)


@pytest.mark.parametrize("mode", ["numba", "emulate"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_sums_of_all_lengths(dtype: str, mode: Any, rng: np.random.Generator) -> None:
    """One vector at a time, and several side by side: along rows, and down the columns of narrow arrays."""
    x, known = sj.tensor((None, None), dtype), sj.tensor((2, 300), dtype)
    functions: list[Any] = [
        lambda x: x.sum(-1),
        lambda x: x.sum(0),
        lambda x: (1 + x / 99).prod(-1),
        lambda x: x.var(0),
    ]
    functions += [lambda x: (1 + x / 99).prod(0), lambda x: x.mean(-1) + x.max(-1), lambda x: x.max(0) - x.min(0)]
    f = sj.function([x, known], [function(of) for of in (x, known) for function in functions], mode=mode)
    for shape in ((6, 1), (7, 3), (8, 4), (9, 33), (40, 17), (31, 200), (3, 321)):
        given = [rng.normal(size=each).astype(dtype) for each in (shape, (2, 300))]
        wanted = [function(of.astype("float64")) for of in given for function in functions]
        all_close(f(*given), wanted, rtol=2e-5 if dtype == "float32" else 1e-12, atol=1e-5)


def test_terms_down_narrow_columns_are_added_side_by_side() -> None:
    """Every fourth term is added to one sum: the large numbers are gone before they meet the small one."""
    x = sj.tensor((None, None), "float64")
    given = np.zeros((8, 3))
    given[:3] = [[1e16], [1], [-1e16]]
    np.testing.assert_array_equal(sj.function([x], x.sum(0))(given), np.ones(3))


def test_sums_of_few_numbers_take_the_memory_of_one_thread() -> None:
    x = sj.tensor(("a", "b"), "float64")
    assert sj.function([x], x.sum(0)).memory(a=4, b=4).workspace < 2**14


def test_a_reduction_that_another_one_needs_is_computed_once() -> None:
    x = sj.tensor((None, None), "float32")
    assert sj.function([x], sj.logsumexp(x, -1)).source.count(" = reduce_max(") == 1
    assert sj.function([x], x.var(-1)).source.count(" = reduce_add(") == 2

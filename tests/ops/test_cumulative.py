"""Running reductions beside NumPy, and their derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import scanjit as sj
from tests.ops.support import agrees, run, same

IN_NUMPY = {
    "cummax": np.maximum.accumulate,
    "cummin": np.minimum.accumulate,
    "cumprod": np.cumprod,
    "cumsum": np.cumsum,
    "logcumsumexp": np.logaddexp.accumulate,
    "nancumprod": np.nancumprod,
    "nancumsum": np.nancumsum,
}


@pytest.mark.quick(21)
@pytest.mark.parametrize("with_nan", [False, True])
@pytest.mark.parametrize("name", IN_NUMPY)
@pytest.mark.parametrize("shape", [(5,), (2, 3), (2, 300), (2, 3, 2), (0, 2), (2, 0)])
def test_beside_numpy(name: str, shape: tuple[int, ...], with_nan: bool, rng: np.random.Generator) -> None:
    x, fn, numpy_fn = rng.normal(size=shape), getattr(sj, name), IN_NUMPY[name]
    if with_nan and x.size > 3:
        x.flat[[1, -2]] = np.nan, -np.inf
    for axis in range(-1, len(shape)):
        agrees(lambda x, a=axis: fn(x, axis=a), lambda x, a=axis: numpy_fn(x, axis=a), x, rtol=1e-13)
    agrees(fn, lambda x: numpy_fn(x.ravel()), x, rtol=1e-13)


@pytest.mark.parametrize("dtype", ["float32", "int8", "uint8", "int64", "bool"])
def test_dtypes(dtype: str) -> None:
    x = np.array([1, 0, 2, 1, 1]).astype(dtype)
    for name in ("cummax", "cummin"):
        agrees(getattr(sj, name), IN_NUMPY[name], x)
    same(run(sj.logcumsumexp, x.astype("float32")), np.logaddexp.accumulate(x.astype("float32")), 1e-6)
    assert run(sj.nancumsum, x).dtype == (np.float32 if dtype == "float32" else np.int64)


@pytest.mark.parametrize("mode", ["reference", "emulate", "numba"])
def test_sums_keep_the_sign_of_zero(mode: Any) -> None:
    """As NumPy's: they begin with the first element, not with 0."""
    for dtype in ("float32", "float64", "complex128"):
        z = sj.tensor((None, None), dtype, "z")
        f = sj.function([z], [sj.cumsum(z, 0), sj.cumsum(z, 1), sj.nancumsum(z, 0)], mode=mode)
        given = -np.zeros((3, 5), dtype)
        given[1, 2], given[2, 3] = 0, 1
        for found, wanted in zip(f(given), [given.cumsum(0), given.cumsum(1), np.nancumsum(given, 0)], strict=True):
            np.testing.assert_array_equal(found, wanted)
            np.testing.assert_array_equal(np.signbit(found.real), np.signbit(wanted.real))
            np.testing.assert_array_equal(np.signbit(found.imag), np.signbit(wanted.imag))


UFUNCS = (np.add, np.multiply, np.maximum, np.minimum, np.logaddexp, np.subtract, np.divide, np.hypot, np.power)


@pytest.mark.parametrize("ufunc", UFUNCS, ids=str)
def test_accumulate_of_ufuncs(ufunc: Any, rng: np.random.Generator) -> None:
    for shape in ((5,), (2, 3), (3, 1), (1, 2), (0, 2), (2, 0)):
        x = rng.uniform(0.5, 2, shape)
        for axis in range(-1, len(shape)):
            agrees(lambda x, a=axis: ufunc.accumulate(x, a), lambda x, a=axis: ufunc.accumulate(x, a), x, rtol=1e-13)
    agrees(lambda x: ufunc.accumulate(x, dtype="float64"), lambda x: ufunc.accumulate(x, dtype="float64"), x)


def test_derivatives(rng: np.random.Generator) -> None:
    x = rng.normal(size=(3, 4))
    weights = np.cos(np.arange(12.0)).reshape(3, 4)
    for fn in (sj.cumsum, sj.cumprod, sj.cummax, sj.cummin, sj.logcumsumexp, sj.nancumsum):
        sj.check_grad(lambda x, fn=fn: fn(x, axis=1) * weights, [x])
    sj.check_grad(lambda x: np.hypot.accumulate(x) * weights, [x])


def test_no_gradient_where_nothing_has_a_weight() -> None:
    x = sj.vector("x")
    f = sj.function([x], sj.grad(sj.logcumsumexp(x)[-1], x), mode="reference")
    assert f([-np.inf, -np.inf]).tolist() == [0, 0]
    assert f([-np.inf, 3.0]).tolist() == [0, 1]


def test_compiled(rng: np.random.Generator) -> None:
    x = sj.tensor(("a", "b"), name="x")
    outputs = [fn(x, axis) for fn in (sj.cummin, sj.logcumsumexp, sj.nancumsum) for axis in (0, 1)]
    outputs += [np.subtract.accumulate(x, 1), *(sj.grad((y**2).sum(), x) for y in outputs[:4])]
    given = rng.normal(size=(3, 300))
    right = sj.function([x], outputs, mode="reference")(given)
    for got, wanted in zip(sj.function([x], outputs)(given), right, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-10, atol=1e-12)


def test_errors() -> None:
    x = sj.vector("x")
    with pytest.raises(sj.NotSupportedError, match="does not take out"):
        np.add.accumulate(x, out=x)
    for wrong, words in ((None, "function of accumulate is not a function"), (lambda a, b: a > b, "of one type")):
        with pytest.raises(sj.ScanjitError, match=words):
            sj.accumulate(wrong, x)  # type: ignore[arg-type]
    for result in (3, None):
        with pytest.raises(sj.ScanjitError):
            sj.accumulate(lambda a, b, result=result: result, x)  # type: ignore[misc]


def test_accumulate_of_a_function_that_returns_a_number() -> None:
    x = sj.vector("x")
    f = sj.function([x], sj.accumulate(lambda a, b: 3.0, x), mode="reference")  # type: ignore[arg-type, return-value]
    np.testing.assert_array_equal(f([1.0, 2.0, 4.0]), [1, 3, 3])

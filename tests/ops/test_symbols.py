"""Symbols: how they are made, and that they behave like arrays, under NumPy's own functions too."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import scanjit as sj
from scanjit import errors
from scanjit.config import config
from scanjit.ir import Node, constant
from scanjit.runtime.reference import evaluate
from tests.ops.support import agrees, run, same


def test_shapes_of_symbols() -> None:
    x, y = sj.tensor(("T", "B", 3), name="x"), sj.tensor(("T", None))
    assert x.type.shape[0] == y.type.shape[0]
    assert y.type.shape[1] != sj.tensor((None,)).type.shape[0]
    assert repr(x) == "<x: float64(T, B, 3)>"
    assert sj.tensor("T").ndim == sj.tensor(5).ndim == 1
    assert sj.tensor(()).ndim == 0
    assert x.shape[2] == 3 and x.ndim == 3
    assert sj.tensor((2, 3)).shape == (2, 3) and sj.tensor((2, 3)).size == 6
    sizes = evaluate([x.shape[0], x.size], {x: np.zeros((5, 2, 3))})
    assert sizes == [5, 30]


@pytest.mark.parametrize(
    ("prefix", "dtype"),
    [
        ("", "float64"),
        ("b", "int8"),
        ("w", "int16"),
        ("i", "int32"),
        ("l", "int64"),
        ("f", "float32"),
        ("d", "float64"),
    ],
)
def test_short_forms(prefix: str, dtype: str) -> None:
    for ndim, kind in enumerate(("scalar", "vector", "matrix", "tensor3", "tensor4")):
        x = getattr(sj, prefix + kind)("v")
        assert (x.ndim, str(x.dtype), x.name) == (ndim, dtype, "v")
        assert getattr(sj, prefix + kind)(dtype="int8").dtype == np.int8
        assert getattr(sj, prefix + kind).__name__ == prefix + kind


def test_default_dtype() -> None:
    config.floatX = "float32"
    assert sj.matrix().dtype == sj.zeros(3).dtype == sj.eye(2).dtype == np.float32
    for name, value in (("floatX", "int8"), ("floatX", 64), ("floaty", "float32")):
        with pytest.raises(errors.ArgumentError):
            setattr(config, name, value)


SIZED: list[Callable[[Any], Any]] = [
    lambda x: x.sum(0) / x.shape[0],
    lambda x: x * x.shape[1] ** -0.5,
    lambda x: x @ x.T / ((x.shape[1] - 1) / 2 + abs(-x.shape[0])),
    lambda x: np.maximum(x, x.size // 2 + 1),
    lambda x: np.where(x > 0, x, x.shape[0] - 1),
    lambda x: np.exp(x) + (x.shape[0] > 1),
]


@pytest.mark.quick(5)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("f", SIZED)
def test_sizes_are_weak_among_floats(f: Callable[[Any], Any], dtype: str) -> None:
    """A result has the same dtype whether a size is known or not: NumPy's."""
    given = np.arange(6.0).reshape(2, 3).astype(dtype)
    wanted = f(given)
    for shape in ((2, 3), ("n", "m"), (None, 3)):
        x = sj.tensor(shape, dtype)
        y = f(x)
        assert y.dtype == wanted.dtype
        np.testing.assert_allclose(sj.function([x], y)(given), wanted, rtol=2e-3 if dtype == "float16" else 1e-6)


def test_what_is_not_weak() -> None:
    """Sizes among integers, whose values may not fit; arguments, constants, results of functions, what is cast."""
    x, n = sj.tensor((None,), "float32"), sj.iscalar("n")
    size = x.shape[0]
    assert (sj.tensor((None,), "int8") * size).dtype == np.int64
    assert (size * 2).dtype == np.int64 and (size / 2).dtype == np.float64
    cast = sj.cast(size, "float64"), (size + 1).astype("float64", copy=False)
    others = (n, n + size, sj.constant(2.0), sj.arange(size).sum(), sj.log(size), sj.maximum(size, 1), *cast)
    assert all((x * y).dtype == np.float64 for y in others)
    assert (sj.tensor((None,), "complex64") * (size + 1)).dtype == np.complex64
    assert (sj.tensor((), "float64") * sj.cast(size, "float32")).dtype == np.float64
    assert (sj.tensor((), "float16") * sj.cast(size, "float32")).dtype == np.float32


def test_long_formulas_of_constants_are_not_walked_through_in_every_step() -> None:
    h = sj.constant(1.0)
    for _ in range(2000):
        h = h * h - h + sj.constant(0.5)
    assert h.dtype == np.float64


def test_what_a_symbol_cannot_be() -> None:
    for shape in (-1, 2.5, (2, b"T"), True):
        with pytest.raises(errors.ArgumentError, match="a size of a symbol"):
            sj.tensor(shape)
    x: Any = sj.vector("x")
    five: Any = 5
    for make in (
        lambda: sj.tensor(3, name=five),
        lambda: sj.shared(1.0, name=five),
        lambda: sj.function([x], x, name=five),
        lambda: sj.map(lambda row: row, x, name=five),
    ):
        with pytest.raises(errors.ArgumentError, match="a name must be a string"):
            make()
    with pytest.raises(errors.DtypeError, match="not supported"):
        sj.tensor(3, "uint16")
    with pytest.raises(errors.ArgumentError, match="neither a symbol nor"):
        sj.as_tensor(object())
    with pytest.raises(errors.ArgumentError, match="value of a symbol is not known"):
        sj.constant(sj.scalar())


def test_constants_and_lists() -> None:
    x = sj.scalar()
    same(evaluate([sj.constant([1, 2], "float32")], {})[0], np.array([1, 2], "float32"))
    same(run(lambda x: sj.as_tensor([[x, 1], [2, x]]), np.array(5.0)), np.array([[5.0, 1], [2, 5]]))
    assert sj.as_tensor(x) is x
    assert sj.as_tensor(x, "int8").dtype == np.int8


def test_a_constant_is_made_of_a_number_once(monkeypatch: pytest.MonkeyPatch) -> None:
    first = constant(2.5, "float32")
    numbers = [True, 1, 1.0, 2.5, 0.0, -0.0]
    others = [constant(number) for number in numbers]
    assert len({id(node) for node in [first, *others]}) == 7
    for number, node in zip(numbers, others, strict=True):
        same(evaluate([node], {})[0], np.asarray(number))
    assert np.signbit(evaluate([others[-1]], {})[0])

    def unwanted(*_: object, **__: object) -> None:
        raise AssertionError("made again")

    monkeypatch.setattr(np, "asarray", unwanted)
    assert constant(2.5, "float32") is first


# ---- NumPy on symbols ------------------------------------------------------------------------------------------------

UFUNCS = (
    "absolute add arccos arcsin arctan arctan2 bitwise_and bitwise_or bitwise_xor cbrt ceil cos cosh divide equal exp "
    "exp2 expm1 fabs floor floor_divide greater greater_equal invert isfinite isinf isnan less less_equal log log10 "
    "log1p log2 logaddexp logical_and logical_not logical_or logical_xor matmul maximum minimum mod multiply negative "
    "not_equal positive power reciprocal remainder rint sign sin sinh sqrt square subtract tan tanh true_divide trunc"
).split()


@pytest.mark.parametrize("name", UFUNCS)
def test_ufuncs(name: str) -> None:
    ufunc = getattr(np, name)
    dtype = "bool" if name.startswith("bitwise") or name == "invert" else "float64"
    x = np.array([[0.3, 0.9], [0.5, 0.1]]).astype(dtype)
    agrees(ufunc, ufunc, *[x] * ufunc.nin, rtol=1e-15)


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: np.sum(x, axis=0, keepdims=True),
        lambda x: np.mean(x),
        lambda x: np.max(x, axis=1),
        lambda x: np.argmax(x, axis=1),
        lambda x: np.where(x > 0.4, x, 0),
        lambda x: np.concatenate([x, np.zeros((1, 2))], axis=0),
        lambda x: np.stack([x, x]),
        lambda x: np.clip(x, 0.2, 0.4),
        lambda x: np.round(x, 1),
        lambda x: np.dot(x, x),
        lambda x: np.outer(x, x),
        lambda x: np.cumsum(x, axis=1),
        lambda x: np.take(x, [1, 0, 1], axis=1),
        lambda x: np.pad(x, 1),
        lambda x: np.var(x, axis=0, ddof=1),
        lambda x: np.linalg.norm(x),
        lambda x: np.diag(x),
        lambda x: np.squeeze(x[:1]),
        lambda x: np.zeros_like(x),
        lambda x: np.any(x > 0.5),
        lambda x: np.expand_dims(x, 0),
        lambda x: np.tril(x),
        lambda x: np.ones((2, 2)) @ x,
        lambda x: np.ones(2) * x + np.float64(2) - x / np.ones((2, 2)),
        lambda x: 2 - x + 1 / x + 2**x + 7 // (x + 1) + 7 % (x + 1),
        lambda x: -abs(+x) * (x < 0.5) + (x >= 0.5) * (x != 0.9),
        lambda x: (x > 0.2) & ~(x > 0.6) | (x == 0.9) ^ (x <= 0.1),
        lambda x: divmod(x, 0.2)[0] + divmod(x, 0.2)[1],
        lambda x: sum(x) + max(len(x), 1),
        lambda x: x.mean(0) + x.std(0) + x.var(axis=0) + x.min(0) + x.max(0) + x.prod(0) + x.sum(axis=0),
        lambda x: x.T.astype("float32").ravel().reshape(2, 2)[0],
        lambda x: x.cumsum(0) + x.cumprod(1) + x.repeat(2, 0)[:2] + x.squeeze() + x.swapaxes(0, 1) + x.copy(),
        lambda x: x.argmax(1) + x.argmin(0) + x.all() + x.any(0) + x.trace() + x.diagonal(),
    ],
)
def test_functions_and_methods(fn: Any) -> None:
    x = np.array([[0.3, 0.9], [0.5, 0.1]])
    expected = np.asarray(fn(x))
    same(run(fn, x), expected, rtol=1e-14)


def test_numpy_arrays_give_way() -> None:
    x = sj.vector("x")
    for y in (
        np.ones(3) + x,
        np.float64(2) * x,
        np.ones(3) < x,
        np.ones((3, 3)) @ x,
        np.array(2) ** x,
        [1.0, 2, 3] * x,
    ):
        assert isinstance(y, Node)
    assert (np.ones(3, "float32") * sj.fvector()).dtype == np.float32
    assert (np.float32(2) * sj.fvector()).dtype == np.float32


def test_what_numpy_cannot_do_with_symbols() -> None:
    x = sj.vector("x")
    for fn in (
        lambda: np.linalg.eig(sj.matrix()),
        lambda: np.hypot.reduce(x),
        lambda: np.add.reduce(x, initial=1.0),
        lambda: np.take(x, [0], 0, None, "clip"),
        lambda: np.std(x, 0, np.float32),
        lambda: np.interp(x, x, x, period=3),
        lambda: np.nextafter(x, x),
        lambda: np.lexsort((x, x)),
        lambda: np.sum(x, where=x > 0),
        lambda: np.exp(x, out=np.zeros(3)),
    ):
        with pytest.raises(errors.NotSupportedError):
            fn()


def test_symbols_have_no_values() -> None:
    x = sj.scalar("x")
    for convert in (float, int, complex, np.asarray, np.array, lambda x: [1, 2][x], lambda x: range(x)):
        with pytest.raises(errors.ArgumentError, match="no value while a function is built"):
            convert(x)  # type: ignore[operator]
    with pytest.raises(errors.ArgumentError, match=r"no value while(.|\n)*np\.exp\(x\) for math\.exp"):
        math.exp(x)
    with pytest.raises(errors.ArgumentError, match="truth value"):
        bool(x)
    with pytest.raises(errors.ArgumentError, match=r"sj\.print_"):
        f"{x:.3f}"
    assert f"{x}" == str(x)
    with pytest.raises(errors.ArgumentError, match="contains something"):
        assert 1 in sj.vector()


def test_iteration_needs_a_known_length() -> None:
    a, b = sj.tensor((2, 3))
    assert a.type.shape == b.type.shape == (3,)
    assert len(sj.tensor((2, 3))) == 2
    for fn in (list, len):
        with pytest.raises(errors.ArgumentError, match=r"length[\s\S]*to do"):
            fn(sj.vector())
        with pytest.raises(errors.ArgumentError, match="a scalar"):
            fn(sj.scalar())


def test_every_public_function_is_documented() -> None:
    from scanjit.tensor.protocol import FUNCTIONS

    for name, function in FUNCTIONS.items():
        assert function.__doc__ and len(function.__doc__) > 5, name

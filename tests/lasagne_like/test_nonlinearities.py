"""Nonlinearities against their formulas, with values far from zero and both dtypes."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import scanjit as sj
from lasagne_like import layers, nonlinearities as n


def powers(x: np.ndarray) -> np.ndarray:
    return np.exp(x - x.max(-1, keepdims=True))


FORMULAS: list[tuple[Callable[..., Any], Callable[[np.ndarray], np.ndarray]]] = [
    (n.sigmoid, lambda x: np.exp(-np.logaddexp(0, -x))),
    (n.softmax, lambda x: powers(x) / powers(x).sum(-1, keepdims=True)),
    (n.tanh, np.tanh),
    (n.ScaledTanH(0.5, 2.27), lambda x: 2.27 * np.tanh(0.5 * x)),
    (n.rectify, lambda x: np.maximum(x, 0)),
    (n.leaky_rectify, lambda x: np.where(x > 0, x, 0.01 * x)),
    (n.very_leaky_rectify, lambda x: np.where(x > 0, x, x / 3)),
    (n.LeakyRectify(0), lambda x: np.maximum(x, 0)),
    (n.elu, lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0)))),
    (n.SELU(2, 3), lambda x: 2 * np.where(x > 0, x, 3 * np.expm1(np.minimum(x, 0)))),
    (n.selu, lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(np.minimum(x, 0)))),
    (n.softplus, lambda x: np.maximum(x, 0) + np.log1p(np.exp(-abs(x)))),
    (n.linear, lambda x: x),
]  # fmt: skip


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("function, formula", FORMULAS, ids=lambda f: getattr(f, "__name__", type(f).__name__))
def test_value_and_slope(function: Any, formula: Any, dtype: str) -> None:
    x = sj.tensor((None, 5), dtype)
    values = np.array([[-2.0, -0.5, 0.1, 0.7, 3.0], [-800.0, -20.0, 1.0, 20.0, 700.0]]).astype(dtype)
    result, slope = sj.function([x], [function(x), sj.grad(sj.sum(function(x) * x), x)], mode="reference")(values)
    assert result.dtype == dtype
    rtol = 1e-12 if dtype == "float64" else 1e-5
    np.testing.assert_allclose(result, formula(values.astype("float64")), rtol=rtol, atol=1e-30)
    assert np.isfinite(slope).all()
    if dtype == "float64":
        step, small = 1e-6, values[0]
        for i in range(5):
            moved = [formula(s) * s for s in (small + step * np.eye(5)[i], small - step * np.eye(5)[i])]
            assert abs(slope[0, i] - (moved[0].sum() - moved[1].sum()) / (2 * step)) < 1e-6


@pytest.mark.parametrize("function", [f for f, _ in FORMULAS])
def test_an_array_gives_an_array(function: Any) -> None:
    x = np.float32([[-1.0, 0.0], [2.0, -0.5]])
    found = function(x)
    assert isinstance(found, np.ndarray) and found.dtype == np.float32
    expected = sj.function([], function(sj.constant(x)), mode="reference")()
    np.testing.assert_array_equal(found, expected)


def test_aliases() -> None:
    assert n.identity is n.linear and n.ScaledTanh is n.ScaledTanH
    x = sj.vector()
    assert n.identity(x) is x


def test_softmax_is_over_the_last_axis_of_any_rank() -> None:
    x = np.random.default_rng(0).normal(size=(2, 3, 4))
    result = sj.function([], n.softmax(x), mode="reference")()
    np.testing.assert_allclose(result.sum(-1), np.ones((2, 3)))


def test_numbers_of_numpy_do_not_change_the_dtype() -> None:
    x, half = sj.vector(dtype="float32"), np.float64(0.5)
    for function in (n.ScaledTanH(half, half), n.LeakyRectify(half), n.SELU(half, half)):
        assert function(x).dtype == np.float32


@pytest.mark.parametrize(
    "make",
    [
        lambda name: layers.DenseLayer((2, 3), 4, nonlinearity=name),
        lambda name: layers.LSTMLayer((2, 5, 3), 4, nonlinearity=name),
        lambda name: layers.GRULayer((2, 5, 3), 4, resetgate=layers.Gate(nonlinearity=name)),
        lambda name: layers.RecurrentLayer((2, 5, 3), 4, nonlinearity=name),
        lambda name: layers.Conv1DLayer((2, 5, 3), 4, 3, nonlinearity=name),
        lambda name: layers.NonlinearityLayer((2, 5, 3), name),
    ],
)
def test_a_name_is_no_nonlinearity(make: Callable[[str], Any]) -> None:
    with pytest.raises(TypeError, match=r"a nonlinearity must be a function, such as .*tanh, or None; got 'tanh'"):
        make("tanh")

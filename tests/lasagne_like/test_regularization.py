"""Penalties: of tensors, layers and networks."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import scanjit as sj
from lasagne_like import regularization as r
from lasagne_like.layers import DenseLayer, InputLayer

rng = np.random.default_rng(1)


def network() -> tuple[DenseLayer, DenseLayer]:
    first = DenseLayer(InputLayer((None, 3)), 4, b=rng.normal(size=4))
    return first, DenseLayer(first, 2, b=rng.normal(size=2))


def squares(*params: Any) -> float:
    return sum(float((p.get_value() ** 2).sum()) for p in params)


def test_penalties_of_tensors(run: Callable[..., Any]) -> None:
    x = rng.normal(size=(3, 4))
    np.testing.assert_allclose(run(r.l1(x)), abs(x).sum())
    np.testing.assert_allclose(run(r.l2(x)), (x**2).sum())
    matrix = sj.constant(x)
    largest = run(r.apply_penalty(matrix, sj.max))
    assert largest == x.max()  # of the whole matrix, not summed over its rows
    np.testing.assert_allclose(run(r.apply_penalty([matrix, matrix], r.l2)), 2 * (x**2).sum())
    assert r.apply_penalty([], r.l2) == 0
    scaled = r.apply_penalty((v for v in [matrix]), lambda v, factor: factor * r.l1(v), factor=3)
    np.testing.assert_allclose(run(scaled), 3 * abs(x).sum())


def test_penalties_of_layers(run: Callable[..., Any]) -> None:
    first, second = network()
    np.testing.assert_allclose(run(r.regularize_layer_params(first, r.l2)), squares(first.W))
    both = r.regularize_layer_params([first, second], r.l2)
    np.testing.assert_allclose(run(both), squares(first.W, second.W))
    biases = r.regularize_layer_params(first, r.l2, tags={"regularizable": False})
    np.testing.assert_allclose(run(biases), squares(first.b))
    weighted = r.regularize_layer_params_weighted({first: 0.5, second: 2}, r.l2)
    np.testing.assert_allclose(run(weighted), 0.5 * squares(first.W) + 2 * squares(second.W))
    np.testing.assert_allclose(run(r.regularize_network_params(second, r.l2)), squares(first.W, second.W))
    everything = r.regularize_network_params(second, r.l2, tags={})
    np.testing.assert_allclose(run(everything), squares(first.W, first.b, second.W, second.b))


def test_a_penalty_has_a_gradient(run: Callable[..., Any]) -> None:
    _, layer = network()
    gradient = sj.grad(r.regularize_network_params(layer, r.l2), layer.W)
    np.testing.assert_allclose(run(gradient), 2 * layer.W.get_value())


def test_what_penalties_refuse() -> None:
    first, _ = network()
    with pytest.raises(TypeError, match="penalty must be a function of a tensor, such as l2, got 'l2'"):
        r.regularize_layer_params(first, "l2")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="layers must be a dict from layers to weights"):
        r.regularize_layer_params_weighted([first], r.l2)  # type: ignore[arg-type]


def test_weights_do_not_change_the_dtype() -> None:
    layer = DenseLayer((None, 3), 2, W=np.ones((3, 2), "float32"))
    for weight in (np.float64(0.5), sj.shared(0.5), 0.5):
        penalty = r.regularize_layer_params_weighted({layer: weight}, r.l2)
        assert penalty.dtype == "float32" and sj.function([], penalty, mode="reference")() == 3

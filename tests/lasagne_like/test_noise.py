"""Dropout and noise: what they do to many numbers, and which of them share a decision."""

import re
from typing import Any

import numpy as np
import pytest

import lasagne_like as lasagne
import scanjit as sj
from lasagne_like.layers import (
    DropoutLayer,
    GaussianNoiseLayer,
    InputLayer,
    dropout_channels,
    dropout_locations,
    get_output,
)


def sampled(layer: lasagne.layers.Layer, value: np.ndarray) -> np.ndarray:
    return sj.function([], get_output(layer, value), mode="reference")()


def test_deterministic_output_is_the_input() -> None:
    l_in = InputLayer((None, 20))
    assert get_output(DropoutLayer(l_in), deterministic=True) is l_in.input_var
    assert get_output(GaussianNoiseLayer(l_in), deterministic=True) is l_in.input_var
    assert get_output(DropoutLayer(l_in, p=0)) is l_in.input_var
    assert get_output(GaussianNoiseLayer(l_in, sigma=0.0)) is l_in.input_var


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("rescale", [True, False])
def test_dropout(rescale: bool, dtype: str) -> None:
    result = sampled(DropoutLayer(InputLayer((None, 500)), p=0.3, rescale=rescale), np.ones((100, 500), dtype))
    assert result.dtype == dtype
    assert abs((result == 0).mean() - 0.3) < 0.01
    np.testing.assert_allclose(np.unique(result), [0, 1 / 0.7 if rescale else 1], rtol=1e-6)


def test_masks_are_shared_along_axes() -> None:
    ones = np.ones((50, 20, 30))
    result = sampled(DropoutLayer(InputLayer((None, None, 30)), shared_axes=(1,)), ones)
    assert (result == result[:, :1]).all() and 0.4 < (result[:, 0] == 0).mean() < 0.6
    result = sampled(DropoutLayer(InputLayer((None, None, 30)), shared_axes=(0, -1)), ones)
    assert (result == result[:1, :, :1]).all()
    result = sampled(dropout_channels(InputLayer((None, 20, 30)), p=0.4), ones)
    assert (result == result[:, :, :1]).all() and 0.3 < (result == 0).mean() < 0.5
    result = sampled(dropout_locations(InputLayer((None, 20, 30)), 0.4), ones)
    assert (result == result[:, :1]).all() and 0.3 < (result == 0).mean() < 0.5


def test_probability_may_be_a_variable() -> None:
    p = sj.shared(0.1, "p")
    layer = DropoutLayer(InputLayer((None, 100)), p=p)
    f = sj.function([], get_output(layer, np.ones((200, 100))), mode="reference")
    assert abs((f() == 0).mean() - 0.1) < 0.02
    p.set_value(0.8)
    assert abs((f() == 0).mean() - 0.8) < 0.02


def test_gaussian_noise() -> None:
    result = sampled(GaussianNoiseLayer(InputLayer((None, 500)), sigma=0.5), np.full((100, 500), 3.0, "float32"))
    assert result.dtype == np.float32
    assert abs(result.mean() - 3) < 0.01 and abs(result.std() - 0.5) < 0.01


def test_integers_get_noise_too() -> None:
    result = sampled(DropoutLayer(InputLayer((None, 500)), rescale=False), np.ones((20, 500), "int32"))
    assert 0.4 < result.mean() < 0.6
    result = sampled(GaussianNoiseLayer(InputLayer((None, 500)), sigma=2), np.ones((20, 500), "int32"))
    assert abs(result.std() - 2) < 0.1


def test_every_call_draws_new_masks_and_the_gradient_sees_the_same_ones() -> None:
    x = sj.matrix("x")
    output = get_output(DropoutLayer(InputLayer((None, 50), x), p=0.4))
    f = sj.function([x], [output, sj.grad(output.sum(), x)], mode="reference")
    ones = np.ones((10, 50))
    first, gradient = f(ones)
    second, _ = f(ones)
    assert (first != second).any()
    np.testing.assert_array_equal(first, gradient)


def test_compiled_masks_are_the_same() -> None:
    results = []
    for mode in ("reference", "numba"):
        lasagne.random.set_rng(np.random.default_rng(5))
        x = sj.matrix("x", "float32")
        layer = GaussianNoiseLayer(DropoutLayer(InputLayer((None, 50), x), shared_axes=(0,)))
        f = sj.function([x], get_output(layer), mode=mode)
        results.append([f(np.ones((rows, 50), "float32")) for rows in (4, 7)])
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_layers_that_share_dropout_share_its_mask() -> None:
    dropped = DropoutLayer(InputLayer((None, 50)))
    a, b = (lasagne.layers.ExpressionLayer(dropped, lambda x, k=k: x * k) for k in (1, 2))
    first, second = sj.function([], get_output([a, b], np.ones((4, 50))), mode="reference")()
    np.testing.assert_array_equal(2 * first, second)


def test_the_seed_of_the_package_makes_masks_reproducible() -> None:
    results = []
    for _ in range(2):
        lasagne.random.set_rng(np.random.default_rng(5))
        results.append(sampled(DropoutLayer(InputLayer((None, 50))), np.ones((4, 50))))
    np.testing.assert_array_equal(*results)


def test_probabilities() -> None:
    l_in = InputLayer((None, 20))
    for p in (-0.1, 1.5, np.float32(1.5), np.nan, "a", None, [0.5]):
        with pytest.raises(ValueError, match=r"0 <= p <= 1, got " + re.escape(repr(p))):
            DropoutLayer(l_in, p=p)
    assert sampled(DropoutLayer(l_in, p=np.float32(0.5)), np.ones((2, 20))).any()


@pytest.mark.parametrize("p", [1, 1.0, sj.shared(1.0)])
@pytest.mark.parametrize("rescale", [True, False])
def test_dropout_of_all_values_has_a_gradient_of_zeros(p: Any, rescale: bool) -> None:
    l_in = InputLayer((None, 20))
    dropped = get_output(DropoutLayer(l_in, p=p, rescale=rescale))
    f = sj.function([l_in.input_var], [dropped, sj.grad(dropped.sum(), l_in.input_var)], mode="reference")
    np.testing.assert_array_equal(f(np.ones((2, 20))), np.zeros((2, 2, 20)))


@pytest.mark.parametrize("variational", [True, False])
def test_dropout_of_float32(variational: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sj.config, "floatX", "float32")
    cell = lasagne.cells.DropoutWrapper(lasagne.cells.LSTM(4), 0.2, 0.3, 0.4, variational=variational).build(3)
    delay = lasagne.layers.PastValueLayer(InputLayer((None, None, 3)), initial=0.5)
    monkeypatch.undo()
    assert lasagne.cells.unfold(cell, sj.tensor((None, None, 3), "float32"))[0].dtype == "float32"
    assert get_output(delay).dtype == "float32"

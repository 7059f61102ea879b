"""`quantize`: a network's predictions with products of fewer bits."""

from typing import Any

import numpy as np
import pytest

import lasagne_like as lasagne
import scanjit as sj

rng = np.random.default_rng(1)


def network() -> lasagne.layers.Layer:
    l_in = lasagne.layers.InputLayer((None, None, 20), sj.tensor((None, None, 20), dtype="float32", name="x"))
    mask = lasagne.layers.InputLayer((None, None), sj.matrix("mask", dtype="float32"))
    hidden = lasagne.layers.LSTMLayer(l_in, 32, mask_input=mask)
    hidden = lasagne.layers.dropout(lasagne.layers.GRULayer(hidden, 24, mask_input=mask), 0.5)
    return lasagne.layers.DenseLayer(hidden, 5, num_leading_axes=2, nonlinearity=lasagne.nonlinearities.softmax)


@pytest.mark.parametrize(("weights", "error"), [("int8", 0.03), ("bfloat16", 0.01)])
def test_predictions_are_near_those_of_the_network(weights: str, error: float, monkeypatch: Any) -> None:
    monkeypatch.setattr(sj.config, "floatX", "float32")
    top = network()
    layers = lasagne.layers.get_all_layers(top)
    inputs = [layer.input_var for layer in layers if isinstance(layer, lasagne.layers.InputLayer)]
    plain = sj.function(inputs, lasagne.layers.get_output(top, deterministic=True))
    predict = lasagne.quantize(top, weights)
    x = rng.normal(size=(6, 9, 20)).astype("float32")
    mask = (np.arange(9) < rng.integers(3, 10, (6, 1))).astype("float32")
    wanted, got = plain(x, mask), predict(x, mask)
    assert 0 < np.abs(got - wanted).max() < error
    np.testing.assert_array_equal(predict(x[:1], mask[:1]).shape, (1, 9, 5))
    alone = predict(x[:1], mask[:1])
    assert np.abs(alone - got[:1]).max() < error  # the others in the batch have scales of their own
    assert str(predict.explain()).count("multiplies") >= 5  # masks do not keep products from packs
    padded = np.where(mask[..., None] > 0, x, 99).astype("float32")
    np.testing.assert_array_equal(predict(padded, mask)[mask > 0], got[mask > 0])


def test_a_format_that_is_none() -> None:
    l_in = lasagne.layers.InputLayer((None, 3), sj.matrix("x"))
    with pytest.raises(sj.ArgumentError, match="no such format"):
        lasagne.quantize(lasagne.layers.DenseLayer(l_in, 2), "int3")

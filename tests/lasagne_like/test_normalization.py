"""Batch normalization while training and after it; the helpers that wrap layers."""

from typing import Any

import numpy as np
import pytest

import lasagne_like as lasagne
import scanjit as sj
from lasagne_like.layers import (
    BatchNormLayer,
    DenseLayer,
    InputLayer,
    StandardizationLayer,
    batch_norm,
    get_all_layers,
    get_all_params,
    get_output,
    get_updates,
    instance_norm,
    layer_norm,
)


def kinds(layer: Any) -> list[str]:
    return [type(one).__name__.removesuffix("Layer") for one in get_all_layers(layer)]


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_averages_follow_the_batches(dtype: str, monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator) -> None:
    monkeypatch.setattr(sj.config, "floatX", dtype)
    x = sj.matrix("x")
    layer = BatchNormLayer(InputLayer((None, 3), x), alpha=0.25)
    train = sj.function([x], get_output(layer), updates=get_updates(layer), mode="reference")
    mean, inv_std = np.zeros(3), np.ones(3)
    for rows in (4, 7, 2):
        batch = rng.normal(2, 3, (rows, 3)).astype(dtype)
        train(batch)
        mean = 0.75 * mean + 0.25 * batch.mean(0)
        inv_std = 0.75 * inv_std + 0.25 / np.sqrt(batch.var(0) + 1e-4)
    assert layer.mean.dtype == dtype
    np.testing.assert_allclose(layer.mean.get_value(), mean, rtol=1e-4)
    np.testing.assert_allclose(layer.inv_std.get_value(), inv_std, rtol=1e-4)
    batch = rng.normal(size=(2, 3)).astype(dtype)
    predict = sj.function([x], get_output(layer, deterministic=True), mode="reference")
    np.testing.assert_allclose(predict(batch), (batch - mean) * inv_std, rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(predict(batch[:1]), predict(batch)[:1], rtol=1e-6)


def test_arguments_override_deterministic() -> None:
    x = sj.matrix("x")
    layer = BatchNormLayer(InputLayer((None, 2), x), mean=np.array([1.0, 2.0]), inv_std=np.array([2.0, 3.0]))
    batch = np.array([[1.0, 5.0], [3.0, 7.0]])

    def run(**kwargs: Any) -> np.ndarray:
        return sj.function([x], get_output(layer, **kwargs), mode="reference")(batch)

    by_averages = (batch - [1, 2]) * [2, 3]
    np.testing.assert_allclose(run(batch_norm_use_averages=True, batch_norm_update_averages=False), by_averages)
    assert not get_updates(layer)
    np.testing.assert_allclose(run(deterministic=True, batch_norm_use_averages=False), [[-1, -1], [1, 1]], rtol=1e-4)
    assert not get_updates(layer)
    np.testing.assert_allclose(run(deterministic=True, batch_norm_update_averages=True), by_averages)
    assert len(get_updates(layer)) == 2


def test_tags() -> None:
    layer = BatchNormLayer((None, 2))
    assert [p.name for p in layer.get_params()] == ["beta", "gamma", "mean", "inv_std"]
    assert [p.name for p in layer.get_params(trainable=True)] == ["beta", "gamma"]
    assert [p.name for p in layer.get_params(regularizable=True)] == ["gamma"]
    assert [p.name for p in layer.get_params(batch_norm_stat=True)] == ["mean", "inv_std"]
    assert [p.name for p in BatchNormLayer((None, 2), beta=None, gamma=None).get_params()] == ["mean", "inv_std"]


def test_a_mean_that_is_an_expression_has_no_update() -> None:
    layer = BatchNormLayer(InputLayer((None, 2)), mean=sj.constant([1.0, 2.0]))
    get_output(layer)
    assert [v.name for v in get_updates(layer)] == ["inv_std"]


def test_batch_norm_takes_bias_and_nonlinearity_from_a_layer() -> None:
    dense = DenseLayer(InputLayer((None, 3)), 4, nonlinearity=lasagne.nonlinearities.tanh, name="d")
    network = batch_norm(dense, alpha=0.5)
    assert kinds(network) == ["Input", "Dense", "BatchNorm", "Nonlinearity"]
    assert network.name == "d_bn_nonlin"
    assert dense.b is None and dense.nonlinearity is lasagne.nonlinearities.identity
    assert network.nonlinearity is lasagne.nonlinearities.tanh  # type: ignore[attr-defined]
    assert [p.name for p in get_all_params(network)] == [
        "d.W", "d_bn.beta", "d_bn.gamma", "d_bn.mean", "d_bn.inv_std"
    ]  # fmt: skip
    assert network.input_layer.alpha == 0.5  # type: ignore[union-attr]
    plain = batch_norm(InputLayer((None, 3)), name="own")
    assert isinstance(plain, BatchNormLayer) and plain.name == "own"


def test_layer_and_instance_norm() -> None:
    dense = DenseLayer(InputLayer((None, 3)), 4, b=lasagne.init.Normal(1.0))
    network = layer_norm(dense)
    assert kinds(network) == ["Input", "Dense", "Standardization", "Scale", "Bias", "Nonlinearity"]
    x = np.random.default_rng(1).normal(size=(2, 3))
    z = x @ dense.W.get_value()
    expected = np.maximum((z - z.mean(1, keepdims=True)) / np.sqrt(z.var(1, keepdims=True) + 1e-4), 0)
    np.testing.assert_allclose(sj.function([], get_output(network, x), mode="reference")(), expected)
    channels = InputLayer((None, 3, 8))
    assert kinds(instance_norm(channels)) == ["Input", "Standardization", "Scale", "Bias"]
    assert kinds(instance_norm(channels, learn_scale=False, learn_bias=False)) == ["Input", "Standardization"]


def test_a_network_with_batch_normalization_learns(rng: np.random.Generator) -> None:
    x, y = sj.matrix("x"), sj.vector("y")
    network = batch_norm(DenseLayer(InputLayer((None, 2), x), 8))
    network = DenseLayer(network, 1, nonlinearity=None)
    output = get_output(network)[:, 0]
    loss = lasagne.objectives.squared_error(output, y).mean()
    updates = lasagne.updates.adam(loss, get_all_params(network, trainable=True), 0.05) | get_updates(network)
    train = sj.function([x, y], loss, updates=updates, mode="reference")
    data = rng.normal(5, 2, (64, 2))
    target = data[:, 0] * data[:, 1] / 10
    losses = [float(train(data, target)) for _ in range(150)]
    assert losses[-1] < 0.1 * losses[0]
    predict = sj.function([x], get_output(network, deterministic=True)[:, 0], mode="reference")
    assert np.mean((predict(data) - target) ** 2) < 0.2 * losses[0]


def test_recurrent_layers_keep_what_is_inside_their_loop() -> None:
    l_in = InputLayer((None, None, 3))
    for make in (lasagne.layers.LSTMLayer, lasagne.layers.RecurrentLayer):
        layer = make(l_in, 4, nonlinearity=lasagne.nonlinearities.tanh)
        count = len(layer.get_params())
        assert kinds(batch_norm(layer, axes=(0, 1)))[-2:] == [make.__name__.removesuffix("Layer"), "BatchNorm"]
        assert layer.nonlinearity is lasagne.nonlinearities.tanh and len(layer.get_params()) == count
        for rectified in (lasagne.layers.prelu, lasagne.layers.rrelu):
            with pytest.raises(ValueError, match=r"the nonlinearity of <.*> is inside its loop"):
                rectified(layer, shared_axes=(0, 1))


def test_there_is_an_axis_to_normalize_over() -> None:
    for make in (
        lambda: StandardizationLayer((None, 3), axes="spatial"),
        lambda: StandardizationLayer((None,)),
        lambda: BatchNormLayer((2, 3), axes=()),
        lambda: instance_norm(DenseLayer((None, 3), 2)),
    ):
        with pytest.raises(ValueError, match=r"axes of <.*> must be one axis or more, but there is none for"):
            make()
    with pytest.raises(ValueError, match=r"axes of <BatchNormLayer> has an axis twice, got \(0, -2\)"):
        BatchNormLayer((2, 3), axes=(0, -2))


def test_flags_of_outputs() -> None:
    layer = BatchNormLayer(InputLayer((None, 3)))
    for flag in ("batch_norm_use_averages", "batch_norm_update_averages"):
        with pytest.raises(ValueError, match=f"{flag} must be True or False, got 'no'"):
            get_output(layer, **{flag: "no"})
        get_output(layer, **{flag: None})

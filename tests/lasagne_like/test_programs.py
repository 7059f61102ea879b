"""Whole programs, as users of Lasagne write them."""

from pathlib import Path

import numpy as np
import pytest

import lasagne_like as lasagne
import scanjit as sj


def spiral(rng: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Points on two arms of a spiral, and which arm."""
    arm = rng.integers(0, 2, count).astype("int32")
    angle = rng.uniform(0.3, 2.5, count)
    turned = angle * 2 + np.pi * arm
    points = np.stack([angle * np.cos(turned), angle * np.sin(turned)], 1)
    return points + rng.normal(0, 0.05, points.shape), arm


@pytest.mark.parametrize("mode", ["reference", "numba"])
def test_a_classifier(mode: str, tmp_path: Path, rng: np.random.Generator) -> None:
    input_var, target_var = sj.matrix("inputs"), sj.ivector("targets")
    network = lasagne.layers.InputLayer(shape=(None, 2), input_var=input_var)
    hidden = lasagne.layers.DenseLayer(
        network, num_units=32, nonlinearity=lasagne.nonlinearities.tanh, W=lasagne.init.GlorotUniform(gain=2.0)
    )
    network = lasagne.layers.DenseLayer(hidden, num_units=2, nonlinearity=lasagne.nonlinearities.softmax)

    prediction = lasagne.layers.get_output(network, deterministic=False)
    loss = lasagne.objectives.categorical_crossentropy(prediction, target_var).mean()
    loss = loss + 1e-4 * lasagne.regularization.regularize_network_params(network, lasagne.regularization.l2)
    params = lasagne.layers.get_all_params(network, trainable=True)
    grads = lasagne.updates.total_norm_constraint(sj.grad(loss, params), 5.0)
    updates = lasagne.updates.nesterov_momentum(grads, params, learning_rate=0.1, momentum=0.9)
    train = sj.function([input_var, target_var], loss, updates=updates, mode=mode)

    test_prediction = lasagne.layers.get_output(network, deterministic=True)
    accuracy = sj.mean(lasagne.objectives.categorical_accuracy(test_prediction, target_var))
    validate = sj.function([input_var, target_var], accuracy, mode=mode)

    x, t = spiral(rng, 400)
    for _ in range(25):
        order = rng.permutation(len(x))
        for batch in np.split(order, 10):
            train(x[batch], t[batch])
    score = validate(*spiral(rng, 300))  # another size of batch
    assert score > 0.95

    np.savez(tmp_path / "model.npz", *lasagne.layers.get_all_param_values(network))
    lasagne.layers.set_all_param_values(network, [0 * v for v in lasagne.layers.get_all_param_values(network)])
    assert validate(x, t) < 0.7
    with np.load(tmp_path / "model.npz") as f:
        values = [f[f"arr_{i}"] for i in range(len(f.files))]
    lasagne.layers.set_all_param_values(network, values)
    assert validate(x, t) > 0.95


def test_a_step_of_training_against_numpy(rng: np.random.Generator) -> None:
    """Two layers, cross-entropy, weight decay and momentum, with the gradients written out."""
    x, t = rng.normal(size=(6, 4)), rng.integers(0, 3, 6)
    x_var, t_var = sj.matrix("x"), sj.lvector("t")
    hidden = lasagne.layers.DenseLayer(
        lasagne.layers.InputLayer((None, 4), x_var), 5, nonlinearity=lasagne.nonlinearities.sigmoid
    )
    network = lasagne.layers.DenseLayer(hidden, 3, nonlinearity=lasagne.nonlinearities.softmax)
    output = lasagne.layers.get_output(network)
    loss = lasagne.objectives.categorical_crossentropy(output, t_var).mean()
    loss = loss + 0.1 * lasagne.regularization.regularize_network_params(network, lasagne.regularization.l2)
    params = lasagne.layers.get_all_params(network)
    updates = lasagne.updates.momentum(loss, params, 0.2, 0.9)
    train = sj.function([x_var, t_var], loss, updates=updates, mode="reference")

    w1, b1, w2, b2 = (v.copy() for v in lasagne.layers.get_all_param_values(network))
    velocities = [np.zeros_like(v) for v in (w1, b1, w2, b2)]
    for _ in range(3):
        h = 1 / (1 + np.exp(-(x @ w1 + b1)))
        z = np.exp(h @ w2 + b2)
        p = z / z.sum(1, keepdims=True)
        expected = -np.log(p[np.arange(6), t]).mean() + 0.1 * ((w1**2).sum() + (w2**2).sum())
        d2 = (p - np.eye(3)[t]) / 6
        d1 = d2 @ w2.T * h * (1 - h)
        gradients = [x.T @ d1 + 0.2 * w1, d1.sum(0), h.T @ d2 + 0.2 * w2, d2.sum(0)]
        velocities = [0.9 * v - 0.2 * g for v, g in zip(velocities, gradients, strict=True)]
        w1, b1, w2, b2 = (value + v for value, v in zip((w1, b1, w2, b2), velocities, strict=True))
        np.testing.assert_allclose(train(x, t), expected)
    for value, known in zip(lasagne.layers.get_all_param_values(network), (w1, b1, w2, b2), strict=True):
        np.testing.assert_allclose(value, known)


def test_an_autoencoder_with_tied_weights_learns(rng: np.random.Generator) -> None:
    x = sj.matrix("x")
    encoder = lasagne.layers.DenseLayer(lasagne.layers.InputLayer((None, 6), x), 3, nonlinearity=None)
    decoder = lasagne.layers.DenseLayer(encoder, 6, W=encoder.W.T, nonlinearity=None)
    loss = lasagne.objectives.aggregate(lasagne.objectives.squared_error(lasagne.layers.get_output(decoder), x))
    updates = lasagne.updates.adam(loss, lasagne.layers.get_all_params(decoder, trainable=True), 0.03)
    train = sj.function([x], loss, updates=updates, mode="reference")
    data = rng.normal(size=(50, 3)) @ rng.normal(size=(3, 6))
    losses = [float(train(data)) for _ in range(300)]
    assert losses[-1] < 0.02 * losses[0]

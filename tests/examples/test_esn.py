"""The echo state network against loops by hand, its readout against least squares, Lorenz's equations against SciPy."""

import numpy as np
import pytest
from scipy import integrate


@pytest.fixture
def esn(read_example):
    return read_example("esn")


@pytest.mark.parametrize("mode", ["reference", "emulate"])
def test_listening_and_dreaming_against_loops_by_hand(esn, mode, rng):
    W, W_in, bias = weights = esn.reservoir(rng, 9)
    series, h = rng.normal(size=(6, 3)), rng.normal(size=9)
    states = esn.compile_listening(weights, mode)(series, h)
    for u, state in zip(series, states, strict=True):
        h = np.tanh(h @ W + u @ W_in + bias)
        np.testing.assert_allclose(state, h, rtol=1e-12)
    readout = rng.normal(size=(14, 3))
    said = esn.compile_dreaming(weights, mode)(readout, h, 4)
    assert said.shape == (4, 3)
    for found in said:
        u = np.concatenate([h, h[::2] ** 2]) @ readout
        np.testing.assert_allclose(found, u, rtol=1e-12)
        h = np.tanh(h @ W + u @ W_in + bias)


def test_the_reservoir_has_its_radius(esn):
    W, _, _ = esn.reservoir(np.random.default_rng(1), 40, radius=0.7)
    np.testing.assert_allclose(np.abs(np.linalg.eigvals(W)).max(), 0.7)
    assert (W == 0).mean() > 0.8


def test_ridge_regression_is_least_squares_with_more_rows(esn, rng):
    X, Y = rng.normal(size=(20, 5)), rng.normal(size=(20, 2))
    wide = np.concatenate([X, np.sqrt(0.3) * np.eye(5)]), np.concatenate([Y, np.zeros((5, 2))])
    np.testing.assert_allclose(esn.ridge(X, Y, 0.3), np.linalg.lstsq(*wide, rcond=None)[0], rtol=1e-9)


def test_lorenz_against_scipy(esn):
    def law(t, p):
        x, y, z = p
        return [10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z]

    times = esn.DT * np.arange(100)
    wanted = integrate.solve_ivp(law, (0, times[-1]), [1.0, 1.0, 1.0], rtol=1e-10, atol=1e-10, t_eval=times).y.T
    wanted = (wanted - wanted.mean(axis=0)) / wanted.std(axis=0)
    np.testing.assert_allclose(esn.lorenz(100, skip=0), wanted, atol=1e-3)


def test_the_example(esn):
    esn.main(["--steps", "small", "--mode", "reference"])  # asserts itself that it foresees the next value

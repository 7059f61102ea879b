"""Runge and Kutta's method against matrix exponentials and SciPy, and the gradient through it."""

import numpy as np
import pytest
from scipy import integrate, linalg

import scanjit as sj


@pytest.fixture
def ode(read_example):
    return read_example("neural_ode")


@pytest.mark.parametrize("mode", ["reference", "emulate"])
def test_the_error_of_a_linear_law_falls_with_the_fourth_power_of_the_step(ode, mode):
    A = np.array([[-0.2, 1.5], [-1.5, -0.1]])
    first = np.array([[1.0, 0.5], [-2.0, 0.3], [0.0, 1.0]])
    wanted = first @ linalg.expm(2.0 * A).T
    y, dt, count = sj.matrix("y"), sj.scalar("dt"), sj.lscalar("count")
    run = sj.function([y, dt, count], ode.path(lambda y: y @ A.T, y, count, dt), mode=mode)
    errors = []
    for steps in (20, 40):
        places = run(first, 2.0 / steps, steps)
        assert places.shape == (steps, 3, 2)
        errors.append(np.abs(places[-1] - wanted).max())
    assert errors[0] < 1e-3 and 13 < errors[0] / errors[1] < 19  # 2**4 in the limit


def test_a_path_of_the_network_against_scipy(ode):
    velocity, params = ode.network(6)
    y = sj.matrix("y")
    path = sj.function([y], ode.path(velocity, y, 40, 0.05), mode="reference")(ode.FIRST[None])[:, 0]
    W1, b1, W2, b2 = (p.get_value() for p in params)
    by_hand = lambda t, y: np.tanh(np.concatenate([y, y**3 / 4]) @ W1 + b1) @ W2 + b2
    wanted = integrate.solve_ivp(by_hand, (0, 2), ode.FIRST, rtol=1e-10, atol=1e-10, t_eval=np.linspace(0.05, 2, 40))
    np.testing.assert_allclose(path, wanted.y.T, rtol=1e-5, atol=1e-6)


def test_the_gradient_goes_through_all_stages(ode):
    velocity, params = ode.network(3)

    def error(first, W2):
        own = lambda y: velocity(y) + y @ W2
        return (ode.path(own, first, 3, 0.1) ** 2).sum()

    sj.check_grad(error, [np.array([[1.0, -0.5]]), 0.3 * np.eye(2)], order=2)
    assert len(params) == 4


def test_the_spiral_of_the_example_against_scipy(ode):
    true, measured = ode.measure(np.random.default_rng(0), 100, 0.025)
    law = lambda t, y: ode.SPIRAL @ y**3
    wanted = integrate.solve_ivp(law, (0, 2.5), ode.FIRST, rtol=1e-10, atol=1e-10, t_eval=0.025 * np.arange(100))
    np.testing.assert_allclose(true, wanted.y.T, atol=2e-2)
    assert 0.005 < (measured - true).std() < 0.02


def test_the_example(ode):
    ode.main(["--steps", "small", "--mode", "reference"])  # asserts itself that it learns

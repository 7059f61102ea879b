"""Layers with complex states: S4D and LRU, long memories that rotate and decay.

A state that is multiplied by a complex number in each step turns and shrinks: it is a damped oscillation. A few of
them, added up, are a filter with a long memory. S4D (Gu et al., 2022) and the linear recurrent unit (LRU; Orvieto et
al., 2023) learn the numbers. Here an LRU learns to say what it heard some steps ago.

    python examples/complex_states.py                     # in some seconds
    python examples/complex_states.py --plot states.png   # a picture of the learning (needs matplotlib)
    python examples/complex_states.py --steps small       # all in small, in a moment
"""

import argparse
import time

import numpy as np
from support import picture

import scanjit as sj


def lru(x, nu, theta, gamma, B, C, D):
    """y_t = real(C h_t) + D x_t, where h_t = lambda h_{t-1} + gamma B x_t.

    `x` is (time, batch, features), `nu`, `theta`, `gamma` are (states,), `B` is (features, states), `C` is (states,
    features), both complex; `D` is (features,). The size of lambda is below 1, whatever `nu` is.
    """
    rotation = np.exp(-np.exp(nu) + 1j * theta)
    step = lambda u, h: rotation * h + u
    states = sj.scan(step, x @ (B * gamma), sj.zeros((x.shape[1], nu.shape[0]), B.dtype))
    return np.real(states @ C) + D * x


def s4d(x, log_dt, log_decay, frequency, B, C, D):
    """The diagonal state space of S4D, a system of its own for each feature, made discrete by a zero-order hold.

    `x` is (time, batch, features), `log_dt` (features,), `log_decay` and `frequency` (features, states), `B` and `C`
    the same, complex; `D` is (features,).
    """
    A = -np.exp(log_decay) + 1j * frequency
    rotation = np.exp(np.exp(log_dt)[:, None] * A)
    entered = (rotation - 1) / A * B

    def step(row, h):
        h = rotation * h + entered * row[:, :, None]
        return 2 * np.real((C * h).sum(axis=-1)), h

    start = sj.zeros((x.shape[1], *B.shape), B.dtype)
    return sj.scan(step, x, [None, start])[0] + D * x


def parameters(random, features, states, longest):
    """Those of an LRU, with memories of up to `longest` steps."""
    size = random.uniform(1 - 4 / longest, 1 - 0.2 / longest, states)
    angle = random.uniform(0, np.pi, states)
    normal = lambda *shape: random.normal(size=shape) + 1j * random.normal(size=shape)
    return {
        "nu": np.log(-np.log(size)),
        "theta": angle,
        "gamma": np.sqrt(1 - size**2),
        "B": normal(features, states) / np.sqrt(2 * features),
        "C": normal(states, features) / np.sqrt(states),
        "D": np.zeros(features),
    }


def learn(parameters, steps, batch, length, delay, mode="numba"):
    """Adam on the squared error of saying what was heard `delay` steps ago. Returns the errors."""
    random = np.random.default_rng(1)

    def loss(p, x):
        y = lru(x, p["nu"], p["theta"], p["gamma"], p["B"], p["C"], p["D"])
        return ((y[delay:] - x[: x.shape[0] - delay]) ** 2).mean()

    loss_and_slopes = sj.value_and_grad(loss, mode=mode)
    mean, square, errors = dict.fromkeys(parameters, 0.0), dict.fromkeys(parameters, 0.0), []
    for t in range(1, steps + 1):
        x = random.normal(size=(length, batch, parameters["D"].shape[0]))
        error, slopes = loss_and_slopes(parameters, x)
        errors.append(float(error))
        for name, slope in slopes.items():  # that of a complex parameter points where the loss grows fastest
            mean[name] = 0.9 * mean[name] + 0.1 * slope
            square[name] = 0.99 * square[name] + 0.01 * np.abs(slope) ** 2
            rate = 0.01 * np.sqrt(1 - 0.99**t) / (1 - 0.9**t)
            parameters[name] = parameters[name] - rate * mean[name] / (np.sqrt(square[name]) + 1e-8)
    return errors


def main(arguments=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", default="large", choices=("small", "large"))
    parser.add_argument("--mode", default="numba")
    parser.add_argument("--plot")
    given = parser.parse_args(arguments)
    small = given.steps == "small"
    steps, batch, length, delay, states = (25, 4, 12, 2, 12) if small else (400, 16, 200, 20, 64)
    began = time.time()
    errors = learn(parameters(np.random.default_rng(0), 1, states, length), steps, batch, length, delay, given.mode)
    print(f"error {errors[0]:.3f} -> {errors[-1]:.3f} in {steps} updates, {time.time() - began:.1f} s")
    assert errors[-1] < (0.9 if small else 0.2) * errors[0]
    if given.plot:
        with picture(given.plot) as plot:
            plot.semilogy(errors)
            plot.set_xlabel("update")
            plot.set_ylabel(f"error of what was heard {delay} steps ago")


if __name__ == "__main__":
    main()

"""
An echo state network
=====================

A random network remembers its input. Only the readout is fitted, by least squares, and then predicts a
chaotic series from its own predictions.
"""

import matplotlib.pyplot as plt
import numpy as np

import scanjit as sj

random = np.random.default_rng(5)
W = random.normal(size=(300, 300)) * (random.random((300, 300)) < 0.05)
W *= 1.1 / np.abs(np.linalg.eigvals(W)).max()
W_in = random.uniform(-0.5, 0.5, 300)


@sj.jit
def mackey_glass(steps):
    step = lambda last, late: last + 0.2 * late / (1 + late**10) - 0.1 * last
    return sj.scan(step, outputs_info=dict(initial=sj.full(18, 1.2), taps=[-1, -18]), n_steps=steps)


@sj.jit
def states(xs, h):
    return sj.scan(lambda x, h: np.tanh(W @ h + W_in * x + 0.1), sequences=xs, outputs_info=h)


@sj.jit
def free(x, h, readout, steps):
    def step(x, h):
        h = np.tanh(W @ h + W_in * x + 0.1)
        return h @ readout, h

    return sj.scan(step, outputs_info=[x, h], n_steps=steps)[0]


series = mackey_glass(3000) - 0.9
h = states(series[:2499], np.zeros(300))
readout = np.linalg.solve(h[200:].T @ h[200:] + 1e-8 * np.eye(300), h[200:].T @ series[201:2500])
plt.plot(series[2500:3000], label="series")
plt.plot(free(series[2499], h[-1], readout, 500), "--", label="free run")
plt.legend()
plt.show()

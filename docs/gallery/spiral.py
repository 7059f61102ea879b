"""
A spiral, learned
=================

A neural ordinary differential equation: a small network is the slope of the path, and learns from the path
alone.
"""

import matplotlib.pyplot as plt
import numpy as np

import scanjit as sj

random = np.random.default_rng(0)
A = np.array([[-0.1, 2.0], [-2.0, -0.1]])


@sj.jit
def spiral(start):
    return sj.scan(lambda p: p + 0.01 * (p**3 @ A), outputs_info=start, n_steps=400)


def path(weights, start, steps):
    W1, b1, W2 = weights
    return sj.scan(lambda p: p + 0.01 * np.tanh(p**3 @ W1 + b1) @ W2, outputs_info=start, n_steps=steps)


truth = spiral(np.array([1.6, 0.0]))
starts = truth[:360:5]  # 72 short paths of 40 steps, as one batch
wanted = np.stack([truth[i + 1 : i + 41] for i in range(0, 360, 5)], axis=1)
loss = sj.value_and_grad(lambda weights: ((path(weights, starts, 40) - wanted) ** 2).mean())
weights = [0.3 * random.normal(size=s) for s in [(2, 32), (32,), (32, 2)]]
mean, square = [[np.zeros_like(w) for w in weights] for _ in range(2)]
for t in range(1, 801):
    _, slopes = loss(weights)
    mean = [0.9 * m + 0.1 * s for m, s in zip(mean, slopes)]
    square = [0.99 * q + 0.01 * s**2 for q, s in zip(square, slopes)]
    weights = [
        w - 0.01 * (m / (1 - 0.9**t)) / (np.sqrt(q / (1 - 0.99**t)) + 1e-8) for w, m, q in zip(weights, mean, square)
    ]
plt.plot(*truth.T, ".", color="gray", label="data")
plt.plot(*sj.jit(path)(weights, truth[0], 399).T, label="learned")
plt.axis("equal")
plt.legend()
plt.show()

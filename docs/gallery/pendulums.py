"""
A thousand double pendulums
===========================

They start almost alike. A batch is one more axis; the step does not change.
"""

import matplotlib.pyplot as plt
import numpy as np

import scanjit as sj


def accelerations(a, b, va, vb):
    d = a - b
    m = 3 - np.cos(2 * d)
    pull = -3 * 9.81 * np.sin(a) - 9.81 * np.sin(a - 2 * b) - 2 * np.sin(d) * (vb**2 + va**2 * np.cos(d))
    swing = 2 * np.sin(d) * (2 * va**2 + 2 * 9.81 * np.cos(a) + vb**2 * np.cos(d))
    return pull / m, swing / m


@sj.jit
def swing(a, b, dt=0.002):
    def step(a, b, va, vb):
        da, db = accelerations(a, b, va, vb)
        va, vb = va + dt * da, vb + dt * db
        return a + dt * va, b + dt * vb, va, vb

    zeros = sj.zeros_like(a)
    return sj.scan(step, outputs_info=[a, b, zeros, zeros], n_steps=4000)[:2]


a, b = swing(np.full(1000, 2.0), np.linspace(2.0, 2.001, 1000))
x, y = np.sin(a) + np.sin(b), -np.cos(a) - np.cos(b)
for t, color in [(2200, "C0"), (3000, "C1"), (3999, "C3")]:
    plt.scatter(x[t], y[t], s=1, color=color, label=f"after {(t + 1) * 0.002:.1f} s")
plt.axis("equal")
plt.legend()
plt.show()

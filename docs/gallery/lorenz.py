"""
Lorenz' butterfly
=================

Runge and Kutta's method is a step like any other: a function that calls the equations four times.
"""

import matplotlib.pyplot as plt

import scanjit as sj


def flow(x, y, z):
    return 10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z


def step(x, y, z, dt=0.01):
    state = (x, y, z)
    k1 = flow(*state)
    k2 = flow(*(s + dt / 2 * k for s, k in zip(state, k1)))
    k3 = flow(*(s + dt / 2 * k for s, k in zip(state, k2)))
    k4 = flow(*(s + dt * k for s, k in zip(state, k3)))
    return tuple(s + dt / 6 * (a + 2 * b + 2 * c + d) for s, a, b, c, d in zip(state, k1, k2, k3, k4))


@sj.jit
def orbit(x, y, z):
    return sj.scan(step, outputs_info=[x, y, z], n_steps=8000)


x, y, z = orbit(1.0, 1.0, 20.0)
plt.plot(x, z, lw=0.3)
plt.axis("off")
plt.show()

"""
Three bodies, one path
======================

Three equal masses follow each other around a figure of eight (Moore 1993; Chenciner and Montgomery 2000).
Positions and velocities are carries of shape ``(3, 2)``.
"""

import matplotlib.pyplot as plt
import numpy as np

import scanjit as sj


def forces(p):
    apart = p[None, :] - p[:, None]
    distance = np.sqrt((apart**2).sum(axis=2) + np.eye(3))
    return (apart / distance[:, :, None] ** 3).sum(axis=1)


@sj.jit
def orbits(p, v, dt=0.002):
    def step(p, v):
        v = v + dt / 2 * forces(p)
        p = p + dt * v
        return p, v + dt / 2 * forces(p)

    return sj.scan(step, outputs_info=[p, v], n_steps=3200)[0]


v3 = np.array([-0.93240737, -0.86473146])
p = np.array([[0.97000436, -0.24308753], [-0.97000436, 0.24308753], [0.0, 0.0]])
path = orbits(p, np.array([-v3 / 2, -v3 / 2, v3]))
for body in range(3):
    plt.plot(*path[:1000, body].T, lw=2)
    plt.plot(*path[999, body], "o", color=f"C{body}")
plt.axis("equal")
plt.axis("off")
plt.show()

"""
Tracking in the plane
=====================

A Kalman filter follows a moving point through noise. Two products and one ``solve`` a step.
"""

import matplotlib.pyplot as plt
import numpy as np

import scanjit as sj

F = np.kron(np.array([[1.0, 1.0], [0.0, 1.0]]), np.eye(2))
H = np.eye(2, 4)
Q, R = 0.001 * np.eye(4), 0.5 * np.eye(2)


@sj.jit
def track(measured):
    def step(y, mean, cov):
        mean, cov = F @ mean, F @ cov @ F.T + Q
        gain = sj.solve(H @ cov @ H.T + R, H @ cov).T
        return mean + gain @ (y - H @ mean), cov - gain @ H @ cov

    return sj.scan(step, sequences=measured, outputs_info=[sj.zeros(4), 10.0 * sj.eye(4)])[0]


t = np.linspace(0, 2 * np.pi, 150)
truth = np.stack([8 * np.cos(t), 4 * np.sin(2 * t)], axis=1)
measured = truth + np.random.default_rng(0).normal(size=truth.shape) * 0.7
plt.plot(*measured.T, ".", color="gray")
plt.plot(*track(measured)[:, :2].T, lw=2)
plt.axis("equal")
plt.show()

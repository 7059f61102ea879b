"""
A damped rotation
=================

A complex state that turns and shrinks in each step, for several angles: one loop, with complex numbers as its state.
"""

import matplotlib.pyplot as plt
import numpy as np

import scanjit as sj


@sj.jit
def spirals(rotations, starts):
    return sj.scan(lambda z: rotations * z, outputs_info=starts, n_steps=120)


angles = np.array([0.1, 0.35, 2.2])
paths = spirals(0.97 * np.exp(1j * angles), np.ones(3, complex))
figure, axes = plt.subplots(1, 3, figsize=(9, 3))
for angle, path, ax in zip(angles, paths.T, axes, strict=True):
    ax.plot(path.real, path.imag, ".-", lw=0.5)
    ax.set_title(f"{angle} radians a step")
    ax.set_aspect("equal")
figure.tight_layout()
plt.show()

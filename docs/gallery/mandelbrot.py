"""
Mandelbrot's set
================

A complex number is a pair of carries. What has left the circle stays where it is.
"""

import matplotlib.pyplot as plt
import numpy as np

import scanjit as sj


@sj.jit
def steps_inside(cx, cy):
    def step(x, y, count):
        inside = x * x + y * y < 4
        return (
            sj.where(inside, x * x - y * y + cx, x),
            sj.where(inside, 2 * x * y + cy, y),
            sj.where(inside, count + 1, count),
        )

    zeros = sj.zeros_like(cx)
    return sj.scan(step, outputs_info=[zeros, zeros, zeros], n_steps=200)[2][-1]


cx, cy = np.meshgrid(np.linspace(-2.1, 0.7, 560), np.linspace(-1.1, 1.1, 440))
plt.imshow(np.log(steps_inside(cx, cy)), cmap="twilight_shifted", extent=(-2.1, 0.7, -1.1, 1.1))
plt.axis("off")
plt.show()

"""
Patterns of Gray and Scott
==========================

Two chemicals spread and react on a grid. The state is a picture; ``roll`` gives each point its neighbours.
"""

import matplotlib.pyplot as plt
import numpy as np

import scanjit as sj


def spread(c):
    return sj.roll(c, 1, 0) + sj.roll(c, -1, 0) + sj.roll(c, 1, 1) + sj.roll(c, -1, 1) - 4 * c


@sj.jit
def react(u, v, feed, kill, steps):
    def step(u, v):
        reaction = u * v * v
        return u + 0.16 * spread(u) - reaction + feed * (1 - u), v + 0.08 * spread(v) + reaction - (feed + kill) * v

    u, v = sj.scan(step, outputs_info=[u, v], n_steps=steps)
    return v[-1]


random = np.random.default_rng(0)
u, v = np.ones((128, 128)), np.zeros((128, 128))
for x, y in random.integers(10, 118, (20, 2)):
    u[x : x + 6, y : y + 6], v[x : x + 6, y : y + 6] = 0.5, 0.25
plt.imshow(react(u, v, 0.035, 0.06, 5000), cmap="magma")
plt.axis("off")
plt.show()

"""
Life
====

Conway's rules, with integers. The picture shows how often each cell lived in 1,000 generations.
"""

import matplotlib.pyplot as plt
import numpy as np

import scanjit as sj


@sj.jit
def live(cells):
    def step(cells):
        rows = cells + sj.roll(cells, 1, 0) + sj.roll(cells, -1, 0)
        around = rows + sj.roll(rows, 1, 1) + sj.roll(rows, -1, 1) - cells
        return sj.cast((around == 3) | ((around == 2) & (cells == 1)), "int32")

    return sj.scan(step, outputs_info=cells, n_steps=1000).sum(axis=0)


cells = (np.random.default_rng(3).random((96, 160)) < 0.2).astype("int32")
plt.imshow(np.log1p(live(cells)), cmap="viridis")
plt.axis("off")
plt.show()

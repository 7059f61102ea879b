"""
Dynamic time warping
====================

A scan in a scan: each cell of the table takes the cheapest of its three neighbours. The path follows the
table back.
"""

import matplotlib.pyplot as plt
import numpy as np

import scanjit as sj


@sj.jit
def table(x, y):
    def row(x_i, above):
        def cell(y_j, straight, diagonal, left):
            value = (x_i - y_j) ** 2 + sj.minimum(sj.minimum(straight, diagonal), left)
            return value

        corner = sj.concatenate([sj.full(1, np.inf), above[:-1]])
        return sj.scan(cell, sequences=[y, above, corner], outputs_info=np.inf)

    first = sj.cumsum((x[0] - y) ** 2)
    return sj.concatenate([first[None], sj.scan(row, sequences=x[1:], outputs_info=first)])


t = np.linspace(0, 1, 120)
x, y = np.sin(2 * np.pi * 2 * t), np.sin(2 * np.pi * 2 * t**1.6)
costs = table(x, y)
i, j = 119, 119
path = [(i, j)]
while (i, j) != (0, 0):
    moves = [(i - 1, j - 1), (i - 1, j), (i, j - 1)]
    i, j = min((m for m in moves if min(m) >= 0), key=lambda m: costs[m])
    path.append((i, j))
plt.imshow(np.log1p(costs), cmap="bone", origin="lower")
plt.plot(*np.array(path)[:, ::-1].T, "C1", lw=2)
plt.xlabel("second series")
plt.ylabel("first series")
plt.show()

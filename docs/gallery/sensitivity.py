"""
How far a network looks back
============================

The gradient of the last output with respect to each input, for recurrent weights of three sizes: it fades,
stays, or explodes.
"""

import matplotlib.pyplot as plt
import numpy as np

import scanjit as sj


def last(xs, U):
    return sj.scan(lambda x, h: np.tanh(x + h @ U), sequences=xs, outputs_info=sj.zeros(32))[-1].sum()


random = np.random.default_rng(0)
orthogonal = np.linalg.qr(random.normal(size=(32, 32)))[0]
xs = 0.02 * random.normal(size=(80, 32))
slopes = sj.value_and_grad(last)
for scale in (0.8, 1.0, 1.15):
    plt.semilogy(np.linalg.norm(slopes(xs, scale * orthogonal)[1], axis=1), label=f"weights x {scale}")
plt.xlabel("step of the input")
plt.ylabel("gradient")
plt.legend()
plt.show()

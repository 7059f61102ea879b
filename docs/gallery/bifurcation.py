"""
Bifurcations of the logistic map
================================

One number, ``x -> r x (1 - x)``, for 2,000 values of ``r`` at once. The first 500 steps are forgotten.
"""

import matplotlib.pyplot as plt
import numpy as np

import scanjit as sj

r = np.linspace(2.6, 4.0, 2000)


@sj.jit
def last_hundred(r):
    return sj.scan(lambda x: r * x * (1 - x), outputs_info=0.5 * sj.ones_like(r), n_steps=600)[-100:]


x = last_hundred(r)
plt.plot(np.broadcast_to(r, x.shape).ravel(), x.ravel(), ",k", alpha=0.2)
plt.xlabel("r")
plt.show()

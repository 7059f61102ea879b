"""
Spikes
======

A thousand neurons after Izhikevich (2003), 800 that excite and 200 that inhibit, for a second.
"""

import matplotlib.pyplot as plt
import numpy as np

import scanjit as sj

random = np.random.default_rng(0)
u = random.random(1000)
excites = np.arange(1000) < 800
a = np.where(excites, 0.02, 0.02 + 0.08 * u)
b = np.where(excites, 0.2, 0.25 - 0.05 * u)
c = np.where(excites, -65 + 15 * u**2, -65.0)
d = np.where(excites, 8 - 6 * u**2, 2.0)
weights = np.where(excites, 0.5, -1.0) * random.random((1000, 1000))  # from column to row


@sj.jit
def run(noise, weights):
    def step(current, v, recovery):
        fired = v >= 30
        v, recovery = sj.where(fired, c, v), sj.where(fired, recovery + d, recovery)
        current = current + weights @ sj.cast(fired, "float64")
        for _ in range(2):
            v = v + 0.5 * (0.04 * v**2 + 5 * v + 140 - recovery + current)
        return v, recovery + a * (b * v - recovery), fired

    return sj.scan(step, sequences=noise, outputs_info=[sj.constant(np.full(1000, -65.0)), sj.constant(b * -65), None])[
        2
    ]


noise = random.normal(size=(1000, 1000)) * np.where(excites, 5, 2)
time, neuron = np.nonzero(run(noise, weights))
plt.plot(time, neuron, ",k")
plt.xlabel("ms")
plt.ylabel("neuron")
plt.show()

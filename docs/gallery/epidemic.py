"""
An epidemic, and what decides it
================================

A compartment model, and the derivative of the peak with respect to the rate of infection over time: when do
measures help?
"""

import matplotlib.pyplot as plt
import numpy as np

import scanjit as sj


def infected(rate, days):
    def step(beta, s, i, r):
        new, well = beta * s * i, 0.1 * i
        return s - new, i + new - well, r + well

    return sj.scan(step, sequences=rate, outputs_info=[0.999, 0.001, 0.0])[1]


rate = np.full(160, 0.3)
curve = sj.jit(lambda rate: infected(rate, 160))(rate)
peak, slope = sj.value_and_grad(lambda rate: infected(rate, 160).max())(rate)
plt.plot(curve, label="infected")
plt.plot(slope / slope.max() * peak, label="effect of the day's rate on the peak")
plt.xlabel("day")
plt.legend()
plt.show()

"""
The volatility of returns
=========================

A GARCH model finds calm and wild times. Here it filters returns that it made itself.
"""

import matplotlib.pyplot as plt
import numpy as np

import scanjit as sj


@sj.jit
def simulate(noise, omega=0.02, alpha=0.09, beta=0.9):
    def step(e, last, variance):
        variance = omega + alpha * last**2 + beta * variance
        return np.sqrt(variance) * e, variance

    return sj.scan(step, sequences=noise, outputs_info=[0.0, 2.0])


returns, variance = simulate(np.random.default_rng(4).normal(size=2000))
plt.plot(returns, lw=0.4, color="gray")
plt.plot(2 * np.sqrt(variance), "C1")
plt.plot(-2 * np.sqrt(variance), "C1")
plt.show()

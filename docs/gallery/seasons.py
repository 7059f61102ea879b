"""
Seasons and trend
=================

Holt and Winters' smoothing: level, trend, and a ring of twelve months, forecast for two years.
"""

import matplotlib.pyplot as plt
import numpy as np

import scanjit as sj


def smooth(y, a=0.3, b=0.05, c=0.3):
    def step(y, level, trend, season):
        new = a * (y - season) + (1 - a) * (level + trend)
        return new, b * (new - level) + (1 - b) * trend, c * (y - new) + (1 - c) * season

    first = y[:12] - y[:12].mean()
    return sj.scan(step, sequences=y, outputs_info=[y[:12].mean(), 0.0, dict(initial=first, taps=[-12])])


months = np.arange(120)
y = 20 + 0.1 * months + 5 * np.sin(2 * np.pi * months / 12) + np.random.default_rng(0).normal(size=120)
level, trend, season = sj.jit(smooth)(y)
ahead = np.arange(1, 25)
forecast = level[-1] + trend[-1] * ahead + np.tile(season[-12:], 2)
plt.plot(months, y, label="data")
plt.plot(months, level, label="level")
plt.plot(119 + ahead, forecast, "--", label="forecast")
plt.xlabel("month")
plt.legend()
plt.show()

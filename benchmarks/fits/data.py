"""The series that are fitted: the same in every process, and the first ones of however many. Needs NumPy only."""

from __future__ import annotations

import numpy as np

DAYS, MONTHS, STEPS = 1000, 120, 500
GARCH_START = (0.0, 0.1, 0.05, 0.9)
TREND = {"level": 0.1, "trend": 0.01, "noise": 1.0}
"""The variances of the local linear trend whose likelihood is computed."""


def returns(count: int) -> np.ndarray:
    """Of a GARCH(1,1): (series, days)."""
    variance, found = np.ones(count), np.random.default_rng(0).normal(size=(count, DAYS))
    for day in range(DAYS):
        found[:, day] *= np.sqrt(variance)
        variance = 0.05 + 0.1 * found[:, day] ** 2 + 0.85 * variance
    return found


def backcast(found: np.ndarray) -> np.ndarray:
    """What arch takes for the square and the variance of the day before the first: (series,)."""
    weights = 0.94 ** np.arange(75)
    return ((found - found.mean(axis=1, keepdims=True))[:, :75] ** 2) @ (weights / weights.sum())


def sales(count: int) -> np.ndarray:
    """With a level and a trend that wander: (series, months)."""
    errors = np.random.default_rng(1).normal(size=(count, MONTHS))
    trends = 0.3 + np.cumsum(0.05 * errors, axis=1)
    return 100 + np.cumsum(trends + 0.4 * errors, axis=1) + 0.6 * errors


def gapped(count: int) -> np.ndarray:
    """A local linear trend of which a fifth is missing: (series, steps)."""
    errors = np.random.default_rng(2).normal(size=(count, 4, STEPS))
    slopes = np.cumsum(np.sqrt(TREND["trend"]) * errors[:, 0], axis=1)
    levels = np.cumsum(slopes + np.sqrt(TREND["level"]) * errors[:, 1], axis=1)
    missing = errors[:, 3] < -0.8416  # of a fifth
    return np.where(missing, np.nan, levels + np.sqrt(TREND["noise"]) * errors[:, 2])


CASES = {"GARCH(1,1)": returns, "ETS(A,A,N)": sales, "local linear trend": gapped}
"""By name, what makes so many series."""

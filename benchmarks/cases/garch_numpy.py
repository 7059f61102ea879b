"""The GARCH model as one writes it in NumPy: Python's own floats for the recurrence, arrays for the rest."""

from __future__ import annotations

import numpy as np


def variances(p: np.ndarray, r: np.ndarray) -> np.ndarray:
    """The recurrence alone, which NumPy cannot do at once."""
    p2, h = float(p[2]), 1.0
    found = []
    for known in (p[0] + p[1] * r * r).tolist():
        h = known + p2 * h
        found.append(h)
    return np.array(found)


def forward(p: np.ndarray, r: np.ndarray) -> list[np.ndarray]:
    """The sum."""
    h = variances(p, r)
    return [np.asarray((np.log(h) + r * r / h).sum())]


def with_gradient(p: np.ndarray, r: np.ndarray) -> list[np.ndarray]:
    """The sum and its gradient."""
    h = variances(p, r)
    square = r * r
    p2, d = float(p[2]), 0.0
    found = []
    for known in ((1 - square / h) / h)[::-1].tolist():
        d = known + p2 * d
        found.append(d)
    dh = np.array(found[::-1])
    before = np.concatenate([[1.0], h[:-1]])
    return [np.asarray((np.log(h) + square / h).sum()), np.array([dh.sum(), dh @ square, dh @ before])]

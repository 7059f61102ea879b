"""The GARCH model as one writes it for Numba: one scalar loop."""

from __future__ import annotations

import math

import numpy as np
from numba import njit


@njit(fastmath=True, error_model="numpy", cache=True)
def forward(p, r):  # type: ignore[no-untyped-def]
    """The sum."""
    h = 1.0
    total = 0.0
    for t in range(r.shape[0]):
        h = p[0] + p[1] * r[t] * r[t] + p[2] * h
        total += math.log(h) + r[t] * r[t] / h
    return (np.array(total),)


@njit(fastmath=True, error_model="numpy", cache=True)
def with_gradient(p, r):  # type: ignore[no-untyped-def]
    """The sum and its gradient: the derivatives of `h` are recurrences too, so there is no way back."""
    h = 1.0
    total = 0.0
    h0 = h1 = h2 = 0.0
    d0 = d1 = d2 = 0.0
    for t in range(r.shape[0]):
        square = r[t] * r[t]
        h0 = 1.0 + p[2] * h0
        h1 = square + p[2] * h1
        h2 = h + p[2] * h2
        h = p[0] + p[1] * square + p[2] * h
        inverse = 1.0 / h
        scaled = square * inverse
        total += math.log(h) + scaled
        slope = inverse - scaled * inverse
        d0 += slope * h0
        d1 += slope * h1
        d2 += slope * h2
    return np.array(total), np.array([d0, d1, d2])

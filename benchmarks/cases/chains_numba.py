"""The chains as one writes them for Numba: a loop over numbers that calls the functions of the C library."""
# mypy: disable-error-code="no-untyped-def"

import math

import numpy as np
from numba import njit

compiled = njit(error_model="numpy")


def _loops(function, slope):
    """The loop, and value and gradient: forward, then back."""

    @compiled
    def value(x):
        half, h, y = x.dtype.type(0.5), x.dtype.type(0.0), np.empty_like(x)
        for t in range(x.shape[0]):
            h = function(half * h + x[t])
            y[t] = h
        return y

    @compiled
    def with_gradient(x, dy):
        half, g, y, dx = x.dtype.type(0.5), x.dtype.type(0.0), value(x), np.empty_like(x)
        for t in range(x.shape[0] - 1, -1, -1):
            before = y[t - 1] if t > 0 else x.dtype.type(0.0)
            dx[t] = (g + dy[t]) * slope(half * before + x[t], y[t])
            g = half * dx[t]
        return y, dx

    return value, with_gradient


exp, exp_with_gradient = _loops(compiled(lambda u: math.exp(-u * u)), compiled(lambda u, y: -2 * u * y))
sigmoid, sigmoid_with_gradient = _loops(compiled(lambda u: 1 / (1 + math.exp(-u))), compiled(lambda u, y: y * (1 - y)))
log, log_with_gradient = _loops(compiled(lambda u: math.log(1 + u * u)), compiled(lambda u, y: 2 * u / (1 + u * u)))
tanh, tanh_with_gradient = _loops(compiled(lambda u: math.tanh(u)), compiled(lambda u, y: 1 - y * y))
softplus, softplus_with_gradient = _loops(
    compiled(lambda u: max(u, 0 * u) + math.log1p(math.exp(-abs(u)))), compiled(lambda u, y: 1 / (1 + math.exp(-u)))
)

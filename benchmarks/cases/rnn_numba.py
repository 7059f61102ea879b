"""The plain recurrent network as one writes it for Numba: products by BLAS into arrays that are there, the rest as
loops."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

ONE = np.float32(1)


@njit(fastmath=True, cache=True)
def forward(x, W, R, b):  # type: ignore[no-untyped-def]
    """`hs`."""
    T, B, I = x.shape
    H = R.shape[0]
    hs = np.empty((T, B, H), x.dtype)
    np.dot(x.reshape(T * B, I), W, hs.reshape(T * B, H))
    z = np.empty((B, H), x.dtype)
    h = np.zeros((B, H), x.dtype)
    for t in range(T):
        np.dot(h, R, z)
        h = hs[t]
        for n in range(B):
            for j in range(H):
                h[n, j] = math.tanh(h[n, j] + z[n, j] + b[j])
    return (hs,)


@njit(fastmath=True, cache=True)
def with_gradient(x, W, R, b, dhs):  # type: ignore[no-untyped-def]
    """`hs` and the gradients of `sum(hs * dhs)`."""
    T, B, I = x.shape
    H = R.shape[0]
    flat_x = x.reshape(T * B, I)
    before = np.empty((T + 1, B, H), x.dtype)
    hs = before[1:]
    np.dot(flat_x, W, hs.reshape(T * B, H))
    before[0] = 0
    z = np.empty((B, H), x.dtype)
    for t in range(T):
        np.dot(before[t], R, z)
        for n in range(B):
            for j in range(H):
                hs[t, n, j] = math.tanh(hs[t, n, j] + z[n, j] + b[j])
    dz = np.empty((T, B, H), x.dtype)
    dh = np.zeros((B, H), x.dtype)
    transposed = R.T.copy()
    for t in range(T - 1, -1, -1):
        for n in range(B):
            for j in range(H):
                dz[t, n, j] = (dh[n, j] + dhs[t, n, j]) * (ONE - hs[t, n, j] * hs[t, n, j])
        np.dot(dz[t], transposed, dh)
    flat = dz.reshape(T * B, H)
    dx = np.empty((T * B, I), x.dtype)
    dW = np.empty((I, H), x.dtype)
    dR = np.empty((H, H), x.dtype)
    db = np.zeros(H, x.dtype)
    np.dot(flat, W.T.copy(), dx)
    np.dot(flat_x.T, flat, dW)
    np.dot(before[:T].reshape(T * B, H).T, flat, dR)
    for n in range(T * B):
        for j in range(H):
            db[j] += flat[n, j]
    return hs, dx.reshape(T, B, I), dW, dR, db

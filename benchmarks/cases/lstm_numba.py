"""The LSTM as one writes it for Numba: products by BLAS into arrays that are there, the rest as loops."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

ONE = np.float32(1)


@njit(fastmath=True, inline="always")
def sigmoid(x):  # type: ignore[no-untyped-def]
    return ONE / (ONE + math.exp(-x))


@njit(fastmath=True, cache=True)
def forward(x, W, R, b):  # type: ignore[no-untyped-def]
    """`hs`."""
    T, B, I = x.shape
    H = R.shape[0]
    projected = np.empty((T * B, 4 * H), x.dtype)
    np.dot(x.reshape(T * B, I), W, projected)
    hs = np.empty((T, B, H), x.dtype)
    c = np.zeros((B, H), x.dtype)
    z = np.empty((B, 4 * H), x.dtype)
    h = np.zeros((B, H), x.dtype)
    for t in range(T):
        np.dot(h, R, z)
        h = hs[t]
        for n in range(B):
            p = projected[t * B + n]
            for j in range(H):
                i = sigmoid(z[n, j] + p[j] + b[j])
                f = sigmoid(z[n, j + H] + p[j + H] + b[j + H])
                g = math.tanh(z[n, j + 2 * H] + p[j + 2 * H] + b[j + 2 * H])
                o = sigmoid(z[n, j + 3 * H] + p[j + 3 * H] + b[j + 3 * H])
                c[n, j] = f * c[n, j] + i * g
                h[n, j] = o * math.tanh(c[n, j])
    return (hs,)


@njit(fastmath=True, cache=True)
def with_gradient(x, W, R, b, dhs):  # type: ignore[no-untyped-def]
    """`hs` and the gradients of `sum(hs * dhs)`."""
    T, B, I = x.shape
    H = R.shape[0]
    flat_x = x.reshape(T * B, I)
    gates = np.empty((T, B, 4 * H), x.dtype)
    np.dot(flat_x, W, gates.reshape(T * B, 4 * H))
    before = np.empty((T + 1, B, H), x.dtype)
    cs = np.empty((T + 1, B, H), x.dtype)
    tanh_cs = np.empty((T, B, H), x.dtype)
    before[0] = 0
    cs[0] = 0
    z = np.empty((B, 4 * H), x.dtype)
    for t in range(T):
        np.dot(before[t], R, z)
        for n in range(B):
            for j in range(H):
                i = sigmoid(z[n, j] + gates[t, n, j] + b[j])
                f = sigmoid(z[n, j + H] + gates[t, n, j + H] + b[j + H])
                g = math.tanh(z[n, j + 2 * H] + gates[t, n, j + 2 * H] + b[j + 2 * H])
                o = sigmoid(z[n, j + 3 * H] + gates[t, n, j + 3 * H] + b[j + 3 * H])
                gates[t, n, j] = i
                gates[t, n, j + H] = f
                gates[t, n, j + 2 * H] = g
                gates[t, n, j + 3 * H] = o
                cs[t + 1, n, j] = f * cs[t, n, j] + i * g
                tanh_cs[t, n, j] = math.tanh(cs[t + 1, n, j])
                before[t + 1, n, j] = o * tanh_cs[t, n, j]
    dz = np.empty((T, B, 4 * H), x.dtype)
    dh = np.zeros((B, H), x.dtype)
    dc = np.zeros((B, H), x.dtype)
    transposed = R.T.copy()
    for t in range(T - 1, -1, -1):
        for n in range(B):
            for j in range(H):
                i, f = gates[t, n, j], gates[t, n, j + H]
                g, o = gates[t, n, j + 2 * H], gates[t, n, j + 3 * H]
                tanh_c = tanh_cs[t, n, j]
                d = dh[n, j] + dhs[t, n, j]
                e = dc[n, j] + d * o * (ONE - tanh_c * tanh_c)
                dz[t, n, j] = e * g * i * (ONE - i)
                dz[t, n, j + H] = e * cs[t, n, j] * f * (ONE - f)
                dz[t, n, j + 2 * H] = e * i * (ONE - g * g)
                dz[t, n, j + 3 * H] = d * tanh_c * o * (ONE - o)
                dc[n, j] = e * f
        np.dot(dz[t], transposed, dh)
    flat = dz.reshape(T * B, 4 * H)
    dx = np.empty((T * B, I), x.dtype)
    dW = np.empty((I, 4 * H), x.dtype)
    dR = np.empty((H, 4 * H), x.dtype)
    db = np.zeros(4 * H, x.dtype)
    np.dot(flat, W.T.copy(), dx)
    np.dot(flat_x.T, flat, dW)
    np.dot(before[:T].reshape(T * B, H).T, flat, dR)
    for n in range(T * B):
        for j in range(4 * H):
            db[j] += flat[n, j]
    return before[1:], dx.reshape(T, B, I), dW, dR, db

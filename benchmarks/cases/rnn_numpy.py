"""The plain recurrent network as one writes it in NumPy."""

from __future__ import annotations

import numpy as np


def forward(x: np.ndarray, W: np.ndarray, R: np.ndarray, b: np.ndarray) -> list[np.ndarray]:
    """`hs`."""
    (T, B, I), H = x.shape, R.shape[0]
    hs = (x.reshape(T * B, I) @ W + b).reshape(T, B, H)
    h = np.zeros((B, H), x.dtype)
    for t in range(T):
        hs[t] += h @ R
        h = np.tanh(hs[t], out=hs[t])
    return [hs]


def with_gradient(x: np.ndarray, W: np.ndarray, R: np.ndarray, b: np.ndarray, dhs: np.ndarray) -> list[np.ndarray]:
    """`hs` and the gradients of `sum(hs * dhs)`."""
    (T, B, I), H = x.shape, R.shape[0]
    (hs,) = forward(x, W, R, b)
    dz = np.empty_like(hs)
    zeros = dh = np.zeros((B, H), x.dtype)
    for t in range(T - 1, -1, -1):
        dz[t] = (dh + dhs[t]) * (1 - hs[t] ** 2)
        dh = dz[t] @ R.T
    flat = dz.reshape(T * B, H)
    before = np.concatenate([zeros[None], hs[:-1]]).reshape(T * B, H)
    return [hs, (flat @ W.T).reshape(T, B, I), x.reshape(T * B, I).T @ flat, before.T @ flat, flat.sum(0)]

"""The LSTM as one writes it in NumPy: the product of the input for all steps at once, the rest step by step."""

from __future__ import annotations

import numpy as np


def sigmoid(x: np.ndarray) -> np.ndarray:
    """As one writes it."""
    return 1 / (1 + np.exp(-x))


def forward(x: np.ndarray, W: np.ndarray, R: np.ndarray, b: np.ndarray) -> list[np.ndarray]:
    """`hs`."""
    (T, B, I), H = x.shape, R.shape[0]
    projected = (x.reshape(T * B, I) @ W + b).reshape(T, B, 4 * H)
    hs = np.empty((T, B, H), x.dtype)
    h = c = np.zeros((B, H), x.dtype)
    for t in range(T):
        z = projected[t] + h @ R
        i, f, o = sigmoid(z[:, :H]), sigmoid(z[:, H : 2 * H]), sigmoid(z[:, 3 * H :])
        c = f * c + i * np.tanh(z[:, 2 * H : 3 * H])
        h = hs[t] = o * np.tanh(c)
    return [hs]


def with_gradient(x: np.ndarray, W: np.ndarray, R: np.ndarray, b: np.ndarray, dhs: np.ndarray) -> list[np.ndarray]:
    """`hs` and the gradients of `sum(hs * dhs)`."""
    (T, B, I), H = x.shape, R.shape[0]
    gates = (x.reshape(T * B, I) @ W + b).reshape(T, B, 4 * H)
    hs, cs, tanh_cs = (np.empty((T, B, H), x.dtype) for _ in range(3))
    zeros = np.zeros((B, H), x.dtype)
    h = c = zeros
    for t in range(T):
        z = gates[t]
        z += h @ R
        z[:, : 2 * H] = sigmoid(z[:, : 2 * H])
        z[:, 2 * H : 3 * H] = np.tanh(z[:, 2 * H : 3 * H])
        z[:, 3 * H :] = sigmoid(z[:, 3 * H :])
        c = cs[t] = z[:, H : 2 * H] * c + z[:, :H] * z[:, 2 * H : 3 * H]
        tanh_cs[t] = np.tanh(c)
        h = hs[t] = z[:, 3 * H :] * tanh_cs[t]
    dz = np.empty_like(gates)
    dh = dc = zeros
    for t in range(T - 1, -1, -1):
        i, f, g, o = (gates[t, :, k * H : (k + 1) * H] for k in range(4))
        dh = dh + dhs[t]
        dc = dc + dh * o * (1 - tanh_cs[t] ** 2)
        dz[t, :, :H] = dc * g * i * (1 - i)
        dz[t, :, H : 2 * H] = dc * (cs[t - 1] if t else zeros) * f * (1 - f)
        dz[t, :, 2 * H : 3 * H] = dc * i * (1 - g**2)
        dz[t, :, 3 * H :] = dh * tanh_cs[t] * o * (1 - o)
        dc = dc * f
        dh = dz[t] @ R.T
    flat = dz.reshape(T * B, 4 * H)
    before = np.concatenate([zeros[None], hs[:-1]]).reshape(T * B, H)
    return [hs, (flat @ W.T).reshape(T, B, I), x.reshape(T * B, I).T @ flat, before.T @ flat, flat.sum(0)]

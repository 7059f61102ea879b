"""An LSTM: gates stacked as i, f, g, o; the input projection may be done for all steps at once."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.cases.common import Case, normal


def case(quick: bool) -> Case:
    """The LSTM, and what it is measured on."""
    T, B, I, H = (12, 4, 24, 32) if quick else (100, 16, 120, 320)
    rng = np.random.default_rng(0)
    arguments = [
        normal(rng, T, B, I),
        normal(rng, B, H),
        normal(rng, B, H),
        normal(rng, I, 4 * H, scale=I**-0.5),
        normal(rng, H, 4 * H, scale=H**-0.5),
        normal(rng, 4 * H, scale=0.1),
    ]
    return Case(
        name="LSTM",
        sizes={"T": T, "B": B, "I": I, "H": H},
        arguments=arguments,
        graph=lambda T, unroll, gradient: graph(T, I, H, unroll, gradient),
        by_numpy=by_numpy,
        by_numpy_with_gradient=by_numpy_with_gradient,
        module="lstm_numba",
        wrt=[0, 1, 2, 3, 4, 5],
        cost=lambda hs, arguments: float((hs * arguments[-1]).sum()),
        tolerance=1e-4,
        weights=[normal(rng, T, B, H)],
        flops=8 * T * B * H * (I + H),
    )


# ---- scanjit ---------------------------------------------------------------------------------------------------------


def graph(T: int | None, I: int, H: int, unroll: int | bool, gradient: bool) -> tuple[list[Any], list[Any]]:
    """Inputs and outputs. The sizes of the weights are known, the batch is not."""
    import scanjit as sj

    x = sj.tensor((T or "T", "B", I), "float32", "x")
    h0, c0 = (sj.tensor(("B", H), "float32", name) for name in ("h0", "c0"))
    W, R = sj.tensor((I, 4 * H), "float32", "W"), sj.tensor((H, 4 * H), "float32", "R")
    b = sj.tensor((4 * H,), "float32", "b")

    def step(x_t: Any, h: Any, c: Any) -> Any:
        z = x_t @ W + h @ R + b
        i, f, g, o = (z[:, k * H : (k + 1) * H] for k in range(4))
        c = sj.sigmoid(f) * c + sj.sigmoid(i) * sj.tanh(g)
        return sj.sigmoid(o) * sj.tanh(c), c

    hs, _ = sj.scan(step, x, [h0, c0], unroll=unroll)
    inputs = [x, h0, c0, W, R, b]
    if not gradient:
        return inputs, [hs]
    dhs = sj.tensor((T or "T", "B", H), "float32", "dhs")
    return [*inputs, dhs], [hs, *sj.grad((hs * dhs).sum(), inputs)]


# ---- by hand ---------------------------------------------------------------------------------------------------------


def sigmoid(x: np.ndarray) -> np.ndarray:
    """As one writes it."""
    return 1 / (1 + np.exp(-x))


def by_numpy(
    x: np.ndarray, h0: np.ndarray, c0: np.ndarray, W: np.ndarray, R: np.ndarray, b: np.ndarray
) -> list[np.ndarray]:
    """The loop in NumPy: `hs`."""
    (T, B, I), H = x.shape, h0.shape[1]
    projected = (x.reshape(T * B, I) @ W + b).reshape(T, B, 4 * H)
    hs = np.empty((T, B, H), x.dtype)
    h, c = h0, c0
    for t in range(T):
        z = projected[t] + h @ R
        i, f, o = sigmoid(z[:, :H]), sigmoid(z[:, H : 2 * H]), sigmoid(z[:, 3 * H :])
        c = f * c + i * np.tanh(z[:, 2 * H : 3 * H])
        h = hs[t] = o * np.tanh(c)
    return [hs]


def by_numpy_with_gradient(
    x: np.ndarray, h0: np.ndarray, c0: np.ndarray, W: np.ndarray, R: np.ndarray, b: np.ndarray, dhs: np.ndarray
) -> list[np.ndarray]:
    """The loop in NumPy, and back: `hs` and the gradients of `sum(hs * dhs)`."""
    (T, B, I), H = x.shape, h0.shape[1]
    gates = (x.reshape(T * B, I) @ W + b).reshape(T, B, 4 * H)
    hs, cs, tanh_cs = (np.empty((T, B, H), x.dtype) for _ in range(3))
    h, c = h0, c0
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
    dh, dc = np.zeros_like(h0), np.zeros_like(c0)
    for t in range(T - 1, -1, -1):
        i, f, g, o = (gates[t, :, k * H : (k + 1) * H] for k in range(4))
        dh = dh + dhs[t]
        dc = dc + dh * o * (1 - tanh_cs[t] ** 2)
        dz[t, :, :H] = dc * g * i * (1 - i)
        dz[t, :, H : 2 * H] = dc * (cs[t - 1] if t else c0) * f * (1 - f)
        dz[t, :, 2 * H : 3 * H] = dc * i * (1 - g**2)
        dz[t, :, 3 * H :] = dh * tanh_cs[t] * o * (1 - o)
        dc = dc * f
        dh = dz[t] @ R.T
    flat = dz.reshape(T * B, 4 * H)
    before = np.concatenate([h0[None], hs[:-1]]).reshape(T * B, H)
    dx = (flat @ W.T).reshape(T, B, I)
    return [hs, dx, dh, dc, x.reshape(T * B, I).T @ flat, before.T @ flat, flat.sum(0)]

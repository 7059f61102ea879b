"""A plain recurrent network: `h = tanh(x @ W + h @ R + b)`."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.cases.common import Case, normal


def case(quick: bool) -> Case:
    """The network, and what it is measured on."""
    T, B, I, H = (12, 4, 24, 32) if quick else (100, 16, 120, 320)
    rng = np.random.default_rng(0)
    arguments = [
        normal(rng, T, B, I),
        normal(rng, B, H),
        normal(rng, I, H, scale=I**-0.5),
        normal(rng, H, H, scale=H**-0.5),
        normal(rng, H, scale=0.1),
    ]
    return Case(
        name="tanh RNN",
        sizes={"T": T, "B": B, "I": I, "H": H},
        arguments=arguments,
        graph=lambda T, unroll, gradient: graph(T, I, H, unroll, gradient),
        by_numpy=by_numpy,
        by_numpy_with_gradient=by_numpy_with_gradient,
        module="rnn_numba",
        wrt=[0, 1, 2, 3, 4],
        cost=lambda hs, arguments: float((hs * arguments[-1]).sum()),
        tolerance=1e-4,
        weights=[normal(rng, T, B, H)],
        flops=2 * T * B * H * (I + H),
    )


# ---- scanjit ---------------------------------------------------------------------------------------------------------


def graph(T: int | None, I: int, H: int, unroll: int | bool, gradient: bool) -> tuple[list[Any], list[Any]]:
    """Inputs and outputs. The sizes of the weights are known, the batch is not."""
    import scanjit as sj

    x, h0 = sj.tensor((T or "T", "B", I), "float32", "x"), sj.tensor(("B", H), "float32", "h0")
    W, R = sj.tensor((I, H), "float32", "W"), sj.tensor((H, H), "float32", "R")
    b = sj.tensor((H,), "float32", "b")
    hs = sj.scan(lambda x_t, h: sj.tanh(x_t @ W + h @ R + b), x, h0, unroll=unroll)
    inputs = [x, h0, W, R, b]
    if not gradient:
        return inputs, [hs]
    dhs = sj.tensor((T or "T", "B", H), "float32", "dhs")
    return [*inputs, dhs], [hs, *sj.grad((hs * dhs).sum(), inputs)]


# ---- by hand ---------------------------------------------------------------------------------------------------------


def by_numpy(x: np.ndarray, h0: np.ndarray, W: np.ndarray, R: np.ndarray, b: np.ndarray) -> list[np.ndarray]:
    """The loop in NumPy: `hs`."""
    (T, B, I), H = x.shape, h0.shape[1]
    hs = (x.reshape(T * B, I) @ W + b).reshape(T, B, H)
    h = h0
    for t in range(T):
        hs[t] += h @ R
        h = np.tanh(hs[t], out=hs[t])
    return [hs]


def by_numpy_with_gradient(
    x: np.ndarray, h0: np.ndarray, W: np.ndarray, R: np.ndarray, b: np.ndarray, dhs: np.ndarray
) -> list[np.ndarray]:
    """The loop in NumPy, and back: `hs` and the gradients of `sum(hs * dhs)`."""
    (T, B, I), H = x.shape, h0.shape[1]
    (hs,) = by_numpy(x, h0, W, R, b)
    dz = np.empty_like(hs)
    dh = np.zeros_like(h0)
    for t in range(T - 1, -1, -1):
        dz[t] = (dh + dhs[t]) * (1 - hs[t] ** 2)
        dh = dz[t] @ R.T
    flat = dz.reshape(T * B, H)
    before = np.concatenate([h0[None], hs[:-1]]).reshape(T * B, H)
    return [hs, (flat @ W.T).reshape(T, B, I), dh, x.reshape(T * B, I).T @ flat, before.T @ flat, flat.sum(0)]

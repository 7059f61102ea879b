"""One direction of a recurrent layer in NumPy, straight from arrays in each library's own layout.

Every function takes (batch, time, features), and gives (batch, time, units). They share no code with the importers, nor
with each other what is in question: orders of gates, places of biases, who is kept and who is new.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

Array = Any


def sigmoid(z: Array) -> Array:
    return 1 / (1 + np.exp(-z))


def loop(step: Callable[..., Any], x: Array, units: int, width: int, backwards: bool = False) -> Array:
    """All steps: `step(x_t, h, c) -> (h, c)`."""
    h, c = np.zeros((len(x), width)), np.zeros((len(x), units))
    y = np.zeros((*x.shape[:2], width))
    for t in reversed(range(x.shape[1])) if backwards else range(x.shape[1]):
        h, c = step(x[:, t], h, c)
        y[:, t] = h
    return y


def torch_layer(kind: str, state: dict[str, Array], end: str, x: Array, backwards: bool) -> Array:
    """`end` is "l0", "l1_reverse", ..."""
    W, R = state[f"weight_ih_{end}"], state[f"weight_hh_{end}"]
    bi, bh = state.get(f"bias_ih_{end}", np.zeros(len(W))), state.get(f"bias_hh_{end}", np.zeros(len(W)))
    P = state.get(f"weight_hr_{end}")

    def step(x: Array, h: Array, c: Array) -> Any:
        gi, gh = x @ W.T + bi, h @ R.T + bh
        if kind == "rnn":
            return np.tanh(gi + gh), c
        if kind == "gru":
            (ir, iz, inn), (hr, hz, hn) = np.split(gi, 3, 1), np.split(gh, 3, 1)
            r, z = sigmoid(ir + hr), sigmoid(iz + hz)
            return (1 - z) * np.tanh(inn + r * hn) + z * h, c
        i, f, g, o = np.split(gi + gh, 4, 1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        return (h if P is None else h @ P.T), c

    units = len(R) // {"lstm": 4, "gru": 3, "rnn": 1}[kind]
    return loop(step, x, units, R.shape[1], backwards)


def keras_layer(kind: str, weights: list[Array], x: Array, backwards: bool, reset_after: bool = True) -> Array:
    W, R = weights[:2]
    n = len(R)
    b = weights[2] if len(weights) == 3 else np.zeros((2, 3 * n) if kind == "gru" and reset_after else W.shape[1])

    def step(x: Array, h: Array, c: Array) -> Any:
        if kind == "rnn":
            return np.tanh(x @ W + b + h @ R), c
        if kind == "lstm":
            z = x @ W + h @ R + b
            i, f, new, o = (z[:, k * n : (k + 1) * n] for k in range(4))
            c = sigmoid(f) * c + sigmoid(i) * np.tanh(new)
            return sigmoid(o) * np.tanh(c), c
        xs = x @ W + (b[0] if reset_after else b)
        xz, xr, xh = (xs[:, k * n : (k + 1) * n] for k in range(3))
        if reset_after:
            hs = h @ R + b[1]
            z, r = sigmoid(xz + hs[:, :n]), sigmoid(xr + hs[:, n : 2 * n])
            new = np.tanh(xh + r * hs[:, 2 * n :])
        else:
            z, r = sigmoid(xz + h @ R[:, :n]), sigmoid(xr + h @ R[:, n : 2 * n])
            new = np.tanh(xh + (r * h) @ R[:, 2 * n :])
        return z * h + (1 - z) * new, c

    return loop(step, x, n, n, backwards)


def tensorflow_cell(variables: dict[str, Array], x: Array, forget_bias: float) -> Array:
    if "gates/kernel" in variables:
        n = len(variables["gates/bias"]) // 2
        inner, outer = (f"candidate/{way}_projection" for way in ("input", "hidden"))

        def gru(x: Array, h: Array, c: Array) -> Any:
            z = sigmoid(np.concatenate([x, h], 1) @ variables["gates/kernel"] + variables["gates/bias"])
            r, u = z[:, :n], z[:, n:]
            if "candidate/kernel" in variables:
                new = np.concatenate([x, r * h], 1) @ variables["candidate/kernel"] + variables["candidate/bias"]
            else:
                after = h @ variables[f"{outer}/kernel"] + variables[f"{outer}/bias"]
                new = x @ variables[f"{inner}/kernel"] + variables[f"{inner}/bias"] + r * after
            return u * h + (1 - u) * np.tanh(new), c

        return loop(gru, x, n, n)
    n = len(variables["bias"]) // 4
    wi, wf, wo = (variables.get(f"w_{gate}_diag", np.zeros(n)) for gate in "ifo")
    P = variables.get("projection/kernel", np.eye(n))

    def lstm(x: Array, h: Array, c: Array) -> Any:
        i, j, f, o = np.split(np.concatenate([x, h], 1) @ variables["kernel"] + variables["bias"], 4, 1)
        c = sigmoid(f + forget_bias + wf * c) * c + sigmoid(i + wi * c) * np.tanh(j)
        return (sigmoid(o + wo * c) * np.tanh(c)) @ P, c

    return loop(lstm, x, n, P.shape[1])


def onnx_direction(kind: str, arrays: dict[str, Array], way: int, x: Array, backwards: bool, lbr: bool) -> Array:
    W, R = arrays["W"][way], arrays["R"][way]
    n = R.shape[1]
    Wb, Rb = np.split(arrays["B"][way], 2) if "B" in arrays else (np.zeros(len(W)), np.zeros(len(W)))
    Pi, Po, Pf = np.split(arrays["P"][way], 3) if "P" in arrays else (0, 0, 0)

    def step(X: Array, H: Array, C: Array) -> Any:
        if kind == "rnn":
            return np.tanh(X @ W.T + H @ R.T + Wb + Rb), C
        if kind == "lstm":
            i, o, f, c = np.split(X @ W.T + H @ R.T + Wb + Rb, 4, 1)
            i, f = sigmoid(i + Pi * C), sigmoid(f + Pf * C)
            C = f * C + i * np.tanh(c)
            return sigmoid(o + Po * C) * np.tanh(C), C
        (Wz, Wr, Wh), (Rz, Rr, Rh) = np.split(W, 3), np.split(R, 3)
        (Wbz, Wbr, Wbh), (Rbz, Rbr, Rbh) = np.split(Wb, 3), np.split(Rb, 3)
        z = sigmoid(X @ Wz.T + H @ Rz.T + Wbz + Rbz)
        r = sigmoid(X @ Wr.T + H @ Rr.T + Wbr + Rbr)
        h = X @ Wh.T + Wbh + (r * (H @ Rh.T + Rbh) if lbr else (r * H) @ Rh.T + Rbh)
        return (1 - z) * np.tanh(h) + z * H, C

    return loop(step, x, n, n, backwards)


def onednn_direction(kind: str, arrays: dict[str, Array], layer: int, way: int, x: Array, backwards: bool) -> Array:
    W, R = arrays["weights_layer"][layer, way], arrays["weights_iter"][layer, way]
    n = W.shape[2]
    b = arrays["bias"][layer, way] if "bias" in arrays else np.zeros((W.shape[1], n))
    Pi, Pf, Po = arrays["weights_peephole"][layer, way] if "weights_peephole" in arrays else (0, 0, 0)
    P = arrays["weights_projection"][layer, way] if "weights_projection" in arrays else np.eye(n)

    def step(x: Array, h: Array, c: Array) -> Any:
        gx, gh = (np.einsum("bi,igo->gbo", v, M) for v, M in ((x, W), (h, R)))
        if kind == "rnn":
            return np.tanh(gx[0] + gh[0] + b[0]), c
        if kind == "lstm":
            i, f = (sigmoid(gx[k] + gh[k] + b[k] + p * c) for k, p in ((0, Pi), (1, Pf)))
            c = f * c + i * np.tanh(gx[2] + gh[2] + b[2])
            return (sigmoid(gx[3] + gh[3] + b[3] + Po * c) * np.tanh(c)) @ P, c
        u, r = (sigmoid(gx[k] + gh[k] + b[k]) for k in (0, 1))
        if len(b) == 4:
            o = np.tanh(gx[2] + b[2] + r * (gh[2] + b[3]))
        else:
            o = np.tanh(gx[2] + b[2] + (r * h) @ R[:, 2])
        return u * h + (1 - u) * o, c

    return loop(step, x, n, P.shape[1], backwards)

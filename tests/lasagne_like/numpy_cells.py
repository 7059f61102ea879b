"""Recurrences written in NumPy, one step and one formula at a time: what the layers are compared with.

Each step takes the parameters by their names, an input (batch, features) and a state, and returns (output, state). The
state is a dict of its parts; "hid" is that of a state that is one tensor.
"""

import numpy as np


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softplus(x):
    return np.log1p(np.exp(x))


def relu(x):
    return np.maximum(x, 0)


def silu(x):
    return x * sigmoid(x)


def simple_rnn(P, x, s):
    h = np.tanh(x @ P["W_in_to_hid"] + s["hid"] @ P["W_hid_to_hid"] + P["b"])
    return h, {"hid": h}


def indrnn(P, x, s):
    h = relu(x @ P["W"] + P["u"] * s["hid"] + P["b"])
    return h, {"hid": h}


def _gate(P, name, x, h):
    return x @ P[f"W_in_to_{name}"] + h @ P[f"W_hid_to_{name}"] + P.get(f"b_{name}", 0)


def lstm(P, x, s, forget_bias=0.0, cell_clip=None, proj_clip=None, coupled=False):
    """Peepholes and the projection are there if their parameters are."""
    c, h = s["cell"], s["hid"]
    f = sigmoid(_gate(P, "forgetgate", x, h) + forget_bias + P.get("W_cell_to_forgetgate", 0) * c)
    i = 1 - f if coupled else sigmoid(_gate(P, "ingate", x, h) + P.get("W_cell_to_ingate", 0) * c)
    c = f * c + i * np.tanh(_gate(P, "cell", x, h))
    if cell_clip is not None:
        c = np.clip(c, -cell_clip, cell_clip)
    o = sigmoid(_gate(P, "outgate", x, h) + P.get("W_cell_to_outgate", 0) * c)
    h = o * np.tanh(c)
    if "W_proj" in P:
        h = h @ P["W_proj"]
        if proj_clip is not None:
            h = np.clip(h, -proj_clip, proj_clip)
    return h, {"cell": c, "hid": h}


def layer_norm_lstm(P, x, s, forget_bias, epsilon):
    def normed(z, name):
        z = (z - z.mean(1, keepdims=True)) / np.sqrt(z.var(1, keepdims=True) + epsilon)
        return z * P[f"gain_{name}"] + P[f"shift_{name}"]

    c, h = s["cell"], s["hid"]
    i, f, j, o = (normed(_gate(P, name, x, h), name) for name in ("ingate", "forgetgate", "cell", "outgate"))
    f = sigmoid(f + forget_bias + P.get("W_cell_to_forgetgate", 0) * c)
    c = normed(f * c + sigmoid(i + P.get("W_cell_to_ingate", 0) * c) * np.tanh(j), "state")
    h = sigmoid(o + P.get("W_cell_to_outgate", 0) * c) * np.tanh(c)
    return h, {"cell": c, "hid": h}


def weight_norm_lstm(P, x, s):
    Q = dict(P)
    for name in [name for name in P if name.startswith(("W_in", "W_hid"))]:
        Q[name] = P["g" + name[1:]] * P[name] / np.sqrt((P[name] ** 2).sum(0))
    return lstm(Q, x, s)


def gru(P, x, s, reset_after=True):
    h = s["hid"]
    r = sigmoid(_gate(P, "resetgate", x, h))
    u = sigmoid(_gate(P, "updategate", x, h))
    W = P["W_hid_to_hidden_update"]
    back = r * (h @ W + P.get("b_hid", 0)) if reset_after else (r * h) @ W
    c = np.tanh(x @ P["W_in_to_hidden_update"] + P["b_hidden_update"] + back)
    h = (1 - u) * h + u * c
    return h, {"hid": h}


def ugrnn(P, x, s):
    h = s["hid"]
    g = sigmoid(_gate(P, "gate", x, h) + 1.0)
    h = g * h + (1 - g) * np.tanh(_gate(P, "hid", x, h))
    return h, {"hid": h}


def min_gru(P, x, s):
    z = sigmoid(x @ P["W_in_to_gate"] + P["b_gate"])
    h = (1 - z) * s["hid"] + z * (x @ P["W_in_to_hid"] + P["b_hid"])
    return h, {"hid": h}


def min_lstm(P, x, s):
    f = sigmoid(x @ P["W_in_to_forgetgate"] + P["b_forgetgate"])
    i = sigmoid(x @ P["W_in_to_ingate"] + P["b_ingate"])
    h = (f * s["hid"] + i * (x @ P["W_in_to_hid"] + P["b_hid"])) / (f + i)
    return h, {"hid": h}


def sru(P, x, s):
    f = sigmoid(x @ P["W_in_to_forgetgate"] + P["b_forgetgate"])
    r = sigmoid(x @ P["W_in_to_resetgate"] + P["b_resetgate"])
    c = f * s["hid"] + (1 - f) * (x @ P["W_in_to_cell"])
    return r * np.tanh(c) + (1 - r) * (x @ P["W_in_to_hid"]), {"hid": c}


def slstm(P, x, s):
    i, f, z, o = (_gate(P, name, x, s["hid"]) for name in ("ingate", "forgetgate", "cell", "outgate"))
    log_f = -softplus(-f)
    m = np.maximum(log_f + s["scale"], i)
    c = np.exp(log_f + s["scale"] - m) * s["cell"] + np.exp(i - m) * np.tanh(z)
    n = np.exp(log_f + s["scale"] - m) * s["norm"] + np.exp(i - m)
    h = sigmoid(o) * c / n
    return h, {"cell": c, "norm": n, "scale": m, "hid": h}


def rglru(P, x, s):
    r, i = sigmoid(x @ P["W_r"] + P["b_r"]), sigmoid(x @ P["W_i"] + P["b_i"])
    a = np.exp(-8 * r * softplus(P["L"]))
    h = a * s["hid"] + np.sqrt(1 - a**2) * (i * x)
    return h, {"hid": h}


def s6(P, x, s, prefix=""):
    P = {name.removeprefix(prefix): value for name, value in P.items()}
    delta = softplus(x @ P["W_in_to_delta"] @ P["W_delta"] + P["b_delta"])
    B, C = x @ P["W_in_to_B"], x @ P["W_in_to_C"]
    h, y = np.empty_like(s["hid"]), np.empty_like(x)
    for row in range(x.shape[0]):
        for j in range(x.shape[1]):
            decay = np.exp(delta[row, j] * -np.exp(P["A_log"][j]))
            h[row, j] = decay * s["hid"][row, j] + delta[row, j] * B[row] * x[row, j]
            y[row, j] = C[row] @ h[row, j] + P["skip"][j] * x[row, j]
    return y, {"hid": h}


def mamba(P, x, s):
    u, gate = np.split(x @ P["W_in"], 2, axis=1)
    window = np.concatenate([s["window"], u[:, None]], axis=1)
    u = silu(sum(window[:, k] * P["W_conv"][k] for k in range(len(P["W_conv"]))) + P["b_conv"])
    y, inner = s6(P, u, {"hid": s["ssm"]}, "ssm.")
    return (y * silu(gate)) @ P["W_out"], {"window": window[:, 1:], "ssm": inner["hid"]}


def convolved(x, W):
    """Each output is a sum over the window around it; outside there are zeros."""
    out = np.zeros((x.shape[0], W.shape[0], *x.shape[2:]))
    for place in np.ndindex(x.shape[2:]):
        for tap in np.ndindex(W.shape[2:]):
            at = tuple(p + t - k // 2 for p, t, k in zip(place, tap, W.shape[2:], strict=True))
            if all(0 <= a < n for a, n in zip(at, x.shape[2:], strict=True)):
                out[(slice(None), slice(None), *place)] += x[(slice(None), slice(None), *at)] @ W[(..., *tap)].T
    return out


def conv_lstm(P, x, s):
    b = P["b"].reshape((-1,) + (1,) * (x.ndim - 2))
    i, f, j, o = np.split(convolved(x, P["W_in"]) + convolved(s["hid"], P["W_hid"]) + b, 4, axis=1)
    c = sigmoid(f + 1.0) * s["cell"] + sigmoid(i) * np.tanh(j)
    h = sigmoid(o) * np.tanh(c)
    return h, {"cell": c, "hid": h}


def unfolded(step, P, x, state, mask=None, backwards=False, zero=False):
    """The outputs (batch, time, ...) and the last state, for inputs (batch, time, ...) and a dict of states.

    Each sequence goes by itself; a masked step is no step at all.
    """
    batch, length = x.shape[:2]
    outputs = [[None] * length for _ in range(batch)]
    finals = []
    for row in range(batch):
        now = {name: value[row : row + 1] for name, value in state.items()}
        output, new = step(P, x[row : row + 1, 0], now)
        part = next((name for name in new if new[name] is output), None)
        last = np.zeros_like(output) if part is None else now[part]
        for t in reversed(range(length)) if backwards else range(length):
            if mask is None or mask[row, t]:
                last, now = step(P, x[row : row + 1, t], now)
                outputs[row][t] = last[0]
            else:
                outputs[row][t] = np.zeros_like(last[0]) if zero else last[0]
        finals.append(now)
    return np.array(outputs), {name: np.concatenate([now[name] for now in finals]) for name in state}

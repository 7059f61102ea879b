"""The cells that came with TensorFlow, in NumPy: see `numpy_cells`. Loops over windows and groups are written out."""

import numpy as np

from tests.lasagne_like.numpy_cells import lstm, relu, sigmoid


def nas(P, x, s):
    xs, ms = np.split(x @ P["W_in"], 8, axis=1), np.split(s["hid"] @ P["W_hid"] + P.get("b", 0), 8, axis=1)
    functions = [sigmoid, relu, sigmoid, relu, np.tanh, sigmoid, np.tanh, sigmoid]
    a = [f(p + q) for f, p, q in zip(functions, xs, ms, strict=True)]
    a[3] = relu(xs[3] * ms[3])
    left, middle = np.tanh(np.tanh(a[0] * a[1]) + s["cell"]), np.tanh(a[2] + a[3])
    c = left * middle
    h = np.tanh(c * np.tanh(np.tanh(a[4] * a[5]) + sigmoid(a[6] + a[7])))
    return (h := h @ P["W_proj"] if "W_proj" in P else h), {"cell": c, "hid": h}


def intersection(P, x, s):
    if "W_in_proj" in P:
        x = x @ P["W_in_proj"] + P["b_in_proj"]
    z = {
        n: x @ P[f"W_in_to_{n}"] + s["hid"] @ P[f"W_hid_to_{n}"] + P[f"b_{n}"]
        for n in ("hidgate", "hid", "outgate", "out")
    }
    g = sigmoid(z["hidgate"] + 1.0)
    h = g * s["hid"] + (1 - g) * np.tanh(z["hid"])
    g = sigmoid(z["outgate"] + 1.0)
    return g * x + (1 - g) * relu(z["out"]), {"hid": h}


def phased_lstm(P, x, s):
    """The first feature is the time."""
    _, new = lstm(P, x[:, 1:], s)
    k = np.empty_like(new["cell"])
    for row in range(k.shape[0]):
        for unit in range(k.shape[1]):
            tau, r = P["period"][unit], P["ratio_on"][unit]
            phi = np.mod(x[row, 0] - P["shift"][unit], tau) / tau
            k[row, unit] = 2 * phi / r if phi < r / 2 else 2 - 2 * phi / r if phi < r else 0.001 * phi
    c, h = (k * new[part] + (1 - k) * s[part] for part in ("cell", "hid"))
    return h, {"cell": c, "hid": h}


def windows(x, size, skip):
    return [x[:, i : i + size] for i in range(0, x.shape[1] - size + 1, skip)]


def time_freq_lstm(P, x, s, size, skip, cell_clip=None):
    before, cells, hids = 0.0 * s["hid"][:, 0], [], []
    for k, window in enumerate(windows(x, size, skip)):
        z = window @ P["W_in"] + s["hid"][:, k] @ P["W_time"] + before @ P["W_freq"] + P["b"]
        i, f, j, o = np.split(z, 4, axis=1)
        old = s["cell"][:, k]
        f, i = f + 1.0 + P.get("W_cell_to_forgetgate", 0) * old, i + P.get("W_cell_to_ingate", 0) * old
        c = sigmoid(f) * old + sigmoid(i) * np.tanh(j)
        if cell_clip is not None:
            c = np.clip(c, -cell_clip, cell_clip)
        before = sigmoid(o + P.get("W_cell_to_outgate", 0) * c) * np.tanh(c)
        cells.append(c)
        hids.append(before)
    return np.concatenate(hids, axis=1), {"cell": np.stack(cells, axis=1), "hid": np.stack(hids, axis=1)}


def grid_lstm(P, x, s, size, skip, share=False, coupled=False, cell_clip=None, pieces=None):
    def gates(which, window, h, g):
        z = window @ P[f"W_in{which}"] + h @ P[f"W_time{which}"] + g @ P[f"W_freq{which}"] + P[f"b{which}"]
        return np.split(z, 3 if coupled else 4, axis=1)

    def peeped(z, gate, which, freq, time):
        return z + P.get(f"W_freq_cell_to_{gate}{which}", 0) * freq + P.get(f"W_time_cell_to_{gate}{which}", 0) * time

    def memory(z, which, old, freq, time):
        i = sigmoid(peeped(z[0], "ingate", which, freq, time))
        f = 1 - i if coupled else sigmoid(peeped(z[1] + 1.0, "forgetgate", which, freq, time))
        c = f * old + i * np.tanh(z[-2])
        return c if cell_clip is None else np.clip(c, -cell_clip, cell_clip)

    freq, time = ("", "") if share else ("_freq", "_time")
    g = freq_cell = 0.0 * s["hid"][:, 0]
    cells, hids, outputs = [], [], []
    for k, window in enumerate(windows(x, size, skip) if pieces is None else pieces):
        h, time_cell = s["hid"][:, k], s["cell"][:, k]
        of_freq, of_time = gates(freq, window, h, g), gates(time, window, h, g)
        new_freq = memory(of_freq, freq, freq_cell, freq_cell, time_cell)
        new_time = memory(of_time, time, time_cell, freq_cell, time_cell)
        g = sigmoid(peeped(of_freq[-1], "outgate", freq, new_freq, new_time)) * np.tanh(new_freq)
        h = sigmoid(peeped(of_time[-1], "outgate", time, new_freq, new_time)) * np.tanh(new_time)
        freq_cell = new_freq
        cells.append(new_time)
        hids.append(h)
        outputs += [h, g]
    return np.concatenate(outputs, axis=1), {"cell": np.stack(cells, axis=1), "hid": np.stack(hids, axis=1)}


def bidirectional_grid_lstm(P, x, s, size, skip, offset, **options):
    def part(name):
        inner = {key.removeprefix(f"{name}."): value for key, value in P.items() if key.startswith(name)}
        return inner, {key.removeprefix(f"{name}."): value for key, value in s.items() if key.startswith(name)}

    count = len(windows(x, size, skip))
    padded = np.concatenate([x, np.zeros((x.shape[0], offset))], axis=1)
    inner, state = part("forward")
    there, a = grid_lstm(inner, x, state, size, skip, **options)
    pieces = windows(padded[:, offset:], size, skip)[:count][::-1]
    inner, state = part("backward")
    back, b = grid_lstm(inner, x, state, size, skip, pieces=pieces, **options)
    state = {f"{name}.{key}": value for name, new in (("forward", a), ("backward", b)) for key, value in new.items()}
    return np.concatenate([there, back], axis=1), state


def glstm(P, x, s, groups):
    xs, hs = np.split(x, groups, axis=1), np.split(s["hid"], groups, axis=1)
    z = [x @ P["W_in"][g] + h @ P["W_hid"][g] + P["b"][g] for g, (x, h) in enumerate(zip(xs, hs, strict=True))]
    i, f, j, o = (
        np.concatenate(parts, axis=1) for parts in zip(*(np.split(part, 4, axis=1) for part in z), strict=True)
    )
    c = sigmoid(f + 1.0) * s["cell"] + sigmoid(i) * np.tanh(j)
    h = sigmoid(o) * np.tanh(c)
    return (h := h @ P["W_proj"] if "W_proj" in P else h), {"cell": c, "hid": h}


def _independent(P, name, x, h):
    return x @ P[f"W_in_to_{name}"] + P[f"u_{name}"] * h + P[f"b_{name}"]


def indy_lstm(P, x, s):
    i, f, j, o = (_independent(P, name, x, s["hid"]) for name in ("ingate", "forgetgate", "cell", "outgate"))
    c = sigmoid(f + 1.0) * s["cell"] + sigmoid(i) * np.tanh(j)
    h = sigmoid(o) * np.tanh(c)
    return h, {"cell": c, "hid": h}


def indy_gru(P, x, s):
    h = s["hid"]
    r, u = sigmoid(_independent(P, "resetgate", x, h)), sigmoid(_independent(P, "updategate", x, h))
    h = (1 - u) * h + u * np.tanh(_independent(P, "hidden_update", x, r * h))
    return h, {"hid": h}


def highway(P, x, h, new):
    carry, taken = sigmoid(x @ P["W"] + P["b"]), sigmoid(x @ P["W_transform"] + P["b_transform"])
    return carry * x + taken * h, new


def attention(P, x, s, step, parts):
    """Around a cell whose state has `parts`; the state of the cell is "cell" where that is one tensor."""
    inner = {"hid": s["cell"]} if parts == ["hid"] else {part: s[f"cell.{part}"] for part in parts}
    reads = np.concatenate([x, s["attended"]], axis=1) @ P["W_in"] + P["b_in"]
    y, new = step(P | {"W_in": None}, reads, inner)
    query = np.concatenate([new[part] for part in parts], axis=1) @ P["W_state"] + P["b_state"]
    attended = np.empty_like(s["attended"])
    for row, window in enumerate(s["window"]):
        scores = np.array([np.tanh(h @ P["W_window"] + query[row]) @ P["v"] for h in window])
        weights = np.exp(scores - scores.max()) / np.exp(scores - scores.max()).sum()
        attended[row] = sum(w * h for w, h in zip(weights, window, strict=True))
    output = np.concatenate([y, attended], axis=1) @ P["W_out"] + P["b_out"]
    window = np.concatenate([s["window"][:, 1:], output[:, None]], axis=1)
    state = {"cell": new["hid"]} if parts == ["hid"] else {f"cell.{part}": new[part] for part in parts}
    return output, {**state, "attended": attended, "window": window}

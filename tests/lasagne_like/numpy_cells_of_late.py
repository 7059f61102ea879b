"""Recurrences with matrices for memories, and a complex one, in NumPy: see `numpy_cells`. One head after the other."""

import numpy as np

from tests.lasagne_like.numpy_cells import sigmoid, silu, softplus


def mlstm(P, x, s, heads):
    z, gates = x @ P["W"] + P["b"], x @ P["W_gates"] + P["b_gates"]
    new = {name: np.empty_like(value) for name, value in s.items()}
    output = []
    for row in range(x.shape[0]):
        q, k, v, o = (np.split(part, heads) for part in np.split(z[row], 4))
        for j in range(heads):
            i, log_f = gates[row, j], -softplus(-gates[row, heads + j])
            m = max(log_f + s["scale"][row, j], i)
            key = k[j] / np.sqrt(len(k[j]))
            keep, take = np.exp(log_f + s["scale"][row, j] - m), np.exp(i - m)
            new["scale"][row, j] = m
            new["cell"][row, j] = keep * s["cell"][row, j] + take * np.outer(v[j], key)
            new["norm"][row, j] = keep * s["norm"][row, j] + take * key
            h = new["cell"][row, j] @ q[j] / max(abs(new["norm"][row, j] @ q[j]), np.exp(-m))
            output.append(sigmoid(o[j]) * h)
    return np.concatenate(output).reshape(x.shape[0], -1), new


def gated_delta_net(P, x, s, heads, keys):
    z = silu(x @ P["W"])
    decay = np.exp(-np.exp(P["A_log"]) * softplus(x @ P["W_a"] + P["b_a"]))
    beta = sigmoid(x @ P["W_b"])
    S, output = np.empty_like(s["hid"]), []
    for row in range(x.shape[0]):
        q, k, v = (np.split(part, heads) for part in np.split(z[row], [keys, 2 * keys]))
        for j in range(heads):
            q[j], k[j] = (part / np.sqrt((part**2).sum() + 1e-6) for part in (q[j], k[j]))
            M = decay[row, j] * s["hid"][row, j]
            M = M + beta[row, j] * np.outer(v[j] - M @ k[j], k[j])
            S[row, j] = M
            output.append(M @ q[j] / np.sqrt(len(q[j])))
    return np.concatenate(output).reshape(x.shape[0], -1), {"hid": S}


def rwkv7(P, x, s, heads):
    def mix(name):
        return x + (s["shifted"] - x) * P[f"mu_{name}"]

    r, k, v = mix("r") @ P["W_r"], mix("k") @ P["W_k"], mix("v") @ P["W_v"]
    w = np.exp(-np.exp(-0.5) * sigmoid(P["w0"] + np.tanh(mix("w") @ P["w1"]) @ P["w2"]))
    a = sigmoid(P["a0"] + mix("a") @ P["a1"] @ P["a2"])
    g = sigmoid(mix("g") @ P["g1"]) @ P["g2"]
    removed, k = k * P["k_removed"], k * (1 + (a - 1) * P["k_added"])
    S, y = np.empty_like(s["memory"]), np.empty_like(x)
    n = x.shape[1] // heads
    for row in range(x.shape[0]):
        for j in range(heads):
            own = slice(j * n, (j + 1) * n)
            kappa = removed[row, own] / np.linalg.norm(removed[row, own])
            old = s["memory"][row, j]
            M = old @ (np.diag(w[row, own]) - np.outer(kappa, kappa * a[row, own])) + np.outer(v[row, own], k[row, own])
            out = M @ r[row, own]
            out = (out - out.mean()) / np.sqrt(out.var() + 64e-5) * P["gain"][own] + P["shift"][own]
            y[row, own] = out + (r[row, own] * k[row, own] * P["bonus"][own]).sum() * v[row, own]
            S[row, j] = M
    return (y * g) @ P["W_out"], {"shifted": x, "memory": S}


def lru(P, x, s):
    L = np.exp(-np.exp(P["nu_log"]) + 1j * np.exp(P["theta_log"]))
    h = s["hid"][:, 0] + 1j * s["hid"][:, 1]
    h = L * h + np.exp(P["gamma_log"]) * (x @ (P["B_re"] + 1j * P["B_im"]))
    y = (h @ (P["C_re"] + 1j * P["C_im"])).real + P.get("D", 0) * (x if "D" in P else 0)
    return y, {"hid": np.stack([h.real, h.imag], axis=1)}

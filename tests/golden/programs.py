"""The programs whose generated code is kept under review."""

import numpy as np

import scanjit as sj


def lstm():
    """An LSTM that a user wrote with `scan`; nothing in it knows of tiles."""
    inputs, hidden = 24, 32
    x = sj.tensor(("T", "B", inputs), "float32", "x")
    w, r = sj.tensor((inputs, 4 * hidden), "float32", "w"), sj.tensor((hidden, 4 * hidden), "float32", "r")
    b, h0, c0 = (
        sj.tensor((4 * hidden,), "float32", "b"),
        *(sj.tensor(("B", hidden), "float32", n) for n in ("h0", "c0")),
    )

    def step(x, h, c):
        z = x @ w + h @ r + b
        i, f, g, o = (z[:, k * hidden : (k + 1) * hidden] for k in range(4))
        c = sj.sigmoid(f) * c + sj.sigmoid(i) * np.tanh(g)
        return sj.sigmoid(o) * np.tanh(c), c

    h, _ = sj.scan(step, sequences=x, outputs_info=[h0, c0], name="lstm")
    return [x, w, r, b, h0, c0], [h]


def lstm_gradient():
    """The same with gradients of all weights and of the sequence."""
    leaves, (h,) = lstm()
    return leaves, sj.grad((h * h).sum(), leaves[:4])


def garch():
    """A GARCH(1,1) log-likelihood with its gradient: a scalar core, everything else over time."""
    returns, p = sj.vector("returns", "float64"), sj.tensor((3,), "float64", "p")

    def step(r, h):
        h = p[0] + p[1] * r * r + p[2] * h
        return h, np.log(h) + r * r / h

    _, terms = sj.scan(step, sequences=returns, outputs_info=[1.0, None], name="garch")
    return [returns, p], [terms.sum(), sj.grad(terms.sum(), p)]


def softmax():
    """Reductions, and what is done with them."""
    x = sj.tensor(("B", "N"), "float32", "x")
    return [x], [sj.softmax(x, axis=1), x.argmax(axis=1)]


def embedding():
    """A gather of rows at computed, checked indices, and its gradient: a scatter."""
    table, ids = sj.tensor(("V", "D"), "float32", "table"), sj.tensor(("B",), "int64", "ids")
    rows = table[ids]
    return [table, ids], [rows, sj.grad((rows * rows).sum(), table)]


PROGRAMS = {f.__name__: f for f in (lstm, lstm_gradient, garch, softmax, embedding)}

"""Scans that are an RNN, an LSTM or a GRU are exported as such, however they are written; others are not."""

import numpy as np
import onnx
import pytest

import lasagne_like as lasagne
import scanjit as sj
import scanjit.onnx as sjo
from tests.onnx.support import by_runtime, check_export

T, B, I, H = 5, 2, 3, 4
RNG = np.random.default_rng(0)
X = RNG.normal(size=(T, B, I)).astype("float32")


def weights(*shape):
    return sj.shared((0.6 * RNG.normal(size=shape)).astype("float32"))


W, R, P, BIAS = weights(I, 4 * H), weights(H, 4 * H), weights(3, H), weights(4 * H)
x = sj.tensor(("T", "B", I), "float32", "x")
ZERO = sj.zeros((x.shape[1], H), "float32")


def split(z, count):
    return [z[:, k * H : (k + 1) * H] for k in range(count)]


def lstm_fused(row, h, c):
    i, j, f, o = split(row @ W + h @ R + BIAS, 4)
    c = sj.sigmoid(f + 1.0) * c + sj.sigmoid(i) * sj.tanh(j)
    return sj.sigmoid(o) * sj.tanh(c), c


def lstm_separate(row, h, c):
    """The cell first, every weight by itself, peepholes, one sigmoid for two gates."""
    z = lambda k: row @ W[:, k * H : (k + 1) * H] + h @ R[:, k * H : (k + 1) * H]
    both = sj.sigmoid(sj.concatenate([z(0) + P[0] * c, z(1) + P[1] * c], 1))
    new = both[:, H:] * c + both[:, :H] * sj.tanh(z(2))
    return sj.sigmoid(z(3) + P[2] * new) * sj.tanh(new), new


def gru_of_lasagne(row, h):
    u, r, n = split(row @ W[:, : 3 * H], 3)
    hu, hr, hn = split(h @ R[:, : 3 * H] + BIAS[: 3 * H], 3)
    u, r = sj.sigmoid(u + hu), sj.sigmoid(r + hr)
    return (1 - u) * h + u * sj.tanh(n + r * hn)


def gru_before(row, h):
    z, r = split(sj.sigmoid(row @ W[:, : 2 * H] + h @ R[:, : 2 * H]), 2)
    new = sj.tanh(row @ W[:, 2 * H : 3 * H] + (r * h) @ R[:, 2 * H : 3 * H] + BIAS[:H])
    return new + z * (h - new)


def rnn(row, h):
    return sj.relu(row @ W[:, :H] + h @ R[:, :H])


def turned(step):
    return lambda row, c, h: step(row, h, c)[::-1]


def of_op(model):
    return [node.op_type for node in model.graph.node if node.op_type in ("RNN", "LSTM", "GRU", "Scan")]


def check(outputs, op, x=x, value=X):
    model = check_export([x], outputs, [value])
    assert of_op(model) == [op]
    return model


@pytest.mark.parametrize(
    "step, states, op",
    [
        (lstm_fused, 2, "LSTM"),
        (lstm_separate, 2, "LSTM"),
        (turned(lstm_separate), 2, "LSTM"),
        (gru_of_lasagne, 1, "GRU"),
        (gru_before, 1, "GRU"),
        (rnn, 1, "RNN"),
    ],
)
def test_cells_are_recognised(step, states, op):
    found = sj.scan(step, x, [ZERO + 0.1 * (k + 1) for k in range(states)], return_list=True)
    h = found[-1] if op == "LSTM" and "turned" in step.__qualname__ else found[0]
    check([h, h[-1]], op)


def test_a_bidirectional_layer_on_another():
    forward, _ = sj.scan(lstm_fused, x, [ZERO, ZERO])
    backward = sj.scan(gru_before, x, ZERO, go_backwards=True)
    model = sjo.export(([x], [forward, backward]))
    assert sorted(of_op(model)) == ["GRU", "LSTM"]


def with_clip(row, h, c):
    i, j, f, o = split(row @ W + h @ R + BIAS, 4)
    c = sj.clip(sj.sigmoid(f) * c + sj.sigmoid(i) * sj.tanh(j), -50.0, 50.0)
    return sj.sigmoid(o) * sj.tanh(c), c


def with_more(row, h, c):
    h, c = lstm_fused(row, h, c)
    return h + 0.01 * row[:, :1], c


def with_coupled_gates(row, h, c):
    i, j, _, o = split(row @ W + h @ R, 4)
    i = sj.sigmoid(i)
    c = (1 - i) * c + i * sj.tanh(j)
    return sj.sigmoid(o) * sj.tanh(c), c


@pytest.mark.parametrize("step", [with_clip, with_more, with_coupled_gates])
def test_what_is_nearly_a_cell_stays_a_scan(step):
    h, _ = sj.scan(step, x, [ZERO, ZERO])
    check([h, h[-1]], "Scan")


def test_a_cell_whose_cell_states_are_all_wanted_stays_a_scan():
    h, c = sj.scan(lstm_fused, x, [ZERO, ZERO])
    check([h, c], "Scan")


def test_weights_that_are_inputs_stay_a_scan():
    w = sj.tensor((I, H), "float32", "w")
    h = sj.scan(lambda row, h: sj.tanh(row @ w + h @ R[:, :H]), x, ZERO)
    assert of_op(sjo.export(([x, w], h))) == ["Scan"]


@pytest.mark.parametrize("batch, row, size", [(0, I, H), ("B", 0, H), (B, 0, H), ("B", I, 0), (B, I, 0), (0, 0, 0)])
def test_a_cell_without_rows_features_or_units_stays_a_scan(batch, row, size):
    w, r = weights(row, size), weights(size, size)
    rows = sj.tensor(("T", batch, row), "float32", "rows")
    h = sj.scan(lambda row, h: sj.tanh(row @ w + h @ r), rows, sj.zeros((rows.shape[1], size), "float32"))
    check([h, h[-1]], "Scan", rows, np.ones((T, B if batch == "B" else batch, row), "float32"))


def with_a_plain_row(row, h):
    return sj.tanh(row + h @ R[:, :H])


def with_a_plain_state(row, h):
    return sj.tanh(row @ R[:, :H] + 0.5 * h)


def with_a_part_of_the_row(row, h):
    return sj.tanh(row[:, 1:] @ R[: H - 1, :H] + h @ R[:, :H])


def without_the_state(row, h):
    return sj.tanh(row @ R[:, :H])


def with_a_gate_of_the_state(row, h):
    z = sj.sigmoid(h @ R[:, :H])
    r = sj.sigmoid(row @ R[:, :H] + h @ R[:, H : 2 * H])
    return z * h + (1 - z) * sj.tanh(row @ R[:, H : 2 * H] + (r * h) @ R[:, :H])


def with_a_plain_row_and_cell(row, h, c):
    i, j, f, o = split(h @ R, 4)
    c = sj.sigmoid(f + row) * c + sj.sigmoid(i + row) * sj.tanh(j + row)
    return sj.sigmoid(o + row) * sj.tanh(c), c


def with_a_peephole_of_one_gate(row, h, c):
    i, j, f, o = split(row @ R + h @ R, 4)
    c = sj.sigmoid(f) * c + sj.sigmoid(i) * sj.tanh(j)
    return sj.sigmoid(o + P[0] * c) * sj.tanh(c), c


def with_a_peephole_of_one_of_two_gates(row, h, c):
    """Both are slices of one sigmoid."""
    i, j, f, o = split(row @ R + h @ R, 4)
    both = sj.sigmoid(sj.concatenate([i, f + abs(P[0]) * c], 1))
    c = both[:, H:] * c + both[:, :H] * sj.tanh(j)
    return sj.sigmoid(o) * sj.tanh(c), c


@pytest.mark.parametrize(
    "step, states",
    [
        (with_a_peephole_of_one_gate, 2),
        (with_a_peephole_of_one_of_two_gates, 2),
        (with_a_plain_row, 1),
        (with_a_plain_state, 1),
        (with_a_part_of_the_row, 1),
        (without_the_state, 1),
        (with_a_gate_of_the_state, 1),
        (with_a_plain_row_and_cell, 2),
    ],
)
def test_an_infinity_or_nan_reaches_no_more_units_than_in_the_step(step, states):
    """An op multiplies by all of its weights: with zeros for what the step does not multiply, infinity gives NaN."""
    rows = np.random.default_rng(1).normal(size=(T, B, H)).astype("float32")
    rows[2, 0, 0], rows[3, 1, 1] = -np.inf, np.nan
    source = sj.tensor(("T", "B", H), "float32", "source")
    start = np.zeros((B, H), "float32")
    start[0, 2] = np.inf
    h = sj.scan(step, source, [sj.constant(start)] * states, return_list=True)[0]
    model = sjo.export(([source], h))
    expected = sj.function([source], h, mode="reference")(rows)
    assert np.isfinite(expected).any() and np.isnan(expected).any()
    (found,) = by_runtime(model, rows)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(sjo.load(model).function(mode="reference")(rows), expected, rtol=1e-5, atol=1e-6)
    assert of_op(model) == ["Scan"]


def test_weights_that_are_zero_are_weights():
    """Zeros that the step multiplies by, and not zeros for what it does not."""
    zeros = sj.shared(np.zeros((H, H), "float32"))
    h = sj.scan(lambda row, h: sj.tanh(row @ W[:, :H] + h @ zeros), x, ZERO)
    check([h, h[-1]], "RNN")


@pytest.mark.parametrize("options", [{}, {"backwards": True}, {"only_return_final": True, "precompute_input": False}])
@pytest.mark.parametrize("name, op", [("LSTMLayer", "LSTM"), ("GRULayer", "GRU")])
def test_layers_are_exported_as_ops(name, op, options):
    layer = getattr(lasagne.layers, name)(lasagne.layers.InputLayer((None, None, I)), H, **options)
    series = sj.tensor(("B", "T", I), "float64", "series")
    y = lasagne.layers.get_output(layer, series)
    model = sjo.export(([series], y))
    assert of_op(model) == [op]
    expected = sj.function([series], y, mode="reference")(X.swapaxes(0, 1))
    found = sjo.load(model).function(mode="reference")(X.swapaxes(0, 1))
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


def joined(row, h, c):
    """One product with the row and the state side by side."""
    size = h.type.shape[1]
    i, j, f, o = (z[:, k * size : (k + 1) * size] for k, z in enumerate([sj.concatenate([row, h], 1) @ BOTH + SUM] * 4))
    c = sj.sigmoid(f + 1.0) * c + sj.sigmoid(i) * sj.tanh(j)
    return sj.sigmoid(o) * sj.tanh(c), c


BOTH, SUM = weights(300 + 260, 4 * 260), weights(4 * 260)


@pytest.mark.parametrize("batch", [1, 3, "B"])
def test_the_work_does_not_grow_with_the_batch_or_with_the_square_of_the_units(batch, monkeypatch):
    """All unit vectors are looked at together, and what they are multiplied by is picked, not multiplied."""
    rows = []

    def counted(text, a, b, **options):
        rows.append(a.size // max(a.shape[-1], 1))
        return einsum(text, a, b, **options)

    einsum = np.einsum
    monkeypatch.setattr(np, "einsum", counted)
    source = sj.tensor(("T", batch, 300), "float32", "source")
    h, _ = sj.scan(joined, source, [sj.zeros((source.shape[1], 260), "float32")] * 2)
    model = sjo.export(([source], h))
    assert of_op(model) == ["LSTM"]
    found = {w.name[-1]: onnx.numpy_helper.to_array(w) for w in model.graph.initializer}
    assert list(found) == ["W", "R", "B"]  # and not the shared variables, of which they are made
    for name, part in (("W", slice(300)), ("R", slice(300, None))):
        i, j, f, o = np.split(BOTH.get_value()[part], 4, axis=1)
        np.testing.assert_array_equal(found[name][0], np.concatenate([i, o, f, j], 1).T)
    assert len(rows) <= 4 and max(rows, default=0) <= 4

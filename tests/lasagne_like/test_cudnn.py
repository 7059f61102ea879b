"""cuDNN-like layers against cuDNN's equations in NumPy, with its weights; conversions of its biases."""

from typing import Any

import numpy as np
import pytest

import scanjit as sj
from lasagne_like import cells, init
from lasagne_like.importers import (
    double_biases,
    get_cudnn_buffer,
    get_cudnn_weights,
    set_cudnn_buffer,
    set_cudnn_weights,
    single_biases,
)
from lasagne_like.layers import (
    Bidirectional,
    CudnnGRULayer,
    CudnnLSTMLayer,
    InputLayer,
    ReverseLayer,
    RNNLayer,
    get_all_params,
    get_output,
    get_updates,
)
from tests.lasagne_like.numpy_cells import sigmoid
from tests.lasagne_like.recurrent_support import close, randomize

BATCH, LENGTH, UNITS = 2, 4, 3
LENGTHS = np.array([4, 2])
LAYERS = {"lstm": CudnnLSTMLayer, "gru": CudnnGRULayer}


def cudnn_step(kind: str, W: Any, R: Any, bW: Any, bR: Any, x: Any, h: Any, c: Any) -> Any:
    """One step, in the notation of cuDNN's manual. Without W the input is added as it is."""
    n = len(R)
    p = [x @ W[k].T if W else x for k in range(n)]
    q = [h @ R[k].T + bR[k] for k in range(n)]
    p = [p[k] + bW[k] for k in range(n)]
    if kind == "lstm":
        i, f, new, o = (p[k] + q[k] for k in range(4))
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(new)
        return sigmoid(o) * np.tanh(c), c
    r, i = sigmoid(p[0] + q[0]), sigmoid(p[1] + q[1])
    return (1 - i) * np.tanh(p[2] + r * q[2]) + i * h, c


def cudnn(kind: str, weights: Any, biases: Any, x: Any, layers: int, ways: int, skip: bool, lengths: Any) -> Any:
    """The output (batch, time, ...), 0 behind the ends, and the last h and c of each layer and direction."""
    gates = 4 if kind == "lstm" else 3
    weights, biases, finals = list(weights), list(biases), []
    for layer in range(layers):
        outputs = []
        for way in range(ways):
            W = [] if skip and layer == 0 else [weights.pop(0) for _ in range(gates)]
            R, bW, bR = ([source.pop(0) for _ in range(gates)] for source in (weights, biases, biases))
            y = np.zeros((BATCH, LENGTH, UNITS))
            last = np.zeros((2, BATCH, UNITS))
            for row, count in enumerate(lengths):
                h = c = np.zeros(UNITS)
                for t in range(count) if way == 0 else reversed(range(count)):
                    h, c = cudnn_step(kind, W, R, bW, bR, x[row, t], h, c)
                    y[row, t] = h
                last[:, row] = h, c
            outputs.append(y)
            finals.append(last)
        x = np.concatenate(outputs, axis=-1)
    return x, finals


@pytest.mark.parametrize("double", [False, True])
@pytest.mark.parametrize(
    ("layers", "direction", "mode"), [(1, "unidirectional", "skip_input"), (2, "bidirectional", "")]
)
@pytest.mark.parametrize("kind", LAYERS)
def test_equations_and_weights(
    kind: str, layers: int, direction: str, mode: str, double: bool, run: Any, rng: np.random.Generator
) -> None:
    l_in = InputLayer((None, None, UNITS))
    options = {"input_mode": mode or "linear_input", "double_bias": double, "seq_lengths": LENGTHS}
    layer = LAYERS[kind](l_in, UNITS, layers, direction, return_state=True, **options)
    old = get_cudnn_weights(layer)
    weights, biases = ([rng.normal(size=value.shape) for value in part] for part in old)
    set_cudnn_weights(layer, weights, biases)
    x = rng.normal(size=(BATCH, LENGTH, UNITS))
    output, states = get_output(layer)
    parts = [list(state) if kind == "lstm" else [state] for state in states]
    found = run([output, *(leaf for part in parts for leaf in part)], {l_in.input_var: x})
    expected, finals = cudnn(kind, weights, biases, x, layers, layer.num_directions, bool(mode), LENGTHS)
    inside = np.arange(LENGTH) < LENGTHS[:, None]
    close(found[0][inside], expected[inside])
    wanted = [leaf for last in finals for leaf in (last[::-1] if kind == "lstm" else last[:1])]
    for got, value in zip(found[1:], wanted, strict=True):
        close(got, value)

    again = get_cudnn_weights(layer)
    for got, value in zip(again[0], weights, strict=True):
        close(got, value, 0)
    gates = 4 if kind == "lstm" else 3
    for at in range(0, len(biases), 2 * gates):
        mine, theirs = (single_biases(part[at : at + 2 * gates], kind == "gru") for part in (again[1], biases))
        for got, value in zip(mine, theirs, strict=True):
            close(got, value, 1e-15)
        if double:
            for got, value in zip(again[1][at : at + 2 * gates], biases[at : at + 2 * gates], strict=True):
                close(got, value, 0)
        elif kind == "lstm":  # halves of one
            close(again[1][at], again[1][at + gates], 0)
    other = LAYERS[kind](l_in, UNITS, layers, direction, double_bias=True, input_mode=options["input_mode"])
    set_cudnn_buffer(other, get_cudnn_buffer(layer))
    close(get_cudnn_buffer(other), get_cudnn_buffer(layer), 0)


@pytest.mark.parametrize("kind", LAYERS)
def test_the_same_as_layers_on_layers(kind: str, run: Any) -> None:
    """Outputs and gradients, with a mask and initial states; the weights are those of plain layers."""
    l_in, l_mask = InputLayer((None, None, UNITS)), InputLayer((None, None))
    start = {"cell": init.Normal(1.0), "hid": init.Normal(1.0)} if kind == "lstm" else init.Normal(1.0)
    options = {"mask_input": l_mask, "learn_init": True}
    one = LAYERS[kind](l_in, UNITS, 2, "bidirectional", initial_state=[start] * 4, **options)
    cell = cells.LSTM(UNITS) if kind == "lstm" else cells.GRU(UNITS, b_hid=init.Constant(0.0))
    first = Bidirectional(RNNLayer(l_in, cell, start, **options))
    second = Bidirectional(RNNLayer(first, cell.clone(), start, **options))
    randomize(one.get_params())
    theirs = get_all_params(second)
    randomize(theirs, seed=5)
    set_cudnn_weights([first, second], *get_cudnn_weights(one))
    plain = [way for both in (first, second) for way in (both.forward_layer, both.backward_layer)]
    for a, b in zip(one.all_layers, plain, strict=True):
        for name, param in a.initial.items():
            b.initial[name].set_value(param.get_value())
    x = np.random.default_rng(2).normal(size=(BATCH, LENGTH, UNITS))
    mask = np.array([[1, 1, 0, 1], [0, 1, 1, 0]])
    outputs = get_output([one, second])
    slopes = [sj.grad(sj.sum(y**2), [l_in.input_var]) for y in outputs]
    found = run([*outputs, *slopes[0], *slopes[1]], {l_in.input_var: x, l_mask.input_var: mask})
    close(found[0], found[1])
    close(found[2], found[3])


def test_gradients_of_two_biases_are_those_of_one(run: Any) -> None:
    l_in = InputLayer((None, None, UNITS))
    layer = CudnnLSTMLayer(l_in, UNITS, double_bias=True, name="two")
    one = CudnnLSTMLayer(l_in, UNITS)
    names = [p.name for p in layer.get_params(regularizable=False)]
    assert names[:2] == ["two.layer0.b_in_ingate", "two.layer0.b_hid_ingate"] and len(names) == 8 + 2 - 2
    set_cudnn_weights(one, *get_cudnn_weights(layer))
    b, single = layer.get_params(regularizable=False)[:2], one.all_layers[0].cell.b_ingate
    slopes = [*sj.grad(sj.sum(get_output(layer) ** 2), b), sj.grad(sj.sum(get_output(one) ** 2), single)]
    found = run(slopes, {l_in.input_var: np.ones((1, 3, UNITS))})
    close(found[0], found[2])
    close(found[1], found[2])


def test_dropout_is_between_layers(run: Any) -> None:
    l_in = InputLayer((None, None, UNITS))
    layer = CudnnGRULayer(l_in, UNITS, 2, dropout=0.5)
    x = {l_in.input_var: np.ones((BATCH, LENGTH, UNITS))}
    noisy, plain = run(get_output(layer), x), run(get_output(layer, deterministic=True), x)
    assert np.abs(noisy - plain).max() > 1e-3
    single = CudnnGRULayer(l_in, UNITS, 1, dropout=0.5)
    close(run(get_output(single), x), run(get_output(single, deterministic=True), x), 0)


@pytest.mark.parametrize("time_major", [False, True])
def test_chunks_are_one_long_sequence(time_major: bool) -> None:
    """A stack with a mask that keeps its state: chunks of a sequence, one call each, are the sequence in one call."""
    l_in, l_mask = InputLayer((None, None, UNITS)), InputLayer((None, None))
    layer = CudnnLSTMLayer(l_in, UNITS, 2, mask_input=l_mask, stateful=True, time_major=time_major)
    randomize(layer.get_params())
    symbols = [l_in.input_var, l_mask.input_var]
    output = get_output(layer)
    f = sj.function(symbols, output, updates=get_updates(layer), mode="reference")
    x = np.random.default_rng(1).normal(size=(BATCH, 6, UNITS))
    mask = np.array([[1, 0, 1, 1, 0, 1], [0, 0, 1, 0, 1, 1]])
    results = []
    for cuts in ([], [1, 4]):
        layer.reset_states(batch_size=BATCH)
        parts = zip(np.split(x, cuts, axis=1), np.split(mask, cuts, axis=1), strict=True)
        chunks = [f(*(np.swapaxes(a, 0, 1) for a in part) if time_major else part) for part in parts]
        results.append(np.concatenate(chunks, axis=0 if time_major else 1))
    close(*results, 1e-15)


def test_reversed_sequences_are_what_backwards_reads(run: Any) -> None:
    l_in, l_lengths = InputLayer((None, None, UNITS)), InputLayer((None,), sj.lvector())
    cell = cells.GRU(UNITS)
    inside = {"seq_lengths": l_lengths, "zero_output_for_mask": True}
    backwards = RNNLayer(l_in, cell, backwards=True, **inside)
    turned = RNNLayer(ReverseLayer(l_in, l_lengths), cell, **inside)
    both = get_output([backwards, ReverseLayer(turned, l_lengths)])
    x = np.random.default_rng(1).normal(size=(BATCH, LENGTH, UNITS))
    close(*run(both, {l_in.input_var: x, l_lengths.input_var: np.array([3, LENGTH])}))
    for lengths in ([3, LENGTH + 1], [-1, 3]):
        with pytest.raises(
            sj.errors.AssertError, match="seq_lengths of <ReverseLayer> must be from 0 to the number of steps"
        ):
            run(both[1], {l_in.input_var: x, l_lengths.input_var: np.array(lengths)})
    rows = InputLayer((None, None, 2))
    flipped = get_output([ReverseLayer(rows), ReverseLayer(rows, time_major=True)])
    a, b = run(flipped, {rows.input_var: x[:, :, :2]})
    close(a, x[:, ::-1, :2], 0)
    close(b, x[::-1, :, :2], 0)
    with pytest.raises(ValueError, match=r"needs an input of shape \(batch, time"):
        ReverseLayer((None,))
    with pytest.raises(ValueError, match=r"seq_lengths of <ReverseLayer> must have .*got \(None, 2\)"):
        ReverseLayer((None, 3), (None, 2))


def test_halves_and_sums() -> None:
    b = list(np.random.default_rng(1).normal(size=(4, 2)))
    for got, value in zip(single_biases(double_biases(b)), b, strict=True):
        close(got, value, 0)
    for got, value in zip(single_biases(double_biases(b, gru=True), gru=True), b, strict=True):
        close(got, value, 0)
    assert len(double_biases(b)) == 8 and len(double_biases(b, gru=True)) == 6
    with pytest.raises(ValueError, match="each gate has two biases"):
        single_biases(b[:3])


def test_the_direction_that_reads_forwards_comes_first() -> None:
    both = Bidirectional(RNNLayer((None, None, 2), cells.GRU(3, b_hid=init.Constant(0.5)), backwards=True))
    forwards, backwards = (get_cudnn_weights(layer)[0] for layer in (both.backward_layer, both.forward_layer))
    for got, value in zip(get_cudnn_weights(both)[0], [*forwards, *backwards], strict=True):
        close(got, value, 0)


def test_biases_that_are_other_expressions_are_no_biases_of_cudnn() -> None:
    """The value of such a bias is not that of the variable in it."""
    b = sj.shared(np.ones(3), "b")
    for bias in (2 * b, b + b, sj.constant(np.ones(3))):
        cell = cells.GRU(3, cells.Gate(W_cell=None, b=bias), b_hid=init.Constant(0.5)).build(2)
        with pytest.raises(ValueError, match="its parameters must be shared variables"):
            get_cudnn_weights(cell)
    cell = cells.GRU(3, cells.Gate(W_cell=None, b=b + sj.shared(np.ones(3))), b_hid=init.Constant(0.5)).build(2)
    assert [float(value[0]) for value in get_cudnn_weights(cell)[1]] == [1.0, 0.0, 0.0, 1.0, 0.0, 0.5]


def test_errors() -> None:
    with pytest.raises(ValueError, match="direction must be one of 'unidirectional', 'bidirectional', got 'both'"):
        CudnnLSTMLayer((None, None, 2), 3, direction="both")
    with pytest.raises(ValueError, match="input_mode must be one of"):
        CudnnLSTMLayer((None, None, 2), 3, input_mode="none")
    with pytest.raises(ValueError, match="num_layers must be 1 or more, got 0"):
        CudnnLSTMLayer((None, None, 2), 3, 0)
    with pytest.raises(ValueError, match=r"input of shape \(batch, time, features\), got \(None, 2\)"):
        CudnnGRULayer((None, 2), 3)
    with pytest.raises(ValueError, match=r"these gates add the input as it is.* with 2 features and 3 units"):
        CudnnGRULayer((None, None, 2), 3, input_mode="skip_input")
    assert not CudnnGRULayer((None, None, 2), 3, input_mode="auto_select").skips_input
    with pytest.raises(ValueError, match=r"a state for each layer and direction, 2 \* 2"):
        CudnnGRULayer((None, None, 2), 3, 2, "bidirectional", initial_state=[None])
    layer = CudnnLSTMLayer((None, None, 2), 3)
    weights, biases = get_cudnn_weights(layer)
    before = get_cudnn_buffer(layer)
    with pytest.raises(ValueError, match="needs 8 matrices in cuDNN's order, got 7"):
        set_cudnn_weights(layer, weights[1:], biases)
    with pytest.raises(ValueError, match=r"item 7 of the biases of .* has shape \(2,\), should be \(3,\)"):
        set_cudnn_weights(layer, [w + 1 for w in weights], [*biases[:7], np.ones(2)])
    with pytest.raises(ValueError, match=r"has 84 numbers, got a buffer of shape \(83,\)"):
        set_cudnn_buffer(layer, np.zeros(83))
    assert (get_cudnn_buffer(layer) == before).all()
    gate, b = cells.Gate(nonlinearity=np.tanh), init.Constant(0.0)
    others = cells.GRU(3, gate, b_hid=b), cells.LSTM(3, gate), cells.LSTM(3, nonlinearity=None)
    for cell in (cells.LSTM(3, peepholes=True), cells.GRU(3), cells.SimpleRNN(3), *others):
        with pytest.raises(ValueError, match="cuDNN has no cell like"):
            get_cudnn_weights(cell.build(2))
    with pytest.raises(TypeError, match="expected a recurrent layer or a cell, got 3"):
        get_cudnn_weights(3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda w: np.ma.array(w, mask=w > 0), "item 3 of the matrices of .* masked"),
        (lambda w: w * 1j, "item 3 of the matrices of .* must have real numbers"),
        (lambda w: np.array([["a"] * 3] * 4), "item 3 of the matrices of .* must have real numbers"),
    ],
)
def test_what_holds_no_real_numbers(change, message):
    """It was taken without the mask and the imaginary parts."""
    layer = CudnnLSTMLayer((None, None, 3), 4)
    weights, biases = get_cudnn_weights(layer)
    weights[3] = change(weights[3])
    with pytest.raises((ValueError, sj.ArgumentError), match=message):
        set_cudnn_weights(layer, weights, biases)
    with pytest.raises((ValueError, sj.ArgumentError), match="masked"):
        set_cudnn_buffer(layer, np.ma.array(np.zeros(144), mask=True))
    with pytest.raises((ValueError, sj.ArgumentError), match="bias 1 has masked"):
        single_biases([np.zeros(4), np.ma.array(np.zeros(4), mask=True)])

"""Whole networks of layers, called step by step: the same values as for the whole sequence."""

import numpy as np
import pytest

import scanjit as sj
from lasagne_like import cells
from lasagne_like.layers import (
    BatchNormLayer,
    Bidirectional,
    ConcatLayer,
    Conv1DLayer,
    CustomRecurrentLayer,
    DenseLayer,
    DimshuffleLayer,
    DropoutLayer,
    ElemwiseSumLayer,
    EmbeddingLayer,
    GRULayer,
    InputLayer,
    LSTMLayer,
    NonlinearityLayer,
    PadLayer,
    PastValueLayer,
    RecurrentLayer,
    ReverseLayer,
    RNNLayer,
    get_all_layers,
    get_output,
    step_function,
)

rng = np.random.default_rng(0)


def check(layer, arrays, time=1, tolerance=0, mode="reference", axes=None):
    symbols = [i.input_var for i in _starts(layer)]
    whole = sj.function(symbols, get_output(layer, deterministic=True), mode=mode)(*arrays)
    step = step_function(layer, mode=mode, **({} if axes is None else {"time": axes}))
    state, rows = None, []
    for t in range(arrays[0].shape[time]):
        row, state = step(
            *(a if axes and i not in axes else a[:, t] for a, i in zip(arrays, _starts(layer), strict=True)), state
        )
        rows.append(row)
    found = np.stack(rows, time) if whole.ndim == rows[0].ndim + 1 else rows[-1]
    np.testing.assert_allclose(found, whole, rtol=tolerance, atol=tolerance)
    return step


def _starts(layer):
    return [one for one in get_all_layers(layer) if isinstance(one, InputLayer)]


def masked():
    return InputLayer((None, None, 4)), InputLayer((None, None), name="mask")


X = rng.normal(size=(3, 9, 4))
MASK = (rng.random((3, 9)) < 0.7).astype(float)


@pytest.mark.parametrize("mode", ["reference", "numba"])
def test_a_stack_with_a_mask(mode):
    l_in, l_mask = masked()
    low = LSTMLayer(l_in, 5, mask_input=l_mask, learn_init=True)
    middle = BatchNormLayer(DropoutLayer(DenseLayer(low, 6, num_leading_axes=2)), axes=(0, 1))
    high = GRULayer(middle, 6, mask_input=l_mask)
    both = ConcatLayer([ElemwiseSumLayer([high, middle]), low], axis=2)
    step = check(NonlinearityLayer(both, sj.tanh), [X, MASK], mode=mode)
    assert list(step.state_types) == ["lstm_0", "lstm_1", "gru"]


def test_the_last_output_of_a_sequence():
    check(DenseLayer(GRULayer(RecurrentLayer(InputLayer((None, None, 4)), 3), 5, only_return_final=True), 2), [X])


def test_characters_through_a_causal_convolution():
    layer = DimshuffleLayer(EmbeddingLayer(InputLayer((None, None), sj.lmatrix("ids")), 10, 4), (0, 2, 1))
    layer = Conv1DLayer(PadLayer(layer, [(2, 0)], batch_ndim=2), 3, 3)
    layer = LSTMLayer(DimshuffleLayer(layer, (0, 2, 1)), 4)
    check(layer, [rng.integers(0, 10, (2, 11))], tolerance=1e-15)


def test_delays_and_cells_of_many_kinds():
    l_in = InputLayer((None, None, 4))
    for cell in (cells.LayerNormLSTM(4), cells.IndRNN(4), cells.NAS(4)):
        check(RNNLayer(PastValueLayer(l_in, steps=2), cell), [X], tolerance=1e-14)


def test_a_recurrent_layer_of_other_layers():
    hidden = DenseLayer(InputLayer((None, 3)), 3)
    layer = CustomRecurrentLayer(InputLayer((None, None, 4)), DenseLayer(InputLayer((None, 4)), 3), hidden)
    check(layer, [X])


def test_an_input_without_time():
    l_in, l_start = InputLayer((None, None, 4)), InputLayer((None, 5))
    layer = GRULayer(l_in, 5, hid_init=l_start)
    check(layer, [X, rng.normal(size=(3, 5))], axes={l_in: 1})
    state = step_function(layer, mode="reference").initial_state(X[:, 0], np.full((3, 5), 2.0))
    assert (state["gru"] == 2).all()


def test_layers_that_look_ahead_are_refused_by_name():
    l_in = InputLayer((None, None, 4))
    backwards = GRULayer(l_in, 3, backwards=True, name="from the end")
    for layer, text in (
        (DenseLayer(backwards, 2, num_leading_axes=2), "from the end.*another order"),
        (ReverseLayer(l_in, name="turned"), "turned.*another order"),
        (DropoutLayer(l_in, name="noise"), "noise"),
    ):
        with pytest.raises(sj.NotSupportedError, match=text):
            step_function(layer, deterministic=not isinstance(layer, DropoutLayer))
    with pytest.raises(sj.NotSupportedError, match=r"another order"):
        step_function(Bidirectional(cells.GRU(3), incoming=l_in))

"""One interface for recurrent networks: what TensorFlow's and Keras's had, each row of the design's tables.

Cells are compared with NumPy in tests/lasagne_like/test_cells.py, layers in test_rnn.py, cuDNN's in test_cudnn.py, the
page of equivalents is run in test_migration.py; here is what holds between them.
"""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import scanjit as sj
from lasagne_like import cells, init, layers as L, nonlinearities
from tests.lasagne_like.recurrent_support import close, randomize

PAGE = (Path(__file__).parents[2] / "docs" / "migration.md").read_text(encoding="utf-8")
BATCH, LENGTH, INPUTS = 3, 6, 4
X = np.random.default_rng(1).normal(size=(BATCH, LENGTH, INPUTS))
LENGTHS = np.array([6, 2, 4])

LAYERS = """
    tf.nn.raw_rnn tf.nn.static_rnn tf.nn.static_state_saving_rnn tf.nn.static_bidirectional_rnn tf.nn.dynamic_rnn
    tf.nn.bidirectional_dynamic_rnn tf.contrib.rnn.stack_bidirectional_dynamic_rnn
    RNN SimpleRNN LSTM GRU ConvLSTM2D Bidirectional
""".split()
CELLS = """
    BasicRNNCell BasicLSTMCell LSTMCell GRUCell MultiRNNCell StackedRNNCells DropoutWrapper EmbeddingWrapper
    InputProjectionWrapper OutputProjectionWrapper FusedRNNCellAdaptor TimeReversedFusedRNN GRUBlockCell GRUBlockCellV2
    LSTMBlockCell LSTMBlockFusedCell LayerNormBasicLSTMCell LayerNormLSTMCell CoupledInputForgetGateLSTMCell
    TimeFreqLSTMCell GridLSTMCell BidirectionalGridLSTMCell NASCell UGRNNCell IntersectionRNNCell PhasedLSTMCell
    ConvLSTMCell GLSTMCell SRUCell IndRNNCell IndyGRUCell IndyLSTMCell AttentionCellWrapper HighwayWrapper CudnnLSTM
    CudnnLSTMSaveable
""".split()


def inputs() -> Any:
    return L.InputLayer((BATCH, LENGTH, INPUTS), sj.tensor3("x"))


def run(l_in: Any, outputs: Any, x: Any = X, mode: str = "reference") -> list[np.ndarray]:
    leaves = cells.structure.flatten(outputs)
    return list(sj.function([l_in.input_var], leaves, mode=mode)(x))


@pytest.mark.parametrize("name", [*LAYERS, *CELLS])
def test_the_page_has_every_row_of_the_tables(name: str) -> None:
    assert re.search(rf"^\|[^|]*\b{re.escape(name)}\(?[^|]*\| `", PAGE, re.MULTILINE), name


@pytest.mark.parametrize("make", [lambda: cells.LSTM(3, peepholes=True, num_proj=2), lambda: cells.GridLSTM(2, 3)])
def test_static_is_dynamic(make: Any) -> None:
    """Outputs, states and gradients of a loop, and of all its steps in a row."""
    l_in, cell = inputs(), make()
    found = []
    for unroll in (False, True):
        layer = L.RNNLayer(l_in, cell, unroll_scan=unroll, return_state=True, seq_lengths=LENGTHS)
        output = L.get_output(layer)
        randomize(cell.get_params())
        slopes = sj.grad(sj.sum(output[0] ** 2), cell.get_params())
        found.append(run(l_in, [output, slopes]))
    for a, b in zip(*found, strict=True):
        close(a, b, 1e-12)


def test_sequences_stop_at_their_ends() -> None:
    """What is behind an end is not read, in the loop and in its gradient: each is as if it were alone."""
    l_in = inputs()
    cell = cells.LSTM(3)
    l_rnn = L.RNNLayer(l_in, [cell, cells.GRU(2)], seq_lengths=LENGTHS, zero_output_for_mask=True, return_state=True)
    output, state = L.get_output(l_rnn)
    found = run(l_in, [output, state, sj.grad(sj.sum(output**2), l_in.input_var)], mode="emulate")
    alone = L.RNNLayer(L.InputLayer((1, None, INPUTS)), l_rnn.cell, return_state=True)
    symbol = alone.input_layers[0].input_var
    y, last = L.get_output(alone)
    f = sj.function([symbol], [y, *cells.structure.flatten(last), sj.grad(sj.sum(y**2), symbol)], mode="reference")
    for row, count in enumerate(LENGTHS):
        expected = f(X[row : row + 1, :count])
        for got, wanted in zip((found[0], found[-1]), (expected[0], expected[-1]), strict=True):
            close(got[row, :count], wanted[0])
            assert (got[row, count:] == 0).all()
        for got, wanted in zip(found[1:-1], expected[1:-1], strict=True):
            close(got[row], wanted[0])


def test_the_fast_path_is_chosen_by_itself() -> None:
    """The product with the input is done for all of time in any case; the same weights serve all options."""
    l_in = inputs()
    plain = L.CudnnLSTMLayer(l_in, 3, seq_lengths=None)
    randomize(plain.get_params())
    weights = plain.all_layers[0].cell
    wrapped = L.RNNLayer(l_in, cells.DropoutWrapper(weights, state=0.5, variational=True), precompute_input=False)
    unlike = cells.LSTM(3, nonlinearity=nonlinearities.rectify)
    other = L.RNNLayer(l_in, unlike, precompute_input=False)
    for own, value in zip(unlike.get_params(), plain.get_params(), strict=True):
        assert own.name == value.name.removeprefix("layer0.")
        own.set_value(value.get_value())
    found = [run(l_in, L.get_output(layer, deterministic=True))[0] for layer in (plain, wrapped)]
    close(*found, 1e-14)
    assert np.abs(run(l_in, L.get_output(other))[0] - found[0]).max() > 1e-3
    for layer in (wrapped, other):
        f = sj.function([l_in.input_var], L.get_output(layer, deterministic=True), mode="emulate")
        assert "done over all of time before the loop: contract" in f.explain()


def test_cells_are_rebuilt_from_configs() -> None:
    """A stack of wrapped cells, by way of a file's text: another one of the same shape, which takes the same values."""
    stack = cells.StackedCells(
        [
            cells.DropoutWrapper(cells.LSTM(3, cells.Gate(b=init.Constant(0.5)), peepholes=True), input=0.1, seed=3),
            cells.HighwayWrapper(cells.SimpleRNN(3, nonlinearity=nonlinearities.LeakyRectify(0.1))),
        ],
        name="stack",
    )
    other = cells.Cell.from_config(json.loads(json.dumps(stack.get_config())))
    l_in = inputs()
    a, b = L.RNNLayer(l_in, stack), L.RNNLayer(l_in, other)
    L.set_all_param_values(b, L.get_all_param_values(a))
    close(*run(l_in, L.get_output([a, b], deterministic=True)), 0)
    assert [p.name for p in a.get_params()] == [p.name for p in b.get_params()]

"""`RNNLayer` and `Bidirectional`: options of the loop, stacks, wrappers, nested values, kept state."""

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import lasagne_like as lasagne
import scanjit as sj
from lasagne_like import cells, init
from lasagne_like.cells import structure
from lasagne_like.layers import (
    Bidirectional,
    GRULayer,
    InputLayer,
    LSTMLayer,
    RecurrentLayer,
    ReverseLayer,
    RNNLayer,
    SelectLayer,
    get_all_params,
    get_output,
    get_output_shape,
    get_updates,
)
from tests.lasagne_like import numpy_cells as oracle
from tests.lasagne_like.recurrent_support import close, randomize, values
from tests.pairs import pairwise

BATCH, LENGTH, INPUTS = 3, 5, 2
HOLES = np.array([[1, 0, 1, 1, 0], [0, 0, 1, 1, 1], [0, 0, 0, 0, 0]], float)
X = np.random.default_rng(1).normal(size=(BATCH, LENGTH, INPUTS))


def inputs(*shape: Any) -> InputLayer:
    return InputLayer(shape or (None, None, INPUTS))


def zeros(**sizes: int) -> dict[str, np.ndarray]:
    return {name: np.zeros((BATCH, size)) for name, size in sizes.items()}


# ---- options ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backwards", [False, True])
def test_lengths_are_masks(backwards: bool, run: Any) -> None:
    l_in, l_len = inputs(), InputLayer((None,), sj.ivector("lengths"))
    lengths = np.array([5, 2, 0], "int32")
    mask = np.arange(LENGTH) < lengths[:, None]
    layer = RNNLayer(l_in, cells.GRU(4), seq_lengths=l_len, backwards=backwards, return_state=True)
    expected, final = oracle.unfolded(oracle.gru, values(layer.get_params()), X, zeros(hid=4), mask, backwards)
    output, state = run(list(get_output(layer)), {l_in.input_var: X, l_len.input_var: lengths})
    close(output, expected)
    close(state, final["hid"])
    fixed = RNNLayer(l_in, layer.cell, seq_lengths=lengths, backwards=backwards)
    close(run(get_output(fixed), {l_in.input_var: X}), expected)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("cell", [cells.LSTM, cells.GRU, cells.SimpleRNN, cells.MinGRU])
def test_integers_are_numbers_to_compute_with(cell: Any, masked: bool, run: Any) -> None:
    """A product of int64 and float32 is float64, as in NumPy; rows of an embedding stay float32."""
    numbers = np.random.default_rng(2).integers(-3, 4, (BATCH, LENGTH, INPUTS))
    with sj.config.using(floatX="float32"):
        l_in, l_mask = InputLayer((None, None, INPUTS), sj.ltensor3("x")), InputLayer((None, None))
        layer = RNNLayer(l_in, [cell(4), cell(3)], mask_input=l_mask if masked else None)
        words = RNNLayer(inputs(None, None, 1), cells.EmbeddingWrapper(cell(4), 5, 6))
    given = {l_mask.input_var: HOLES.astype("float32")} if masked else {}
    found = run(get_output(layer), {l_in.input_var: numbers, **given})
    assert found.dtype == "float64"
    wanted = get_output(layer, {l_in: sj.cast(l_in.input_var, "float64"), l_mask: l_mask.input_var})
    close(found, run(wanted, {l_in.input_var: numbers, **given}))
    assert get_output(words, sj.ltensor3("words")).dtype == "float32"


def test_lengths_that_do_not_fit(run: Any) -> None:
    l_in, l_len = inputs(), InputLayer((None,), sj.ivector("lengths"))
    output = get_output(RNNLayer(l_in, cells.GRU(4), seq_lengths=l_len))
    with pytest.raises(sj.ShapeError, match=r"(?s)seq_lengths of <RNNLayer> has another shape.*\(2,\).*\(3,\)"):
        run(output, {l_in.input_var: X, l_len.input_var: np.array([1, 2], "int32")})
    for given in ([1, 2, 6], [1, -1, 2]):
        with pytest.raises(
            sj.errors.AssertError, match="seq_lengths of <RNNLayer> must be from 0 to the number of steps"
        ):
            run(output, {l_in.input_var: X, l_len.input_var: np.array(given, "int32")})
    for lengths in ([1, 2, 6], [1, -1, 2], [1.0, 2.0, 3.0]):
        with pytest.raises(ValueError, match=rf"integers from 0 .*\(3, 5, 2\), got {re.escape(str(lengths))}"):
            RNNLayer((3, 5, 2), cells.GRU(4), seq_lengths=lengths)
    with pytest.raises(ValueError, match=r"has shape \(2,\), but must hold one number .*\(3, 5, 2\): \(3,\)"):
        RNNLayer((3, 5, 2), cells.GRU(4), seq_lengths=[1, 2])


@pytest.mark.parametrize("make", [lambda x, n: RNNLayer(x, cells.GRU(4), seq_lengths=n), ReverseLayer])
@pytest.mark.parametrize("dtype", ["float32", "bool"])
def test_lengths_that_are_no_integers(make: Any, dtype: str) -> None:
    l_len = InputLayer((None,), sj.vector("lengths", dtype=dtype))
    with pytest.raises(TypeError, match=rf"seq_lengths of <.*> must be integers \(batch,\), .* got <lengths: {dtype}"):
        get_output(make(inputs(), l_len))


@pytest.mark.parametrize("mode", ["emulate", "numba"])
def test_a_length_that_is_too_large_is_no_index(mode: Any) -> None:
    """Compiled code looks at assertions after a call, but meets the index before."""
    l_in, l_len = inputs(), InputLayer((None,), sj.ivector("lengths"))
    f = sj.function([l_in.input_var, l_len.input_var], get_output(ReverseLayer(l_in, l_len)), mode=mode)
    with pytest.raises(sj.errors.AssertError, match="seq_lengths of <ReverseLayer> must be from 0 to the number of st"):
        f(X, np.array([LENGTH, 9, 1], "int32"))


def test_inputs_that_differ_at_run_time(run: Any) -> None:
    l_a, l_b = inputs(None, None, 2), inputs(None, None, 3)
    output, _ = get_output(RNNLayer({"a": l_a, "b": l_b}, Nested()))
    with pytest.raises(sj.ShapeError, match=r"(?s)the input of <RNNLayer> .*\(3, 4, 3\).*\(3, 5, 3\)"):
        run(output, {l_a.input_var: X, l_b.input_var: np.ones((3, 4, 3))})


def test_lengths_and_a_mask(run: Any) -> None:
    l_in, l_mask = inputs(), inputs(None, None)
    layer = RNNLayer(l_in, cells.GRU(4), mask_input=l_mask, seq_lengths=np.array([3, 4, 5]))
    mask = HOLES * (np.arange(LENGTH) < np.array([[3], [4], [5]]))
    expected, _ = oracle.unfolded(oracle.gru, values(layer.get_params()), X, zeros(hid=4), mask)
    close(run(get_output(layer), {l_in.input_var: X, l_mask.input_var: HOLES}), expected)


def test_time_major(run: Any) -> None:
    l_in, l_mask, l_state = inputs(), inputs(None, None), inputs(None, 4)
    layer = RNNLayer(
        l_in, cells.GRU(4), l_state, mask_input=l_mask, time_major=True, return_state=True, zero_output_for_mask=True
    )
    assert layer.output_shape == ((None, None, 4), (None, 4))
    assert get_output_shape(layer, {l_in: (7, 3, 2), l_mask: (7, 3), l_state: (3, 4)}) == ((7, 3, 4), (3, 4))
    start = np.random.default_rng(0).normal(size=(BATCH, 4))
    given = {l_in.input_var: X.swapaxes(0, 1), l_mask.input_var: HOLES.T, l_state.input_var: start}
    output, state = run(list(get_output(layer)), given)
    expected, final = oracle.unfolded(oracle.gru, values(layer.get_params()), X, {"hid": start}, HOLES, zero=True)
    close(output, expected.swapaxes(0, 1))
    close(state, final["hid"])


@pytest.mark.parametrize("backwards", [False, True])
def test_final_output_of_a_cell_whose_output_is_not_its_state(backwards: bool, run: Any) -> None:
    l_in, l_mask = inputs(), inputs(None, None)
    layer = RNNLayer(l_in, cells.SRU(4), mask_input=l_mask, only_return_final=True, backwards=backwards)
    expected, _ = oracle.unfolded(oracle.sru, values(layer.get_params()), X, zeros(hid=4), HOLES, backwards)
    close(run(get_output(layer), {l_in.input_var: X, l_mask.input_var: HOLES}), expected[:, 0 if backwards else -1])


@pytest.mark.parametrize("checkpoint", ["sqrt", "all", 2])
def test_checkpoints_change_nothing(checkpoint: Any, run: Any) -> None:
    l_in = inputs()
    results = []
    cell = cells.LSTM(4)
    for value in (None, checkpoint):
        layer = RNNLayer(l_in, cell, checkpoint=value)
        output = get_output(layer)
        results.append(run([output, sj.grad(sj.sum(output**2), l_in.input_var)], {l_in.input_var: X}))
    for a, b in zip(*results, strict=True):
        close(a, b, 1e-13)


def test_learned_initial_states() -> None:
    layer = RNNLayer(inputs(), [cells.LSTM(4), cells.GRU(3)], learn_init=True, name="rnn")
    names = [p.name for p in get_all_params(layer, trainable=True, regularizable=False)]
    assert names[-3:] == ["rnn.0.cell_init", "rnn.0.hid_init", "rnn.1_init"]
    layer = RNNLayer(inputs(), cells.LSTM(4), initial_state={"hid": init.Normal(1.0)})
    assert [p.name for p in get_all_params(layer, trainable=False)] == ["hid_init"]
    assert not [p for p in get_all_params(RNNLayer(inputs(), cells.LSTM(4)), trainable=False)]


# ---- stacks and wrappers ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backwards", [False, True])
def test_a_stack_is_cells_one_after_the_other(backwards: bool, run: Any) -> None:
    """In several loops (a list), or in one (inside of a wrapper)."""
    l_in, l_mask = inputs(), inputs(None, None)
    names = [f"{kind}{i}" for i, kind in enumerate(("lstm", "sru", "gru"))]
    stack = [cells.LSTM(4, name=names[0]), cells.SRU(3, name=names[1]), cells.GRU(2, name=names[2])]
    layer = RNNLayer(l_in, stack, mask_input=l_mask, backwards=backwards, return_state=True)
    P = values(layer.get_params())

    def part(name: str) -> dict[str, np.ndarray]:
        return {key.removeprefix(name + "."): value for key, value in P.items() if key.startswith(name + ".")}

    def step(_: Any, x: Any, s: Any) -> Any:
        x, a = oracle.lstm(part(names[0]), x, {"cell": s["0.cell"], "hid": s["0.hid"]})
        x, b = oracle.sru(part(names[1]), x, {"hid": s["1"]})
        x, c = oracle.gru(part(names[2]), x, {"hid": s["2"]})
        return c["hid"], {"0.cell": a["cell"], "0.hid": a["hid"], "1": b["hid"], "2": c["hid"]}

    start = {"0.cell": np.zeros((BATCH, 4)), "0.hid": np.zeros((BATCH, 4))}
    start |= {"1": np.zeros((BATCH, 3)), "2": np.zeros((BATCH, 2))}
    expected, final = oracle.unfolded(step, None, X, start, HOLES, backwards)
    given = {l_in.input_var: X, l_mask.input_var: HOLES}
    one_loop = RNNLayer(l_in, cells.Wrapper(layer.cell), mask_input=l_mask, backwards=backwards, return_state=True)
    for each in (layer, one_loop):
        output, state = get_output(each)
        found = run([output, *cells.structure.flatten(state)], given)
        for got, wanted in zip(found, [expected, *final.values()], strict=True):
            close(got, wanted)
    assert layer.state_shape == (cells.LSTMState((4,), (4,)), (3,), (2,))


def test_residual_and_highway(run: Any) -> None:
    l_in = inputs()
    layer = RNNLayer(l_in, cells.ResidualWrapper(cells.HighwayWrapper(cells.GRU(INPUTS))))
    randomize(layer.get_params())
    P = values(layer.get_params())

    def step(P: Any, x: Any, s: Any) -> Any:
        h, s = oracle.gru(P, x, s)
        carry = oracle.sigmoid(x @ P["W"] + P["b"])
        return carry * x + (1 - carry) * h + x, s

    expected, _ = oracle.unfolded(step, P, X, zeros(hid=INPUTS))
    close(run(get_output(layer), {l_in.input_var: X}), expected)
    assert cells.HighwayWrapper(cells.GRU(2)).build(2).b.get_value().tolist() == [1, 1]
    with pytest.raises(ValueError, match=r"differ: \(2,\) and \(3,\)"):
        cells.HighwayWrapper(cells.GRU(3)).build(2)


def test_a_stack_takes_cells_once() -> None:
    cell = cells.GRU(3)
    with pytest.raises(ValueError, match="twice"):
        cells.StackedCells([cell, cell])
    with pytest.raises(TypeError, match="item 0 is a int"):
        cells.StackedCells([3])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="at least one"):
        RNNLayer(inputs(), [])
    with pytest.raises(TypeError, match="must be a cell or a list of cells"):
        RNNLayer(inputs(), "lstm")


# ---- both directions -------------------------------------------------------------------------------------------------

MERGES: dict[str, Callable[..., Any]] = {
    "concat": lambda a, b: np.concatenate([a, b], -1),
    "sum": lambda a, b: a + b,
    "mul": lambda a, b: a * b,
    "ave": lambda a, b: (a + b) / 2,
}


@pytest.mark.parametrize("final", [False, True])
@pytest.mark.parametrize("merge", [*MERGES, None])
def test_bidirectional(merge: str | None, final: bool, run: Any) -> None:
    l_in, l_mask = inputs(), inputs(None, None)
    one = LSTMLayer(l_in, 4, mask_input=l_mask, only_return_final=final, name="lstm")
    both = Bidirectional(one, merge=merge)
    assert both.forward_layer is one and both.backward_layer.backwards
    params = get_all_params(both)
    assert len(params) == 2 * len(one.get_params()) == len({p.name for p in params})
    halves = []
    for layer, backwards in ((one, False), (both.backward_layer, True)):
        prefix = f"{layer.name}."
        P = {name.removeprefix(prefix): value for name, value in values(layer.get_params()).items()}
        outputs, _ = oracle.unfolded(oracle.lstm, P, X, zeros(cell=4, hid=4), HOLES, backwards)
        halves.append(outputs[:, 0 if backwards else -1] if final else outputs)
    found = get_output(both)
    given = {l_in.input_var: X, l_mask.input_var: HOLES}
    if merge is None:
        for got, expected in zip(run(list(found), given), halves, strict=True):
            close(got, expected)
        assert both.output_shape == (one.output_shape, one.output_shape)
    else:
        close(run(found, given), MERGES[merge](*halves))
        assert both.output_shape == (*one.output_shape[:-1], 8 if merge == "concat" else 4)


def test_bidirectional_of_cells_and_states(run: Any) -> None:
    l_in = inputs()
    both = Bidirectional([cells.GRU(4), cells.GRU(3)], "sum", incoming=l_in, return_state=True, name="both")
    output, (forward, backward) = get_output(both)
    found = run([output, *forward, *backward], {l_in.input_var: X})
    assert both.output_shape == ((None, None, 3), (((None, 4), (None, 3)), ((None, 4), (None, 3))))
    for layer, halves in ((both.forward_layer, found[1:3]), (both.backward_layer, found[3:])):
        prefix = layer.name or ""
        x = X
        for i, size in enumerate((4, 3)):
            own = {n.removeprefix(f"{prefix}.{i}."): v for n, v in values(layer.get_params()).items()}
            x, state = oracle.unfolded(oracle.gru, own, x, zeros(hid=size), backwards=layer.backwards)
            close(halves[i], state["hid"])
    assert len({p.name for p in get_all_params(both)}) == len(get_all_params(both))
    one, other = GRULayer(l_in, 3), GRULayer(l_in, 3, backwards=True)
    assert Bidirectional(one, backward=other).input_layers == [one, other]
    deep = Bidirectional(LSTMLayer(Bidirectional(LSTMLayer(l_in, 4)), 3))
    assert run(get_output(deep), {l_in.input_var: X}).shape == (BATCH, LENGTH, 6)


def test_bidirectional_plain_layers_and_shared_weights(run: Any) -> None:
    W = sj.shared(np.ones((INPUTS, 4)), "W")
    both = Bidirectional(RecurrentLayer(inputs(), 4, W_in_to_hid=W, name="rnn"))
    assert both.backward_layer.W_in_to_hid is W
    assert both.backward_layer.W_hid_to_hid is not both.forward_layer.W_hid_to_hid
    assert both.backward_layer.name == "rnn_backwards"


def test_bidirectional_errors() -> None:
    l_in = inputs()
    with pytest.raises(ValueError, match="merge must be one of 'concat'"):
        Bidirectional(GRULayer(l_in, 3), merge="max")
    with pytest.raises(ValueError, match="give it as incoming"):
        Bidirectional(cells.GRU(3))
    with pytest.raises(ValueError, match="options"):
        Bidirectional(GRULayer(l_in, 3), incoming=l_in)
    for given in (l_in, "lstm"):
        with pytest.raises(TypeError, match="takes an RNNLayer"):
            Bidirectional(given, incoming=l_in)
    with pytest.raises(ValueError, match="same direction"):
        Bidirectional(GRULayer(l_in, 3), backward=GRULayer(l_in, 3))
    with pytest.raises(ValueError, match=r"merged by 'sum': \(None, None, 3\) and \(None, None, 4\)"):
        Bidirectional(GRULayer(l_in, 3), "sum", backward=GRULayer(l_in, 4, backwards=True))


# ---- states that go in and out ---------------------------------------------------------------------------------------


def test_encoder_and_decoder(run: Any) -> None:
    l_in, l_out = inputs(), inputs()
    encoder = LSTMLayer(l_in, 4, return_state=True, only_return_final=True)
    decoder = LSTMLayer(l_out, 4, cell_init=SelectLayer(encoder, 1, "cell"), hid_init=SelectLayer(encoder, 1, "hid"))
    whole = RNNLayer(l_out, decoder.cell, initial_state=SelectLayer(encoder, 1))
    given = {l_in.input_var: X, l_out.input_var: X}
    a, b = run(get_output([decoder, whole]), given)
    close(a, b)
    P = values(encoder.get_params())
    _, state = oracle.unfolded(oracle.lstm, P, X, zeros(cell=4, hid=4))
    expected, _ = oracle.unfolded(oracle.lstm, values(decoder.get_params()), X, state)
    close(a, expected)
    with pytest.raises(ValueError, match=r"there is no 'memory' in part \(1,\) of the output .*LSTMState"):
        SelectLayer(encoder, 1, "memory")
    with pytest.raises(ValueError, match=r"shape \('batch', 4\), expected \('batch', 5\)"):
        RNNLayer(l_out, cells.LSTM(5), initial_state=SelectLayer(encoder, 1))
    with pytest.raises(ValueError, match="entries cell, hid"):
        RNNLayer(l_out, cells.LSTM(4), initial_state={"c": None})


def test_state_from_call_to_call() -> None:
    l_in = InputLayer((BATCH, None, INPUTS))
    layer = RNNLayer(l_in, [cells.LSTM(4), cells.GRU(3)], stateful=True)
    f = sj.function([l_in.input_var], get_output(layer), updates=get_updates(layer), mode="reference")
    whole = sj.function([l_in.input_var], get_output(RNNLayer(l_in, layer.cell)), mode="reference")(X)
    for _ in range(2):
        close(np.concatenate([f(X[:, :2]), f(X[:, 2:3]), f(X[:, 3:])], axis=1), whole)
        assert np.abs(f(X) - whole).max() > 1e-3
        layer.reset_states()
    assert not [p for p in get_all_params(layer) if "kept" in (p.name or "")]
    with pytest.raises(ValueError, match="batches of 3"):
        layer.reset_states(batch_size=4)
    with pytest.raises(ValueError, match="stateful=True"):
        RNNLayer(l_in, layer.cell).reset_states()


def test_kept_state_of_any_batch() -> None:
    l_in = inputs()
    layer = RNNLayer(l_in, cells.GRU(4), init.Constant(0.5), stateful=True)
    f = sj.function([l_in.input_var], get_output(layer), updates=get_updates(layer), mode="reference")
    whole = sj.function([l_in.input_var], get_output(RNNLayer(l_in, layer.cell, init.Constant(0.5))), mode="reference")
    for batch in (2, 3):
        layer.reset_states(batch_size=batch)
        x = X[:batch]
        close(np.concatenate([f(x[:, :2]), f(x[:, 2:])], axis=1), whole(x))
    with pytest.raises(sj.ShapeError, match=r"(?s)<RNNLayer> keeps \(see reset_states\) has .*\(3, 4\).*\(1, 4\)"):
        f(X[:1])


@pytest.mark.quick(6)
@pairwise(
    cell=[cells.LSTM, cells.GRU, cells.SimpleRNN, lambda n: [cells.LSTM(3), cells.GRU(n)]],
    masked=[None, "held", "zero"],
    backwards=[False, True],
)
def test_no_steps_leave_the_initial_state(cell: Any, masked: str | None, backwards: bool, run: Any) -> None:
    l_in, l_mask = inputs(), inputs(None, None)
    layer = RNNLayer(
        l_in,
        cell(4),
        learn_init=True,
        mask_input=l_mask if masked else None,
        only_return_final=True,
        return_state=True,
        backwards=backwards,
        zero_output_for_mask=masked == "zero",
    )
    randomize(layer.get_params())
    output, state = get_output(layer)
    leaves = structure.flatten(state)
    starts = list(layer.initial.values())
    slopes = sj.grad(sum((leaf**2).sum() for leaf in leaves), starts)
    given = {l_in.input_var: X[:, :0], l_mask.input_var: HOLES[:, :0]}
    given = given if masked else {l_in.input_var: X[:, :0]}
    found = run([output, *leaves, *slopes], given)
    expected = [start.get_value() for start in starts]
    for leaf, slope, start in zip(found[1 : 1 + len(leaves)], found[1 + len(leaves) :], expected, strict=True):
        close(leaf, np.repeat(start, BATCH, axis=0))
        close(slope, 2 * BATCH * start)
    close(found[0], np.repeat(expected[-1], BATCH, axis=0))


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("dtype", ["int32", "float64"])
def test_no_steps_that_are_known_before_the_call(dtype: str, masked: bool, run: Any) -> None:
    x, mask = sj.tensor((0, "B", INPUTS), dtype), sj.tensor((0, "B"), "bool")
    rows, state = cells.unfold(cells.GRU(4).build(INPUTS), x, mask=mask if masked else None)
    given = {x: np.zeros((0, BATCH, INPUTS), dtype), **({mask: np.zeros((0, BATCH), bool)} if masked else {})}
    found = run([rows, state], given)
    assert found[0].shape == (0, BATCH, 4)
    close(found[1], np.zeros((BATCH, 4)))


@pytest.mark.quick(3)
@pairwise(zero=[False, True], mode=["reference", "numba"], make=[LSTMLayer, GRULayer, RecurrentLayer])
def test_a_call_without_steps_keeps_the_state(make: Any, mode: Any, zero: bool) -> None:
    l_in, l_mask = inputs(), inputs(None, None)
    layer = make(l_in, 4, mask_input=l_mask, stateful=True, only_return_final=True, zero_output_for_mask=zero)
    layer.reset_states(batch_size=BATCH)
    symbols = [l_in.input_var, l_mask.input_var]
    f = sj.function(symbols, get_output(layer), updates=get_updates(layer), mode=mode)
    last = f(X, HOLES)
    close(last, f(X[:, :0], HOLES[:, :0]) * (HOLES[:, -1:] if zero else 1))
    assert not zero or (HOLES[:, -1] == 0).any()
    before = f(X[:, :0], HOLES[:, :0])
    close(f(X[:, :0], HOLES[:, :0]), before)
    (kept,) = (variable for variable in layer.updates if variable.name == "hid_kept")
    close(before, kept.get_value())


def test_one_step_a_call_follows_the_parameters(run: Any) -> None:
    l_in = inputs()
    layer = LSTMLayer(l_in, 4, hid_init=init.Normal(1.0), cell_init=init.Normal(1.0))
    step = cells.step_function(layer)
    for seed in range(2):
        randomize(layer.get_params(), seed)
        expected = run(get_output(layer), {l_in.input_var: X})
        state = step.initial_state(BATCH)
        assert isinstance(state, cells.LSTMState)
        for t in range(LENGTH):
            output, state = step(X[:, t], state)
            close(output, expected[:, t])
    with pytest.raises(sj.ShapeError, match="state does not have the structure"):
        step(X[:, 0], (state,))


# ---- cells of one's own ----------------------------------------------------------------------------------------------


class Pair(NamedTuple):
    slow: Any
    fast: Any


class Nested(cells.Cell):
    """Two inputs, two outputs, a state that is a dict with a named tuple in it."""

    def make_params(self, input_shape: Any) -> None:
        self.state_shape = {"both": Pair((2,), (3,)), "count": ()}
        self.W = self.add_param(init.Normal(1.0), (input_shape["a"][0], 2), name="W")
        self.U = self.add_param(init.Normal(1.0), (input_shape["b"][0], 3), name="U")

    output_shape = ((3,), {"sum": (2,)})

    def step(self, x: Any, state: Any) -> Any:
        slow = 0.9 * state["both"].slow + x["a"] @ self.W
        fast = np.tanh(x["b"] @ self.U + state["both"].fast)
        total = slow + np.sum(fast, axis=1, keepdims=True)
        return (fast, {"sum": total}), {"both": Pair(slow, fast), "count": state["count"] + 1.0}


def test_nested_inputs_outputs_and_states(run: Any) -> None:
    l_a, l_b, l_mask = inputs(None, None, 2), inputs(None, None, 3), inputs(None, None)
    layer = RNNLayer({"a": l_a, "b": l_b}, Nested(), mask_input=l_mask, return_state=True)
    assert layer.output_shape == (
        ((None, None, 3), {"sum": (None, None, 2)}),
        {"both": Pair((None, 2), (None, 3)), "count": (None,)},
    )
    (fast, rest), state = get_output(layer)
    b = np.random.default_rng(3).normal(size=(BATCH, LENGTH, 3))
    outputs = [fast, rest["sum"], state["both"].slow, state["both"].fast, state["count"]]
    found = run(outputs, {l_a.input_var: X, l_b.input_var: b, l_mask.input_var: HOLES})
    P = values(layer.get_params())
    assert [got.shape for got in found] == [(BATCH, LENGTH, 3), (BATCH, LENGTH, 2), (BATCH, 2), (BATCH, 3), (BATCH,)]
    close(found[4], HOLES.sum(1))
    for row in range(BATCH):
        slow, quick, last = np.zeros(2), np.zeros(3), np.zeros(2)
        for t in range(LENGTH):
            if HOLES[row, t]:
                slow = 0.9 * slow + X[row, t] @ P["W"]
                quick = np.tanh(b[row, t] @ P["U"] + quick)
                last = slow + quick.sum()
            close(found[0][row, t], quick)
            close(found[1][row, t], last)
        close(found[2][row], slow)
        close(found[3][row], quick)
    assert SelectLayer(layer, 0, 1, "sum").output_shape == (None, None, 2)
    with pytest.raises(ValueError, match="differ in batch or time"):
        RNNLayer({"a": inputs(None, 4, 2), "b": inputs(None, 5, 3)}, Nested())


def test_a_cell_with_a_step_only(run: Any) -> None:
    class Leaky(cells.Cell):
        def __init__(self, num_units: int, **kwargs: Any) -> None:
            super().__init__(**kwargs)
            self.state_shape = (num_units,)

        def make_params(self, input_shape: Any) -> None:
            self.W = self.add_param(init.Normal(1.0), (*input_shape, *self.state_shape), name="W")

        def step(self, x: Any, h: Any) -> Any:
            h = 0.9 * h + 0.1 * np.tanh(x @ self.W)
            return h, h

    l_in = inputs()
    layer = RNNLayer(l_in, Leaky(4), name="leaky")
    W = layer.cell.W.get_value()
    assert get_all_params(layer) == [layer.cell.W] and layer.cell.W.name == "leaky.W"

    def step(_: Any, x: Any, s: Any) -> Any:
        h = 0.9 * s["hid"] + 0.1 * np.tanh(x @ W)
        return h, {"hid": h}

    expected, _ = oracle.unfolded(step, None, X, zeros(hid=4))
    close(run(get_output(layer), {l_in.input_var: X}), expected)
    assert Bidirectional(layer).output_shape == (None, None, 8)


def test_a_cell_without_state(run: Any) -> None:
    class Squared(cells.Cell):
        output_shape = (INPUTS,)

        def step(self, x: Any, state: Any) -> Any:
            return x * x, None

    l_in = inputs()
    close(run(get_output(RNNLayer(l_in, Squared())), {l_in.input_var: X}), X * X)


def test_layers_may_share_a_cell(run: Any) -> None:
    l_in = inputs()
    cell = cells.GRU(3)
    one, other = RNNLayer(l_in, cell), RNNLayer(l_in, cell, backwards=True)
    assert get_all_params([one, other]) == cell.get_params()
    with pytest.raises(ValueError, match=r"shape \(2,\), so it cannot take \(7,\)"):
        RNNLayer((None, None, 7), cell)


# ---- noise -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{"input": 0.5}, {"state": 0.5, "variational": True}, {"output": 0.5}])
def test_no_dropout_when_deterministic(options: Any, run: Any) -> None:
    l_in = inputs()
    cell = cells.LSTM(4)
    plain, noisy = RNNLayer(l_in, cell), RNNLayer(l_in, cells.DropoutWrapper(cell, **options))
    a, b = get_output([plain, noisy], deterministic=True)
    close(*run([a, b], {l_in.input_var: X}))
    assert get_all_params(noisy) == get_all_params(plain)


def test_deterministic_zoneout_keeps_the_mean(run: Any) -> None:
    l_in = inputs()
    layer = RNNLayer(l_in, cells.Zoneout(cells.LSTM(4), hid=0.2, memory=0.5))

    def step(P: Any, x: Any, s: Any) -> Any:
        _, new = oracle.lstm(P, x, s)
        h, c = 0.2 * s["hid"] + 0.8 * new["hid"], 0.5 * s["cell"] + 0.5 * new["cell"]
        return h, {"cell": c, "hid": h}

    expected, _ = oracle.unfolded(step, values(layer.get_params()), X, zeros(cell=4, hid=4))
    close(run(get_output(layer, deterministic=True), {l_in.input_var: X}), expected)


def test_rates_are_probabilities() -> None:
    with pytest.raises(ValueError, match=r"input is the probability .* got 1.0"):
        cells.DropoutWrapper(cells.GRU(3), input=1.0)
    with pytest.raises(ValueError, match="memory is the probability"):
        cells.Zoneout(cells.GRU(3), memory=-0.1)


class Passing(cells.Cell):
    """The output is the input, the state a sum: what dropout does to them can be seen."""

    def make_params(self, input_shape: Any) -> None:
        self.output_shape = self.state_shape = input_shape

    def step(self, x: Any, state: Any) -> Any:
        return x, state + 1.0


@pytest.mark.parametrize("which", ["input", "output"])
@pytest.mark.parametrize("variational", [False, True])
def test_dropout_masks(which: str, variational: bool, run: Any) -> None:
    l_in = inputs(None, None, 64)
    cell = cells.DropoutWrapper(Passing(), variational=variational, seed=1, **{which: 0.25})
    ones = np.ones((8, 6, 64))
    found = run(get_output(RNNLayer(l_in, cell)), {l_in.input_var: ones})
    assert set(np.unique(found)) == {0.0, 1 / 0.75}
    assert abs((found == 0).mean() - 0.25) < (0.06 if variational else 0.03)
    assert (found == found[:, :1]).all() == variational
    assert not (found == found[:1]).all()


@pytest.mark.parametrize("variational", [False, True])
def test_dropout_of_the_state(variational: bool, run: Any) -> None:
    l_in = inputs(None, None, 64)
    cell = cells.DropoutWrapper(Passing(), state=0.5, variational=variational, seed=1)
    _, state = get_output(RNNLayer(l_in, cell, return_state=True))
    found = run(state, {l_in.input_var: np.ones((8, 3, 64))})
    # a mask of the sequence leaves 0 or ((0 + 1) * 2 + 1) * 2 ...; others leave what comes after the last zero
    assert set(np.unique(found)) == ({0.0, 14.0} if variational else {0.0, 2.0, 6.0, 14.0})


def test_memory_cells_are_not_dropped(run: Any) -> None:
    l_in = inputs()
    cell = cells.DropoutWrapper(cells.LSTM(4), state=0.5, seed=1)
    _, state = get_output(RNNLayer(l_in, cell, return_state=True))
    memory, hid = run(list(state), {l_in.input_var: X})
    assert (memory != 0).all() and (hid == 0).any()


def test_zoneout_keeps_units(run: Any) -> None:
    l_in = inputs(None, None, 64)
    layer = RNNLayer(l_in, cells.Zoneout(Passing(), hid=0.25, seed=1), return_state=True)
    _, state = get_output(layer)
    found = run(state, {l_in.input_var: np.ones((8, 4, 64))})
    assert set(np.unique(found)) <= {0.0, 1.0, 2.0, 3.0, 4.0}
    assert abs(found.mean() - 3.0) < 0.15


def test_seeds_make_noise_reproducible(run: Any) -> None:
    l_in = inputs()
    results = []
    for _ in range(2):
        lasagne.random.set_rng(np.random.default_rng(5))
        layer = RNNLayer(l_in, cells.DropoutWrapper(cells.GRU(4), input=0.5, state=0.5))
        results.append(run(get_output(layer), {l_in.input_var: X}))
    close(*results)


@pytest.mark.parametrize("variational", [False, True])
def test_noise_is_the_same_in_generated_code(variational: bool, run: Any) -> None:
    """Values and gradients, in a loop with masks; another call draws other numbers."""
    l_in, l_mask = inputs(), inputs(None, None)
    given = {l_in.input_var: X, l_mask.input_var: HOLES}
    results = []
    for mode in ("reference", "emulate"):
        lasagne.random.set_rng(np.random.default_rng(5))
        cell = cells.DropoutWrapper(cells.LSTM(4), 0.2, 0.3, 0.4, variational, seed=1)
        layer = RNNLayer(l_in, cells.Zoneout(cell, hid=0.1, memory=0.2, seed=2), mask_input=l_mask)
        output = get_output(layer)
        f = sj.function(list(given), [output, *sj.grad(sj.sum(output**2), layer.get_params())], mode=mode)
        results.append([*f(*given.values()), *f(*given.values())])
    for a, b in zip(*results, strict=True):
        close(a, b, 1e-12)
    assert np.abs(results[0][0] - results[0][len(results[0]) // 2]).max() > 1e-3


def test_learn_init_needs_a_part_of_the_state_that_no_layer_gives() -> None:
    l_in, first = inputs(), InputLayer((None, 4))
    for state in (first, SelectLayer(RNNLayer(l_in, cells.LSTM(4), return_state=True), 1)):
        cell = cells.GRU(4) if state is first else cells.LSTM(4)
        with pytest.raises(ValueError, match=r"learn_init=True of .* has no effect: its whole"):
            RNNLayer(l_in, cell, initial_state=state, learn_init=True)
    layer = RNNLayer(l_in, cells.LSTM(4), initial_state={"hid": first}, learn_init=True)
    assert "cell_init" in [p.name for p in layer.get_params(trainable=True)]
    several = lasagne.layers.CudnnGRULayer(l_in, 4, num_layers=2, initial_state=[first, None], learn_init=True)
    assert "layer1.hid_init" in [p.name for p in several.get_params(trainable=True)]
    with pytest.raises(ValueError, match="learn_init=True of"):
        lasagne.layers.CudnnGRULayer(l_in, 4, initial_state=[first], learn_init=True)

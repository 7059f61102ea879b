"""What a survey of older libraries found: delays that close loops in networks (CNTK), packed minibatches (CNTK), step
modules and sequencers (Torch), unrolled language models, and its wish: stacked layers in one loop.

Theano's scan is in tests/loops, Lasagne's layers and Keras's options in tests/lasagne_like, char-rnn in
tests/test_examples.py.
"""

from typing import Any

import numpy as np
import pytest

import lasagne_like as lasagne
import scanjit as sj
from lasagne_like import cells, layers as L
from lasagne_like.packing import Packing
from tests.lasagne_like.recurrent_support import close, randomize

BATCH, LENGTH, INPUTS, UNITS = 2, 6, 3, 4
RNG = np.random.default_rng(0)
X = RNG.normal(size=(BATCH, LENGTH, INPUTS))
STARTS = (RNG.random((BATCH, LENGTH)) < 0.4).astype(float)
FIRST = RNG.normal(size=(BATCH, UNITS))
tanh = lasagne.nonlinearities.tanh
DELAYS = {"past": L.PastValueLayer, "future": L.FutureValueLayer}


def run(outputs: Any, given: dict[Any, Any], mode: str = "reference") -> list[np.ndarray]:
    symbols = [layer.input_var for layer in given]
    return list(sj.function(symbols, outputs, mode=mode)(*given.values()))


def dense(layer: Any, units: int = UNITS, **options: Any) -> Any:
    return L.DenseLayer(layer, units, nonlinearity=None, num_leading_axes=2, **options)


class Elman:
    """A plain recurrent network of layers, whose loop a delay closes."""

    def __init__(self, way: str, steps: int = 1) -> None:
        self.l_in, self.l_starts = L.InputLayer((None, None, INPUTS)), L.InputLayer((None, None))
        self.l_first = L.InputLayer((None, UNITS))
        self.delay = DELAYS[way]((None, None, UNITS), steps, initial=self.l_first, starts=self.l_starts)
        self.of_input, self.of_hidden = dense(self.l_in), dense(self.delay, b=None)
        self.hidden = L.NonlinearityLayer(L.ElemwiseSumLayer([self.of_input, self.of_hidden]), tanh)
        self.delay.connect(self.hidden)
        self.given = {self.l_in: X, self.l_starts: STARTS, self.l_first: FIRST}


@pytest.mark.parametrize("way", DELAYS)
@pytest.mark.parametrize("steps", [1, 3, LENGTH + 2])
def test_a_delay_closes_a_loop(way: str, steps: int) -> None:
    """Against a loop over the elements: values from so many steps away, unless another sequence starts between."""
    net = Elman(way, steps)
    found = run(L.get_output([net.hidden, net.delay]), net.given, "emulate")
    W, b, U = (p.get_value() for p in (net.of_input.W, net.of_input.b, net.of_hidden.W))
    hidden, delayed = np.zeros((2, BATCH, LENGTH, UNITS))
    for row in range(BATCH):
        for t in range(LENGTH) if way == "past" else reversed(range(LENGTH)):
            other = t - steps if way == "past" else t + steps
            between = STARTS[row, max(min(t, other) + 1, 0) : max(t, other) + 1]
            inside = 0 <= other < LENGTH and not between.any()
            delayed[row, t] = hidden[row, other] if inside else FIRST[row]
            hidden[row, t] = np.tanh(X[row, t] @ W + b + delayed[row, t] @ U)
    close(found[0], hidden)
    close(found[1], delayed)


def test_a_loop_of_layers_is_a_recurrent_layer() -> None:
    """The same numbers and gradients as `RecurrentLayer`; the product with the input leaves the loop here too."""
    l_in = L.InputLayer((None, None, INPUTS))
    delay = L.PastValueLayer((None, None, UNITS), initial=lasagne.init.Normal(), name="before")
    parts = [dense(l_in), dense(delay, b=None)]
    hidden = delay.connect(L.NonlinearityLayer(L.ElemwiseSumLayer(parts), tanh))
    params = L.get_all_params(hidden)
    assert {p.name for p in params} == {"before.initial", "W", "b"} and len(params) == 4
    same = L.RecurrentLayer(
        l_in, UNITS, parts[0].W, parts[1].W, parts[0].b, nonlinearity=tanh, hid_init=delay.initial.reshape((1, UNITS))
    )
    outputs = []
    for layer in (hidden, same):
        y = L.get_output(layer)
        outputs += [y, *sj.grad(sj.sum(y**3), [*params, l_in.input_var])]
    f = sj.function([l_in.input_var], outputs, mode="reference")
    found = f(X)
    half = len(found) // 2
    for a, b in zip(found[:half], found[half:], strict=True):
        close(a, b, 1e-12)
    assert L.get_output_shape(hidden, {l_in: (7, 5, INPUTS)}) == (7, 5, UNITS)
    compiled = sj.function([l_in.input_var], outputs[0], mode="emulate")
    assert "a loop over time of 1 statements" in compiled.explain() and "contract_add" in compiled.explain()
    close(compiled(X), found[0], 1e-12)


def test_several_delays_in_one_loop() -> None:
    """Two layers that feed each other, over delays of different lengths and one of both: an LSTM's kind of loop."""
    l_in = L.InputLayer((None, None, INPUTS))
    one, three, other = (L.PastValueLayer((None, None, UNITS), k, initial=v) for k, v in ((1, 0.5), (3, -1), (2, 0)))
    a = L.NonlinearityLayer(dense(L.ConcatLayer([l_in, one, other], axis=2)), tanh)
    b = L.NonlinearityLayer(dense(L.ConcatLayer([a, three, one], axis=2)), tanh)
    one.connect(a), three.connect(a), other.connect(b)
    after = dense(b)
    found = run(L.get_output([after, a]), {l_in: X})
    Wa, ba, Wb, bb = (p.get_value() for layer in (a, b) for p in layer.input_layer.get_params())
    first, second = np.zeros((2, BATCH, LENGTH, UNITS))
    at = lambda rows, t, value: rows[:, t] if t >= 0 else np.full((BATCH, UNITS), value)
    for t in range(LENGTH):
        before = at(first, t - 1, 0.5)
        first[:, t] = np.tanh(np.hstack([X[:, t], before, at(second, t - 2, 0)]) @ Wa + ba)
        second[:, t] = np.tanh(np.hstack([first[:, t], at(first, t - 3, -1), before]) @ Wb + bb)
    close(found[1], first)
    close(found[0], second @ after.W.get_value() + after.b.get_value())


def test_loops_one_after_the_other_and_noise_inside() -> None:
    """Two loops, of which one reads what the other gives; dropout draws another mask in each step."""
    l_in = L.InputLayer((None, None, INPUTS))
    layer: Any = l_in
    for delay_class in DELAYS.values():
        delay = delay_class((None, None, UNITS))
        noisy = L.DropoutLayer(dense(layer), p=0.5)
        layer = delay.connect(L.NonlinearityLayer(L.ElemwiseSumLayer([noisy, dense(delay)]), tanh))
    ones = np.ones_like(X)
    sure, drawn = run([L.get_output(layer, deterministic=True), L.get_output(layer)], {l_in: ones})
    assert sure.shape == drawn.shape == (BATCH, LENGTH, UNITS) and np.abs(sure - drawn).max() > 1e-3
    lone = L.PastValueLayer((None, None, UNITS))
    noise = lone.connect(L.DropoutLayer(L.ElemwiseSumLayer([dense(l_in), lone]), p=0.5))
    randomize(L.get_all_params(noise))
    (found,) = run([L.get_output(noise)], {l_in: ones})
    assert len({tuple(zeros) for zeros in (found[0] == 0)}) > 1, "the masks of the steps differ"


def test_a_delay_outside_of_loops_moves_a_sequence() -> None:
    l_in, l_starts = L.InputLayer((None, None, INPUTS)), L.InputLayer((None, None))
    for way in DELAYS.values():
        for starts in (None, l_starts):
            layer = way(l_in, 2, initial=7.0, starts=starts)
            (found,) = run([L.get_output(layer)], {l_in: X, **({l_starts: STARTS} if starts else {})})
            for row in range(BATCH):
                for t in range(LENGTH):
                    other = t + 2 if layer.backwards else t - 2
                    between = STARTS[row, max(min(t, other) + 1, 0) : max(t, other) + 1]
                    inside = 0 <= other < LENGTH and not (starts and between.any())
                    close(found[row, t], X[row, other] if inside else np.full(INPUTS, 7.0), 0)


def loop_with(make: Any, delay_class: Any = L.PastValueLayer) -> Any:
    """A loop through a layer that is made of the sum of an input and a delay."""
    l_in = L.InputLayer((None, None, UNITS))
    delay = delay_class((None, None, UNITS))
    return delay.connect(make(L.ElemwiseSumLayer([l_in, delay])))


def both_ways() -> Any:
    l_in = L.InputLayer((None, None, UNITS))
    past, future = L.PastValueLayer((None, None, UNITS)), L.FutureValueLayer((None, None, UNITS))
    return future.connect(past.connect(L.ElemwiseSumLayer([l_in, past, future])))


def without_delay() -> Any:
    l_in = L.InputLayer((None, None, UNITS))
    first = L.ElemwiseSumLayer([l_in, l_in], name="first")
    second = L.NonlinearityLayer(first, name="second")
    first.input_layers[1] = second
    return second


def begins_with_itself() -> Any:
    delay = L.PastValueLayer((None, None, UNITS), initial=(first := L.InputLayer((None, UNITS))))
    hidden = delay.connect(L.ElemwiseSumLayer([L.InputLayer((None, None, UNITS)), delay]))
    last = L.SliceLayer(hidden, -1, axis=1)
    delay.input_layers[delay.input_layers.index(first)] = last
    return hidden


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: L.PastValueLayer((None, None, 2), name="open"), "<PastValueLayer 'open'> has no source"),
        (lambda: loop_with(lambda layer: L.RNNLayer(layer, cells.GRU(UNITS))), "RNNLayer.* depends on other steps"),
        (lambda: loop_with(L.ReverseLayer), "ReverseLayer.* depends on other steps"),
        (lambda: loop_with(lambda layer: L.BatchNormLayer(layer, axes=(0, 1))), "BatchNormLayer.* updates shared"),
        (
            lambda: loop_with(lambda y: L.ExpressionLayer(y, lambda v: sj.repeat(v, 2, 1))),
            r"ExpressionLayer.*\(batch, 1",
        ),
        (both_ways, "some read earlier steps and others later ones"),
        (without_delay, "'first'>.*'second'>.* PastValueLayer|'second'>.*'first'>.* PastValueLayer"),
        (begins_with_itself, "SliceLayer.* is the layer of the initial values .* but it depends on this delay itself"),
        (
            lambda: loop_with(lambda layer: layer).input_layers[1].connect(L.InputLayer((1, 1, UNITS))),
            "connected already",
        ),
        (
            lambda: L.PastValueLayer((None, None, 2)).connect(L.InputLayer((1, 1, 3))),
            r"shape \(None, None, 2\), .* 3\)",
        ),
        (lambda: L.PastValueLayer((None, None, 2), 0), "steps of <PastValueLayer> must be an int of 1 or more, got 0"),
        (lambda: L.PastValueLayer((None, None, None)), "features of fixed sizes"),
        (
            lambda: L.PastValueLayer((None, None, 2), initial=L.InputLayer((None, 3))),
            r"output shape \(None, 2\), got \(None, 3\)",
        ),
    ],
)
def test_loops_that_cannot_be(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=f"(?s){message}"):
        L.get_output(make())


def test_a_loop_that_nothing_feeds() -> None:
    delay = L.PastValueLayer((None, None, UNITS), initial=1.0)
    with pytest.raises(ValueError, match="its number of steps is not known"):
        L.get_output(delay.connect(L.NonlinearityLayer(delay, tanh)))


# ---- modules and sequencers ------------------------------------------------------------------------------------------


def module(x: Any) -> Any:
    """A step: what an LSTM remembers, what the network said before, and a layer without memory."""
    before = L.PastValueLayer((None, 2), steps=2, initial=0.25)
    inner = L.StepLayer(L.DenseLayer(L.ConcatLayer([x, before]), 5, nonlinearity=tanh), cells.LSTM(UNITS))
    return before.connect(L.DenseLayer(inner, 2, nonlinearity=tanh))


def test_a_sequencer_applies_a_module_to_every_step() -> None:
    """Against the module run alone, one step a call; gradients against the loop in a row."""
    l_in = L.InputLayer((BATCH, LENGTH, INPUTS))
    layer = L.SequencerLayer(l_in, module, name="seq")
    randomize(layer.get_params())
    (found,) = run([L.get_output(layer)], {l_in: X}, "emulate")
    step = cells.step_function(layer, mode="reference")
    state = step.initial_state(batch=BATCH)
    for t in range(LENGTH):
        y, state = step(X[:, t], state)
        close(found[:, t], y, 1e-12)
    unrolled = L.SequencerLayer(l_in, layer.cell, unroll_scan=True)
    costs = [sj.sum(L.get_output(one) ** 2) for one in (layer, unrolled)]
    slopes = run([slope for cost in costs for slope in sj.grad(cost, layer.get_params())], {l_in: X})
    for a, b in zip(slopes[: len(slopes) // 2], slopes[len(slopes) // 2 :], strict=True):
        close(a, b, 1e-12)
        assert np.abs(a).max() > 0


def test_a_delay_in_a_module() -> None:
    """Against a loop by hand: what the module said two steps before, and what it read one step before."""
    l_in = L.InputLayer((None, None, INPUTS))
    made = []

    def echo(x: Any) -> Any:
        said, read = L.PastValueLayer((None, 2), steps=2, initial=0.25), L.PastValueLayer((None, INPUTS), initial=-1)
        read.connect(x)
        made.append(L.DenseLayer(L.ConcatLayer([x, said, read]), 2, nonlinearity=tanh))
        return said.connect(made[-1])

    (found,) = run([L.get_output(L.SequencerLayer(l_in, echo))], {l_in: X})
    W, b = made[0].W.get_value(), made[0].b.get_value()
    said = [np.full((BATCH, 2), 0.25)] * 2
    before = np.full((BATCH, INPUTS), -1.0)
    for t in range(LENGTH):
        said.append(np.tanh(np.hstack([X[:, t], said[t], before]) @ W + b))
        before = X[:, t]
    close(found, np.stack(said[2:], axis=1), 1e-13)


def test_modules_without_memory_masks_states_and_both_directions() -> None:
    l_in = L.InputLayer((None, None, INPUTS))
    plain = L.SequencerLayer(l_in, lambda x: L.DenseLayer(x, 2, nonlinearity=tanh))
    (found,) = run([L.get_output(plain)], {l_in: X})
    W, b = (p.get_value() for p in plain.get_params())
    close(found, np.tanh(X @ W + b))
    both = L.Bidirectional(L.SequencerLayer(l_in, module, seq_lengths=np.array([6, 4])))
    randomize(L.get_all_params(both))
    forth, back = both.forward_layer.cell, both.backward_layer.cell
    assert len(set(L.get_all_params(both))) == 2 * len(set(forth.get_params()))
    (found,) = run([L.get_output(both)], {l_in: X})
    assert found.shape == (BATCH, LENGTH, 4)
    alone = L.InputLayer((1, 4, INPUTS))
    ways = [L.SequencerLayer(alone, forth), L.SequencerLayer(alone, back, backwards=True)]
    close(found[1:, :4], np.concatenate(run(L.get_output(ways), {alone: X[1:, :4]}), axis=2))
    kept = L.SequencerLayer(l_in, forth, stateful=True)
    kept.reset_states(BATCH)
    f = sj.function([l_in.input_var], L.get_output(kept), updates=L.get_updates(kept), mode="reference")
    whole = L.SequencerLayer(l_in, forth)
    close(np.concatenate([f(X[:, :2]), f(X[:, 2:])], axis=1), run([L.get_output(whole)], {l_in: X})[0], 1e-13)


def test_modules_in_training_and_not() -> None:
    """Dropout in the module is turned off by `deterministic`, and differs from step to step."""
    l_in = L.InputLayer((None, None, INPUTS))
    layer = L.SequencerLayer(l_in, lambda x: L.DropoutLayer(x))
    sure, drawn = run([L.get_output(layer, deterministic=True), L.get_output(layer)], {l_in: np.ones_like(X)})
    assert (sure == 1).all() and set(np.unique(drawn)) == {0.0, 2.0}
    assert len({tuple(row) for row in drawn[0]}) > 1


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda x: L.RNNLayer(L.DimshuffleLayer(x, (0, "x", 1)), cells.GRU(2)), "use a StepLayer with its cell"),
        (lambda x: L.FutureValueLayer(x), "FutureValueLayer.* reads later steps"),
        (lambda x: L.ElemwiseSumLayer([x, L.PastValueLayer((None, 3))]), "has no source"),
        (lambda x: L.InputLayer((None, 5)), r"input layers of shapes \[\(None, 5\)\], .* \[\(None, 3\)\]"),
    ],
)
def test_modules_that_cannot_be(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        L.SequencerLayer((None, None, 3), make)


def test_a_step_is_not_run_by_itself() -> None:
    with pytest.raises(ValueError, match="run the network with NetworkCell or SequencerLayer"):
        L.get_output(L.StepLayer(L.InputLayer((None, 3)), cells.GRU(2)))


# ---- packed minibatches ----------------------------------------------------------------------------------------------


LENGTHS = [3, 9, 1, 4, 4, 2, 6, 1]


def ragged(features: int = INPUTS) -> list[np.ndarray]:
    return [np.random.default_rng(length).normal(size=(length, features)) for length in LENGTHS]


def one_by_one(layer: Any, l_in: Any, sequences: list[np.ndarray]) -> list[np.ndarray]:
    f = sj.function([l_in.input_var], L.get_output(layer), mode="reference")
    return [f(sequence[None])[0] for sequence in sequences]


def test_packed_rows() -> None:
    packing = Packing(LENGTHS, row_length=10)
    sequences = ragged()
    packed = packing.pack(sequences)
    assert packing.shape == (3, 10) and packing.mask.sum() == sum(LENGTHS), "30 steps in 30 places"
    for own, back in zip(sequences, packing.unpack(packed), strict=True):
        assert (own == back).all()
    assert (packing.last(packed) == [own[-1] for own in sequences]).all()
    wider = Packing(LENGTHS, row_length=12)
    padding = ~wider.mask
    assert padding.sum() == 6 and wider.starts[padding].all() and wider.ends[padding].all()
    assert (wider.starts & wider.mask).sum() == (wider.ends & wider.mask).sum() == len(LENGTHS)


@pytest.mark.parametrize("backwards", [False, True])
def test_packed_is_one_by_one(backwards: bool) -> None:
    """A stack of cells over rows in which several sequences are: outputs and gradients of each as if it were alone."""
    packing = Packing(LENGTHS, row_length=12)
    l_in, l_anew = L.InputLayer((None, None, INPUTS)), L.InputLayer((None, None, 1))
    stack = cells.StackedCells([cells.LSTM(UNITS, peepholes=True), cells.GRU(2)])
    alone = L.RNNLayer(l_in, stack, backwards=backwards)
    rows = L.RNNLayer([l_in, l_anew], cells.ResetWrapper(stack), backwards=backwards)
    assert rows.get_params() == alone.get_params()
    randomize(stack.get_params())
    sequences = ragged()
    anew = (packing.ends if backwards else packing.starts)[:, :, None]
    output = L.get_output(rows)
    weights = sj.constant(packing.mask[:, :, None].astype(float))
    slopes = sj.grad(sj.sum(weights * output**2), [l_in.input_var, *stack.get_params()])
    found, of_input, *of_params = run([output, *slopes], {l_in: packing.pack(sequences), l_anew: anew}, "emulate")
    expected = one_by_one(alone, l_in, sequences)
    for a, b in zip(packing.unpack(found), expected, strict=True):
        close(a, b, 1e-12)
    cost = sj.sum(L.get_output(alone) ** 2)
    f = sj.function([l_in.input_var], sj.grad(cost, [l_in.input_var, *stack.get_params()]), mode="reference")
    each = [f(sequence[None]) for sequence in sequences]
    for a, b in zip(packing.unpack(of_input), each, strict=True):
        close(a, b[0][0], 1e-12)
    for i, slope in enumerate(of_params):
        close(slope, sum(one[1 + i] for one in each), 1e-11)


@pytest.mark.parametrize("way", DELAYS)
def test_packed_rows_in_a_network_of_delays(way: str) -> None:
    packing = Packing(LENGTHS)
    net = Elman(way, steps=2)
    sequences = ragged()
    (found,) = run(
        [L.get_output(net.hidden)],
        {
            net.l_in: packing.pack(sequences),
            net.l_starts: packing.starts,
            net.l_first: np.full((packing.shape[0], UNITS), 0.5),
        },
    )
    f = sj.function([n.input_var for n in net.given], L.get_output(net.hidden), mode="reference")
    for own, sequence in zip(packing.unpack(found), sequences, strict=True):
        close(own, f(sequence[None], np.zeros((1, len(sequence))), np.full((1, UNITS), 0.5))[0], 1e-12)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Packing([]), "1 or more"),
        (lambda: Packing([2, 0]), r"1 or more, got \[2, 0\]"),
        (lambda: Packing([2, 5], 4), "sequence 1 has 5 steps, but a row has 4"),
        (lambda: Packing([2, 1]).pack([np.zeros(2), np.zeros(2)]), r"lengths \[2, 1\], got"),
        (lambda: Packing([2, 1]).pack([np.zeros((2, 3)), np.zeros((1, 4))]), "differ in more than their lengths"),
        (lambda: Packing([2, 1]).unpack(np.zeros((3, 2))), r"\(3, 2\), should be \(2, 2"),
        (lambda: L.RNNLayer((2, 2, 3), cells.ResetWrapper(cells.GRU(2))), r"takes a pair.*got inputs of shape \(3,\)"),
    ],
)
def test_packings_that_cannot_be(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=f"(?s){message}"):
        call()


def test_what_packing_saves(read_example: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """The three ways of the example give the same gradients, which it asserts; the third computes the fewest steps."""
    read_example("packed_batches").main(["--steps", "small", "--mode", "reference"])
    printed = capsys.readouterr().out
    assert "6 x 12       72" in printed and "2 x 12       24" in printed and "23 in all" in printed


# ---- an unrolled language model --------------------------------------------------------------------------------------


def test_an_unrolled_language_model(read_example: Any) -> None:
    """Steps in a row are the loop: losses before and after steps of descent, the state carried from piece to piece."""
    program = read_example("ptb")
    numbers, words = program.words_of("the cat sat.\nthe dog sat, the cat ran.\n" * 3)
    assert words == 8 and len(numbers) == 42
    losses = []
    for unroll in (True, False):
        lasagne.random.set_rng(np.random.default_rng(1))
        given, recurrent, network = program.build(words, 4, batch=2, length=4, unroll=unroll)
        output = sj.dprint(L.get_output(network), "str")
        assert output is not None and output.count("unroll=True") == (2 if unroll else 0)
        train, evaluate = program.compile_model(given, network, sj.shared(1.0), "reference")
        found = [evaluate(*piece) for piece in program.pieces(numbers, 2, 4)]
        for layer in recurrent:
            layer.reset_states()
        found += [train(*piece) for piece in program.pieces(numbers, 2, 4)]
        found.append(program.perplexity(evaluate, recurrent, numbers, 2, 4))
        losses.append(found)
    close(*losses, 1e-12)
    assert len(losses[0]) == 11 and losses[0][-1] < np.exp(np.mean(losses[0][:5])), "it has learned something"


# ---- stacked layers in one loop --------------------------------------------------------------------------------------


def stack_of(fuse: bool, **options: Any) -> Any:
    lasagne.random.set_rng(np.random.default_rng(0))
    l_in = L.InputLayer((None, None, INPUTS), sj.tensor(("B", "T", INPUTS), name="x"))
    return l_in, L.RNNLayer(l_in, [cells.LSTM(UNITS), cells.GRU(5), cells.LSTM(5)], fuse_layers=fuse, **options)


@pytest.mark.parametrize("options", [{}, {"backwards": True, "seq_lengths": np.array([6, 3])}])
def test_stacked_layers_in_one_loop(options: Any) -> None:
    """The same outputs, states and gradients as with a loop for each."""
    found = []
    for fuse in (False, True):
        l_in, layer = stack_of(fuse, return_state=True, **options)
        y, state = L.get_output(layer)
        slopes = sj.grad(sj.sum(y**2), layer.get_params())
        text = sj.dprint(y, "str")
        assert text is not None and text.count("= scan ") == (1 if fuse else 3)
        found.append(run([y, *cells.structure.flatten(state), *slopes], {l_in: X}))
    for a, b in zip(*found, strict=True):
        close(a, b, 1e-12)


def test_one_loop_or_turns_store_nothing_for_all_of_time() -> None:
    """If only the last output is asked for and no gradient: in one loop for one step, else for a few blocks of time."""
    taken = {}
    for fuse in (False, True):
        l_in, layer = stack_of(fuse, only_return_final=True)
        f = sj.function([l_in.input_var], L.get_output(layer), mode="emulate")
        taken[fuse] = [f.memory(B=2, T=length).workspace for length in (100_000, 200_000)]
        assert ("memory for a few turns of carry" in f.explain()) is not fuse
    (a, b), (c, d) = taken[False], taken[True]
    assert b < 1.1 * a < 100_000 * 2 * (UNITS + 5) * 8, "less than the outputs of two layers, in doubles"
    assert d == c < a


@pytest.mark.parametrize("checkpoint", [None, "sqrt"])
def test_gradients_need_no_more_memory_in_one_loop(checkpoint: Any) -> None:
    """What the products with the weights of an upper cell read, such as `h = o * tanh(c)` of the cell below, is made
    again stretch by stretch, and these products are summed along with the loop."""
    taken = []
    for fuse in (False, True):
        l_in, layer = stack_of(fuse, only_return_final=True, checkpoint=checkpoint)
        f = sj.function([l_in.input_var], sj.grad(sj.sum(L.get_output(layer) ** 2), layer.get_params()), mode="emulate")
        taken.append(f.memory(B=2, T=100_000).workspace)
    assert taken[1] < 1.1 * taken[0]

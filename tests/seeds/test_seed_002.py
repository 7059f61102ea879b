"""Caffe2's RecurrentNetwork: what its operator does by arguments, a compiled loop does by itself.

The input's product outside of the loop, a step net and a backward step net that can be looked at, states that are rows
of one buffer, slots that are reused where nothing is kept, values that are made again for the gradient, lengths,
gradients accumulated step by step, the weights' gradient after the loop; and its model of characters, as three programs
of one definition (examples/char_programs.py).
"""

import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import lasagne_like as lasagne
import scanjit as sj
from scanjit.schedule.nests import Nest, Program, TimeLoop, jobs_of
from tests.lasagne_like.recurrent_support import close, slope

SYMBOLS, UNITS, BATCH, LENGTH = 7, 5, 3, 6
RNG = np.random.default_rng(0)
TEXT = RNG.integers(0, SYMBOLS, (BATCH, LENGTH + 1))
CHARACTERS, FOLLOWING = TEXT[:, :-1], TEXT[:, 1:]
LENGTHS = np.array([6, 2, 4])


@pytest.fixture
def example(read_example: Callable[[str], SimpleNamespace]) -> SimpleNamespace:
    return read_example("char_programs")


class Net:
    """The definition, with symbols for all that it reads, whose sizes have names."""

    def __init__(self, example: SimpleNamespace, **options: Any) -> None:
        lasagne.random.set_rng(np.random.default_rng(1))
        self.model = example.CharModel(SYMBOLS, UNITS, **options)
        self.inputs = [
            sj.tensor(("B", "T"), "int64", "characters"),
            sj.tensor(("B",), "int64", "lengths"),
            sj.tensor(("B", UNITS), name="cell_init"),
            sj.tensor(("B", UNITS), name="hidden_init"),
        ]
        self.following, (self.cell, self.hidden) = self.model.run_net(*self.inputs[:2], self.inputs[2:])
        self.loss = -sj.log(self.following).sum()

    def function(self, outputs: Any, name: str, mode: str = "emulate") -> Any:
        return sj.function(self.inputs, outputs, mode=mode, name=name)

    def training(self, **options: Any) -> Any:
        return self.function(
            [self.loss, *sj.grad(self.loss, [*self.model.params, *self.inputs[2:]])], "train", **options
        )


def program_of(f: Any) -> Program:
    (stage,) = f.executable.stages
    found: Program = stage.program
    return found


def loops(f: Any) -> dict[str, list[Any]]:
    """What each loop over time consists of, by its name."""
    found: dict[str, list[Any]] = {}

    def look(suite: Any) -> None:
        for statement in suite:
            if isinstance(statement, TimeLoop):
                name = re.findall(r"scan (\S+) at", statement.title)[0]
                found[name] = list(jobs_of(statement.suite))
            look(statement.inner)

    look(program_of(f).suite)
    return found


def touched(statements: Any, name: str, lead: str, writes: bool) -> list[str]:
    """Where statements read or write the buffers of a name whose first size is `lead`."""
    return [
        str(at)
        for statement in statements
        for buffer, at, written in statement.refs()
        if buffer.name == name and str(buffer.shape[0]) == lead and written is writes
    ]


# ---- the three programs ----------------------------------------------------------------------------------------------


def numpy_net(values: dict[str, np.ndarray], characters: Any, lengths: Any, h: Any, c: Any) -> Any:
    """The probabilities of each step, and the last states."""
    gates = ("ingate", "forgetgate", "cell", "outgate")
    h, c, found = h.copy(), c.copy(), []
    for t in range(characters.shape[1]):
        z = {
            g: values[f"LSTM.W_in_to_{g}"][characters[:, t]] + h @ values[f"LSTM.W_hid_to_{g}"] + values[f"LSTM.b_{g}"]
            for g in gates
        }
        i, f, o = (1 / (1 + np.exp(-z[g])) for g in ("ingate", "forgetgate", "outgate"))
        new_c = f * c + i * np.tanh(z["cell"])
        inside = (t < lengths)[:, None]
        h, c = np.where(inside, o * np.tanh(new_c), h), np.where(inside, new_c, c)
        scores = np.exp(h @ values["output.W"] + values["output.b"])
        found.append(scores / scores.sum(axis=1, keepdims=True))
    return np.stack(found, axis=1), h, c


def values_of(model: Any) -> dict[str, np.ndarray]:
    return {p.name: p.get_value() for p in model.params}


def test_three_programs_of_one_definition(example: SimpleNamespace) -> None:
    """init fills, train is a step from the loss of the definition, predict goes on from call to call: against NumPy."""
    model = example.CharModel(SYMBOLS, UNITS)
    init, train, predict = example.programs(model, BATCH, mode="reference")
    init()
    first = values_of(model)
    for name, value in first.items():
        bound = np.sqrt(3 / len(value))
        assert (value == 0).all() if value.ndim == 1 else (0.5 * bound < np.abs(value).max() <= bound), name
    zeros = np.zeros((BATCH, UNITS))
    chances, h, c = numpy_net(first, CHARACTERS, LENGTHS, zeros, zeros)
    inside = np.arange(LENGTH) < LENGTHS[:, None]
    expected = -np.log(np.take_along_axis(chances, FOLLOWING[:, :, None], 2)[:, :, 0])[inside].mean()
    close(train(CHARACTERS, LENGTHS, FOLLOWING), expected)
    second = values_of(model)
    assert all((first[name] != second[name]).any() for name in first), "Adam's first step changes all"
    chances, _, _ = numpy_net(second, CHARACTERS, LENGTHS, h, c)
    expected = -np.log(np.take_along_axis(chances, FOLLOWING[:, :, None], 2)[:, :, 0])[inside].mean()
    close(train(CHARACTERS, LENGTHS, FOLLOWING), expected)
    chances, _, _ = numpy_net(values_of(model), CHARACTERS[:1], LENGTHS[:1], zeros[:1], zeros[:1])
    for character, row in zip(CHARACTERS[0], chances[0], strict=True):
        close(predict(character), row)
    init()
    again = values_of(model)
    assert all((again[name] != first[name]).any() for name in first if first[name].ndim == 2), "other numbers"
    close(predict(3), numpy_net(again, np.array([[3]]), np.array([1]), zeros[:1], zeros[:1])[0][0, 0])


def test_the_example_runs(example: SimpleNamespace, capsys: pytest.CaptureFixture[str]) -> None:
    losses = example.main(["--steps", "small", "--show", "--mode", "reference"])
    printed = capsys.readouterr().out
    assert len(losses) == 8
    assert "the step of the loop LSTM.grad:\nscan {" in printed and "There was a " in printed


# ---- the operator ----------------------------------------------------------------------------------------------------


def test_step_nets_are_printed(example: SimpleNamespace) -> None:
    """Each gate's slice of the one product with the state; the backward step accumulates the weights' gradient."""
    f = Net(example).training()
    forward, backward = (sj.dprint(f, "str", loop=name) for name in ("LSTM", "LSTM.grad"))
    assert forward is not None and backward is not None
    step = forward.split("scan {")[1]
    assert step.count("= contract ") == 1 and step.count("= sigmoid ") == 3 and step.count("= tanh ") == 2
    assert step.count("= where ") == 2, "steps behind an end keep both states"
    assert "reverse=True" in backward and "= carry 2\n" in backward
    shape = rf"float64\({UNITS}, {4 * UNITS}\)"
    (product,) = re.findall(rf"(%\d+): {shape} = contract", backward)
    (total,) = re.findall(rf"(%\d+): {shape} = carry 2", backward)
    (new,) = re.findall(rf"(%\d+): {shape} = add {total} {product}", backward)
    assert re.search(rf"carry %\d+, %\d+, {new};", backward), "dW = dW + h^T dz, step by step"


def test_input_to_hidden_is_outside_of_the_loop(example: SimpleNamespace) -> None:
    """One product for all of time, whoever wrote the step."""
    net = Net(example)
    f = net.function(net.following, "evaluate")
    step = sj.dprint(f, "str", loop="LSTM")
    assert step is not None and step.count("= contract ") == 1
    x = sj.tensor(("T", "B", SYMBOLS), name="x")
    cell = lasagne.cells.LSTM(UNITS, name="inside").build(SYMBOLS)
    outputs, _ = lasagne.cells.unfold(cell, x, precompute=False)
    g = sj.function([x], outputs, mode="emulate")
    written = sj.dprint(g, "str", loop="inside")
    assert written is not None and written.count("= contract ") == 2, "as it was written"
    assert "done over all of time before the loop: contract" in g.explain()


def test_states_are_rows_of_one_buffer(example: SimpleNamespace) -> None:
    """Links with offsets 0 and 1: a step reads row t of the states and writes row t + 1; nothing is copied from there.
    What the layers above and the backward step read are these rows."""
    f = Net(example).training()
    size = f"{UNITS}*B"
    for name in ("LSTM", "LSTM.grad"):
        rows = touched(loops(f)[name], "carry", "T + 1", False)
        assert rows and set(rows) == {f"{size}*row"}, (name, rows)
    rows = touched(loops(f)["LSTM"], "carry", "T + 1", True)
    assert rows == [f"{size} + {size}*row"] * 2
    shapes = [(life.buffer.name, *map(str, life.buffer.shape)) for life in f.executable.stages[0].table.lives]
    assert shapes.count(("carry", "T + 1", "B", str(UNITS))) == 2
    assert shapes.count(("ys", "T", "B", str(UNITS))) == 4, "beside them only the activations that the gradient needs"
    inside = {id(statement) for suite in loops(f).values() for statement in suite}
    above = [s for s in jobs_of(program_of(f).suite) if isinstance(s, Nest) and id(s) not in inside]
    assert size in touched(above, "carry", "T + 1", False), "the outputs of all steps begin at row 1"


def test_last_states_are_the_last_rows(example: SimpleNamespace) -> None:
    """Aliases with offset -1."""
    net = Net(example)
    f = net.function([net.following, net.hidden, net.cell], "last")
    reads = touched(jobs_of(program_of(f).suite), "carry", "T + 1", False)
    assert {f"{UNITS}*B*T", f"{UNITS}*T*B"} & set(reads)  # which size was made first depends on earlier tests
    outputs = f(CHARACTERS, LENGTHS, *np.zeros((2, BATCH, UNITS)))
    zeros = np.zeros((BATCH, UNITS))
    for found, expected in zip(
        outputs, numpy_net(values_of(net.model), CHARACTERS, LENGTHS, zeros, zeros), strict=True
    ):
        close(found, expected)


def test_forward_only_runs_cycle_two_slots(example: SimpleNamespace) -> None:
    net = Net(example)
    f = net.function([net.hidden, net.cell], "forward")
    assert not touched(jobs_of(program_of(f).suite), "carry", "T + 1", False)
    step = loops(f)["LSTM"]
    size = f"{UNITS}*B"
    assert set(touched(step, "carry", "2", False)) == {f"{size}*((step) % 2)"}
    assert touched(step, "carry", "2", True) == [f"{size}*((step + 1) % 2)"] * 2
    x = sj.tensor(("T", "B", SYMBOLS), name="x")
    cell = lasagne.cells.LSTM(UNITS).build(SYMBOLS)
    g = sj.function([x], lasagne.cells.unfold(cell, x)[1].hid, mode="emulate")
    assert g.memory(T=100_000, B=2) == g.memory(T=200_000, B=2), "no memory grows with the length"


def test_values_are_made_again_on_backward(example: SimpleNamespace) -> None:
    """Less memory, and the same loss and gradients to the last bit."""
    given = [CHARACTERS, LENGTHS, *RNG.normal(size=(2, BATCH, UNITS))]
    kept, again = Net(example).training(), Net(example, checkpoint=2).training()
    np.testing.assert_equal(kept(*given), again(*given))
    more, less = (f.memory(B=BATCH, T=4000).workspace - f.memory(B=BATCH, T=2000).workspace for f in (kept, again))
    states = 2000 * BATCH * UNITS * 8
    assert more - less > 4 * states, "the activations, and some of the states"


def test_lengths_and_accumulated_gradients(example: SimpleNamespace) -> None:
    """Sequences of a batch are as if alone: so are what they add to the gradients, which sum up over steps and rows."""
    net = Net(example)
    f = net.training()
    start = RNG.normal(size=(2, BATCH, UNITS))
    params = values_of(net.model)
    inside = (np.arange(LENGTH) < LENGTHS[:, None])[:, :, None]
    masked = net.function(
        [
            *sj.grad((sj.log(net.following) * sj.constant(inside.astype(float))).sum(), net.model.params),
            net.hidden,
            net.cell,
        ],
        "masked",
    )
    found = masked(CHARACTERS, LENGTHS, *start)
    alone = net.function(
        [*sj.grad(sj.log(net.following).sum(), net.model.params), net.hidden, net.cell], "alone", "reference"
    )
    each = []
    for row, length in enumerate(LENGTHS):
        one = slice(row, row + 1)
        each.append(alone(CHARACTERS[one, :length], LENGTHS[one], start[0, one], start[1, one]))
    count = len(net.model.params)
    for i in range(count):
        close(found[i], sum(one[i] for one in each), 1e-11)
    for i in (count, count + 1):
        close(found[i], np.concatenate([one[i] for one in each]), 1e-12)

    def loss(point: dict[str, np.ndarray]) -> list[np.ndarray]:
        return [-np.log(numpy_net(point, CHARACTERS, LENGTHS, start[1], start[0])[0])]

    _, *slopes = f(CHARACTERS, LENGTHS, *start)
    direction = {name: np.random.default_rng(5).normal(size=value.shape) for name, value in params.items()}
    weights = [np.ones((BATCH, LENGTH, SYMBOLS))]
    got = sum(float((s * direction[p.name]).sum()) for p, s in zip(net.model.params, slopes, strict=False))
    np.testing.assert_allclose(got, slope(loss, params, direction, weights), rtol=1e-7)


def test_the_gradient_of_weights_is_made_after_the_loop(example: SimpleNamespace) -> None:
    f = Net(example).training()
    assert "done over all of time after the loop: contract" in f.explain()
    for statement in loops(f)["LSTM.grad"]:
        for buffer, _, written in statement.refs():
            assert not (written and buffer.shape[:1] == (UNITS,)), "no step adds to a matrix"

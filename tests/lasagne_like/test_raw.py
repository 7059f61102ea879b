"""`raw_loop` against the loop that it stands for, written in NumPy; its gradient; errors."""

from typing import Any

import numpy as np
import pytest

import scanjit as sj
from lasagne_like import cells
from lasagne_like.layers import InputLayer, RNNLayer, get_output
from tests.lasagne_like import numpy_cells as oracle
from tests.lasagne_like.recurrent_support import check_slope, close, randomize, values

BATCH, UNITS = 3, 2


def program(lib: Any, time: Any, output: Any, state: Any, carried: Any, start: Any, most: Any) -> Any:
    """A sequence reads what it gave, says once that it ends, emits twice its output, and counts; the memory fades."""
    if output is None:
        state = cells.LSTMState(0.5 * start, start)
        return most <= 0, start, state, None, {"count": 0.0 * start[:, 0], "sum": start}
    state = cells.LSTMState(0.9 * state.cell, state.hid)
    carried = {"count": carried["count"] + 1.0, "sum": carried["sum"] + output}
    return lib.equal(time, most), output + 0.1 * carried["sum"], state, 2.0 * output, carried


def by_oracle(P: Any, start: Any, most: Any, max_steps: int) -> Any:
    over, x, state, _, carried = program(np, 0, None, None, None, start, most)
    rows: list[Any] = []
    while not over.all() and len(rows) < max_steps:
        output, new = oracle.lstm(P, x, {"cell": state.cell, "hid": state.hid})
        given = cells.LSTMState(new["cell"], new["hid"])
        finished, x, given, emitted, carried = program(np, len(rows) + 1, output, given, carried, start, most)
        rows.append(np.where(over[:, None], 0.0, emitted))
        state = cells.LSTMState(*(np.where(over[:, None], a, b) for a, b in zip(state, given, strict=True)))
        over = over | finished
    emitted = np.array(rows).reshape(len(rows), *start.shape)
    return [emitted, state.cell, state.hid, carried["count"], carried["sum"]]


@pytest.fixture(scope="module")
def problem() -> Any:
    cell = cells.LSTM(UNITS).build(UNITS)
    randomize(cell.get_params())
    start, most = sj.matrix("start"), sj.lvector("most")
    emitted, state, carried = cells.raw_loop(cell, lambda *a: program(sj, *a, start, most), max_steps=6)
    return cell, start, most, [emitted, *state, carried["count"], carried["sum"]]


@pytest.mark.parametrize("most", [[2, 4, 1], [0, 3, 0], [0, 0, 0], [9, 1, 2]])
def test_loops_end_when_all_have(problem: Any, most: list[int]) -> None:
    cell, start, lengths, outputs = problem
    x = np.random.default_rng(1).normal(size=(BATCH, UNITS))
    found = sj.function([start, lengths], outputs, mode="reference")(x, np.array(most))
    expected = by_oracle(values(cell.get_params()), x, np.array(most), 6)
    assert found[0].shape[0] == min(max(most), 6)
    for got, wanted in zip(found, expected, strict=True):
        close(got, wanted)


def test_gradients_go_through_what_the_function_chose(problem: Any) -> None:
    cell, start, lengths, outputs = problem
    most, rng = np.array([2, 4, 1]), np.random.default_rng(2)
    point = {**values(cell.get_params()), "start": rng.normal(size=(BATCH, UNITS))}
    weights = [rng.normal(size=y.shape) for y in by_oracle(point, point["start"], most, 6)]
    loss = sum((sj.sum(y * w) for y, w in zip(outputs, weights, strict=True)), sj.constant(0.0))
    slopes = sj.grad(loss, [*cell.get_params(), start])
    found = sj.function([start, lengths], slopes, mode="emulate")(point["start"], most)
    gradients = dict(zip(point, found, strict=True))
    check_slope(lambda p: by_oracle(p, p["start"], most, 6), point, weights, gradients)


def test_it_can_do_what_a_layer_does() -> None:
    """Inputs read one after the other, as many as each sequence has: the layer with lengths."""
    l_in = InputLayer((None, None, 3))
    lengths = np.array([4, 1, 2])
    layer = RNNLayer(l_in, cells.GRU(UNITS), seq_lengths=lengths, zero_output_for_mask=True, return_state=True)
    output, final = get_output(layer)
    rows = sj.swapaxes(l_in.input_var, 0, 1)

    def read(time: Any, output: Any, state: Any, carried: Any) -> Any:
        state = layer.cell.init_state(BATCH) if state is None else state
        following = rows[sj.minimum(time, rows.shape[0] - 1)]
        return time >= sj.constant(lengths), following, state, output, None

    emitted, state, carried = cells.raw_loop(layer.cell, read, max_steps=rows.shape[0])
    assert carried is None
    x = np.random.default_rng(1).normal(size=(BATCH, 4, 3))
    found = sj.function([l_in.input_var], [output, final, sj.swapaxes(emitted, 0, 1), state], mode="reference")(x)
    close(found[2], found[0])
    close(found[3], found[1])


def test_errors(problem: Any) -> None:
    cell, start, most, _ = problem

    def loop(change: Any, **options: Any) -> Any:
        def function(time: Any, *rest: Any) -> Any:
            return change(list(program(sj, time, *rest, start, most)), rest[0] is None)

        return cells.raw_loop(cell, function, **{"max_steps": 6, **options})

    with pytest.raises(ValueError, match="max_steps must be 1 or more, got 0"):
        loop(lambda given, first: given, max_steps=0)
    with pytest.raises(ValueError, match="no parameters yet"):
        cells.raw_loop(cells.GRU(3), lambda *a: None, 5)
    with pytest.raises(
        sj.ShapeError, match="state that the function gave before the first step does not have the structure"
    ):
        loop(lambda given, first: [*given[:2], start, *given[3:]] if first else given)
    with pytest.raises(sj.ShapeError, match="carried value does not have the structure"):
        loop(lambda given, first: given if first else [*given[:4], None])
    with pytest.raises(sj.ShapeError, match="emitted value does not have the structure"):
        loop(lambda given, first: given if first else [*given[:3], (start, start), given[4]])

"""Functions of whole sequences, cut into steps: the values of the whole function, in blocks of any length."""

import numpy as np
import pytest

import scanjit as sj

LENGTHS = (3, 0, 1, 5, 2)


def pieces(step, arrays, axes, lengths):
    """The outputs of blocks of these lengths, and the state at the end."""
    at, state, found = 0, None, []
    for length in lengths:
        rows = [
            a if axis is None else np.take(a, range(at, at + length), axis)
            for a, axis in zip(arrays, axes, strict=True)
        ]
        outputs, state = step.block(*rows, state)
        found.append(outputs)
        at += length
    return found, state


def one_by_one(step, arrays, axes):
    state, found = None, []
    for t in range(sum(LENGTHS)):
        outputs, state = step(
            *(a if axis is None else np.take(a, t, axis) for a, axis in zip(arrays, axes, strict=True)), state
        )
        found.append(outputs)
    return found, state


def check(f, arrays, axes=None, out=0, tolerance=0, lengths=LENGTHS, **options):
    """The function cut into steps gives what the whole function gives; `out` is the time axis of its output."""
    axes = [0] * len(arrays) if axes is None else axes
    step = sj.step_function(f, **options)
    whole = f(*arrays)
    blocks, after = pieces(step, arrays, axes, lengths)
    rows, after_rows = one_by_one(step, arrays, axes)
    if out is None:
        np.testing.assert_allclose(blocks[-1], whole, rtol=tolerance, atol=tolerance)
        np.testing.assert_allclose(rows[-1], whole, rtol=tolerance, atol=tolerance)
    else:
        np.testing.assert_allclose(np.concatenate(blocks, out), whole, rtol=tolerance, atol=tolerance)
        np.testing.assert_allclose(np.stack(rows, out), whole, rtol=tolerance, atol=tolerance)
    for name, part in after.items():
        np.testing.assert_allclose(part, after_rows[name], rtol=tolerance, atol=tolerance)
    return step


def numbers(*shape, dtype="float64"):
    return np.random.default_rng(0).normal(size=shape).astype(dtype)


TIME = sum(LENGTHS)


@pytest.mark.quick(2)
@pytest.mark.parametrize("mode", ["reference", "numba"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_loops_in_a_row(mode, dtype):
    x = sj.tensor(("T", "B", 3), dtype, "x")
    w = sj.shared(numbers(3, 3, dtype=dtype), "w")

    def cell(row, h):
        return np.tanh(row @ w + 0.5 * h)

    first = sj.scan(cell, x, sj.zeros((x.shape[1], 3), dtype), name="low")
    second = sj.scan(cell, first + x, sj.zeros((x.shape[1], 3), dtype), name="high")
    f = sj.function([x], second, mode=mode)
    step = check(f, [numbers(TIME, 300, 3, dtype=dtype)])
    assert list(step.state_types) == ["low", "high"]
    assert step.initial_state(numbers(4, 3, dtype=dtype))["low"].shape == (4, 3)


def test_carries_with_taps():
    x = sj.tensor(("T", 2), name="x")
    start = dict(initial=np.ones((3, 2)), taps=[-3, -1])
    h = sj.scan(lambda row, oldest, before: row + 0.5 * oldest - 0.1 * before, x, start, name="h")
    check(sj.function([x], h, mode="reference"), [numbers(TIME, 2)])


def test_a_moving_average_and_a_difference():
    x = sj.vector("x")
    padded = sj.concatenate([np.ones(2), x])
    average = (padded[2:] + padded[1:-1] + padded[:-2]) / 3
    before = sj.concatenate([np.full(1, 7.0), x[:-1]])
    step = check(sj.function([x], average + (x - before), mode="reference"), [numbers(TIME)])
    assert sum(kind.shape[0] for kind in step.state_types.values()) == 3  # rows are kept once


def test_delays_of_delays_begin_as_in_the_whole_sequence():
    x = sj.vector("x")
    early = sj.concatenate([np.arange(1.0, 4.0), x])  # x, 3 steps later
    late = sj.concatenate([np.arange(10.0, 12.0), np.tanh(early)])  # 2 more
    f = sj.function([x], late[: x.shape[0]] * early[: x.shape[0]], mode="reference")
    check(f, [numbers(TIME)])


def test_a_loop_over_what_is_known_before_the_first_step():
    x = sj.vector("x")
    padded = sj.concatenate([np.arange(1.0, 4.0), x])
    h = sj.scan(lambda row, h: np.tanh(row + h), padded, 0.0)
    check(sj.function([x], h[: x.shape[0]], mode="reference"), [numbers(TIME)])
    check(sj.function([x], h[3:], mode="reference"), [numbers(TIME)])


def test_convolutions_that_are_padded_in_front():
    x = sj.tensor(("B", 2, "T"), name="x")
    w = sj.shared(numbers(4, 2, 3), "w")
    y = sj.conv1d(sj.pad(x, ((0, 0), (0, 0), (4, 0))), w, filter_dilation=2)
    again = sj.conv1d(sj.pad(np.tanh(y), ((0, 0), (0, 0), (2, 0))), sj.shared(numbers(1, 4, 3), "v"))
    f = sj.function([x], again, mode="reference")
    step = check(f, [numbers(3, 2, TIME)], [2], out=2, tolerance=1e-14, lengths=(3, 1, 5, 2), time=2)
    assert [t.shape[-1] for t in step.state_types.values()] == [4, 2]


def test_steps_up_to_now():
    x = sj.tensor(("T", 3), name="x")
    for out in (x.sum(), x.max(0), x.mean(0), x.min(), sj.any(x > 1.5), sj.softmax(x.sum(0)), x.prod(1).sum()):
        check(sj.function([x], out, mode="reference"), [numbers(TIME, 3)], out=None, tolerance=1e-14)


def test_the_newest_step():
    """A function of no step has none, so neither may the first block have none."""
    x = sj.tensor(("T", 3), name="x")
    step = sj.step_function(([x], x[-1] + sj.concatenate([np.zeros((2, 3)), x])[-3]), mode="reference")
    assert step.block(np.ones((4, 3)))[0].tolist() == [2, 2, 2]
    first, state = step(np.ones(3))
    assert first.tolist() == [1, 1, 1]
    assert step.block(np.full((3, 3), 5.0), state)[0].tolist() == [10, 10, 10]


def test_positions():
    x = sj.tensor(("T", 2), name="x")
    n = x.shape[0]
    waves = np.sin(sj.arange(n)[:, None] * np.array([1.0, 0.1]))
    check(sj.function([x], x + waves, mode="reference"), [numbers(TIME, 2)])


def test_a_mask_and_an_input_without_time():
    x, m, h0 = sj.tensor(("T", "B"), name="x"), sj.tensor(("S", "B"), "bool", "m"), sj.tensor(("B",), name="h0")
    h = sj.scan(lambda row, on, h: sj.where(on, np.tanh(row + h), h), [x, m], h0)
    f = sj.function([x, m, h0], h, mode="reference")
    on = numbers(TIME, 4) > 0
    check(f, [numbers(TIME, 4), on, numbers(4)], [0, 0, None], time={"x": 0, m: 0})


def test_axes_that_are_reshaped_together():
    x = sj.tensor(("B", "T", 3), name="x")
    b, n = x.shape[0], x.shape[1]
    flat = np.tanh(x.reshape((b * n, 3)) @ numbers(3, 2))
    y = sj.cumsum(flat.reshape((b, n, 2)), axis=1)
    check(sj.function([x], y, mode="reference"), [numbers(4, TIME, 3)], [1], out=1, time=1, tolerance=1e-14)


def test_lookups():
    i = sj.tensor(("T",), "int64", "i")
    table = sj.shared(numbers(5, 3), "table")
    f = sj.function([i], sj.cumsum(table[i], axis=0), mode="reference")
    check(f, [np.arange(TIME) % 5], tolerance=1e-14)
    x = sj.tensor(("T", 4), name="x")
    check(sj.function([x], x[:, np.array([2, 0])], mode="reference"), [numbers(TIME, 4)])


def test_what_is_done_with_each_row():
    x, a = sj.tensor(("T", 4), name="x"), sj.tensor(("T", 4, 4), name="a")
    for y in (x.argmax(1), sj.sort(x, axis=1), sj.argsort(x, axis=1)[:, 0], sj.top_k(x, 2)[0]):
        check(sj.function([x], y, mode="reference"), [numbers(TIME, 4)])
    i = sj.tensor(("T",), "int64", "i")
    chosen = sj.function([x, i], sj.cumsum(x[sj.arange(x.shape[0]), i]), mode="reference")
    check(chosen, [numbers(TIME, 4), np.arange(TIME) % 4], tolerance=1e-14)
    solved = sj.function([a, x], sj.solve(a, x[:, :, None])[:, :, 0] + sj.det(a)[:, None], mode="reference")
    check(solved, [numbers(TIME, 4, 4) + 4 * np.eye(4), numbers(TIME, 4)], tolerance=1e-12)


def test_complex_numbers():
    x = sj.tensor(("T", 2), "complex128", "x")
    h = sj.scan(lambda row, h: row + (0.5 + 0.5j) * h, x, np.zeros(2, complex))
    z = numbers(TIME, 2) + 1j * numbers(TIME, 2)[::-1]
    check(sj.function([x], h, mode="reference"), [z], tolerance=1e-14)


def test_several_outputs_keep_their_structure():
    x = sj.vector("x")
    f = sj.function([x], {"sum": x.sum(), "rows": (sj.cumsum(x), 2 * x)}, mode="reference")
    outputs, _ = sj.step_function(f).block([1.0, 2.0])
    assert outputs["sum"] == 3 and outputs["rows"][0].tolist() == [1, 3] and outputs["rows"][1].tolist() == [2, 4]


def test_what_no_output_needs_is_no_state():
    x = sj.vector("x")
    h, unused = sj.scan(lambda row, h: (np.tanh(row + h), row), x, [0.0, None])
    more = sj.scan(lambda row, h: row + h, unused, 0.0)
    assert more is not None
    assert len(sj.step_function(([x], h), mode="reference").state_types) == 1
    assert len(sj.step_function([[x], h], mode="reference").state_types) == 1  # a list of both, too


def test_feedback_is_a_part_of_the_state():
    x, h = sj.tensor((2,), name="x"), sj.tensor((2,), name="h")
    new = np.tanh(x + 0.5 * h)
    f = sj.function([x, h], (new * 2, new), mode="reference")
    step = sj.step_function(f, time=None, feedback={"h": 1})
    assert list(step.state_types) == ["h"]
    state, want = None, np.zeros(2)
    for row in numbers(4, 2):
        output, state = step(row, state)
        want = np.tanh(row + 0.5 * want)
        np.testing.assert_array_equal(output, 2 * want)
        np.testing.assert_array_equal(state["h"], want)


def test_feedback_from_an_output_behind_a_structure():
    """A key names an output, of which there are more than keys: those of a list count one by one."""
    x, h = sj.tensor((2,), name="x"), sj.tensor((2,), name="h")
    new = np.tanh(x + 0.5 * h)
    outputs = {"y": [2 * new, {"sum": new.sum(), "old": h}], "new": new}
    f = sj.function([x, h], outputs, mode="reference")
    for key in ("new", 3, -1):
        step = sj.step_function(f, time=None, feedback={"h": key})
        state, want = None, np.zeros(2)
        for row in numbers(3, 2):
            output, state = step(row, state)
            want = np.tanh(row + 0.5 * want)
            assert output.keys() == {"y"} and output["y"][1].keys() == {"sum", "old"}
            np.testing.assert_array_equal(output["y"][0], 2 * want)
            np.testing.assert_array_equal(state["h"], want)
    with pytest.raises(sj.ArgumentError, match="one tensor") as raised:
        sj.step_function(f, time=None, feedback={"h": "y"})
    assert "3 tensors" in str(raised.value)
    step = sj.step_function(([x, h], {"pair": [new, new.sum()], "x": x}), None, {"h": 0}, mode="reference")
    output, state = step(np.ones(2))
    np.testing.assert_array_equal(output["pair"], state["h"].sum())
    np.testing.assert_array_equal(output["x"], np.ones(2))


def test_feedback_may_be_the_only_output():
    x, h = sj.tensor((2,), name="x"), sj.tensor((2,), name="h")
    output, state = sj.step_function(([x, h], x + h), None, {"h": 0}, mode="reference")(np.ones(2))
    assert output == ()
    np.testing.assert_array_equal(state["h"], np.ones(2))


def test_a_loop_that_begins_with_feedback_has_no_state_of_its_own():
    x, h0 = sj.tensor(("T", 2), name="x"), sj.tensor((2,), name="h0")
    h = sj.scan(lambda row, h: np.tanh(row + h), x, h0)
    f = sj.function([x, h0], {"all": h, "end": h[-1]}, mode="reference")
    step = sj.step_function(f, time={"x": 0}, feedback={"h0": "end"})
    assert list(step.state_types) == ["h0"]
    xs = numbers(6, 2)
    _, state = step.block(xs[:4])
    np.testing.assert_array_equal(step.block(xs[4:], state)[0]["all"], f(xs, np.zeros(2))["all"][4:])


def test_stateful_keeps_the_state_and_states_are_not_changed():
    x = sj.tensor(("T", 2), name="x")
    h = sj.scan(lambda row, h: np.tanh(row + h), x, np.zeros(2), name="h")
    f = sj.function([x], h, mode="reference")
    step = sj.step_function(f)
    start = step.initial_state(np.zeros(2))
    xs = numbers(6, 2)
    one, some = step.stateful(start), step.stateful(start, steps=True)
    np.testing.assert_array_equal(np.stack([one(row) for row in xs]), f(xs))
    np.testing.assert_array_equal(np.concatenate([some(xs[:2]), some(xs[2:])]), f(xs))
    assert not start["h"].any()
    with pytest.raises(sj.ArgumentError, match="steps of stateful is True or False"):
        step.stateful(start, steps=3)
    assert [variable.name for variable in one.shared] == ["h"]


def test_weights_are_shared():
    x, w = sj.vector("x"), sj.shared(1.0, "w")
    step = sj.step_function(sj.function([x], w * sj.cumsum(x), mode="reference"))
    assert step.block([1.0, 2.0])[0][-1] == 3
    w.set_value(2.0)
    assert step.block([1.0, 2.0])[0][-1] == 6


def refused(x, output, text, **options):
    with pytest.raises(sj.NotSupportedError, match=text) as caught:
        sj.step_function(([x], output), **options)
    assert "test_step_function.py" in caught.value.where
    return caught.value


def test_what_needs_later_steps_is_refused():
    x = sj.tensor(("T", 2), name="x")
    zeros = np.zeros((1, 2))
    refused(
        x, sj.scan(lambda row, h: row + h, x, np.zeros(2), go_backwards=True), "last step to the first|another order"
    )
    refused(x, x[::-1], "another order")
    batch = sj.tensor((None, "T", 2), name="batch")  # a layer's input
    rows = sj.scan(lambda row, h: row + h, batch.transpose((1, 0, 2)), sj.zeros((batch.shape[0], 2)))
    assert "time=1" in str(refused(batch, rows, "a loop that does not go over the steps"))
    refused(x, x - x.mean(0), "value after the last step")
    refused(x, x @ x.T, "several steps at once|mixes")
    refused(x, x[1:], r"entry t needs step t \+ 1")
    refused(x, sj.concatenate([x, zeros]), "behind the last step")
    refused(x, sj.pad(x, ((1, 1), (0, 0))), "behind the last step")
    refused(x, x.argmax(0), "all steps at once")
    refused(x, x[np.array([0, 1])], "chooses steps")
    refused(x, x + x[1], "others before it")
    refused(x, sj.scan(lambda row, h: row + h, x, x[1]), "others before it")
    refused(x, sj.concatenate([x[1:2], sj.scan(lambda row, h: row + h, x[1:], x[0])]), "whose place depends on how")
    refused(x, sj.concatenate([x[:1], x]), "others before it")
    refused(x, sj.sort(x, axis=0), "all steps at once|several steps")
    refused(x, x.reshape((2, x.shape[0])), "mixes steps")
    taps = dict(input=x, taps=[0, 1])
    assert "in front" in refused(x, sj.scan(lambda a, b: a + b, taps), r"needs step t \+ 1").fix


@pytest.mark.parametrize("mode", ["reference", "numba"])
def test_what_begins_with_the_first_steps(mode):
    x = sj.tensor(("T", 2), name="x")
    smooth = sj.scan(lambda row, h: 0.8 * h + 0.2 * row, x[1:], x[0])
    both = sj.scan(lambda row, h, n: (h * row + n, n + 1.0), x[2:], [x[1] - x[0], sj.constant(0.0)])[0]
    rows = [
        sj.concatenate([x[:1], smooth]),
        x - x[0],
        x / abs(x[0]) + sj.cumsum(x, 0),
        sj.scan(lambda row, h: sj.tanh(row + h), x, x[0]),
        sj.associative_scan(lambda a, b: a + b - 0.1 * a * b, x),
        sj.concatenate([np.zeros((2, 2)), both]),
        sj.concatenate([np.ones((1, 2)), sj.cumsum(x[1:] * x[0], 0)]),
    ]
    for y in rows:
        for lengths in (LENGTHS, (0, 1, 2, 8), (TIME,)):
            check(sj.function([x], y, mode=mode), [numbers(TIME, 2)], tolerance=1e-12, lengths=lengths)
    for y in (smooth[-1], both[-1], x[0], x[2] * 2, x[1:].sum(0), x[2:].max(0), x[1:].argsort(1)[-1]):
        check(sj.function([x], y, mode=mode), [numbers(TIME, 2)], out=None, tolerance=1e-12, lengths=(3, 1, 5, 2))


def test_wrong_arguments():
    x, y = sj.tensor(("T", 2), name="x"), sj.tensor((5, 2), name="y")
    with pytest.raises(sj.ArgumentError, match="fixed size"):
        sj.step_function(([y], y))
    with pytest.raises(sj.ArgumentError, match="a compiled function, or inputs and outputs in a tuple"):
        sj.step_function(sj.cumsum(x, axis=0))
    with pytest.raises(sj.ArgumentError, match="no axis that is time"):
        sj.step_function(([x], x), time={"x": 2})
    with pytest.raises(sj.ArgumentError, match="no input of this name"):
        sj.step_function(([x], x), time={"z": 0})
    with pytest.raises(sj.ArgumentError, match="no output of this name"):
        sj.step_function(([x], x), feedback={"x": 3})
    with pytest.raises(sj.ArgumentError, match="must be the number of an axis"):
        sj.step_function(([x], x), time="T")
    with pytest.raises(sj.ArgumentError, match="feedback maps inputs to outputs"):
        sj.step_function(([x], x), feedback=["x"])
    total = sj.shared(0.0, "total")
    with pytest.raises(sj.NotSupportedError, match="updates nothing"):
        sj.step_function(sj.function([x], x, updates={total: total + 1}, mode="reference"))
    step = sj.step_function(([x], sj.cumsum(x, axis=0)), mode="reference")
    with pytest.raises(sj.ArgumentError, match="number of arguments"):
        step()
    with pytest.raises(sj.ArgumentError, match="no state of"):
        step(np.zeros(2), {"other": np.zeros(2)})
    with pytest.raises(sj.ShapeError):
        step(np.zeros(2), {name: np.zeros(3) for name in step.state_types})

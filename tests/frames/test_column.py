"""Columns with a state for each group: beside plain loops; in chunks, to the last bit."""

import pickle

import numpy as np
import pytest

import scanjit as sj

pytest.importorskip("narwhals")
KINDS = ["pandas", "polars"]
OUTPUTS = {"level": 0.5, "seen": 0, "matrix": np.eye(2), "missed": None}


def smooth(y, n, level, seen, matrix):
    """A level, how many rows there were, products of small matrices, and an error."""
    missed = y - level
    turned = matrix @ np.array([[0.9, 0.3], [-0.2, 0.8]]) + missed * 0.01
    return level + np.tanh(missed / 3) * 0.7 + np.exp(-abs(n)) + turned[0, 1], seen + 1, turned, missed


def rows(random, count, groups):
    """A frame's columns. Of groups with many rows there are a few, of groups with few rows many."""
    ids = np.minimum(random.geometric(0.05, count), groups)
    return {"unique_id": ids, "ds": random.permutation(count), "y": random.normal(size=count), "n": ids % 7}


def by_hand(columns):
    order, states = np.argsort(columns["ds"]), {}
    level, seen, missed = np.empty(len(order)), np.empty(len(order), int), np.empty(len(order))
    for row in order:
        given = states.get(columns["unique_id"][row], (0.5, 0, np.eye(2)))
        *state, missed[row] = smooth(columns["y"][row], columns["n"][row], *given)
        states[columns["unique_id"][row]] = state
        level[row], seen[row] = state[:2]
    return {"level": level, "seen": seen, "missed": missed}


def part(frame, places):
    return frame.iloc[places] if hasattr(frame, "iloc") else frame[places]


@pytest.mark.parametrize("kind", KINDS)
def test_chunks_are_the_whole(kind):
    frames = pytest.importorskip(kind)
    random = np.random.default_rng(0)
    for count, groups in [(2000, 60), (600, 1), (40, 3)]:
        columns = rows(random, count, groups)
        frame = frames.DataFrame(columns)
        if kind == "pandas":
            frame.index = random.permutation(count) // 2
        whole = sj.frames.scan(smooth, frame, ["y", "n"], OUTPUTS)
        assert type(whole) is type(frame) and list(whole.columns) == [*columns, "level", "seen", "missed"]
        for name, expected in by_hand(columns).items():
            np.testing.assert_allclose(whole[name], expected, rtol=1e-9, atol=1e-12, err_msg=name)
        if kind == "pandas":
            frames.testing.assert_index_equal(whole.index, frame.index)
        states, order = {}, np.argsort(columns["ds"])
        for chunk in np.split(order, sorted({1, 2, 3, count // 3, count // 2, count - 1})):
            places = np.sort(chunk)
            found = sj.frames.scan(smooth, part(frame, places), ["y", "n"], OUTPUTS, states=states)
            for name in ("level", "seen", "missed"):
                np.testing.assert_array_equal(found[name], part(whole, places)[name], err_msg=name)
            states = pickle.loads(pickle.dumps(states))
        assert set(states) == set(columns["unique_id"]) and states[1]["seen"] == (columns["unique_id"] == 1).sum()


@pytest.mark.parametrize("kind", KINDS)
def test_rows_as_they_stand_and_one_output(kind):
    """Several columns of ids, and integers that stay exact beyond 2**53."""
    frame = pytest.importorskip(kind).DataFrame({"a": ["x", "y", "x", "x"], "b": [1, 1, 1, 2], "n": [2**60, 5, 3, 4]})
    states = {}
    found = sj.frames.scan(
        lambda n, total: total + n, frame, "n", {"total": 0}, id=["a", "b"], time=None, states=states
    )
    assert found["total"].to_list() == [2**60, 5, 2**60 + 3, 4]
    assert {key: int(state["total"]) for key, state in states.items()} == {
        ("x", 1): 2**60 + 3, ("y", 1): 5, ("x", 2): 4,
    }  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_single_precision_and_a_first_value_as_state(kind):
    frame = pytest.importorskip(kind).DataFrame(
        {"unique_id": [1, 2, 1, 2], "ds": [1, 1, 2, 2], "y": np.array([1, 10, 2, np.nan], "float32")}
    )

    def smooth(y, level):
        return sj.where(sj.isnan(level), y, sj.where(sj.isnan(y), level, (level + y) / 2))

    found = sj.frames.scan(smooth, frame, ["y"], {"level": np.nan})
    assert found["level"].to_list() == [1, 10, 1.5, 10] and found["level"].to_numpy().dtype == "float32"


@pytest.mark.parametrize("kind", KINDS)
def test_an_empty_chunk(kind):
    frame = pytest.importorskip(kind).DataFrame(rows(np.random.default_rng(1), 5, 2))
    states = {}
    found = sj.frames.scan(smooth, frame[:0], ["y", "n"], OUTPUTS, states=states)
    assert len(found) == 0 and not states
    assert [str(found[name].dtype).lower() for name in ("level", "seen", "missed")] == ["float64", "int64", "float64"]


def test_what_is_wrong_changes_no_state():
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame({"unique_id": [1, 2], "ds": [1, 1], "y": [1.0, 2.0]})
    states = {}
    for step, outputs, error, message in [
        (lambda y, h: (h, y), {"h": 0.0}, sj.ArgumentError, "another number of results"),
        (lambda y: np.ones(3) * y, {"h": None}, sj.ArgumentError, "the output 'h' cannot be a column"),
        (lambda y, n: n + y, {"n": 0}, sj.ScanjitError, r"the output 'n' begins(.|\n)*int64"),
        (lambda y: y, {"h": 0.0}, sj.ScanError, "1 values and 1 states"),
        (None, {"h": 0.0}, sj.ScanError, "not a function"),
        (lambda y, h: y, ["h"], sj.ArgumentError, "outputs are the names"),
        (lambda y: (), {}, sj.ArgumentError, "outputs are the names"),
        (lambda y, h: y, {"h": "a"}, sj.ArgumentError, "a state of the output 'h' is no number"),
    ]:
        with pytest.raises(error, match=message):
            sj.frames.scan(step, frame, "y", outputs, states=states)
        assert not states
    for names in ({"id": None}, {"values": 0}):
        with pytest.raises(sj.ArgumentError, match=f"{next(iter(names))} must be the name of a column, or several"):
            sj.frames.scan(**{"step": np.add, "frame": frame, "values": "y", "outputs": {"h": 0.0}} | names)
    for wrong, message in [
        ([], "states must be a dict"),
        ({1: {"k": 0.0}}, "no 'h' for the group 1"),
        ({1: 0.0}, "no 'h' for the group 1"),
        ({1: {"h": np.zeros(2)}}, "another shape"),
    ]:
        with pytest.raises(sj.ArgumentError, match=message):
            sj.frames.scan(lambda y, h: h + y, frame, "y", {"h": 0.0}, states=wrong)
    twice = pl.concat([frame, frame])
    with pytest.raises(sj.ArgumentError, match="two rows for one time"):
        sj.frames.scan(lambda y, h: h + y, twice, "y", {"h": 0.0})


@pytest.mark.parametrize("kind", KINDS)
def test_complex_states(kind):
    frame = pytest.importorskip(kind).DataFrame({"unique_id": [1, 1, 2], "ds": [1, 2, 1], "y": [1.0, 2.0, 3.0]})

    def turned(y, z):
        z = 1j * z + y
        return z, sj.real(z)[0]

    assert sj.frames.scan(turned, frame, "y", {"z": np.zeros(1) * 1j, "x": None})["x"].to_list() == [1.0, 2.0, 3.0]


@pytest.mark.parametrize("kind", KINDS)
def test_numbers_from_outside_may_change(kind):
    frame = pytest.importorskip(kind).DataFrame({"unique_id": [1, 1], "ds": [1, 2], "y": [1.0, 2.0]})
    factor = 1.0

    def step(y, h):
        return h + factor * y

    assert sj.frames.scan(step, frame, "y", {"h": 0.0})["h"].to_list() == [1.0, 3.0]
    factor = 2.0
    assert sj.frames.scan(step, frame, "y", {"h": 0.0})["h"].to_list() == [2.0, 6.0]

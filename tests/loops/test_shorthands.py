"""map, reduce, foldl, foldr, filter."""

import builtins
import functools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from scanjit.errors import ScanError
from scanjit.loops import filter, foldl, foldr, map, reduce, scan
from tests.loops.test_scan import run, symbol

X = np.array([3.0, 1.0, 4.0, 1.0, 5.0])
whole = st.lists(st.integers(-9, 9), max_size=6)


@given(whole)
def test_against_python(numbers: list[int]) -> None:
    x = symbol("x", "T", dtype="int64")
    env = {x: np.array(numbers, "int64")}
    assert run(map(lambda a: a * a, x), env)[0].tolist() == [a * a for a in numbers]
    assert run(map(lambda a: a, x, go_backwards=True), env)[0].tolist() == numbers[::-1]
    steps = lambda a, total: 3 * total + a
    folded = functools.reduce(lambda total, a: steps(a, total), numbers, 0)
    assert run(foldl(steps, x, 0), env)[0] == run(reduce(steps, x, 0), env)[0] == folded
    assert run(foldr(steps, x, 0), env)[0] == functools.reduce(lambda t, a: steps(a, t), numbers[::-1], 0)
    assert run(filter(lambda a: a > 0, x), env)[0].tolist() == list(builtins.filter(lambda a: a > 0, numbers))


def test_map_of_several_sequences_with_constants() -> None:
    x, w = symbol("x", "T"), symbol("w")
    total, gap = map(lambda a, b, v: (a + b * v, a - b), [x, x * 2.0], w)
    got = run([total, gap], {x: X, w: 10.0})
    assert got[0].tolist() == (21 * X).tolist() and got[1].tolist() == (-X).tolist()


def test_reduce_over_nothing_is_the_initial_value() -> None:
    x, h = symbol("x", "T"), symbol("h", 2)
    assert run(reduce(lambda a, t: t + a, x, h), {x: X[:0], h: [7.0, 8.0]})[0].tolist() == [7, 8]


def test_reduce_of_several_outputs() -> None:
    x = symbol("x", "T")
    largest, count, row = reduce(lambda a, m, n: (m + a, n + 1, a * 2), x, [0.0, 0, None])
    assert [float(v) for v in run([largest, count, row], {x: X})] == [14, 5, 10]


def test_a_scan_returns_its_last_values() -> None:
    x = symbol("x", "T")
    step = lambda a, total, two, one: (total + a, two + one, a * 2)
    infos = [1.0, dict(initial=[0.0, 1.0], taps=[-2, -1]), None]
    rows, last = scan(step, x, infos, return_last=True)
    assert last[2] is None
    for y, end in zip(rows[:2], last, strict=False):
        got = run([y, end], {x: X})
        assert got[0][-1] == got[1]
    assert [float(v) for v in run(last[:2], {x: X[:0]})] == [1, 1]
    _, single = scan(lambda a, t: t + a, x, 0.0, return_last=True)
    assert run(single, {x: X})[0] == X.sum()


def test_reduce_with_deep_taps_takes_the_last_value() -> None:
    x = symbol("x", "T")
    info = dict(initial=[0.0, 1.0], taps=[-2, -1])
    step = lambda a, two, one: two + one + a
    everything = run(scan(step, x, info), {x: X})[0]
    assert run(reduce(step, x, info), {x: X})[0] == everything[-1]


def test_filter_keeps_rows_of_all_sequences() -> None:
    x, m, w = symbol("x", "T"), symbol("m", "T", 2), symbol("w")
    rows, matrix = filter(lambda a, r, v: a > v, [x, m], w)
    got = run([rows, matrix], {x: X, m: np.arange(10.0).reshape(5, 2), w: 2.5})
    assert got[0].tolist() == [3, 4, 5]
    assert got[1].tolist() == [[0, 1], [4, 5], [8, 9]]
    assert rows.type.shape[0] == matrix.type.shape[0]


def test_what_is_filtered_can_be_used_further() -> None:
    x = symbol("x", "T")
    kept = filter(lambda a: a > 2, x)
    assert run(foldl(lambda a, t: t + a, kept * 2.0, 0.0), {x: X})[0] == 24
    assert run(scan(lambda h: h + kept, outputs_info=kept, n_steps=2), {x: X})[0].tolist() == [[6, 8, 10], [9, 12, 15]]


def test_filter_with_a_mask_for_each_sequence() -> None:
    x, y = symbol("x", "T"), symbol("y", "T")
    found = filter(lambda a, b: [a > 2, b < 20], [x, y])
    got = run(found, {x: X, y: X * 10})
    assert [values.tolist() for values in got] == [[3, 4, 5], [10, 10]]
    with pytest.raises(ScanError, match="or a list of 3"):
        filter(lambda a, b, c: [a > 2, b < 20], [x, y, x])


@pytest.mark.parametrize("wrong", [lambda a: a, lambda a: None, lambda a: a * np.ones(2) > 0])
def test_filter_needs_a_boolean(wrong: Any) -> None:
    with pytest.raises(ScanError, match="must return a boolean scalar"):
        filter(wrong, symbol("x", "T"))

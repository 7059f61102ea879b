"""Choices of which a processor guesses the condition are branches: only where a loop would wait for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import scanjit as sj
from scanjit.runtime import host
from scanjit.simd import emulate
from tests.fuzz.check import Config
from tests.pairs import pairwise

Step = Callable[[Any, Any, Any], Any]


def term(x: Any, y: Any, w: Any) -> Any:
    return w + sj.where(y * (x @ w) <= 0, y, 0.0) * x


def truth(x: Any, y: Any, w: Any) -> Any:
    return w + y * (y * (x @ w) <= 0) * x


def state(x: Any, y: Any, w: Any) -> Any:
    return sj.where(y * (x @ w) <= 0, w + y * x, w)


def signs(x: Any, y: Any, w: Any) -> Any:
    return w + 0.5 * (y - sj.cast(sj.where(x @ w > 0, 1.0, -1.0), w.dtype)) * x


def apart(x: Any, y: Any, w: Any) -> Any:
    """Two conditions: one of the guesses is often wrong."""
    s = x @ w
    return w + sj.where(s < -1, x, 0.0) - sj.where(s > 1, x, 0.0)


def early(x: Any, y: Any, w: Any) -> Any:
    """The condition does not depend on the state."""
    return w + sj.where(y * x[0] <= 0, y, 0.0) * x * (x @ w)


def aside(x: Any, y: Any, w: Any) -> Any:
    """No step waits for the choice."""
    return w + 0.01 * (1.0 - x @ w) * x, sj.where(x @ w > 0, y, 0.0)


def elements(x: Any, y: Any, w: Any) -> Any:
    """Each element has its own condition, though all of them wait for the mean."""
    return 0.5 * w + 0.1 * sj.where(w > w.mean(), x, 0.0).sum()


def largest(x: Any, y: Any, w: Any) -> Any:
    """Likewise, in the derivative of a maximum."""
    return 0.5 * w + x[0] * sj.grad(sj.max(w), w)


def counted(x: Any, y: Any, w: Any) -> Any:
    return 0.5 * w + 0.1 * y * sj.cast(w > w.mean(), w.dtype).sum()


GUESSED: list[Step] = [term, truth, state]
CHOSEN: list[Step] = [signs, apart, early, aside, elements, largest, counted]


def program(step: Step, size: Any, dtype: str = "float64", **options: Any) -> Any:
    x, y = sj.tensor(("T", size), dtype, "x"), sj.tensor(("T",), dtype, "y")
    start = sj.tensor((size,), dtype, "start")
    found = sj.scan(step, [x, y], [start, None] if step is aside else start)
    rows = found[0].sum() + found[1].sum() if step is aside else found
    return sj.function([x, y, start], [rows, *sj.grad(rows.sum(), [x, start], disconnected="zero")], **options)


def arguments(size: int, dtype: str) -> list[Any]:
    rng = np.random.default_rng(size)
    given = [value.astype(dtype) for value in (rng.normal(size=(12, size)), rng.normal(size=12), rng.normal(size=size))]
    given[1][7] = given[0][10, -1] = np.nan  # nothing is less than NaN
    return given


@pytest.mark.quick(5)
@pairwise(dtype=["float64", "float32"], size=["N", 4, 8], step=[*GUESSED, *CHOSEN])
def test_values_and_gradients(step: Step, size: Any, dtype: str) -> None:
    f, wanted = program(step, size, dtype), program(step, size, dtype, mode="reference")
    for length in (1, 3, 4, 8, 9, 17) if size == "N" else (size,):
        given, results = arguments(length, dtype), []
        for sj.config.threads in (1, 2):
            results.append(f(*given))
        for got, other, right in zip(*results, wanted(*given), strict=True):
            np.testing.assert_allclose(got, right, rtol=1e-9 if dtype == "float64" else 2e-3, atol=1e-4)
            np.testing.assert_array_equal(got, other)


@pytest.mark.parametrize("step", [*GUESSED, *CHOSEN])
def test_branches(step: Step) -> None:
    """In a loop of several nests."""
    assert ("if any_of(" in loop(step, "N").source) == (step in GUESSED)


@pytest.mark.skipif(not host.target().is_x86, reason="there is no clock for it")
@pytest.mark.parametrize("step", [*GUESSED, *CHOSEN])
def test_two_forms(step: Step) -> None:
    """A nest with time has its steps with branches and without them, if they wait for a choice."""
    source = loop(step, 4).source
    assert ("clock()" in source) == ("if any_of(" in source) == (step not in (early, aside))


def loop(step: Step, size: Any) -> Any:
    x, y, start = sj.tensor(("T", size), name="x"), sj.tensor(("T",), name="y"), sj.tensor((size,), name="start")
    found = sj.scan(step, [x, y], [start, None] if step is aside else start)
    with Config(width=8).active():
        return sj.function([x, y, start], found, mode="emulate")


def crossing(x: Any, y: Any, a: Any, b: Any) -> Any:
    """Each register is chosen by the other one."""
    return sj.where(x > a * b + 2.0, x, a), sj.where(x < b * a - 2.0, x, sj.where(y > a, b + 0.5, b))


def machine(x: Any, y: Any, state: Any, count: Any) -> Any:
    """Integers, and choices between truth values."""
    count = count + 1
    slow, fast = (count >= 3) & (x > 0.5), (count >= 2) & (y > 0.0)
    moves = sj.where(sj.equal(state, 0), slow, sj.where(sj.equal(state, 1), count >= 2, fast))
    return sj.where(moves, sj.where(sj.equal(state, 2), 0, state + 1), state), sj.where(moves, 0, count)


def held(x: Any, y: Any, top: Any, age: Any) -> Any:
    """A float that is chosen by an integer, and an extremum."""
    renewed = (x > top) | (age >= 5.0)
    return sj.where(renewed, sj.maximum(x, y), top), sj.where(renewed, 0.0, age + 1.0)


def lift(x: Any, y: Any, at: Any, up: Any) -> Any:
    """Truth values that are carried, and several comparisons of the same numbers."""
    goal = sj.cast(sj.floor(4.0 * sj.clip(x, -5, 5)), "int64")
    goes = sj.where(sj.equal(up, 1), goal > at, goal < at)
    up = sj.where(~goes & sj.not_equal(goal, at), 1 - up, up)
    return at + sj.where(sj.equal(goal, at), 0, sj.where(sj.equal(up, 1), 1, -1)), up


def kept(x: Any, y: Any, count: Any, level: Any) -> Any:
    """Integers within bounds, and choices that wait for nothing or that conditions with parts make."""
    count = sj.maximum(count + sj.where(x > 0.0, 1, -1), 0)
    full = ~(level < 3) | (~(y > 1.0) & (count > 2) & (level > 0))
    level = sj.clip(sj.minimum(level + sj.where(full, -2, 1), count), -4, 4)
    return count, sj.where(sj.where(full, 7, level) < 2, level + 1, level)


def deep(x: Any, y: Any, a: Any, b: Any) -> Any:
    """More choices than a tree has branches."""
    for k in range(5):
        a, b = sj.where(x > a + k, b + 0.25, a), sj.where((y < b - k) | (a > 2.0), x - k, b)
    return sj.clip(a, -3, 3), sj.clip(b, -3, 3)


@pytest.mark.parametrize("mode", ["emulate", "numba"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("step", [crossing, machine, held, lift, kept, deep])
def test_both_forms_are_the_same(step: Any, dtype: str, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stretches of steps with branches and without them, in any order, and calls of less than a stretch."""
    times = np.random.default_rng(1)
    monkeypatch.setattr(emulate.time, "perf_counter_ns", lambda: int(times.integers(0, 1 << 40)))
    x, y = sj.vector("x", dtype), sj.vector("y", dtype)
    found = sj.scan(step, [x, y], [0, 0] if step in (machine, lift, kept) else [np.array(0.1, dtype)] * 2)
    f, wanted = sj.function([x, y], found, mode=mode), sj.function([x, y], found, mode="reference")
    size = 512 * (20 if mode == "numba" else 3) + 101
    given = np.random.default_rng(0).standard_normal((2, size)).astype(dtype)
    given *= np.repeat([0.01, 3.0], 256).astype(dtype)[np.arange(size) % 512]
    given[0, 200] = given[1, 700] = np.nan
    for length in (size, 1, 3, 511, 512, 513):
        np.testing.assert_equal(f(*given[:, :length]), wanted(*given[:, :length]))


def trigger(x: Any, on: Any) -> Any:
    on = sj.where(on, x > -0.5, x > 0.5)
    return on, sj.where(on, x, 0.0)


@pytest.mark.parametrize("mode", ["emulate", "numba"])
def test_truth_values_are_carried(mode: str) -> None:
    x, off = sj.vector("x", "float64"), sj.as_tensor(np.bool_(False))
    f, wanted = (sj.function([x], sj.scan(trigger, x, [off, None]), mode=each) for each in (mode, "reference"))
    given = np.sin(0.1 * np.arange(1501.0))
    np.testing.assert_equal(f(given), wanted(given))


@pytest.mark.parametrize("mode", ["emulate", "numba"])
def test_an_index_that_is_not_chosen_is_checked(mode: str) -> None:
    """As it is without branches."""
    k, x, table = sj.vector("k", "int64"), sj.vector("x", "float64"), sj.tensor((5,), "float64", "table")

    def step(k: Any, x: Any, h: Any) -> Any:
        return sj.where(h > x, h - 1.0, h + table[k])

    f = sj.function([k, x, table], sj.scan(step, [k, x], 0.0), mode=mode)
    ks, xs = np.zeros(700, "int64"), np.full(700, -1.0)
    assert f(ks, xs, np.ones(5)).size == 700
    for place in (0, 300, 699):
        ks[place] = 5
        with pytest.raises(IndexError):
            f(ks, xs, np.ones(5))
        ks[place] = 0


def test_a_step_is_a_tree() -> None:
    """Each condition is asked once on each way to one of five leaves."""
    x = sj.vector("x", "float64")

    def step(x: Any, state: Any, age: Any) -> Any:
        moves = sj.where(sj.equal(state, 0), (age >= 3) & (x > 0.0), sj.equal(state, 1))
        return sj.where(moves, 1 - state, state), sj.where(moves, 0, age + 1)

    with Config(width=4).active():
        source = sj.function([x], sj.scan(step, x, [0, 0])[0], mode="emulate").source
    steps = source[source.index("form0 == 0:") : source.index("took0 = (clock()")]
    assert 0 < 5 * steps.count("if any_of(") == 4 * steps.count(" store(")


def forms_of(step: Any) -> list[str]:
    """The forms of a step: with all branches, with those of carries alone, and without them."""
    x = sj.vector("x", "float64")
    with Config(width=4).active():
        source = sj.function([x], sj.scan(step, x, 0), mode="emulate").source
    parts = source.split(" = (clock()")[:-1]
    return [part[part.index(f"form0 == {number}:") :] for number, part in enumerate(parts)]


def test_a_bound_of_an_integer_is_a_branch_in_two_forms_and_a_choice_by_a_row_in_one() -> None:
    every, alone, without = forms_of(lambda x, h: sj.where(x > 0.0, 0, sj.minimum(3 * h + 1, 50)))
    assert [form.count("if any_of(") > 0 for form in (every, alone, without)] == [True, True, False]


def test_all_forms_foresee_whether_a_maximum_is_nan() -> None:
    x = sj.vector("x", "float64")

    def step(x: Any, stop: Any) -> Any:
        return sj.where(x > stop + 5.0, x, sj.maximum(stop, x - 2.0))

    with Config(width=4).active():
        source = sj.function([x], sj.scan(step, x, 0.0), mode="emulate").source
    first, second = source.split(" = (clock()")[:2]
    for form in (first[first.index("form0 == 0:") :], second[second.index("form0 == 1:") :]):
        assert " foreseen_maximum(" in form and " maximum(" not in form


def test_integers_are_chosen_by_each_part_of_a_condition() -> None:
    *_, without = forms_of(lambda x, h: sj.where(((h > 3) & ~(x > 0.0)) | (h < 0), 0, h + 1))
    assert without.count("select(") == 3 * without.count(" store(")
    assert not any(sign in without for sign in ("&", "|", "~"))

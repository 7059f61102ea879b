"""What depends on shared variables alone is computed once a value, and kept between calls."""

import threading

import numpy as np
import pytest

import scanjit as sj
from scanjit.runtime.addresses import address

RNG = np.random.default_rng(0)
FIRST = RNG.standard_normal((20, 24))


@pytest.fixture(scope="module")
def program():
    """A product with the transpose of a shared weight, which is packed."""
    w = sj.shared(FIRST, "w")
    x = sj.matrix("x")
    return w, sj.function([x], sj.tanh(x @ w.T), name="product")


def runs_of_packs(f, *arrays) -> int:
    """How often the packs of a timed function ran in one more call."""
    sj.config.profile = True
    try:
        before = _packs(f) if f._profiled is not None else 0
        f(*arrays)
    finally:
        sj.config.profile = False
    return _packs(f) - before


def _packs(f) -> int:
    return sum(line.runs for stage in f._profiled.stages for line in stage.timer.lines if line.label == "pack")


def test_packed_once_a_value(program) -> None:
    w, f = program
    x = RNG.standard_normal((9, 24))
    assert runs_of_packs(f, x) == 1
    assert runs_of_packs(f, x) == 0
    assert runs_of_packs(f, RNG.standard_normal((5, 24))) == 0  # the sizes of a call do not matter
    w.set_value(2 * FIRST)
    assert runs_of_packs(f, x) == 1
    w.set_value(2 * FIRST)  # equal, but another array: nobody compares values
    assert runs_of_packs(f, x) == 1


def test_new_values_are_seen(program) -> None:
    w, f = program
    x = RNG.standard_normal((9, 24))
    for scale in (1.0, 1.0, 0.5, -1.0):
        w.set_value(scale * FIRST)
        for rows in (9, 3, 9):
            np.testing.assert_allclose(f(x[:rows]), np.tanh(x[:rows] @ (scale * FIRST).T), rtol=1e-9)


def test_updates() -> None:
    w, x = sj.shared(FIRST, "w"), sj.matrix("x")
    f = sj.function([x], x @ w.T, updates={w: 0.5 * w})
    given = RNG.standard_normal((9, 24))
    for step in range(3):
        np.testing.assert_allclose(f(given), given @ (0.5**step * FIRST).T, rtol=1e-9)


def test_weights_beside_a_state_that_each_call_updates() -> None:
    """A cell that keeps its state packs its weights for the first call only."""
    w, h = sj.shared(FIRST[:, :20], "w"), sj.shared(np.zeros((3, 20)), "h")
    x = sj.matrix("x")
    new = sj.tanh(x + h @ w.T)
    f = sj.function([x], new, updates={h: new})
    given = RNG.standard_normal((3, 20))
    assert [runs_of_packs(f, given) for _ in range(4)] == [1, 0, 0, 0]
    wanted = h.get_value()
    for _ in range(3):
        wanted = np.tanh(given + wanted @ FIRST[:, :20].T)
        np.testing.assert_allclose(f(given), wanted, rtol=1e-9)


def test_weights_beside_a_variable_that_somebody_else_sets() -> None:
    """Only what was computed of the variable itself is computed again."""
    w, scale, x = sj.shared(FIRST, "w"), sj.shared(1.0, "scale"), sj.matrix("x")
    f = sj.function([x], scale * (x @ w.T))
    given = RNG.standard_normal((3, 24))
    runs = []
    for value in (1.0, 2.0, 3.0):
        scale.set_value(value)
        np.testing.assert_allclose(f(given), value * (given @ FIRST.T), rtol=1e-9)
        runs.append(runs_of_packs(f, given))
    assert runs == [1, 0, 0]


def test_what_is_computed_of_a_state_alone_is_computed_in_each_call() -> None:
    """With and without an input, and where another function sets the state between calls."""
    w, h = sj.shared(FIRST[:, :20], "w"), sj.shared(np.full((3, 20), 0.1), "h")
    f = sj.function([], [h @ w.T, sj.exp(w).sum()], updates={h: sj.tanh(h @ w)})
    state = h.get_value()
    for step in range(4):
        found, total = f()
        np.testing.assert_allclose(found, state @ FIRST[:, :20].T, rtol=1e-9)
        np.testing.assert_allclose(total, np.exp(FIRST[:, :20]).sum(), rtol=1e-9)
        state = np.tanh(state @ FIRST[:, :20])
        if step == 1:
            state = 0.5 * state
            h.set_value(state)


def test_functions_that_differ_in_what_they_update_are_two() -> None:
    """The results are the same, so that the recipe of one would fit the other."""
    w, x = sj.shared(FIRST, "w"), sj.matrix("x")
    y = x @ w.T
    returns = sj.function([x], [y, 0.5 * w], name="both")
    updates = sj.function([x], y, updates={w: 0.5 * w}, name="both")
    given = RNG.standard_normal((3, 24))
    for step in range(3):
        scaled = 0.5**step * FIRST
        np.testing.assert_allclose(returns(given)[0], given @ scaled.T, rtol=1e-9)
        np.testing.assert_allclose(updates(given), given @ scaled.T, rtol=1e-9)


def test_calls_at_the_same_time(program) -> None:
    """Each sees one value of the variable, whatever was packed for the others."""
    w, f = program
    x = RNG.standard_normal((30, 24))
    wanted = [np.tanh(x @ (scale * FIRST).T) for scale in (1.0, 0.25)]
    wrong = []

    def call() -> None:
        for _ in range(50):
            y = f(x)
            if not any(np.allclose(y, possible) for possible in wanted):
                wrong.append(y)

    w.set_value(FIRST)
    callers = [threading.Thread(target=call) for _ in range(3)]
    for caller in callers:
        caller.start()
    for i in range(40):
        w.set_value((0.25 if i % 2 == 0 else 1.0) * FIRST)
    for caller in callers:
        caller.join()
    assert not wrong


def test_inputs_and_checked_indices_are_not_kept() -> None:
    w, i = sj.shared(FIRST, "w"), sj.shared(np.array([0, 1]), "i")
    x = sj.matrix("x")
    f = sj.function([x], x @ w[i].T)
    given = RNG.standard_normal((4, 24))
    np.testing.assert_allclose(f(given), given @ FIRST[[0, 1]].T)
    i.set_value(np.array([0, 25]))
    for _ in range(2):  # every call looks at the index, not only the first
        with pytest.raises(sj.OutOfBoundsError):
            f(given)


def test_what_is_kept_is_for_the_sizes_it_was_made_for() -> None:
    """The memory is the same for all numbers of steps."""
    w, n = sj.shared(np.eye(3) * 0.5, "w"), sj.tensor((), "int64", "n")
    x = sj.tensor(("T",), name="x")
    by_value = sj.scan(lambda h: h * 0.5 + w[0, 0], outputs_info=sj.constant(1.0), n_steps=n)[-1]
    by_shape = sj.scan(lambda h: np.tanh(h * w[1, 1]), outputs_info=sj.constant(1.0), n_steps=x.shape[0])[-1]
    f = sj.function([n, x], [by_value + x.sum() * 0, by_shape + x.sum() * 0])
    plain = sj.function([n, x], [by_value, by_shape], mode="reference")
    for steps, length in [(1, 2), (5, 2), (5, 9), (1, 9), (2, 1)]:
        for found, wanted in zip(f(steps, np.zeros(length)), plain(steps, np.zeros(length)), strict=True):
            np.testing.assert_allclose(found, wanted)


def test_a_call_that_fails_leaves_nothing_to_the_next() -> None:
    """Neither the report of its index nor the table, which calls with equal sizes use again."""
    w, x, i = sj.shared(FIRST, "w"), sj.matrix("x"), sj.vector("i", "int64")
    f = sj.function([x, i], [(x @ w.T)[i], sj.exp(x)])
    given = RNG.standard_normal((4, 24))
    for rows in ([0, 3], [0, 9], [3, 3], [1, 2]):
        if max(rows) == 9:
            with pytest.raises(sj.OutOfBoundsError):
                f(given, np.array(rows))
        else:
            for found, wanted in zip(f(given, np.array(rows)), [given @ FIRST.T, np.exp(given)], strict=True):
                np.testing.assert_allclose(found, wanted[rows] if len(found) == 2 else wanted)


def test_each_call_has_its_own_arrays() -> None:
    """Arguments and results of calls with equal sizes lie in other places, at any distance from where memory begins."""
    x, y = sj.vector("x"), sj.vector("y")
    f = sj.function([x, y], [x - y, y[1:], x * y])
    whole = RNG.standard_normal(40)
    made = []
    for start in (0, 1, 7, 30):
        a, b = whole[start : start + 5], whole[start + 5 : start + 10]
        assert address(a) == a.ctypes.data == whole.ctypes.data + 8 * start
        made.append((f(a, b), [a - b, b[1:], a * b]))
    for found, wanted in made:
        np.testing.assert_equal(found, wanted)

"""Steps that return updates of shared variables, as Theano's do."""

import numpy as np
import pytest

import scanjit as sj

MODES = ["reference", "numba"]


@pytest.mark.parametrize("mode", MODES)
def test_a_step_reads_what_the_step_before_wrote(mode: str) -> None:
    x = sj.vector("x")
    w, count = sj.shared(1.0, "w"), sj.shared(0, "count")
    outputs, updates = sj.scan(
        lambda a, h: (h + a * w, {w: w * 2, count: count + 1}), sequences=x, outputs_info=0.0, return_updates=True
    )
    f = sj.function([x], outputs, updates=updates, mode=mode)
    assert f([1.0, 1.0, 1.0]).tolist() == [1.0, 3.0, 7.0]
    assert (w.get_value(), count.get_value()) == (8.0, 3)
    assert f([1.0]).tolist() == [8.0]
    assert (w.get_value(), count.get_value()) == (16.0, 4)
    assert f([]).tolist() == []
    assert (w.get_value(), count.get_value()) == (16.0, 4)


def test_updates_stand_for_nothing_until_a_function_makes_them() -> None:
    count = sj.shared(0, "count")
    outputs, updates = sj.scan(lambda: (count * 2, {count: count + 1}), n_steps=3, return_updates=True)
    assert sj.function([], outputs, mode="reference")().tolist() == [0, 2, 4]
    assert count.get_value() == 0
    assert list(updates) == [count]


def test_only_updates() -> None:
    count = sj.shared(5, "count")
    outputs, updates = sj.scan(lambda: {count: count + 1}, n_steps=4, return_updates=True)
    assert outputs == []
    sj.function([], updates=updates, mode="reference")()
    assert count.get_value() == 9


def test_no_updates() -> None:
    x = sj.vector("x")
    outputs, updates = sj.scan(lambda a: (a * 2, {}), x, return_updates=True)
    assert updates == {} and outputs.ndim == 1
    assert sj.scan(lambda a: (a * 2, {}), x).ndim == 1  # as steps of Theano end, whether they update anything or not


def test_several_outputs_updates_and_until() -> None:
    count = sj.shared(0, "count")
    (a, b), updates = sj.scan(
        lambda: (count, count * 10, {count: count + 1}, sj.until(count >= 2)), n_steps=50, return_updates=True
    )
    f = sj.function([], [a, b], updates=updates, mode="reference")
    assert [v.tolist() for v in f()] == [[0, 1, 2], [0, 10, 20]]
    assert count.get_value() == 3


def test_numbers_and_arrays_as_new_values() -> None:
    w, v = sj.shared(np.float32([1.0, 2.0]), "w"), sj.shared(0, "v")
    _, updates = sj.scan(lambda: {w: [5, 6], v: 7}, n_steps=1, return_updates=True)
    sj.function([], updates=updates, mode="reference")()
    assert w.get_value().tolist() == [5.0, 6.0] and w.get_value().dtype == np.float32 and v.get_value() == 7


def test_in_a_loop_within_a_loop() -> None:
    count = sj.shared(1, "count")

    def outer() -> object:
        inner, updates = sj.scan(lambda: (count, {count: count * 2}), n_steps=2, return_updates=True)
        return inner.sum(), updates

    sums, updates = sj.scan(outer, n_steps=3, return_updates=True)
    f = sj.function([], sums, updates=updates, mode="reference")
    assert f().tolist() == [1 + 2, 4 + 8, 16 + 32]
    assert count.get_value() == 64


def test_an_error_leaves_all_variables_alone() -> None:
    x = sj.vector("x")
    a, b = sj.shared(0, "a"), sj.shared(0, "b")
    outputs, updates = sj.scan(
        lambda v: (sj.assert_(v > 0, v, "negative"), {a: a + 1, b: b + 1}), x, return_updates=True
    )
    f = sj.function([x], outputs, updates=updates, mode="reference")
    with pytest.raises(sj.AssertError, match="negative"):
        f([1.0, 2.0, -1.0])
    assert (a.get_value(), b.get_value()) == (0, 0)


def test_gradients_flow_through_updates() -> None:
    w, g = sj.shared(2.0, "w"), sj.scalar("g")
    _, updates = sj.scan(lambda: {w: w * g}, n_steps=3, return_updates=True)
    slope = sj.function([g], sj.grad(updates[w], g), mode="reference")
    assert slope(5.0) == 2.0 * 3 * 5.0**2

"""Shared variables: their values, and their part in expressions."""

import copy
import gc
import os
import threading
import weakref

import numpy as np
import pytest

import scanjit as sj


def value_of(node):
    return sj.function([], node, mode="reference")()


def test_values_are_copied_in_and_out():
    given = np.array([1.0, 2.0])
    w = sj.shared(given, "w")
    given[:] = 0
    assert w.get_value().tolist() == [1.0, 2.0]
    w.get_value()[:] = 0
    new = np.array([3.0, 4.0])
    w.set_value(new)
    new[:] = 0
    assert w.get_value().tolist() == [3.0, 4.0]
    new[:] = 7
    w.set_value(new, borrow=True)
    assert w.get_value(borrow=True) is new
    backward = np.arange(4.0)[::-2]
    w.set_value(backward)
    assert w.get_value().flags.c_contiguous and w.get_value().tolist() == [3.0, 1.0]


def test_dtypes_follow_numpy():
    assert sj.shared(1).dtype == np.int64
    assert sj.shared(1.0).dtype == np.float64
    assert sj.shared(True).dtype == np.bool_
    assert sj.shared([1, 2.5]).dtype == np.float64
    assert sj.shared(np.float32(1)).dtype == np.float32
    assert sj.shared(np.zeros((2, 3), "int8")).type.shape == (2, 3)


def test_setting_values_of_other_types():
    w = sj.shared(np.zeros(2, np.float32), "w")
    w.set_value([0.5, 1])
    w.set_value(np.array([1, 2]))
    assert w.get_value().dtype == np.float32
    with pytest.raises(sj.DtypeError, match=r"the shared variable 'w'[\s\S]*float64[\s\S]*astype\('float32'\)"):
        w.set_value(np.zeros(2))
    with pytest.raises(sj.ShapeError, match=r"the shared variable 'w' must have 1 dimension, not 0"):
        w.set_value(0.0)
    with pytest.raises(sj.ShapeError, match=r"size 3 instead of 2[\s\S]*shape=\(None,\)"):
        w.set_value(np.zeros(3, np.float32))
    with pytest.raises(sj.ArgumentError, match="no array of numbers"):
        w.set_value("abc")
    assert w.get_value().tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    ("value", "why"), [("abc", "are <U3"), (None, "are object"), ([[1.0], [2.0, 3.0]], "inhomogeneous shape")]
)
def test_values_that_are_no_numbers(value, why):
    with pytest.raises(sj.ArgumentError, match=rf"a shared variable holds an array of numbers \(.*{why}"):
        sj.shared(value)


def test_declared_sizes():
    w = sj.shared(np.zeros((2, 3)), "w", shape=(None, 3))
    w.set_value(np.ones((5, 3)))
    assert value_of(w.sum()) == 15
    with pytest.raises(sj.ShapeError, match="dimension 1"):
        w.set_value(np.ones((5, 4)))
    with pytest.raises(sj.ShapeError, match="another rank"):
        sj.shared(np.zeros(2), shape=(None, 3))
    with pytest.raises(sj.ShapeError, match="size 2 instead of 4"):
        sj.shared(np.zeros(2), shape=(4,))


def test_named_sizes_agree_with_those_of_inputs():
    state, x = sj.shared(np.zeros(2), "state", shape=("Batch",)), sj.tensor(("Batch",), name="x")
    f = sj.function([x], state + x, mode="reference")
    assert f([1.0, 2.0]).tolist() == [1.0, 2.0]
    with pytest.raises(sj.ShapeError, match="Batch"):
        f([1.0, 2.0, 3.0])
    state.set_value(np.zeros(3))
    assert f([1.0, 2.0, 3.0]).tolist() == [1.0, 2.0, 3.0]


def test_what_is_no_value():
    with pytest.raises(sj.ArgumentError, match="not from a symbol"):
        sj.shared(sj.scalar("x"))
    with pytest.raises(sj.ScanjitError):
        sj.shared("text")
    with pytest.raises(sj.DtypeError, match="uint16"):
        sj.shared(np.uint16(1))
    with pytest.raises(sj.ArgumentError):
        sj.shared([[1.0], [2.0, 3.0]])


def test_it_behaves_as_its_symbol():
    w, x = sj.shared([[1.0, 2.0], [3.0, 4.0]], "w"), sj.vector("x")
    array = np.array([10.0, 20.0])
    for node, expected in [
        (w + 1, [[2, 3], [4, 5]]),
        (1 - w, [[0, -1], [-2, -3]]),
        (array * w, [[10, 40], [30, 80]]),
        (w / array, [[0.1, 0.1], [0.3, 0.2]]),
        (-w, [[-1, -2], [-3, -4]]),
        (w**2, [[1, 4], [9, 16]]),
        (w > 2, [[False, False], [True, True]]),
        (w == array, [[False, False], [False, False]]),
        (w[0], [1, 2]),
        (w[:, ::-1], [[2, 1], [4, 3]]),
        (w.T, [[1, 3], [2, 4]]),
        (w.sum(axis=0), [4, 6]),
        (w @ array, [50, 110]),
        (array @ w, [70, 100]),
        (np.exp(w * 0), [[1, 1], [1, 1]]),
        (np.sum(w, axis=1), [3, 7]),
        (np.concatenate([w, w]), [[1, 2], [3, 4], [1, 2], [3, 4]]),
        (np.maximum(array, w), [[10, 20], [10, 20]]),
        (w[0].set(5.0), [[5, 5], [3, 4]]),
    ]:
        assert isinstance(node, type(x)), expected
        np.testing.assert_allclose(value_of(node), expected)
    assert w.shape == (2, 2) and w.ndim == 2 and w.dtype == np.float64 and len(w) == 2
    with pytest.raises(sj.ArgumentError, match="truth value"):
        bool(w)
    with pytest.raises(AttributeError):
        _ = w.no_such_thing


def test_lists_of_variables_are_searched_by_identity():
    params = [sj.shared(0.0, "a"), sj.shared([1.0], "b"), sj.shared([1.0], "c")]
    a, b, c = params
    assert c in params and params.index(c) == 2 and sj.shared([1.0]) not in params
    assert [p for p in params if p not in [b]] == [a, c]
    params.remove(b)
    assert params == [a, c]
    assert (a == None) is False and (a != None) is True and b != c  # noqa: E711
    assert value_of(sj.equal(b, c)).tolist() == [True]
    assert value_of(b == 1.0).tolist() == value_of(np.array([1.0]) == b).tolist() == [True]
    assert value_of(b != np.array([2.0])).tolist() == [True]


def test_the_dtype_is_a_text_too():
    w = sj.shared(np.float32(0))
    assert w.dtype.startswith("float") and w.dtype == "float32" and w.dtype == np.float32 and w.dtype != "float64"
    assert w.dtype.kind == "f" and np.zeros(2, w.dtype).dtype == np.float32 and np.can_cast(np.int16, w.dtype)
    assert w.dtype in (np.float64, np.dtype(np.float32)) and {w.dtype: 1}["float32"] == 1
    assert w.dtype != "nonsense" and w.dtype is not None


def test_several_are_set_together_or_none():
    a, b = sj.shared([1.0, 2.0], "a"), sj.shared(0, "b")
    given = np.array([5.0, 6.0])
    sj.set_values({b: 3, a: given})
    given[:] = 0
    assert a.get_value().tolist() == [5.0, 6.0] and b.get_value() == 3
    with pytest.raises(sj.DtypeError, match="'b'"):
        sj.set_values({a: [7.0, 8.0], b: 0.5})
    assert a.get_value().tolist() == [5.0, 6.0] and b.get_value() == 3
    sj.set_values({})
    for wrong in ([a], {"a": 1.0}, {a: 1.0, a + 1: 2.0}):
        with pytest.raises(sj.ArgumentError, match="a dict from shared variables to values"):
            sj.set_values(wrong)


def test_it_is_one_symbol_even_if_it_is_renamed():
    w = sj.shared(1.0, "w")
    before = w + 1
    w.name = "other"
    assert w + 1 is before and {w: 1}[w] == 1
    assert "other" in repr(w) and sj.pprint(w * 2.0) == "other * 2.0"
    assert sj.grad(before, w) is not None


def test_gradients_and_scans_take_it():
    w = sj.shared(3.0, "w")
    xs = sj.vector("xs")
    loss = sj.scan(lambda x, h, w: h * w + x, xs, sj.constant(0.0), w)[-1]
    f = sj.function([xs], [loss, sj.grad(loss, w)], mode="reference")
    assert [float(v) for v in f([1.0, 1.0, 1.0])] == [13.0, 7.0]


def test_it_lives_no_longer_than_its_uses():
    w = sj.shared(np.zeros(10), "w")
    f = sj.function([], w.sum(), mode="reference")
    f()
    dead = weakref.ref(w)
    del w
    gc.collect()
    assert dead() is not None, "the function still reads it"
    del f
    gc.collect()
    assert dead() is None


def test_copies_are_variables_of_their_own():
    w = sj.shared([1.0], "w", shape=(None,))
    twin = copy.deepcopy(w)
    twin.set_value([2.0, 3.0])
    assert w.get_value().tolist() == [1.0] and twin.name == "w"
    total = sj.sum(w * sj.ones((w.shape[0],)))
    twin, of_twin = copy.deepcopy((w, total))
    twin.set_value([2.0, 3.0])
    assert [sj.function([], each, mode="reference")() for each in (total, of_twin)] == [1.0, 5.0]


def test_readers_see_all_updates_of_a_call_or_none():
    many = [sj.shared(0, f"v{k}") for k in range(8)]
    step = sj.function([], None, updates={v: v + 1 for v in many}, mode="reference")
    read = sj.function([], list(many), mode="reference")
    done = threading.Event()

    def write():
        for _ in range(60):
            step()
        done.set()

    writer = threading.Thread(target=write)
    writer.start()
    while not done.is_set():
        assert len({int(v) for v in read()}) == 1
    writer.join()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_can_use_what_another_thread_held():
    w = sj.shared(0, "w")
    held, release = threading.Event(), threading.Event()

    def hold():
        with w._lock:
            held.set()
            release.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    child = os.fork()
    if child == 0:
        w.set_value(1)
        os._exit(0 if w.get_value() == 1 else 1)
    release.set()
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0 and w.get_value() == 0

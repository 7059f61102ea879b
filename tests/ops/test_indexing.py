"""Indexing, `set` and `inc` against NumPy: known and unknown sizes, known and computed indices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings, strategies as st

import scanjit as sj
from scanjit import errors
from scanjit.autodiff import grad
from scanjit.ir import Node, walk
from scanjit.ops.index import GATHER
from scanjit.runtime.reference import evaluate
from tests.ops.support import agrees, differences, inputs, run, same

BOUNDS = st.one_of(st.none(), st.integers(-6, 6))
SLICES = st.builds(slice, BOUNDS, BOUNDS, st.one_of(st.none(), st.integers(-3, 3).filter(bool)))


@st.composite
def indexed(draw: Any, arrays: bool = True) -> tuple[np.ndarray, tuple[Any, ...]]:
    """An array and an index for it. Some integers are out of bounds."""
    shape = tuple(draw(st.lists(st.sampled_from([0, 1, 2, 3, 4]), max_size=4)))
    x = np.arange(np.prod(shape, dtype=int), dtype="float64").reshape(shape) + 1
    common = draw(st.sampled_from([(), (2,), (3, 1), (1, 3), (0,)]))
    key: list[Any] = []
    for n in shape[: draw(st.integers(0, len(shape)))]:
        kind = draw(st.sampled_from(["slice", "slice", "int", "array", "scalar"] if arrays else ["slice", "int"]))
        if kind == "slice":
            key.append(draw(SLICES))
        elif kind == "int":
            key.append(draw(st.integers(-n - draw(st.booleans()), n)) if not n or draw(st.booleans()) else n // 2)
        else:
            size = () if kind == "scalar" else tuple(s if draw(st.booleans()) else 1 for s in common)
            low, high = (-n, n - 1) if n else (0, 0)
            key.append(draw(st.lists(st.integers(low, high), min_size=int(np.prod(size)), max_size=int(np.prod(size)))))
            key[-1] = np.array(key[-1], "int64").reshape(size)
        if draw(st.integers(0, 5)) == 0:
            key.append(None)
    if draw(st.booleans()):
        key.insert(draw(st.integers(0, len(key))), Ellipsis)
    return np.asarray(x), tuple(key)


def symbols_of(key: tuple[Any, ...], everything: bool) -> tuple[list[np.ndarray], Callable[[Sequence[Node]], Any]]:
    """The arrays in an index (or every number), and the index as a function of symbols for them."""
    values: list[np.ndarray] = []

    def opened(item: Any) -> Callable[[Sequence[Node]], Any]:
        if isinstance(item, np.ndarray) or (everything and isinstance(item, int)):
            at = len(values)
            values.append(np.asarray(item, "int64"))
            return lambda symbols: symbols[at]
        if isinstance(item, slice):
            start, stop = opened(item.start), opened(item.stop)
            return lambda symbols: slice(start(symbols), stop(symbols), item.step)
        return lambda symbols: item

    parts = [opened(item) for item in key]
    return values, lambda symbols: tuple(part(symbols) for part in parts)


def outcome(fn: Any) -> Any:
    """The value, or the kind of error."""
    try:
        return fn()
    except IndexError:
        return IndexError
    except ValueError:
        return ValueError


def check(x: np.ndarray, key: tuple[Any, ...], make: Any, expected: Any, mode: str, *more: np.ndarray) -> None:
    """`make(x, key)` on symbols gives what NumPy gives, or the same kind of error."""
    if mode == "constants":
        got = outcome(lambda: run(lambda x, *rest: make(x, key, *rest), x, *more))
    else:
        values, rebuild = symbols_of(key, mode == "symbols")
        got = outcome(
            lambda: run(
                lambda x, *rest: make(x, rebuild(list(rest[len(more) :])), *rest[: len(more)]),
                x,
                *more,
                *values,
                symbolic=mode == "symbols",
            )
        )
    if isinstance(expected, type) or isinstance(got, type):
        assert got is expected, f"{got} is not {expected}"
    else:
        same(got, expected)


@settings(max_examples=250)
@given(indexed(), st.sampled_from(["constants", "arrays", "symbols"]))
@example((np.ones((2, 3, 4)), (0, slice(None), np.array([0, 1]))), "constants")  # apart: in front
@example((np.ones((2, 3, 4)), (np.array([0, 1]), None, np.array([0, 1]))), "arrays")
@example((np.ones((2, 3, 4)), (slice(None), 0, Ellipsis, np.array([0]))), "constants")  # "..." keeps apart
@example((np.ones((3,)), (slice(None, -3, None),)), "symbols")
@example((np.ones((0,)), (slice(None, None, -1),)), "symbols")
@example((np.ones((0, 2)), (Ellipsis, np.array([0]), np.array([], "int64"))), "constants")  # nothing is read
@example((np.ones((0, 2)), (np.array([0]), np.array([], "int64"))), "symbols")
@example((np.ones((3, 2)), (np.array([[]], "int64"), np.array([-7]))), "arrays")
@example((np.ones((3, 0)), (3,)), "symbols")
@example((np.ones((0, 2)), (slice(None), 2)), "symbols")
def test_getitem(case: tuple[np.ndarray, tuple[Any, ...]], mode: str) -> None:
    x, key = case
    check(x, key, lambda x, key: x[key], read(x, key, mode), mode)


def read(x: np.ndarray, key: tuple[Any, ...], mode: str) -> Any:
    """`x[key]`, or the kind of error. No error for an index that is computed, and reads nothing: NumPy raises one."""
    found = outcome(lambda: np.asarray(x[key]))
    if found is not IndexError or mode == "constants":
        return found
    computed = (np.ndarray, int) if mode == "symbols" else np.ndarray
    shape, inside = list(x.shape), list(key)
    axis = 0
    for i, item in enumerate(key):
        if isinstance(item, computed):
            shape[axis], inside[i] = max(shape[axis], 1), np.zeros_like(item)
        if item is Ellipsis:
            axis = x.ndim - sum(other is not None for other in key[i + 1 :])
        elif item is not None:
            axis += 1
    nothing = outcome(lambda: np.empty(shape)[tuple(inside)])
    return nothing if isinstance(nothing, np.ndarray) and not nothing.size else IndexError


@settings(max_examples=250)
@given(indexed(), st.sampled_from(["constants", "arrays", "symbols"]), st.booleans(), st.booleans())
def test_set_and_inc(case: tuple[np.ndarray, tuple[Any, ...]], mode: str, add: bool, scalar: bool) -> None:
    x, key = case
    part = outcome(lambda: np.asarray(x[key]))
    if isinstance(part, type):
        return
    value = np.array(100.0) if scalar else 100 + np.arange(part.size, dtype="float64").reshape(part.shape)
    expected = np.array(x)
    if add:
        np.add.at(expected, key, value)
        check(x, key, lambda x, key, v: x[key].inc(v), expected, mode, value)
    else:
        expected[key] = value
        check(x, key, lambda x, key, v: x[key].set(v), expected, mode, value)


@pytest.mark.parametrize("n", range(6))
@pytest.mark.parametrize("offset", range(-3, 2))
def test_bounds_made_of_the_size(n: int, offset: int) -> None:
    """`x[:x.shape[0] - 3]`: sizes are known to be what they are, so such bounds take other paths."""
    x = np.arange(float(n)) + 1
    for key in (
        lambda k: np.s_[:k],
        lambda k: np.s_[k:],
        lambda k: np.s_[k::-1],
        lambda k: np.s_[:k:-1],
        lambda k: np.s_[k : k + 2],
        lambda k: np.s_[-2:k],
        lambda k: np.s_[k],
    ):
        expected = outcome(lambda key=key: np.asarray(x[key(n + offset)]))
        got = outcome(lambda key=key: run(lambda x: x[key(x.shape[0] + offset)], x + 0, symbolic=True))
        if isinstance(expected, type):
            assert got is expected
        else:
            same(got, expected)


def test_sizes_of_slices_are_simple() -> None:
    x = sj.tensor(("T", 3))
    assert x[1:].type.shape[0] == x[:-1].type.shape[0]
    assert x[2:].type.shape[0] == x[1:][1:].type.shape[0] == x[1:-1].type.shape[0]
    assert x[::-1].type.shape == x.type.shape == x[:].type.shape
    assert str(x[-3:].type.shape[0]) == "min(T, 3)"
    assert str(x[:5].type.shape[0]) == "min(T, 5)"


def test_a_slice_of_everything_is_not_the_tensor_itself() -> None:
    """Else `x.set(...)` would be allowed once somebody has written `x[:]`, and `x` would refer to itself."""
    x = sj.vector("x")
    for whole in (x[:], x[...], x[: x.shape[0]]):
        assert whole is not x
        assert whole.type == x.type
        assert sj.function([x], whole.set(3.0), mode="reference")(np.zeros(2)).tolist() == [3, 3]
    with pytest.raises(errors.ArgumentError, match="only what an index gave can be set"):
        x.set(3.0)


def test_slices_promise_nothing_that_they_keep_by_themselves() -> None:
    """Slices are clipped, so no check at run time is needed, whatever their bounds."""
    from scanjit import types

    T, k = sj.tensor(("T",)), sj.lscalar("k")
    with types.collecting() as found:
        for key in (
            np.s_[1:],
            np.s_[:-1],
            np.s_[-3:],
            np.s_[::-1],
            np.s_[::2],
            np.s_[5:1:-2],
            np.s_[2:7:3],
            np.s_[-4:-1],
        ):
            T[key]
        for key in (np.s_[:k], np.s_[k:], np.s_[k : k + 3], np.s_[k::-1]):
            T[key]
    assert not found
    with types.collecting() as found:
        T[-1]
    assert len(found) == 1


def test_a_slice_of_a_computed_number() -> None:
    x = np.arange(5.0)
    for k in range(-7, 8):
        k = np.array(k)
        for key in (lambda k: np.s_[:k], lambda k: np.s_[k:], lambda k: np.s_[k::-2], lambda k: np.s_[k - 1 : k + 1]):
            agrees(lambda x, k, key=key: x[key(k)], lambda x, k, key=key: x[key(int(k))], x, k)


def test_masks() -> None:
    x = np.arange(6.0).reshape(2, 3)
    mask = np.array([[True, False, True], [False, True, False]])
    agrees(lambda x: x[mask], lambda x: x[mask], x)
    agrees(lambda x: x[:, [True, False, True]], lambda x: x[:, [True, False, True]], x)
    agrees(lambda x: x[mask].set(0), lambda x: np.where(mask, 0, x), x)
    with pytest.raises(errors.NotSupportedError, match=r"a mask must be known[\s\S]*sj.where"):
        sj.vector()[sj.vector() > 0]


def test_take() -> None:
    x = np.arange(24.0).reshape(2, 3, 4)
    index = np.array([[0, -1], [1, 1]])
    for axis in (None, 0, 1, -1):
        agrees(lambda x, i, a=axis: sj.take(x, i, a), lambda x, i, a=axis: np.take(x, i, a), x, index)
    agrees(lambda x, i: x.take(i, axis=1), lambda x, i: x.take(i, axis=1), x, np.array(2, "uint8"))
    along = np.argsort(np.sin(x), axis=1)
    agrees(lambda x, i: sj.take_along_axis(x, i, 1), lambda x, i: np.take_along_axis(x, i, 1), x, along[:, :2])
    agrees(lambda x, i: np.take_along_axis(x, i, 1), lambda x, i: np.take_along_axis(x, i, 1), x, along[:1, :1] - 3)


def test_gradients_pass_through_indexing() -> None:
    x = np.cos(np.arange(12.0)).reshape(4, 3)
    for cost in (
        lambda x: (x[1:, ::-1] * x[:-1]).sum(),
        lambda x: (x[[0, 2, 0]] ** 3).sum(),
        lambda x: (x[np.array([0, 1]), np.array([2, 2])] ** 2).sum() + x[-1, 0],
        lambda x: (x[1].set(x[2] ** 2) ** 2).sum(),
        lambda x: (x[[1, 1], [0, 2]].inc(x[3, :2] ** 2) ** 2).sum(),
        lambda x: (x[[1, 1]].set(x[2:] ** 2) ** 2).sum(),  # only the last of two values stays
    ):
        got = run(lambda x, cost=cost: grad(cost(x), x), x)
        np.testing.assert_allclose(got, differences(lambda x, cost=cost: run(cost, x), [x], 0), rtol=1e-6, atol=1e-7)


# ---- what set and inc are about --------------------------------------------------------------------------------------


def test_set_finds_what_was_indexed() -> None:
    """Equal nodes from different indices of different tensors are told apart."""
    z = np.arange(6.0).reshape(2, 3)
    transposed, column = z.T.copy(), z.copy()
    transposed[0] = column[:, 0] = 9
    same(run(lambda z: z.T[0].set(9), z), transposed)
    same(run(lambda z: z[:, 0].set(9), z), column)

    def one_by_one(z: Node) -> tuple[Node, ...]:
        rows = z[1:]
        a, b = z[1:, None], rows[:, None]  # the same values: b is made as another node
        c = rows[...]
        return a.set(9), b.set(9), c.set(9), a, b, z[...].set(1)

    first, second, third, a, b, whole = run(one_by_one, z.reshape(3, 2))
    assert first.shape == (3, 2) and second.shape == third.shape == (2, 2)
    assert (first[1:] == 9).all() and first[0, 1] == 1 and (second == 9).all()
    assert a.shape == (2, 1, 2) and b.shape == (2, 1, 2)
    same(whole, np.ones((3, 2)))


def test_set_of_a_set() -> None:
    x = np.zeros((2, 2))
    same(run(lambda x: x[0].set(1)[:, 1].inc(5), x), np.array([[1.0, 6], [0, 5]]))


def test_only_what_was_indexed_can_be_set() -> None:
    with pytest.raises(errors.ArgumentError, match="only what an index gave can be set"):
        (sj.vector() + 1).set(0)
    with pytest.raises(errors.DtypeError, match="does not fit the dtype"):
        sj.ivector()[0].set(0.5)
    with pytest.raises(errors.DtypeError, match="does not fit the dtype"):
        sj.tensor(3, "bool")[0].set(2)
    with pytest.raises(errors.ShapeError, match="too many axes"):
        sj.vector()[0].set(sj.vector())
    with pytest.raises(errors.ShapeError):
        sj.tensor((4,))[:2].set(np.ones(3))
    assert sj.fvector()[0].set(1.5).dtype == np.float32
    assert sj.tensor(3, "float32")[1:].inc(np.arange(2)).dtype == np.float32


# ---- errors ----------------------------------------------------------------------------------------------------------


def test_indices_out_of_bounds() -> None:
    x = sj.tensor((3, "n"))
    for key in (3, -4, (0, 0, 0), [0, 3], np.array([-4])):
        with pytest.raises(IndexError):
            x[key]
    with pytest.raises(errors.OutOfBoundsError, match="index 3 is out of bounds for axis 0 with size 3"):
        x[3]
    with pytest.raises(errors.OutOfBoundsError, match="too many indices: the tensor has 2 axes, 3 were indexed"):
        x[0, 0, 0]
    with pytest.raises(errors.OutOfBoundsError, match=r"got: +<dt\[t\]: [\s\S]*first come the rows of the sequences"):
        sj.scan(lambda y, dt: y + dt * y[0], sj.vector("dt"), sj.zeros(2))
    with pytest.raises(errors.OutOfBoundsError, match=r"out of bounds for axis 0 with size [\s\S]*test_indexing.py"):
        run(lambda x: x[-1], np.zeros((0, 2)), symbolic=True)
    with pytest.raises(errors.OutOfBoundsError, match="index 5 is out of bounds for axis 0 with size 3"):
        run(lambda x, i: x[i], np.zeros(3), np.array([0, 5]))
    with pytest.raises(errors.OutOfBoundsError):
        run(lambda x, i: x[i].set(1.0), np.zeros(3), np.array(-4))
    with pytest.raises(errors.OutOfBoundsError, match="index -14 is out of bounds"):  # the `where` is the user's own
        run(lambda x, i: x[sj.where(i < 0, i + 5, i) + 1], np.zeros(5), np.array(-20))


def test_the_last_of_nothing() -> None:
    """`xs[-1]` of a scan that made no steps."""
    x = sj.tensor(("T",), "float64")
    last = sj.cumsum(x, axis=0)[-1]
    assert evaluate([last], {x: np.ones(3)})[0] == 3
    with pytest.raises(IndexError, match="out of bounds"):
        evaluate([last], {x: np.ones(0)})


def test_what_is_no_index() -> None:
    x = sj.tensor((3, 4))
    for key in (
        1.5,
        "a",
        sj.vector(),
        slice(None, None, 0),
        slice(0.5, None),
        (Ellipsis, Ellipsis),
        slice(sj.scalar()),
    ):
        with pytest.raises(errors.ArgumentError):
            x[key]
    with pytest.raises(errors.NotSupportedError, match="step of a slice must be known"):
        x[:: sj.iscalar()]
    with pytest.raises(errors.NotSupportedError, match="a mask"):
        x[True]


def test_scalars_as_indices_need_no_gather_where_sizes_say_enough() -> None:
    x = sj.tensor(("T", 3))
    for y in (x[x.shape[0] - 1], x[sj.constant(1)], x[np.int32(-1)]):
        assert all(node.op is not GATHER for node in walk([y]))
    (index,) = inputs([np.array(0)], symbolic=False)
    assert any(node.op is GATHER for node in walk([x[index]]))


@pytest.mark.parametrize("size", [0, 2, 5, 40])
@pytest.mark.parametrize("shape", [(7,), (3, 4), (2, 3, 300), (0, 3)])
def test_where_a_tensor_is_not_zero(shape: tuple[int, ...], size: int) -> None:
    values = np.random.default_rng(1).integers(-1, 2, shape) * (np.arange(np.prod(shape)).reshape(shape) % 3 == 0)
    x = sj.tensor((None,) * len(shape), "int64")
    indices = x.nonzero(size=size, fill_value=-5)
    for mode in ("reference", "emulate"):
        found = sj.function([x], list(indices), mode=mode)(values)
        for one, wanted in zip(found, np.nonzero(values), strict=True):
            kept = wanted[:size]
            assert one.tolist() == [*kept, *[-5] * (size - len(kept))]


def test_elements_that_are_not_zero() -> None:
    x, n = sj.vector("x"), sj.lscalar("n")
    found = x[sj.nonzero(x > 1, size=n)]
    f = sj.function([x, n], [found, sj.grad(found.sum(), x)], mode="reference")
    value, slope = f([0.5, 2.0, 1.0, 3.0, 4.0], 2)
    assert value.tolist() == [2.0, 3.0] and slope.tolist() == [0, 1, 0, 1, 0]
    assert [index.type.shape for index in np.nonzero(sj.constant([[0, 1], [1, 1]]))] == [(3,), (3,)]
    with pytest.raises(sj.NotSupportedError, match=r"nonzero\(size=n\)"):
        x.nonzero()
    with pytest.raises(sj.ShapeError, match="one axis or more"):
        sj.nonzero(n, size=1)

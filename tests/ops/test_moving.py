"""Slices whose place is computed: `x[t : t + 3]` in steps, `dynamic_slice`, `roll` by a computed shift."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import scanjit as sj
from scanjit.ops.index import GATHER
from scanjit.runtime import host
from scanjit.target import target_for
from tests.export.support import both
from tests.ops.support import agrees

MODES = ("reference", "numba")
X = np.random.default_rng(0).normal(size=(7, 6))
AT = np.array([0, 4, -5, 2])
READS: dict[str, Callable[[Any, Any], Any]] = {
    "window": lambda x, t: x[t : t + 3],
    "on the right": lambda x, t: x[..., t : t + 2],
    "by two": lambda x, t: x[t : t + 3 : 2],
    "backwards": lambda x, t: x[t + 2 : t : -1],
    "two axes": lambda x, t: x[t : t + 3, t + 1 : t + 2],
    "with others": lambda x, t: x[t : t + 2, None, 1:][::-1, ..., 0],
    "nothing": lambda x, t: x[t : t + 0],
}


def steps(read: Callable[[Any, Any], Any], x: Any, at: Any) -> Any:
    return sj.scan(lambda t: read(x, t), sequences=at)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("symbolic", [False, True])
def test_a_window_is_what_numpy_selects(mode: str, symbolic: bool) -> None:
    x, at = sj.tensor(("n", "m") if symbolic else X.shape, name="x"), sj.lvector("at")
    f = sj.function([x, at], [steps(read, x, at) for read in READS.values()], mode=mode)
    forward = np.where(AT < 0, AT + 7, AT)  # a place that is counted from the end of the first axis
    at_rows = f(X, forward)
    for got, (name, read) in zip(at_rows, READS.items(), strict=True):
        if name == "on the right":
            continue
        np.testing.assert_array_equal(got, [read(X, t) for t in forward])
    right = sj.function([x, at], steps(READS["on the right"], x, at), mode=mode)
    np.testing.assert_array_equal(right(X, [0, 4, -2]), [X[:, t : t + 2] for t in (0, 4, 4)])


@pytest.mark.parametrize("mode", MODES)
def test_negative_places_count_from_the_end(mode: str) -> None:
    x, at = sj.matrix("x"), sj.lvector("at")
    f = sj.function([x, at], steps(READS["window"], x, at), mode=mode)
    np.testing.assert_array_equal(f(X, [-5, -3]), [X[2:5], X[4:7]])


@pytest.mark.parametrize("mode", MODES)
def test_a_window_that_does_not_fit_is_an_error(mode: str) -> None:
    x, at = sj.matrix("x"), sj.lvector("at")
    w = sj.shared(np.zeros(2), "w")
    f = sj.function([x, at], steps(READS["window"], x, at), updates=[(w, w + 1)], mode=mode)
    for bad, index in ((5, 7), (7, 7), (-2, 7), (-8, -8)):
        with pytest.raises(
            sj.OutOfBoundsError, match=f"index {index} is out of bounds for axis 0 with size 7, in step 1"
        ):
            f(X, [1, bad])
    assert not w.get_value().any()
    f(X, [1])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", ["float64", "float32", "int64"])
def test_set_and_inc(mode: str, dtype: str) -> None:
    x, at = sj.tensor(("n",), dtype, name="x"), sj.lvector("at")

    def step(t: Any, h: Any) -> Any:
        h = h[t : t + 3].set(h[t : t + 3] * 2 + 1)
        return h[t + 1 : t + 5 : 3].inc(h[t : t + 2])

    f = sj.function([x, at], sj.scan(step, sequences=at, outputs_info=x), mode=mode)
    h = np.arange(9).astype(dtype)
    got = f(h, [0, 4, 2])
    for t, row in zip((0, 4, 2), got, strict=True):
        h[t : t + 3] = h[t : t + 3] * 2 + 1
        h[t + 1 : t + 5 : 3] += h[t : t + 2]
        np.testing.assert_array_equal(row, h)


def loss(x: Any, at: Any) -> Any:
    def step(t: Any, h: Any) -> Any:
        return sj.roll(h[t : t + 3].set(sj.sin(h[t + 1 : t + 4])), t)

    return (sj.scan(step, sequences=at, outputs_info=x)[-1] ** 3 * sj.arange(1.0, 7.0)).sum()


def test_derivatives() -> None:
    at = np.array([0, 2, -5])
    x = sj.tensor((6,), name="x")
    sj.check_grad(lambda x: loss(x, at), [X[0]], order=2)
    value = loss(x, at)
    forward, backward = sj.jvp(value, x, sj.ones(6)), sj.grad(value, x).sum()
    f = sj.function([x], [forward, backward])
    np.testing.assert_allclose(*f(X[0]), rtol=1e-12)


@pytest.mark.parametrize("mode", MODES)
def test_examples_of_a_batch(mode: str) -> None:
    x, at = sj.matrix("x"), sj.lvector("at")
    own = sj.vmap(lambda row, t: row[t : t + 2].inc(1.0))(x, at)
    shared = sj.vmap(lambda t: sj.ifelse(t > 0, lambda: x[t : t + 2, 0] * 2, lambda: sj.zeros(2)))(at)
    each = sj.grad((sj.vmap(lambda row, t: sj.roll(row, t)[1:3])(x, at) ** 2).sum(), x)
    got = sj.function([x, at], [own, each], mode=mode)(X[:3], [0, 4, 1])
    expected, slope = X[:3].copy(), np.zeros((3, 6))
    for i, t in enumerate((0, 4, 1)):
        expected[i, t : t + 2] += 1
        slope[i, np.roll(np.arange(6), t)[1:3]] = 2
    np.testing.assert_array_equal(got[0], expected)
    np.testing.assert_array_equal(got[1], slope * X[:3])
    assert sj.function([x, at], shared, mode=mode)(X, [0, 4])[1].tolist() == (X[4:6, 0] * 2).tolist()


@pytest.mark.parametrize("mode", MODES)
def test_dynamic_slice(mode: str) -> None:
    x, i, j = sj.matrix("x"), sj.iscalar("i"), sj.lscalar("j")
    block = sj.dynamic_slice(x, (i, j), (2, 3))
    assert block.type.shape == (2, 3)
    f = sj.function([x, i, j], [block, block.set(0.0), sj.grad((block**2).sum(), x)], mode=mode)
    got = f(X, np.int32(-3), 1)
    zeroed, slope = X.copy(), np.zeros_like(X)
    zeroed[4:6, 1:4], slope[4:6, 1:4] = 0, 2 * X[4:6, 1:4]
    np.testing.assert_equal(got, (X[4:6, 1:4], zeroed, slope))
    with pytest.raises(sj.OutOfBoundsError, match="index 6 is out of bounds for axis 1 with size 6"):
        f(X, np.int32(0), 4)
    known = sj.function([x], sj.dynamic_slice(x, [1, 2], [2, x.shape[1] - 2]), mode=mode)
    np.testing.assert_array_equal(known(X), X[1:3, 2:])


def test_what_a_dynamic_slice_refuses() -> None:
    with pytest.raises(sj.ArgumentError, match="a start and a size for each axis"):
        sj.dynamic_slice(sj.matrix(), 1, 2)
    with pytest.raises(sj.ArgumentError, match="integers"):
        sj.dynamic_slice(sj.vector(), 1.5, 2)


def test_roll_by_a_computed_shift() -> None:
    for shift in (-9, -1, 0, 2, 7, -(2**63), 2**63 - 1):
        agrees(sj.roll, np.roll, X, shift)
        agrees(lambda x, s: sj.roll(x, s, axis=1), lambda x, s: np.roll(x, s, axis=1), X, shift)
        agrees(lambda x, s: sj.roll(x, (s, 1), axis=(0, 1)), lambda x, s: np.roll(x, (s, 1), axis=(0, 1)), X, shift)
    agrees(sj.roll, np.roll, np.zeros(0), 2)


ROLLED: list[Callable[[Any, Any], Any]] = [
    lambda v, shift: (sj.roll(v, shift) * v).sum(),
    lambda v, shift: sj.roll(v, shift)[::-2].sum(),
    lambda v, shift: (sj.roll(v, shift) - v).max(),
]


@pytest.mark.parametrize("mode", ["numba", "emulate"])
@pytest.mark.parametrize("along", ROLLED)
def test_lanes_that_are_rolled_by_shifts_of_their_own(along: Callable[[Any, Any], Any], mode: str) -> None:
    v, shifts = sj.vector("v", "float64"), sj.lvector("shifts")
    batched = sj.vmap(lambda shift: along(v, shift))(shifts)
    for output in (batched, sj.grad((batched**2).sum(), v)):
        f, reference = (sj.function([v, shifts], output, mode=each) for each in (mode, "reference"))
        for size in (1, 5, 17):
            given = np.arange(1.0, size + 1) ** 2, np.arange(-7, 8)
            np.testing.assert_allclose(f(*given), reference(*given), rtol=1e-12)


@pytest.mark.quick(4)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int8"])
@pytest.mark.parametrize(
    "read",
    [lambda x: x, lambda x: x[::2], lambda x: x[::-1], lambda x: x[5:1:-2], lambda x: x[1:, None] * x[1:]],
    ids=["all", "every second", "backwards", "backwards by two", "two axes"],
)
def test_lanes_along_an_axis_that_begins_again(dtype: str, read: Callable[[Any], Any]) -> None:
    """The axis begins again in any lane of a vector, at its first and its last lane, and nowhere."""
    x, t = sj.vector("x", dtype=dtype), sj.iscalar("t")
    rolled = sj.function([x, t], read(sj.roll(x, t)))
    for size in (7, 8, 40, 64, 300):
        given = np.arange(size).astype(dtype)
        for shift in (0, 1, 7, 8, 9, size - 1, size, -3, -17):
            np.testing.assert_array_equal(rolled(given, shift), read(np.roll(given, shift)))


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize(
    "place",
    [
        lambda i, t, n: (i[:n] - 3 - t) % n,  # begins before the axis
        lambda i, t, n: (i[:n] + 3 + t) % n,  # goes beyond it
        lambda i, t, n: (i[:n:2] + t) % (n - 8),  # begins again earlier
        lambda i, t, n: (i[:n] + t) % i[n:],  # begins again elsewhere for each place
        lambda i, t, n: i[:n] % n,  # does not move
    ],
)
def test_remainders_that_are_not_those_of_a_roll(place: Callable[[Any, Any, Any], Any], known: bool) -> None:
    size = 40
    x, t = sj.tensor((size if known else None,), "float32", "x"), sj.lscalar("t")
    n = x.shape[0]
    f, given = sj.function([x, t], GATHER(x, place(sj.arange(2 * n), t, n), axis=0)), np.arange(size, dtype="float32")
    for shift in (0, 1, 37, 40, -2, -41):
        wanted = place(np.arange(2 * size), shift, size)
        if wanted.max() < size:
            np.testing.assert_array_equal(f(given, shift), given[wanted])
        else:
            with pytest.raises(sj.OutOfBoundsError):
                f(given, shift)


def test_lanes_that_are_far_apart() -> None:
    """The distances of lanes are int32. Where that is too narrow, each lane has an index of its own."""
    x, t = sj.tensor((2**31,), "int8", "x"), sj.lscalar("t")
    for step, counted in ((2**24, True), (2**24 + 1, False)):
        with host.using(target_for("x86_64-linux-gnu", features="+avx512f,+avx512bw")):
            source = sj.function([x, t], sj.roll(x, t)[::step], mode="emulate").source
        assert ("iota_i32" in source) == counted


@pytest.mark.skipif(os.name == "nt", reason="Windows gives memory before it is used")
@pytest.mark.parametrize("shift", [0, 1, -1, 2**31 - 1, -(2**31) - 1])
def test_an_axis_longer_than_int32(shift: int) -> None:
    """Of the 2 GB, few pages are read."""
    size, step = 2**31 + 100, 2**24
    x, t = sj.tensor((None,), "int8", "x"), sj.lscalar("t")
    given, places = np.zeros(size, "int8"), (np.arange(0, size, step) - shift) % size
    given[places] = np.arange(len(places)) % 127
    np.testing.assert_array_equal(sj.function([x, t], sj.roll(x, t)[::step])(given, shift), given[places])


@pytest.mark.parametrize("mode", ["emulate", "numba"])
def test_places_of_slices_are_checked_in_both_directions(mode: Any) -> None:
    """Where the first or the last entry lies outside, also if the slice goes backwards."""
    x, at = sj.vector("x"), sj.lvector("at")
    for read in (lambda x, t: x[t : t + 3], lambda x, t: x[t + 2 : t : -1], lambda x, t: x[t + 4 : t : -2]):
        y = sj.scan(lambda t, read=read: read(x, t), sequences=at)
        f, reference = sj.function([x, at], y, mode=mode), sj.function([x, at], y, mode="reference")
        for t in range(-9, 9):
            try:
                wanted = reference(X[:, 0], [t])
            except sj.ScanjitError as error:
                with pytest.raises(type(error)):
                    f(X[:, 0], [t])
            else:
                np.testing.assert_array_equal(f(X[:, 0], [t]), wanted)


def test_a_slice_whose_size_is_computed_in_a_step() -> None:
    """It may be read; as a result, it would have another size in each step."""
    x, given = sj.vector("x"), np.arange(1.0, 6.0)
    reads = [lambda x, t: x[t:].sum(), lambda x, t: x[t : 2 * t].sum(), lambda x, t: x[:t].sum()]
    found = [sj.scan(lambda t, read=read: read(x, t), sequences=sj.arange(3)) for read in reads]
    for values, read in zip(sj.function([x], found, mode="emulate")(given), reads, strict=True):
        np.testing.assert_allclose(values, [read(given, t) for t in range(3)])
    with pytest.raises(sj.ScanjitError):
        sj.function([x], sj.scan(lambda t: x[t:], sequences=sj.arange(3)))


def test_export_and_saving(tmp_path: Any) -> None:
    x, at = sj.matrix("x"), sj.lvector("at")
    outputs = steps(READS["window"], x, at)
    found, expected = both([x, at], outputs, [X, AT], tmp_path)
    np.testing.assert_array_equal(found, expected)
    path = tmp_path / "f.scanjit"
    sj.function([x, at], outputs).save(path)
    np.testing.assert_array_equal(sj.load(path)(X, AT), expected)

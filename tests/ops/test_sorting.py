"""Sorting and what follows from it, beside NumPy: NaN, ties, zeros of both signs, empty and long rows, all axes."""

from __future__ import annotations

import functools
from typing import Any

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

import scanjit as sj
from scanjit.ops.sorting import ARGPARTITION, ARGRANKED, ARGSORT, PARTITION, RANKED
from tests.ops.support import agrees, run, same

RNG = np.random.default_rng(0)
NAN = np.nan
DTYPES = ("float64", "float32", "int64", "int32", "int16", "int8", "uint8", "bool")
QUICK = ("float64", "float32", "int8", "bool")
SOME = [pytest.param(dtype, marks=() if dtype in QUICK else pytest.mark.slow) for dtype in DTYPES]
FEWER = [pytest.param(dtype, marks=() if dtype in ("float32", "bool") else pytest.mark.slow) for dtype in DTYPES]
"""What compiles for long tries some dtypes; the keys of all of them are tried by what takes less time."""


def numbers(shape: tuple[int, ...], dtype: str = "float64") -> np.ndarray:
    """Numbers with ties; floats with NaN of both signs, infinities and zeros of both signs; all integers."""
    if dtype == "bool":
        return RNG.random(shape) < 0.5
    if dtype[0] != "f":
        limits = np.iinfo(dtype)
        return RNG.integers(limits.min, limits.max, shape, dtype, endpoint=True)
    special = np.array([NAN, -NAN, np.inf, -np.inf, 0.0, -0.0])
    x = np.where(RNG.random(shape) < 0.3, RNG.choice(special, shape), RNG.normal(size=shape).round(1))
    return x.astype(dtype)


def places(x: np.ndarray, axis: int | None = -1) -> np.ndarray:
    return np.argsort(x, axis, kind="stable")


# ---- argsort ---------------------------------------------------------------------------------------------------------


@pytest.mark.quick(1)
@pytest.mark.parametrize("dtype", DTYPES)
def test_order_of_rows_in_compiled_functions(dtype: str) -> None:
    x, few = sj.tensor(("b", "n"), dtype, "x"), sj.tensor(("b", 7), dtype, "few")
    many = sj.tensor(("b", 300), dtype, "many")
    f = sj.function([x, few, many], [ARGSORT(x), ARGSORT(x.T), ARGSORT(x[:, ::-1]), ARGSORT(few), ARGSORT(many)])
    for n in (0, 1, 2, 47, 48, 49, 300, 5000):
        given = numbers((3, n), dtype), numbers((3, 7), dtype), numbers((3, 300), dtype)
        wanted = [places(a) for a in (given[0], given[0].T, given[0][:, ::-1], *given[1:])]
        for got, right in zip(f(*given), wanted, strict=True):
            np.testing.assert_array_equal(got, right, strict=True)


@pytest.mark.quick(1)
@pytest.mark.parametrize("dtype", FEWER)
def test_the_largest_elements_of_long_rows_are_found_part_by_part(dtype: str) -> None:
    known, few, found = (sj.tensor(shape, dtype) for shape in ((2, 1000), (300,), ("b", "n")))
    counts = (("known", 5, -1), ("known", 40, -1), ("few", 1, -1), ("known", 2, 0), ("found", 3, -1), ("found", 7, 1))
    symbols = {"known": known, "few": few, "found": found}
    k = sj.lscalar("k")
    results = [part for of, many, axis in counts for part in sj.top_k(symbols[of], many, axis)]
    f = sj.function([*symbols.values(), k], [*results, *sj.top_k(known, k), *sj.top_k(found, k)])
    counts = (*counts, ("known", 4, -1), ("found", 4, -1))
    limit = np.array(False) if dtype == "bool" else np.array(-np.inf if dtype[0] == "f" else np.iinfo(dtype).min)
    for n in (7, 389, 1000, 2049):
        for alike in ("no", "all", "but one"):
            given = {"known": numbers((2, 1000), dtype), "few": numbers((300,), dtype), "found": numbers((3, n), dtype)}
            if alike != "no":
                given = {name: np.full_like(x, limit) for name, x in given.items()}
            if alike == "but one":  # the largest one is in the last part
                for x in given.values():
                    x[..., -1] = 1
            results = f(*given.values(), 4)
            for (of, many, axis), values, order in zip(counts, results[::2], results[1::2], strict=True):
                x = given[of]
                last = x.shape[axis] - 1
                wanted = np.flip(last - places(np.flip(x, axis), axis), axis).take(range(many), axis)
                np.testing.assert_array_equal(order, wanted)
                np.testing.assert_array_equal(values, np.take_along_axis(x, wanted, axis))


@pytest.mark.quick(3)
@pytest.mark.parametrize("mode", ["numba", "emulate"])
@pytest.mark.parametrize("dtype", SOME)
def test_rows_side_by_side_and_alone_are_sorted_alike(dtype: str, mode: Any) -> None:
    """Vectors of rows, those that are left over, rows that lie crosswise, known and unknown sizes."""
    shapes = [((19, 7), -1), ((7, 19), 0), ((40, 33), 1), ((3, 70), -1), ((70, 3), 0)]
    known = [sj.tensor(shape, dtype) for shape, _ in shapes]
    x = sj.tensor(("m", "n"), dtype)
    cases = [*zip(known, (axis for _, axis in shapes), strict=True), (x, 0), (x, 1)]
    f = sj.function([*known, x], [op(of, axis) for of, axis in cases for op in (sj.sort, sj.argsort)], mode=mode)
    for shape in [(0, 3), (3, 0), (1, 1), (35, 17), (20, 2)] + [(3, 1100), (1100, 3), (18, 600)] * (mode == "numba"):
        given = [numbers(size, dtype) for size, _ in shapes] + [numbers(shape, dtype)]
        found = f(*given)
        axes = [axis for _, axis in shapes] + [0, 1]
        for k, (values, axis) in enumerate(zip([*given, given[-1]], axes, strict=True)):
            np.testing.assert_array_equal(found[2 * k], np.sort(values, axis), strict=True)
            np.testing.assert_array_equal(found[2 * k + 1], places(values, axis), strict=True)


@pytest.mark.quick(3)
@pytest.mark.parametrize(
    ("dtype", "mode"),
    [pytest.param(dtype, "numba", marks=() if dtype in QUICK else pytest.mark.slow) for dtype in DTYPES]
    + [("float32", "emulate"), pytest.param("float64", "emulate", marks=pytest.mark.slow)],
)
def test_some_entries_of_sorted_rows(dtype: str, mode: Any) -> None:
    """Rows side by side and alone, that are sorted whole or not; ranks one by one, in groups, all, beyond the ends."""
    x, known = sj.tensor(("b", "n"), dtype), sj.tensor((1, 1300), dtype)
    ranks = sj.tensor(("m",), "int64")
    of = [x, x.T, known]
    f = sj.function([x, known, ranks], [op(rows, ranks) for rows in of for op in (RANKED, ARGRANKED)], mode=mode)
    shapes = [(3, 7), (2, 0), (2, 600)] + [(40, 33), (2, 4500), (700, 2)] * (mode == "numba")
    for shape in shapes:
        n = shape[1]
        some = [0], [3, -1, 10**9, 2], list(range(0, n, 9)), [n // 2, n // 2 - 1, n // 9, n // 9]
        for k, wanted in enumerate(some):
            kinds = ("numbers", "one number", "outliers")
            for like in kinds if (dtype, mode) == ("float32", "numba") else kinds[k % 3 : k % 3 + 1]:
                given = [numbers(shape, dtype), numbers((1, 1300), dtype)]
                if like == "one number":
                    given = [np.ones_like(a) for a in given]
                elif like == "outliers" and dtype[0] == "f":  # most lie in few buckets of the first round
                    given = [RNG.random(a.shape).astype(dtype) for a in given]
                    for a in given:
                        a[..., -1:], a[..., :1] = NAN, -np.inf
                results = f(*given, np.array(wanted, "int64"))
                for i, rows in enumerate((given[0], given[0].T, given[1])):
                    if not rows.shape[-1]:
                        assert not results[2 * i].any() and not results[2 * i + 1].any()
                        continue
                    at = np.clip(np.array(wanted, "int64"), 0, rows.shape[-1] - 1)
                    np.testing.assert_array_equal(results[2 * i], np.sort(rows, -1)[..., at], strict=True)
                    np.testing.assert_array_equal(results[2 * i + 1], places(rows)[..., at], strict=True)


@pytest.mark.quick(1)
@pytest.mark.parametrize("n, mode", [(40, "emulate"), (256, "numba"), (None, "numba"), (None, "emulate")])
def test_the_order_of_elements_that_differ_in_their_last_bits(
    n: int | None, mode: Any, rng: np.random.Generator
) -> None:
    """Equal ones, those that differ little, and NaN: the places of few float64 lie in their words' last bits."""
    x = sj.tensor(("rows", n))
    f = sj.function([x], [sj.argsort(x, 1), *sj.top_k(x, 3), sj.argsort(x, 0), sj.argsort(x[:, ::-1], 1)], mode=mode)
    for size in (3, 24, 25, 33, 40, 255, 256, 257, 300) if n is None and mode == "numba" else (n or 40,):
        shape = (9, size)
        near = 1 + rng.integers(0, 300, shape) * 2.0**-52
        few, tiny = rng.integers(-2, 3, shape) * 0.1, rng.integers(-300, 300, shape) * 5e-324
        mixed = np.where(rng.random(shape) < 0.2, NAN, np.where(rng.random(shape) < 0.3, -0.0, few))
        for values in (rng.normal(size=shape), near, -near, few, tiny, mixed):
            places, largest, first, down, flipped = f(values)
            np.testing.assert_array_equal(flipped, np.argsort(values[:, ::-1], 1, kind="stable"))
            np.testing.assert_array_equal(places, np.argsort(values, 1, kind="stable"))
            np.testing.assert_array_equal(down, np.argsort(values, 0, kind="stable"))
            expected = size - 1 - np.argsort(values[:, ::-1], 1, kind="stable")[:, :-4:-1]
            np.testing.assert_array_equal(first, expected)
            np.testing.assert_array_equal(largest, np.take_along_axis(values, expected, 1))


@pytest.mark.parametrize("mode", ["numba", "emulate"])
def test_longer_rows_than_places_fit_beside_keys(mode: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """As with 2**32 elements and more."""
    for module in ("scanjit.codegen.sorting", "scanjit.schedule.lower.ops.sorting"):
        monkeypatch.setattr(f"{module}.MOST_PACKED", 2100)
    x, known = sj.tensor(("n",), "float32"), sj.tensor((2150,), "float32")
    ranks = np.array([7, 1070])
    f = sj.function(
        [x, known], [sj.argsort(x), sj.argsort(known), sj.sort(known), ARGRANKED(x, sj.as_tensor(ranks))], mode=mode
    )
    for n in (2099, 2100, 2200):
        given = numbers((n,), "float32"), numbers((2150,), "float32")
        wanted = [*map(places, given), np.sort(given[1]), places(given[0])[ranks]]
        np.testing.assert_equal(f(*given), wanted)


@pytest.mark.quick(3)
@pytest.mark.parametrize("turns", [0, 2])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "int64"])
def test_rows_without_good_medians_are_split_in_the_middle(
    dtype: str, turns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also rows of equal elements, and of the least and the largest number."""
    monkeypatch.setattr("scanjit.codegen.quicksort.TURNS", turns)
    x, ranks = sj.tensor(("n",), dtype), np.array([200, 3, 499])
    f = sj.function([x], [sj.sort(x), sj.argsort(x), RANKED(x, sj.as_tensor(ranks))], mode="emulate")
    for given in (numbers((500,), dtype), np.sort(numbers((500,), dtype)), np.ones(500, dtype)):
        np.testing.assert_equal(f(given), (np.sort(given), places(given), np.sort(given)[ranks]))


@functools.cache
def _sorts(dtype: str) -> Any:
    x = sj.tensor(("m", "n"), dtype)
    return sj.function([x], [sj.sort(x), sj.argsort(x)])


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
@hypothesis.given(
    n=st.integers(257, 3000),
    different=st.sampled_from([1, 2, 9, 400, 10**6]),
    ordered=st.sampled_from(["no", "rising", "falling", "nearly"]),
    seed=st.integers(0, 2**32 - 1),
)
@hypothesis.settings(max_examples=60, deadline=None)
def test_long_rows_are_sorted(dtype: str, n: int, different: int, ordered: str, seed: int) -> None:
    """Few and many different numbers, zeros of both signs and NaN among them, in any order before."""
    rng = np.random.default_rng(seed)
    x = rng.integers(-(different // 2), different - different // 2, (2, n)).astype(dtype)
    if dtype[0] == "f":
        special = np.array([0.0, -0.0, NAN, np.inf, -np.inf], dtype)
        x = np.where(rng.random(x.shape) < rng.choice([0, 0.01, 0.5]), rng.choice(special, x.shape), x)
    if ordered != "no":
        x = np.sort(x)[:, :: -1 if ordered == "falling" else 1].copy()
    if ordered == "nearly":
        x[:, rng.integers(0, n, 5)] = x[:, rng.integers(0, n, 5)]
    order = places(x)
    wanted = np.take_along_axis(x, np.lexsort((~np.signbit(x), x)), -1) if dtype[0] == "f" else np.sort(x)
    found = _sorts(dtype)(x)
    np.testing.assert_array_equal(found[0], wanted)
    np.testing.assert_array_equal(np.signbit(found[0]) & (found[0] == 0), np.signbit(wanted) & (wanted == 0))
    np.testing.assert_array_equal(found[1], order)


def test_sorted_rows_are_the_same_for_any_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    x, results = sj.tensor(("m", "n"), "float32"), []
    given = [numbers(shape, "float32") for shape in ((1000, 100), (5, 20_000))]
    for threads in (1, 2, 3):
        f = sj.function([x], [sj.sort(x), sj.argsort(x), sj.sort(x, 0)])
        monkeypatch.setattr(sj.config, "threads", threads)
        results.append([found.tobytes() for values in given for found in f(values)])
    assert results[0] == results[1] == results[2]


@pytest.mark.parametrize("values", [[NAN, NAN, NAN], [NAN, 1.0, NAN], [0.0, -0.0, 0.0, -0.0], [-np.inf, NAN, np.inf]])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_orders_are_permutations_whatever_is_compared(values: list[float], dtype: str) -> None:
    x = sj.tensor(("n",), dtype, "x")
    f = sj.function([x], [ARGSORT(x), sj.sort(x)], mode="emulate")
    for times in (1, 20):
        given = np.asarray(values * times, dtype)
        order, found = f(given)
        assert order.tolist() == places(given).tolist()
        np.testing.assert_array_equal(found, np.sort(given))


@pytest.mark.parametrize("shape", [(5,), (3, 4), (2, 3, 4), (0, 3), (3, 0), (1, 300)])
def test_axes(shape: tuple[int, ...]) -> None:
    x = numbers(shape)
    for axis in (None, *range(-len(shape), len(shape))):
        agrees(lambda x, a=axis: sj.argsort(x, a), lambda x, a=axis: places(x, a), x)
        agrees(lambda x, a=axis: np.sort(x, a), lambda x, a=axis: np.sort(x, a, kind="stable"), x)


def test_falling_order_is_stable_too() -> None:
    x = np.array([2.0, NAN, 3.0, 2.0, NAN, 3.0])
    assert run(lambda x: sj.argsort(x, descending=True), x).tolist() == [1, 4, 2, 5, 0, 3]
    same(run(lambda x: sj.sort(x, descending=True), x), np.array([NAN, NAN, 3, 3, 2, 2]))
    assert run(lambda x: sj.argsort(x, descending=True), np.array([-128, 127, 0], "int8")).tolist() == [1, 2, 0]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rows_from_their_last_element_on(dtype: str) -> None:
    """They are sorted where they lie, in order, however many elements are equal."""
    x, ranks = sj.tensor(("b", "n"), dtype), np.array([3, 2, 200])
    backwards = x[:, ::-1]
    f = sj.function([x], [sj.argsort(backwards, 1), ARGRANKED(backwards, sj.as_tensor(ranks))])
    assert f.source.count("\ndef ") == 3  # one for each result, and one that calls them
    for n in (250, 300, 3000):
        for values in (RNG.integers(0, 2, (3, n)), RNG.permutation(3 * n) % 100):
            given = values.reshape(3, n).astype(dtype)
            wanted = np.argsort(given[:, ::-1], 1, kind="stable")
            whole, some = f(given)
            np.testing.assert_array_equal(whole, wanted)
            np.testing.assert_array_equal(some, wanted[:, ranks])


def is_partitioned(found: np.ndarray, rows: np.ndarray, kth: Any) -> None:
    """All elements of the rows are there once; those at the places are where they are when sorted."""
    wanted = np.sort(rows)
    same(np.sort(found), wanted)
    for k in np.ravel(kth) % rows.shape[-1]:
        for part in (slice(0, k), slice(k, k + 1), slice(k, None)):
            same(np.sort(found[..., part]), wanted[..., part])


@pytest.mark.quick(3)
@pytest.mark.parametrize("n, known", [(2100, True), (2100, False), (300, False), (100, True)])
@pytest.mark.parametrize("dtype", SOME)
def test_partitions_of_long_rows(dtype: str, n: int, known: bool) -> None:
    x = sj.tensor((2, n) if known else (2, "n"), dtype)
    cases = [(5, -1), ([n // 2, -1, 7, n // 2], 1), (-30, None)]
    f = sj.function([x], [op(x, kth, axis) for kth, axis in cases for op in (sj.partition, sj.argpartition)])
    for given in (numbers((2, n), dtype), np.ones((2, n), dtype)):
        results = f(given)
        for i, (kth, axis) in enumerate(cases):
            rows = given.reshape(1, -1) if axis is None else given
            values, order = results[2 * i].reshape(rows.shape), results[2 * i + 1].reshape(rows.shape)
            is_partitioned(values, rows, kth)
            is_partitioned(np.take_along_axis(rows, order, -1), rows, kth)
            same(np.sort(order), np.broadcast_to(np.arange(rows.shape[1]), rows.shape))
    if dtype == "float64":
        y = RNG.permutation(np.arange(float(n)))
        z = sj.tensor((n,) if known else ("n",))
        slope = sj.function([z], sj.grad((sj.partition(z, n // 3)[: n // 3] ** 2).sum(), z))(y)
        same(slope, np.where(y < n // 3, 2 * y, 0))
        first = sj.partition(z, n // 3)[: n // 3]
        same(sj.function([z], sj.jvp(first.sum(), z, z**2))(y), (y[y < n // 3] ** 2).sum())


@pytest.mark.parametrize("mode", ["numba", "emulate"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int8"])
def test_rows_whose_elements_lie_apart(dtype: str, mode: Any) -> None:
    """They are turned, eight at a time, and those that are left."""
    x, ranks = sj.tensor(("n", "m"), dtype), np.array([200, 0])
    rows = sj.transpose(x)
    outputs = [sj.sort(x, 0), sj.argsort(x, 0), sj.partition(x, 200, 0), RANKED(rows, sj.as_tensor(ranks))]
    f = sj.function([x], outputs, mode=mode)
    for m in (3, 17) if mode == "emulate" else (1, 8, 100):
        given = numbers((259, m), dtype)
        values, order, parted, some = f(given)
        same(values, np.sort(given, 0))
        same(order, places(given, 0))
        is_partitioned(parted.T, given.T, 200)
        same(some, np.sort(given, 0)[ranks].T)


@functools.cache
def _partitions(dtype: str, many: int) -> Any:
    x, kth = sj.tensor(("m", "n"), dtype), sj.tensor((many,), "int64")
    found = [op(rows, kth) for op in (PARTITION, ARGPARTITION) for rows in (x, sj.transpose(x), x[:, ::-1])]
    return sj.function([x, kth], found)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
@hypothesis.given(
    shape=st.one_of(*(st.tuples(st.integers(1, m), st.integers(1, n)) for m, n in ((20, 1500), (1500, 20)))),
    many=st.integers(1, 3),
    different=st.sampled_from([1, 2, 9, 400, 10**6]),
    ordered=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
@hypothesis.settings(max_examples=60, deadline=None)
def test_rows_are_partitioned(
    dtype: str, shape: tuple[int, int], many: int, different: int, ordered: bool, seed: int
) -> None:
    """Few and many different numbers, in any order before; rows of all sizes, one or several places."""
    rng = np.random.default_rng(seed)
    x = rng.integers(0, different, shape).astype(dtype)
    if dtype[0] == "f":
        x = np.where(rng.random(shape) < rng.choice([0, 0.01, 0.5]), rng.choice([0.0, -0.0, NAN, np.inf], shape), x)
    x = np.sort(x).astype(dtype) if ordered else x.astype(dtype)
    kth = rng.integers(0, min(shape), many)
    given = (x, x.T, x[:, ::-1])
    found = _partitions(dtype, many)(x, kth)
    for rows, values, order in zip(given, found[:3], found[3:], strict=True):
        is_partitioned(values, rows, kth)
        same(np.sort(order), np.broadcast_to(np.arange(rows.shape[1]), rows.shape))
        is_partitioned(np.take_along_axis(rows, order, -1), rows, kth)


def _rows(n: int) -> dict[str, np.ndarray]:
    """Rows of which a sample at equal distances is a good one, a bad one, or one of few different numbers."""
    place = np.arange(n)
    return {
        "mixed": RNG.permutation(n) - n // 2,
        "falling": n - place,
        "misleading": np.where(place % (n // 128) == 0, place, -place - 1),
        "alike": np.full(n, 3),
        "ties": RNG.integers(0, 3, n),
        "extremes": np.where(place % 2, n, -n) + RNG.permutation(n) % 5,
    }


@pytest.mark.quick(1)
@pytest.mark.parametrize("dtype, mode", [("float32", "numba"), ("float64", "numba"), ("float64", "emulate")])
def test_entries_of_rows_that_are_sampled(dtype: str, mode: Any) -> None:
    """Whatever the sample says of the rest."""
    n, names = (1100, ("misleading", "ties")) if mode == "emulate" else (70_001, ())
    x, y, ranks = sj.vector("x", dtype=dtype), sj.tensor(("n", 2), dtype, "y"), sj.tensor(("k",), "int64", "ranks")
    given = np.array([n // 2, n // 2 + 1, n - 1] if names else [0, 1, n // 2, n // 2 + 1, n - 1])
    outputs = [RANKED(x, ranks), ARGRANKED(x, ranks), RANKED(y.T, ranks)]
    f = sj.function([x, y, ranks], outputs, mode=mode)
    for name, row in _rows(n).items():
        if names and name not in names:
            continue
        row = row.astype(dtype)
        row[[3, n // 3]] = NAN, -np.inf
        order, two = np.argsort(row, kind="stable"), np.stack([row, -row], 1)
        wanted = [row[order][given], order[given], np.sort(two, 0)[given].T]
        for got, right in zip(f(row, two, given), wanted, strict=True):
            np.testing.assert_array_equal(got, right, err_msg=name)


@pytest.mark.parametrize("mode", ["reference", "emulate"])
def test_partitions_of_found_rows(mode: Any) -> None:
    """In batches, in steps and in exported functions; a place that a row does not have is an error."""
    x = sj.tensor(("m", "n"), name="x")
    batch = sj.vmap(lambda row: sj.partition(row, [2, -3])[2])(x)
    steps = sj.scan(lambda row, h: h + sj.partition(row, -3)[-3], sequences=x, outputs_info=sj.zeros(()))
    rows = RNG.permutation(np.arange(4200.0)).reshape(2, 2100)
    f = sj.function([x], [batch, steps], mode=mode)
    for given in (rows, rows[:, :30]):
        middle, sums = f(given)
        same(middle, np.sort(given)[:, 2])
        same(sums, np.cumsum(np.sort(given)[:, -3]))
    with pytest.raises(sj.errors.ShapeError, match="a partition has no place 2 among 2 elements"):
        f(rows[:, :2])


def test_top_k_of_few_elements_and_an_unknown_number() -> None:
    x, k = sj.tensor((2, 3), name="x"), sj.iscalar("k")
    f = sj.function([x, k], list(sj.top_k(x, k)), mode="reference")
    values, places = f([[1.0, 3.0, 2.0], [6.0, 5.0, 4.0]], 2)
    assert values.tolist() == [[3, 2], [6, 5]] and places.tolist() == [[1, 2], [0, 1]]
    with pytest.raises(sj.ShapeError, match="finds the 4 largest of an axis, which has 3 entries"):
        f(np.ones((2, 3)), 4)


def test_one_function_finds_any_number_of_the_largest() -> None:
    """The parts of a row, and the elements in them, are as many ranks as are wanted, or fewer."""
    x = sj.matrix("x", "float32")
    (stage,) = sj.function([x], sj.top_k(x, 5)[1], mode="emulate").executable.stages
    assert sum("def argranked" in text for text in stage.sources()) == 1


def test_top_k() -> None:
    x = numbers((3, 5, 4))
    for axis in (0, 1, -1):
        values, order = run(lambda x, a=axis: sj.top_k(x, 2, a), x)
        same(values, np.take_along_axis(x, order, axis))
        same(values, np.flip(np.sort(x, axis), axis).take([0, 1], axis))


def test_partitions_are_sorted() -> None:
    x = numbers((3, 6))
    agrees(lambda x: np.partition(x, [1, -2], 0), lambda x: np.sort(x, 0), x)
    agrees(lambda x: np.argpartition(x, 2), places, x)


# ---- quantiles -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("axis", [None, 0, 1, (0, 2), (0, 1, 2)], ids=str)
@pytest.mark.parametrize("with_nan", [False, True])
def test_medians_and_quantiles(axis: Any, with_nan: bool) -> None:
    x = RNG.normal(size=(3, 4, 2))
    if with_nan:
        x[1, 2, 1] = NAN
    for keep in (False, True):
        agrees(
            lambda x, k=keep: np.median(x, axis, keepdims=k),
            lambda x, k=keep: np.asarray(np.median(x, axis, keepdims=k)),
            x,
            rtol=1e-15,
        )
        for q in (0.3, [0.0, 0.5, 1.0], [[0.1], [0.9]]):
            agrees(
                lambda x, k=keep, q=q: np.quantile(x, q, axis, keepdims=k),
                lambda x, k=keep, q=q: np.asarray(np.quantile(x, q, axis, keepdims=k)),
                x,
                rtol=1e-14,
            )
    agrees(lambda x: sj.percentile(x, 30, axis), lambda x: np.asarray(np.percentile(x, 30, axis)), x, rtol=1e-14)


METHODS = "linear hazen weibull median_unbiased normal_unbiased interpolated_inverted_cdf lower higher nearest midpoint"


@pytest.mark.parametrize("method", METHODS.split())
def test_methods_of_quantiles(method: str) -> None:
    q = [0.0, 0.1, 0.33, 0.5, 0.95, 1.0]
    for n in (1, 2, 5, 300):
        agrees(
            lambda x: sj.quantile(x, q, method=method),
            lambda x: np.quantile(x, q, method=method),
            RNG.normal(size=n),
            rtol=1e-13,
        )


@pytest.mark.quick(2)
@pytest.mark.parametrize("mode", ["reference", "emulate"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_quantiles_beside_infinities(dtype: str, mode: Any) -> None:
    """NumPy gives NaN between infinities, and for an entry itself if it or the next one is infinite."""
    q = [0, 0.1, 0.25, 1 / 3, 0.5, 0.6, 0.75, 0.9, 1.0]
    inf = np.inf
    rows = np.array([[1, 2, inf], [-inf, 0, inf], [-inf, -inf, 1], [1, inf, inf], [-inf, inf, inf]], dtype)
    x = sj.matrix("x", dtype=dtype)
    found = sj.function([x], [sj.quantile(x, q, 1, method=m) for m in METHODS.split()], mode=mode)(rows)
    with np.errstate(invalid="ignore"):
        for method, got in zip(METHODS.split(), found, strict=True):
            np.testing.assert_array_equal(got, np.quantile(rows, q, 1, method=method), err_msg=method)
        for fn in (np.median, np.nanmedian):
            np.testing.assert_array_equal(sj.function([x], fn(x, 1), mode=mode)(rows), fn(rows, 1))


@pytest.mark.parametrize("q", [0, 1, [0, 1], [0.0, 1.0]])
def test_whole_shares_beside_infinities(q: Any) -> None:
    """NumPy gives an infinite entry for the integers 0 and 1, and NaN for the floats."""
    inf = np.inf
    rows = np.array([[1, 2, inf], [-inf, 0, inf], [NAN, -inf, 1], [NAN, 1, inf], [inf, inf, inf]])
    x = sj.matrix("x")
    with np.errstate(invalid="ignore"):
        for fn in (np.quantile, np.nanquantile):
            np.testing.assert_array_equal(sj.function([x], fn(x, q, 1))(rows), fn(rows, q, 1))


def test_derivatives_of_quantiles_by_their_share() -> None:
    """At the place of an entry the slope is that towards the next one; at the last one there is none."""
    q, x = sj.vector("q"), sj.vector("x")
    (slope,) = sj.grad(sj.quantile(x, q).sum(), [q])
    for mode in ("reference", "emulate"):
        found = sj.function([x, q], slope, mode=mode)([4.0, 1.0, 3.0], [0.0, 0.25, 0.5, 1.0])
        np.testing.assert_array_equal(found, [4.0, 4.0, 2.0, 0.0])


def test_dtypes_of_quantiles() -> None:
    for dtype in ("float32", "float64", "int32", "uint8"):
        x = numbers((7,), "uint8").astype(dtype)
        agrees(lambda x: np.median(x), lambda x: np.asarray(np.median(x)), x)
        agrees(lambda x: np.quantile(x, 0.5), lambda x: np.asarray(np.quantile(x, 0.5)), x)


# ---- places, counts --------------------------------------------------------------------------------------------------


@pytest.mark.quick(3)
@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("n", [0, 1, 2, 7, 8, 300])
def test_places_in_sorted_vectors(n: int, side: Any) -> None:
    a, v = np.sort(numbers((n,))), numbers((4, 5))
    agrees(lambda a, v: np.searchsorted(a, v, side=side), lambda a, v: np.searchsorted(a, v, side=side), a, v)
    order = RNG.permutation(n)
    agrees(
        lambda a, v, s: sj.searchsorted(a, v, side, s),
        lambda a, v, s: np.searchsorted(a, v, side, s),
        a[np.argsort(order)],
        v,
        order,
    )
    integers, some = np.sort(numbers((n,), "int8")), numbers((5,), "int8")
    agrees(lambda a, v: np.searchsorted(a, v, side), lambda a, v: np.searchsorted(a, v, side), integers, some)


@pytest.mark.quick(3)
@pytest.mark.parametrize("mode", ["numba", "emulate"])
@pytest.mark.parametrize("dtype", ["float64", "float32", "int8"])
def test_places_near_those_found_before_and_far_from_them(dtype: str, mode: Any) -> None:
    """Numbers that rise, fall, stay or jump, in rows of few and of many elements; some of both are NaN. Elements of a
    row may lie apart or backwards, or those of several rows beside each other."""
    rows, falling, v = (sj.tensor((size,), dtype) for size in ("n", "n", "k"))
    known, several = sj.tensor((200,), dtype), sj.tensor((19, "m"), dtype)
    outputs = [
        sj.searchsorted(rows, v),
        sj.searchsorted(rows, v, "right"),
        sj.searchsorted(rows[::2], v),
        sj.searchsorted(falling[::-1], v, "right"),
        sj.searchsorted(known, v),
        sj.vmap(lambda row: sj.searchsorted(row, v, "right"))(several),
        sj.vmap(lambda row, x: sj.searchsorted(row, x))(several, v[:19]),
        sj.scan(lambda x, last: sj.searchsorted(rows, x) + 0 * last, v, sj.constant(0)),
    ]
    f = sj.function([rows, falling, v, known, several], outputs, mode=mode)
    for n in (0, 1, 31, 32, 33, 70, 500):
        a, b, c = (np.sort(numbers(shape, dtype)) for shape in ((n,), (200,), (19, n)))
        steps = np.concatenate([numbers((30,), dtype), a, a[::-1], np.ones(20, dtype), numbers((13,), dtype)])
        for x in (steps, np.sort(steps), np.sort(steps)[::-1], steps[:19]):
            wanted = [
                np.searchsorted(a, x),
                np.searchsorted(a, x, "right"),
                np.searchsorted(a[::2], x),
                np.searchsorted(a, x, "right"),
                np.searchsorted(b, x),
                np.stack([np.searchsorted(row, x, "right") for row in c]),
                np.array([np.searchsorted(*pair) for pair in zip(c, x, strict=False)]),
                np.searchsorted(a, x),
            ]
            for got, right in zip(f(a, a[::-1].copy(), x.copy(), b, c), wanted, strict=True):
                np.testing.assert_array_equal(got, right, strict=True)


@pytest.mark.parametrize("right", [False, True])
def test_bins(right: bool) -> None:
    x = numbers((3, 4))
    for edges in ([], [0.5], [-1.0, 0.0, 0.0, 2.0], [2.0, 0.0, -1.0], [1.0, 1.0]):
        agrees(lambda x, b: np.digitize(x, b, right), lambda x, b: np.digitize(x, b, right), x, np.array(edges))


def test_distinct_elements() -> None:
    for x in (numbers((30,)), numbers((2, 15), "int8") % 5, numbers((6,), "bool"), np.array([NAN, NAN])):
        wanted = np.unique(x, return_index=True, return_inverse=True, return_counts=True)
        count = len(wanted[0])
        for symbolic in (False, True):
            found = run(lambda x, n=count + 2: sj.unique(x, n, None, True, True, True), x, symbolic=symbolic)
            for got, right in zip(found, wanted, strict=True):
                same(
                    got if right is wanted[2] else got[:count],
                    right.reshape(got.shape) if right is wanted[2] else right,
                )
            assert found[3][count:].tolist() == [0, 0]
    same(run(lambda x: sj.unique(x, 3, -1), np.array([5, 5])), np.array([5, -1, -1]))
    same(run(lambda x: sj.unique(x, 2), np.zeros(0)), np.zeros(2))


def test_counts() -> None:
    x, w = np.array([0, 3, 3, 1]), np.array([0.5, 1.0, 2.0, NAN])
    agrees(lambda x: np.bincount(x, minlength=3) if isinstance(x, np.ndarray) else sj.bincount(x, length=5),
           lambda x: np.bincount(x, minlength=5), x)  # fmt: skip
    agrees(lambda x, w: sj.bincount(x, w, length=4), lambda x, w: np.bincount(x, w), x, w)
    for dtype in ("uint8", "bool", "int8"):
        agrees(lambda x: sj.bincount(x, length=4), lambda x: np.bincount(x, minlength=4), x.astype(dtype))


# ---- derivatives, loops, batches -------------------------------------------------------------------------------------


def test_derivatives() -> None:
    x = RNG.permutation(24).reshape(4, 6) / 7.0
    weights = np.cos(np.arange(24.0)).reshape(4, 6)
    for fn in (
        lambda x: sj.sort(x, 0) * weights,
        lambda x: sj.sort(x, descending=True) ** 2 * weights,
        lambda x: sj.top_k(x, 3)[0] * weights[:, :3],
        lambda x: sj.median(x, 1) ** 2,
        lambda x: sj.quantile(x, [0.2, 0.7], 0) ** 2,
        lambda x: sj.unique(x.ravel(), 24) * weights.ravel(),
        lambda x: sj.bincount(np.arange(6) % 4, x[0] ** 2, length=4) * weights[0, :4],
    ):
        sj.check_grad(fn, [x])
    q = np.array([0.23, 0.61])
    sj.check_grad(lambda q: sj.quantile(x, q, 1), [q])


def test_medians_of_long_rows_in_steps_branches_and_batches() -> None:
    """Of which not all elements are put in order."""
    x, q = sj.tensor((3, 700), "float32", "x"), sj.tensor((2, 2), "float64", "q")
    start = sj.constant(0.5, "float32")
    steps = sj.scan(lambda row, m: sj.ifelse(m > 0, sj.median(row) - m, sj.quantile(row, 0.7) + m), x, start)
    loss = (steps**3).sum()
    (slope,) = sj.grad(loss, [x])
    (second,) = sj.grad((slope**2).sum(), [x])
    outputs = [
        steps,
        slope,
        second,
        sj.vmap(lambda a: sj.median(a))(x),
        sj.vmap(lambda a: sj.vmap(lambda s: sj.quantile(a, s))(q))(x),
        sj.vmap(lambda a, s: sj.quantile(a, s))(x[:2], q),
        sj.vmap(lambda s: sj.quantile(x, s, 1))(q),
        sj.vmap(lambda s: sj.quantile(x, s, 0))(q),
    ]
    given = RNG.permutation(2100).reshape(3, 700).astype("float32") / 1000, np.array([[0.2, 0.9], [0.5, 0.123]])
    right = sj.function([x, q], outputs, mode="reference")(*given)
    for got, wanted in zip(sj.function([x, q], outputs)(*given), right, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-6)
    np.testing.assert_array_equal(right[3], np.median(given[0], 1))
    np.testing.assert_allclose(right[6], np.stack([np.quantile(given[0], s, 1) for s in given[1]]))
    np.testing.assert_allclose(
        right[5], np.stack([np.quantile(*pair) for pair in zip(given[0], given[1], strict=False)])
    )
    assert (right[1] != 0).any()
    assert (right[2] != 0).any()


@pytest.mark.quick(3)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n, mode", [(5, "emulate"), (40, "numba"), (700, "numba")])
def test_batches_of_rows_and_shares_that_differ_together(dtype: str, n: int, mode: Any) -> None:
    """They are found by rank too: no row is sorted."""
    q = RNG.random((3, 2))
    a = RNG.permutation(3 * 17 * n).astype(dtype) / (17 * n)
    for axis, shape in ((0, (3, n)), (1, (n, 3)), (0, (3, 17, n))):
        given = a[: np.prod(shape)].reshape(shape)
        x, s = sj.tensor(tuple("abc"[: len(shape)]), dtype, "x"), sj.tensor(("abc"[axis], 2), "float64", "s")
        y = sj.vmap(lambda row, s: sj.quantile(row, s, -1), in_axes=(axis, 0))(x, s)
        outputs = [y, *sj.grad((y * y).sum(), [x, s])]
        right = sj.function([x, s], outputs, mode="reference")(given, q)
        wanted = [np.quantile(np.take(given, i, axis), q[i], -1) for i in range(3)]
        np.testing.assert_allclose(right[0], wanted, rtol=1e-6)
        f = sj.function([x, s], outputs, mode=mode)
        for got, wanted in zip(f(given, q), right, strict=True):
            np.testing.assert_allclose(got, wanted, rtol=2e-5)
        assert "argsort" not in f.source


def test_batches_of_batches_of_quantiles() -> None:
    x, s, p = (sj.tensor(shape, "float64") for shape in ((4, 3, 9), (3, 2), (4, 3, 2)))
    each = sj.vmap(lambda row, s: sj.quantile(row, s))
    outputs = [sj.vmap(lambda x: each(x, s))(x), sj.vmap(lambda p: each(x[0], p))(p), sj.vmap(each)(x, p)]
    a, q, r = RNG.normal(size=(4, 3, 9)), RNG.random((3, 2)), RNG.random((4, 3, 2))
    for mode in ("reference", "emulate"):
        for got, rows, shares in zip(
            sj.function([x, s, p], outputs, mode=mode)(a, q, r), (a, [a[0]] * 4, a), ([q] * 4, r, r), strict=True
        ):
            wanted = [
                [np.quantile(*each) for each in zip(*pair, strict=True)] for pair in zip(rows, shares, strict=True)
            ]
            np.testing.assert_allclose(got, wanted)


def test_in_steps_branches_and_batches() -> None:
    x, h = sj.tensor(("T", 5), "float64", "x"), sj.tensor((5,), "float64", "h")

    def step(row: Any, h: Any) -> Any:
        middle = sj.ifelse(row[0] > 0, sj.median(h), h[sj.argsort(row)][2])
        return sj.sort(0.5 * h + row) + middle * sj.cast(sj.searchsorted(sj.sort(row), h), "float64")

    out = sj.scan(step, x, h)
    batch = sj.vmap(lambda x: sj.searchsorted(sj.sort(x), x[:2]), in_axes=0)(x)
    outputs = [out, *sj.grad((out**2).sum(), [x, h]), batch, sj.vmap(sj.sort, in_axes=1, out_axes=1)(x)]
    given = RNG.normal(size=(6, 5)), RNG.normal(size=5)
    right = sj.function([x, h], outputs, mode="reference")(*given)
    for got, wanted in zip(sj.function([x, h], outputs)(*given), right, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-12, atol=1e-13)
    assert right[3].tolist() == [np.searchsorted(np.sort(row), row[:2]).tolist() for row in given[0]]
    np.testing.assert_array_equal(right[4], np.sort(given[0], axis=0))


# ---- errors ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda x: sj.argsort(x[0, 0]), "a scalar has no order"),
        (lambda x: ARGSORT(x[0, 0]), "a scalar has no order"),
        (lambda x: sj.top_k(x, 4), "top_k gives some of the elements"),
        (lambda x: sj.top_k(x, -1), "must not be negative"),
        (lambda x: sj.partition(x, 3), "no such place"),
        (lambda x: sj.partition(sj.vector() * 1j, 1), "partition is not defined for complex numbers"),
        (lambda x: sj.argpartition(sj.vector() * 1j, 1), "argpartition is not defined for complex numbers"),
        (lambda x: sj.partition(x, x[0, 0]), "one or more ints"),
        (lambda x: sj.searchsorted(x, 1.0), "looks into a vector"),
        (lambda x: sj.searchsorted(x[0], 1.0, "middle"), "side of searchsorted is unknown"),
        (lambda x: sj.searchsorted(x[0] + 1j, 1.0), "complex numbers have no order"),
        (lambda x: sj.sort(x + 1j), "sort is not defined for complex numbers"),
        (lambda x: sj.median(x + 1j), "complex numbers have no order"),
        (lambda x: sj.digitize(x, x), "the edges of bins are a vector"),
        (lambda x: sj.digitize(x, [1.0, 0.0, 2.0]), "must rise or fall"),
        (lambda x: sj.unique(x), "give size="),
        (lambda x: np.bincount(sj.cast(x[0], "int64")), "give length="),
        (lambda x: sj.bincount(x, length=3), "takes a vector of integers"),
        (lambda x: sj.bincount([1], x, length=3), "weights of bincount are a vector"),
        (lambda x: sj.bincount([1, 2], x[0], length=3), "the size of the weights of bincount"),
        (lambda x: sj.quantile(x, 1.5), "from 0 to 1"),
        (lambda x: sj.percentile(x, -3), "which is -3.0 percent"),
        (lambda x: sj.quantile(x, 0.5, method="best"), "method of quantiles is unknown"),
        (lambda x: sj.median(x[:, :0]), "median of no elements"),
        (lambda x: sj.accumulate(lambda a, b: a + b, x[0, 0]), "scalar has none"),
        (lambda x: sj.accumulate(lambda a, b: a > b, x), "must stay of one type"),
    ],
)
def test_errors(call: Any, words: str) -> None:
    with pytest.raises(sj.ScanjitError, match=words):
        call(sj.tensor((2, 3), name="x"))


@pytest.mark.parametrize("mode", ["reference", "emulate"])
def test_errors_of_values(mode: Any) -> None:
    x, i, q = sj.vector("x"), sj.tensor(("n",), "int64", "i"), sj.scalar("q")
    f = sj.function([x, i, q], [sj.unique(x, 2), sj.bincount(i, length=3), sj.quantile(x, q)], mode=mode)
    f([1.0, 2.0, 1.0], [0, 2], 0.5)
    for given, words in (
        (([1.0, 2.0, 3.0], [0], 0.5), "more distinct elements"),
        (([1.0], [3], 0.5), "out of bounds"),
        (([1.0], [-1], 0.5), "index -1 is out of bounds"),
        (([1.0], [0], 1.5), "from 0 to 1"),
        (([1.0], [0], NAN), "from 0 to 1"),
    ):
        with pytest.raises(sj.ScanjitError, match=words):
            f(*given)


@pytest.mark.parametrize("mode", ["reference", "numba"])
def test_too_few_elements_are_named(mode: Any) -> None:
    """Sizes that are found when the function is called, and sizes that are known."""
    x, y, k = sj.vector("x"), sj.vector("y"), sj.lscalar("k")
    cases = [
        (sj.top_k(x, 3)[0], [x], ([1.0, 2.0],), "top_k finds the 3 largest of an axis, which has 2 entries"),
        (sj.top_k(x, k)[1], [x, k], ([1.0], 2), "top_k finds the 2 largest of an axis, which has 1 entries"),
        (sj.top_k(x, k)[1], [x, k], ([1.0], -1), "top_k finds the -1 largest: k must not be negative"),
        (sj.interp(1.0, x, y), [x, y], ([], []), "interp needs at least one point: xp and fp are empty"),
        (sj.median(x), [x], ([],), "median of no elements"),
        (sj.quantile(x, 0.5), [x], ([],), "quantile of no elements"),
        (sj.gradient(x), [x], ([1.0],), "gradient needs at least 2 samples"),
        (sj.gradient(x, 2.0, edge_order=2), [x], ([1.0, 2.0],), "gradient needs at least 3 samples"),
        (sj.gradient(x, y), [x, y], ([1.0, 2.0, 4.0, 5.0], [0.0, 1.0, 2.0]), "the places of samples"),
        (sj.average(x, weights=y), [x, y], ([1.0, 2.0], [1.0]), "the tensor of weights"),
        (sj.cov(x, aweights=y), [x, y], ([1.0, 2.0], [1.0]), "the vector of weights"),
        (sj.polyfit(x, x, 1, w=y), [x, y], ([1.0, 2.0], [1.0]), "the vector of weights"),
        (sj.piecewise(x, [y > 0], [1.0]), [x, y], ([1.0, 2.0], [1.0]), "a condition of piecewise"),
        (sj.searchsorted(x, 1.0, sorter=k[None]), [x, k], ([1.0, 2.0], 0), "the sorter of searchsorted"),
    ]
    for output, inputs, given, words in cases:
        with pytest.raises(sj.ShapeError, match=words):
            sj.function(inputs, output, mode=mode)(*given)
    with pytest.raises(sj.ShapeError, match="interp needs at least one point"):
        sj.interp(1.0, [], [])
    for wrong in (
        lambda: sj.average([1.0, 2.0], weights=[3.0]),
        lambda: sj.average(np.ones((3, 2)), axis=1, weights=[3.0]),
        lambda: sj.cov([1.0, 2.0], fweights=[3]),
        lambda: sj.polyfit([1.0, 2.0], [1.0, 2.0], 1, w=[3.0]),
        lambda: sj.piecewise([1.0, 2.0], [[True]], [1.0]),
        lambda: sj.searchsorted([1.0, 2.0], 1.5, sorter=[0]),
    ):
        with pytest.raises(sj.ShapeError, match="another shape than it should"):
            wrong()
    with pytest.raises(sj.ShapeError, match="gradient needs at least 2 samples"):
        sj.gradient([1.0])
    with pytest.raises(sj.ShapeError, match="the places of samples"):
        sj.gradient(np.ones((4, 2)), [0.0, 1.0, 2.0], axis=0)

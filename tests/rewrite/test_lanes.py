"""Steps that change an element of a small array and compute with all of it choose the element in lanes."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import scanjit as sj
from scanjit import ir
from scanjit.ops.elementwise import MAXIMUM
from scanjit.rewrite import run
from tests.pairs import pairwise

NOTE = "elements of small arrays are chosen in lanes"
SIZES = (1, 3, 8, 11, 32)


def fading(k: Any, x: Any, size: int, dtype: str) -> Any:
    """Counts that fade."""
    return sj.scan(lambda k, x, h: (x * h)[k].inc(x), [k, x], sj.zeros(size, dtype))[-1]


def at_the_same_place(k: Any, x: Any, size: int, dtype: str) -> Any:
    """The new value is made of elements at its place."""

    def step(k: Any, x: Any, h: Any, g: Any) -> Any:
        g = (g + x)[k].set(g[k] * h[k] - x)
        return (x * h)[k].set(x * h[k] + g[k]), g

    return sj.concatenate(sj.scan(step, [k, x], [sj.ones(size, dtype), sj.zeros(size, dtype)]), axis=1)


def best(k: Any, x: Any, size: int, dtype: str) -> Any:
    """All elements are compared, and none but one is changed."""

    def step(k: Any, x: Any, h: Any) -> Any:
        at = sj.argmax(h)
        return h[k].inc(x)[at].set(h[at] * 0.5), h.sum(), at

    return sj.concatenate(
        [y.reshape((-1,)).astype(dtype) for y in sj.scan(step, [k, x], [sj.ones(size, dtype), None, None])]
    )


def table(k: Any, x: Any, size: int, dtype: str) -> Any:
    """An element of a matrix, and a row of it."""

    def step(k: Any, x: Any, last: Any, m: Any) -> Any:
        m = (x * m)[last, k].inc(x)
        return k, m[k].set(m[last] * x + 1)

    return (
        sj.scan(step, [k, x], [sj.as_tensor(0), sj.zeros((size, size), dtype)])[1][-1]
        if size < 8
        else fading(k, x, size, dtype)
    )


def every_step(k: Any, x: Any, size: int, dtype: str) -> Any:
    """The array of each step is a result."""
    return sj.scan(lambda k, x, h: h[k].set(x), [k, x], sj.zeros(size, dtype))


MODELS = [fading, at_the_same_place, best, table, every_step]


def given(size: int, dtype: str) -> tuple[Any, Any]:
    rng = np.random.default_rng(size)
    return rng.integers(-size, size, 20), rng.uniform(0.5, 1.5, 20).astype(dtype)


def program(model: Any, size: int, dtype: str, mode: Any) -> Any:
    k, x = sj.tensor(("T",), "int64", "k"), sj.tensor(("T",), dtype, "x")
    y = model(k, x, size, dtype)
    return sj.function([k, x], [y, sj.grad((y**2).sum(), x)], mode=mode)


@pairwise(model=MODELS, dtype=["float32", "float64"], mode=["emulate", "numba"])
def test_as_the_reference(model: Any, dtype: str, mode: Any) -> None:
    for size in SIZES:
        f, reference, arrays = (
            program(model, size, dtype, mode),
            program(model, size, dtype, "reference"),
            given(size, dtype),
        )
        assert NOTE in str(f.explain())
        for found, wanted in zip(f(*arrays), reference(*arrays), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=2e-4 if dtype == "float32" else 1e-9, atol=1e-6)


@pytest.mark.parametrize("dtype", ["bool", "int8", "int64", "float16"])
def test_other_dtypes(dtype: str) -> None:
    k = sj.tensor(("T",), "int64", "k")
    seen, count = sj.scan(
        lambda k, h: (h[k].set(sj.cast(k % 2, dtype)), h.sum()),
        k,
        [sj.ones(300 if dtype == "bool" else 40, dtype), None],
    )
    found, wanted = (sj.function([k], [seen[-1], count], mode=mode)(np.arange(30)) for mode in ("numba", "reference"))
    np.testing.assert_array_equal(found[0], wanted[0])
    np.testing.assert_array_equal(found[1], wanted[1])


@pytest.mark.parametrize("mode", ["reference", "emulate", "numba"])
def test_places_outside_are_errors(mode: Any) -> None:
    k, j = sj.lvector("k"), sj.lscalar("j")
    f = sj.function([k], sj.scan(lambda k, h: (0.5 * h)[k].inc(1.0), k, sj.zeros(5))[-1], mode=mode)
    np.testing.assert_array_equal(f([4, -5]), [1.0, 0.0, 0.0, 0.0, 0.5])
    for places, bad in (([0, 5], 5), ([-6, 0], -6)):
        with pytest.raises(sj.OutOfBoundsError, match=f"index {bad} is out of bounds for axis 0 with size 5"):
            f(places)
    f = sj.function([k, j], sj.scan(lambda k, m: (0.5 * m)[j, k].inc(1.0), k, sj.zeros((2, 5)))[-1], mode=mode)
    with pytest.raises(sj.OutOfBoundsError, match="index 5 is out of bounds for axis 1 with size 5"):
        f([0, 5], 1)


def test_a_step_of_elementwise_ops_is_one_nest() -> None:
    k = sj.lvector("k")
    f = sj.function([k], sj.scan(lambda k, h: (0.5 * h)[k].inc(1.0), k, sj.zeros(16))[-1], mode="emulate")
    assert "one nest with all of its steps" in str(f.explain())


def test_arrays_of_single_elements_stay_in_memory() -> None:
    x = sj.vector("x")

    def delayed(size: int, reads: Any) -> Any:
        step = lambda x, line, k: (line[k].set(x), (k + 1) % size, reads(line, k))
        return sj.function([x], sj.scan(step, x, [sj.zeros(size), 0, None])[2], mode="emulate")

    alone, read, long = (
        delayed(20, lambda line, k: line[k]),
        delayed(20, lambda line, k: line.max()),
        delayed(100, lambda line, k: line.max()),
    )
    assert [NOTE in str(f.explain()) for f in (alone, read, long)] == [False, True, False]


EXTREMA = {
    "maximum": lambda row: row.max(),
    "minimum": lambda row: row.min(),
    "place of the largest": lambda row: 0.1 * sj.argmax(row),
    "place of the least": lambda row: 0.1 * sj.argmin(row),
}


@pytest.mark.parametrize("mode", ["emulate", "numba"])
@pytest.mark.parametrize("case", EXTREMA)
def test_short_rows_of_a_table_that_is_learned(case: str, mode: Any, rng: np.random.Generator) -> None:
    """A row is read element by element, as the elements are changed; its place is checked once."""
    s, n, x = sj.lvector("s"), sj.lvector("n"), sj.vector("x", "float64")

    def step(s: Any, n: Any, x: Any, table: Any) -> Any:
        return table[s, 1].inc(x + 0.5 * EXTREMA[case](table[n]))

    y = sj.scan(step, [s, n, x], sj.zeros((6, 4), "float64"))
    f, reference = (sj.function([s, n, x], y, mode=each) for each in (mode, "reference"))
    assert "x4(" not in f.source.split("def gather")[1].split("import")[0]
    assert f.source.split("def gather")[1].split("import")[0].count("report(") == 1
    arrays = rng.integers(-6, 6, 30), rng.integers(-6, 6, 30), rng.standard_normal(30)
    arrays[2][7] = np.nan
    np.testing.assert_allclose(f(*arrays), reference(*arrays), rtol=1e-12)
    for places in arrays[:2]:
        for outside in (6, -7, 2**60):
            places[20] = outside
            with pytest.raises(sj.OutOfBoundsError, match=f"index {outside} is out of bounds"):
                f(*arrays)
            places[20] = 0


@pytest.mark.parametrize(("columns", "longest"), [(1, 0), (3, 2), (4, 2)])
def test_the_largest_of_a_few_waits_for_pairs(columns: int, longest: int, rng: np.random.Generator) -> None:
    s, a, first = sj.lvector("s"), sj.lvector("a"), sj.tensor((600, columns), "float64")
    table = sj.scan(lambda s, a, table: table[s, a].inc(table[s].max()), [s, a], first)[-1]
    waits: dict[ir.Node, int] = {}
    for node in ir.walk_inside(run([table]).outputs):
        waits[node] = max((waits.get(x, 0) for x in node.args), default=0) + (node.op is MAXIMUM)
    assert sum(node.op is MAXIMUM for node in waits) == columns - 1 and max(waits.values()) == longest
    given = rng.integers(0, 9, 30), rng.integers(0, columns, 30), rng.standard_normal((600, columns))
    given[2][3, 0] = np.nan
    f, reference = (sj.function([s, a, first], table, mode=mode) for mode in ("emulate", "reference"))
    np.testing.assert_array_equal(f(*given), reference(*given))


FIRSTS: dict[str, Callable[[Any, Any], Any]] = {
    "first true": lambda book, x: sj.argmax(book > 0.5),
    "first false": lambda book, x: sj.argmin(book < 1.5),
    "the other side": lambda book, x: sj.argmax(x < book),
}


@pairwise(name=FIRSTS, size=[9, 24, 33], mode=["emulate", "numba"])
def test_the_first_of_a_few_truths(name: str, size: int, mode: Any, rng: np.random.Generator) -> None:
    """What follows it is not looked at: the table stays in memory, where steps change single elements."""
    k, x = sj.lvector("k"), sj.vector("x", "float64")

    def step(k: Any, x: Any, book: Any) -> Any:
        book = book[k].set(sj.maximum(book[k] + x, 0.0))
        return book, FIRSTS[name](book, x)

    table, places = sj.scan(step, [k, x], [sj.zeros(size), None])
    f, reference = (sj.function([k, x], [table[-1], places], mode=each) for each in (mode, "reference"))
    one_by_one = re.search(r"if any_of\(\w+\):\n +place\d+ = k\d+\n +break", f.source)
    assert bool(one_by_one) == (size <= 32)
    assert ("lane_bits" in f.source) == (size > 32)
    for scale in (0.0, 1.0, 30.0):
        given = rng.integers(-size, size, 200), scale * rng.standard_normal(200)
        given[1][50] = np.nan if scale else 0.0
        np.testing.assert_equal(f(*given), reference(*given))

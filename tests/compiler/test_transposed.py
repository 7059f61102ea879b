"""Nests that read rows where they write columns, in square blocks."""

from typing import Any

import numpy as np
import pytest

import scanjit as sj
from tests.compare import all_close
from tests.fuzz.check import Config
from tests.pairs import pairwise

A = sj.vector("a")
XS = sj.matrix("xs")


def _series(a, xs, waits=False):
    """A recurrence of each row of `xs`, whose steps lie side by side in memory. Each step `waits` long for the one
    before it, or not."""

    def step(x, h, a):
        return sj.tanh(a * h + x) if waits else a * h + x

    return sj.vmap(lambda a, x: sj.scan(step, x, np.zeros((), xs.dtype), a))(a, xs)


@pytest.fixture(scope="module", params=[False, True])
def series(request):
    return request.param, sj.function([A, XS], _series(A, XS, request.param))


@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (8, 8), (9, 7), (16, 40), (17, 33), (300, 261), (5, 0), (0, 5)])
def test_sequences_along_rows(series, shape, rng):
    """Rows are copied if steps wait; others are read and written where they lie."""
    waits, f = series
    a, xs = rng.uniform(-1, 1, shape[0]), rng.standard_normal(shape)
    wanted, h = [], np.zeros(shape[0])
    for x in xs.T:
        h = np.tanh(a * h + x) if waits else a * h + x
        wanted.append(h)
    assert (" rows (" in f.explain()) == waits
    np.testing.assert_allclose(f(a, xs), np.array(wanted).T.reshape(shape), rtol=1e-12, atol=1e-12)


SHAPES = [(19, 35), (16, 16), (33, 20), (13, 13), (40, 6), (7, 30), (18, 4), (35, 3), (4, 12), (1, 9)]


@pairwise(waits=[False, True], nbytes=["16", "64"], dtype=["float32", "float64"])
def test_blocks_stay_inside(dtype, nbytes, waits, monkeypatch, rng):
    """Every load and store is inside of its array: for whole blocks, those of half the rows, and single rows."""
    monkeypatch.setenv("SCANJIT_VECTOR_BYTES", nbytes)
    x, y = sj.vector("a", dtype), sj.matrix("xs", dtype)
    result = _series(x, y, waits)
    reference, emulated = (sj.function([x, y], result, mode=mode) for mode in ("reference", "emulate"))
    for shape in SHAPES:
        a, xs = rng.uniform(-1, 1, shape[0]).astype(dtype), rng.standard_normal(shape).astype(dtype)
        np.testing.assert_allclose(emulated(a, xs), reference(a, xs), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("mode", ["numba", "emulate"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int8"])
def test_steps_of_rows_that_lie_across(dtype: str, mode: Any, rng: np.random.Generator) -> None:
    """Forwards and backwards, with rows that are arguments, computed, or all alike; with results of which some are used
    twice; in pieces of time; in calls with few rows, and with rows that fill no vector; on two threads."""
    x, y, z = sj.tensor((None, None), dtype), sj.tensor((11, 130), dtype), sj.tensor((2, "k", 9), dtype)
    zero = np.zeros((), dtype)

    def both(row: Any, total: Any, least: Any) -> tuple[Any, Any]:
        return total + row, sj.minimum(least, row)

    def of(x: Any) -> list[Any]:
        total, least = sj.vmap(lambda row: sj.scan(both, row, [zero, zero]))(x)
        late = sj.vmap(lambda row: sj.scan(lambda e, h: h + e, row, zero, go_backwards=True))(x)
        return [total, least, least * 2, late]

    outputs = [
        *of(x),
        *of(y),
        sj.cumsum(z, -1, dtype),
        sj.cumsum(x + x, -1, dtype),
        sj.cumsum(y, -1, dtype)[:, ::2],
    ]
    reference = sj.function([x, y, z], outputs, mode="reference")
    for threads in (1, 2):
        with Config(threads=threads).active():
            f = sj.function([x, y, z], outputs, mode=mode)
            for shape in [(0, 3), (3, 0), (1, 5), (3, 70), (9, 3), (8, 64), (35, 5), (17, 129), (40, 17)]:
                given = [rng.integers(-3, 4, size).astype(dtype) for size in (shape, (11, 130), (2, shape[0], 9))]
                np.testing.assert_equal(f(*given), reference(*given))


@pairwise(dtype=["float64", "int64"], nbytes=["32", ""], mode=["numba", "emulate"])
def test_long_rows_that_lie_across(dtype: str, nbytes: str, mode: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Linear steps of long rows are in the lanes of vectors, of short ones not; also backwards, and beside infinities
    and NaN. On two threads, too."""
    if nbytes:
        monkeypatch.setenv("SCANJIT_VECTOR_BYTES", nbytes)
    x, y, zero = sj.tensor((None, None), dtype), sj.tensor((5, 75), dtype), np.zeros((), dtype)

    def of(x: Any) -> list[Any]:
        late = sj.vmap(lambda row: sj.scan(lambda e, h: sj.maximum(h, e), row, zero, go_backwards=True))(x)
        return [sj.cumsum(x, -1), late, *([_series(x[:, 0], x)] if dtype == "float64" else [])]

    for threads in (1, 2):
        with Config(threads=threads).active():
            f, known = sj.function([x], of(x), mode=mode), sj.function([y], of(y), mode=mode)
            assert "lanes along the steps" in f.explain() and "lanes along the steps" in known.explain()
            reference = sj.function([x], of(x), mode="reference")
            for shape in [(0, 90), (1, 60), (7, 3), (3, 47), (3, 48), (9, 49), (2, 200), (5, 75)]:
                given = np.random.default_rng(4).integers(-3, 4, shape).astype(dtype)
                if dtype == "float64" and shape[0] > 2:
                    given[0, -2], given[1, -3:] = np.inf, (-np.inf, np.inf, np.nan)
                for g in (f, known) if shape == (5, 75) else (f,):
                    all_close(g(given), reference(given), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("mode", ["numba", "emulate"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_sums_with_transposed_arrays(dtype: str, mode: str, rng: np.random.Generator) -> None:
    """Blocks of two operands are transposed on the stack, and what is left is computed row by row."""
    x, y, z = (sj.tensor((None, None), each, name) for each, name in ((dtype, "x"), (dtype, "y"), ("float32", "z")))
    v = sj.tensor((None,), dtype, "v")
    functions = {}
    for threads in (1, 2):
        with Config(threads=threads).active():
            results = [x + y.T, y.T * 2 - v, sj.where(y.T > 0, x, z.T), sj.stack([x, y.T + z.T])]
            functions[threads] = sj.function([x, y, z, v], results, mode=mode)
    assert "transpose_" in functions[1].source
    for shape in [*SHAPES, (0, 5), (5, 0), (50, 70)]:
        a, b = ((9 * rng.standard_normal(s)).astype(dtype) for s in (shape, shape[::-1]))
        c, d = rng.standard_normal(shape[::-1]).astype("float32"), np.arange(shape[1]).astype(dtype)
        wanted = [a + b.T, b.T * 2 - d, np.where(b.T > 0, a, c.T), np.stack([a + c.T * 0, b.T + c.T])]
        for threads, f in functions.items():
            with Config(threads=threads).active():
                all_close(f(a, b, c, d), wanted, rtol=1e-6)


@pytest.mark.quick(2)
@pytest.mark.parametrize("known", [None, 3, 4, 13])
def test_short_rows(known):
    """Rows below and above the length of a vector."""
    x = sj.tensor((None, known), "float32")
    f = sj.function([x], sj.cumsum(x, axis=1))
    for length in range(1, 21) if known is None else [known]:
        xs = np.random.default_rng(3).standard_normal((37, length)).astype("float32")
        np.testing.assert_allclose(f(xs), np.cumsum(xs, axis=1), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_rows_without_vectors(dtype: str) -> None:
    """Where a register holds one number, no vector has several steps."""
    x = sj.tensor((None, "T"), dtype)
    with Config(width=4).active():
        f = sj.function([x], sj.cumsum(x, axis=1), mode="emulate")
    xs = np.random.default_rng(3).standard_normal((3, 100)).astype(dtype)
    np.testing.assert_allclose(f(xs), np.cumsum(xs, axis=1), rtol=1e-4, atol=1e-5)

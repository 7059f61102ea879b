"""Products of few rows read their right operands where they are, and of few columns have tiles of one vector, with the
same bits as products of many."""

from __future__ import annotations

import numpy as np
import pytest

import scanjit as sj
from scanjit.runtime import host
from scanjit.schedule.tiles.few import FEW, LEAST_LANES
from scanjit.schedule.tiles.pack import ROWS_OF_A_CALL
from scanjit.target import target_named
from tests.fuzz.check import Config
from tests.pairs import pairwise

ROW_BY_ROW = "are computed one by one"
PACKED = "right operands are packed"


def products(rows: int | str, dtype: str) -> tuple[list[sj.Node], list[sj.Node]]:
    """Products with a matrix, its transpose, several in one nest, and their gradients."""
    x, w, v = sj.tensor((rows, "K"), dtype, "x"), sj.tensor(("K", "N"), dtype, "w"), sj.tensor(("N", "K"), dtype, "v")
    y = sj.tanh(x @ w + x @ v.T)
    return [x, w, v], [x @ w, x @ v.T, x[::-1] @ w[:, ::-1], y, *sj.grad((y * y).sum(), [x, w, v])]


def expected(x: np.ndarray, w: np.ndarray, v: np.ndarray) -> list[np.ndarray]:
    y = np.tanh(x @ w + x @ v.T)
    dz = 2 * y * (1 - y * y)
    return [x @ w, x @ v.T, x[::-1] @ w[:, ::-1], y, dz @ (w.T + v), x.T @ dz, dz.T @ x]


@pytest.mark.quick(4)
@pairwise(rows=["B", 2, FEW, FEW + 1, 24, 40], dtype=["float32", "float64"], mode=["numba", "emulate"])
def test_values_and_gradients(rows: int | str, dtype: str, mode: str, rng: np.random.Generator) -> None:
    inputs, outputs = products(rows, dtype)
    functions = {}
    for threads in (1, 2, 3) if mode == "numba" else (1, 3):
        with Config(threads=threads).active():
            functions[threads] = sj.function(inputs, outputs, mode=mode)
    numbers = (0, 1, 2, FEW, FEW + 1, 9, 70) if isinstance(rows, str) else (rows,)
    sizes = [(5, 3), (0, 4), (4, 0), (1, 1), (9, 1), (0, 1), (33, 17)] + [(300, 130)] * (mode == "numba")
    for i, count in enumerate(numbers):
        half = mode == "emulate" and len(numbers) > 1  # every number of rows, and every size, with some of the others
        for terms, columns in sizes[i % 2 :: 2] if half else sizes:
            shapes = ((count, terms), (terms, columns), (columns, terms))
            x, w, v = (rng.standard_normal(shape).astype(dtype) for shape in shapes)
            results = {}
            for threads, f in functions.items():
                with Config(threads=threads).active():
                    results[threads] = f(x, w, v)
            for found in results.values():
                np.testing.assert_equal(found, results[1])
            tolerance = {"float32": 1e-4, "float64": 1e-11}[dtype]
            for got, wanted in zip(results[1], expected(x, w, v), strict=True):
                np.testing.assert_allclose(got, wanted, rtol=tolerance, atol=tolerance * max(terms, columns))


def test_the_number_of_rows_decides_in_each_call() -> None:
    x, w = sj.tensor(("B", "K"), "float32", "x"), sj.tensor(("K", "N"), "float32", "w")
    assert f"at most {FEW} rows of B {ROW_BY_ROW}" in sj.function([x, w], x @ w, mode="emulate").explain()
    weights = sj.shared(np.ones((4, 5), np.float32), "weights")
    f = sj.function([x], x @ weights, mode="emulate")
    assert ROW_BY_ROW not in f.explain(), "what is packed once for many calls has no other form"


@pytest.mark.parametrize(
    ("terms", "columns", "few", "vectors"),
    [
        (100, 1024, 4, 16),  # near
        (1000, 1024, 2, 16),  # far
        (100, 255, 4, 4),  # fewer columns than the long tile has
        (1000, "N", None, None),  # rows may be short
    ],
)
def test_one_row_is_read_in_long_pieces(terms: int, columns: int | str, few: int | None, vectors: int | None) -> None:
    """Fewer rows than `few` are read in place. If the number of columns is not known, near operands alone are."""
    x, w = sj.tensor(("B", terms), "float32", "x"), sj.tensor((terms, columns), "float32", "w")
    with host.using(target_named("x86-64-v4")):
        program = str(sj.dprint(sj.function([x, w], x @ w, mode="emulate"), stage="blocks", file="str"))
    if few is not None:
        assert f"for blocks of 1 of min(max(-B + {few}, 0), 1) steps" in program
        assert f"{vectors} vectors a tile; 1 rows of i0 a tile" in program
    else:
        assert "16 vectors a tile" not in program


@pytest.mark.parametrize(
    ("target", "least"), [("x86-64-v3", ROWS_OF_A_CALL[False]), ("x86-64-v4", ROWS_OF_A_CALL[True])]
)
def test_few_known_rows_pack_no_rows_of_vectors(target: str, least: int) -> None:
    for rows in (2, least - 1, least):
        x, w = sj.tensor((rows, "K"), "float32", "x"), sj.tensor(("K", "N"), "float32", "w")
        v = sj.tensor(("N", "K"), "float32", "v")
        with host.using(target_named(target)):
            assert (PACKED in sj.function([x, w], x @ w, mode="emulate").explain()) == (rows == least)
            assert PACKED in sj.function([x, v], x @ v.T, mode="emulate").explain()


@pytest.mark.parametrize(
    ("rows", "terms", "columns", "packed"),
    [(32, 128, 512, False), (127, 512, 1536, False), (128, 128, 512, True), (32, 1024, 4096, True)],
)
def test_what_stays_in_the_cache_is_packed_for_many_rows_only(
    rows: int, terms: int, columns: int, packed: bool
) -> None:
    """Rows of 4,096 numbers lie so far apart that they share few sets of the cache."""
    x, w = sj.tensor((rows, terms), "float32"), sj.tensor((terms, columns), "float32")
    with host.using(target_named("x86-64-v4")):
        f = sj.function([x, w], x @ w, mode="emulate")
    assert (PACKED in f.explain()) is packed


@pytest.mark.quick(4)
@pytest.mark.parametrize("mode", ["numba", "emulate"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_batches_of_small_matrices(dtype: str, mode: str, rng: np.random.Generator) -> None:
    """Any numbers of rows and columns have the bits that they have in larger matrices."""
    x, y = sj.tensor(("B", "M", "K"), dtype, "x"), sj.tensor(("B", "K", "N"), dtype, "y")
    z = sj.tensor(("B", "N", "K"), dtype, "z")
    functions = {}
    for threads in (1, 2):
        with Config(threads=threads).active():
            functions[threads] = sj.function([x, y, z], [x @ y, x @ z.transpose(0, 2, 1)], mode=mode)
    assert "columns of N are one vector" in functions[1].explain()
    for terms in (0, 1, 7, 40):
        a, b = rng.standard_normal((5, 9, terms)).astype(dtype), rng.standard_normal((5, terms, 35)).astype(dtype)
        whole = functions[1](a, b, b.transpose(0, 2, 1).copy())
        for found in whole:
            np.testing.assert_allclose(found, a @ b, rtol=1e-4, atol=1e-4)
        for rows, columns in ((1, 35), (3, 2), (9, 1), (9, 16), (5, 9), (4, 17), (0, 3), (3, 0)):
            for threads, f in functions.items():
                with Config(threads=threads).active():
                    c = b[:, :, :columns]
                    part = f(a[:, :rows].copy(), c.copy(), c.transpose(0, 2, 1).copy())
                for one, wanted in zip(part, whole, strict=True):
                    np.testing.assert_equal(one, wanted[:, :rows, :columns])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_row_has_the_same_bits_among_few_and_many(dtype: str, rng: np.random.Generator) -> None:
    """So a stream of short blocks computes what one long block does, and so do stretches between checkpoints."""
    inputs, outputs = products("B", dtype)
    f = sj.function(inputs, [*outputs[:4], outputs[4]])
    for terms, columns in ((7, 5), (600, 40), (300, 130)):
        shapes = ((9, terms), (terms, columns), (columns, terms))
        x, w, v = (rng.standard_normal(shape).astype(dtype) for shape in shapes)
        many = f(x, w, v)
        for count in (1, 2, FEW):
            few = f(x[:count], w, v)
            for i in (0, 1, 3, 4):
                np.testing.assert_equal(few[i], many[i][:count])
        for count in (1, 4):
            part = f(x, w[:, :count].copy(), v[:count].copy())
            for i in (0, 1, 3):
                np.testing.assert_equal(part[i], many[i][:, :count])


@pytest.mark.parametrize("mode", ["numba", "emulate"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_operands_with_neighbouring_terms_are_read_in_squares(dtype: str, mode: str, rng: np.random.Generator) -> None:
    """One column, and few rows of `x @ v.T`, have the bits that they have among many."""
    x, w, v = sj.matrix("x", dtype=dtype), sj.matrix("w", dtype=dtype), sj.matrix("v", dtype=dtype)
    functions = []
    for threads in (1, 2):
        with Config(threads=threads).active():
            functions.append(sj.function([x, w, v], [x @ w, sj.tanh(x @ v.T) + 1], mode=mode))
    if host.target().lanes(np.dtype(dtype).itemsize) >= LEAST_LANES:
        explained = functions[0].explain()
        assert "one column of w.shape[1], squares are transposed" in explained
        assert f"at most {FEW} rows of x.shape[0], squares are transposed" in explained
    for terms in (0, 1, 16, 45):
        a, b = rng.standard_normal((37, terms)).astype(dtype), rng.standard_normal((terms, 20)).astype(dtype)
        whole = functions[0](a, b, b.T.copy())
        np.testing.assert_allclose(whole[0], a @ b, rtol=1e-4, atol=1e-4)
        for rows, columns in ((37, 1), (1, 20), (FEW, 19), (FEW + 1, 1), (0, 1), (1, 0)):
            for f, threads in zip(functions, (1, 2), strict=True):
                with Config(threads=threads).active():
                    found = f(a[:rows], b[:, :columns].copy(), b.T[:columns].copy())
                for one, wanted in zip(found, whole, strict=True):
                    np.testing.assert_equal(one, wanted[:rows, :columns])

"""Register tiles: those along reductions, where a result has too few columns for the lanes; and how tiles end."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import scanjit as sj
from scanjit import types
from scanjit.runtime import host
from scanjit.schedule.nests import NestLoop
from scanjit.schedule.tiles import shapes
from scanjit.schedule.time import sums
from scanjit.target import Target, target_for, target_named
from scanjit.target.measured import MEASURED, speeds
from tests.compare import all_close
from tests.fuzz.check import Config
from tests.lstm import lstm_outputs
from tests.targets import with_vectors


def run(config: Config, i: int, j: int, t: int, length: object) -> None:
    """Two sums that share an operand, what is made of them, and a plain sum beside them; `i` rows and `j` columns."""
    rng = np.random.default_rng(i + j + t)
    shapes = ((2, i, t), (2, i, t), (2, 2, t + j - 1), (i, 2, j))
    arrays = [rng.integers(-3, 4, shape).astype("float32") for shape in shapes]
    declared = ((2, i, length), (2, i, length), *shapes[2:])
    a, b, x, w = (sj.tensor(shape, "float32") for shape in declared)
    y = sj.conv1d(x, w, filter_flip=False)
    sums = [sj.grad((y * g).sum(), w) for g in (a, b)]
    outputs = [sj.tanh(sums[0] * 0.01) + sums[1], sums[0], a.sum((0, 2))]
    with config.active():
        got = sj.function([a, b, x, w], outputs, mode=config.mode)(*arrays)
    windows = np.lib.stride_tricks.sliding_window_view(arrays[2], t, 2)
    wanted = [np.einsum("bot,bckt->ock", g, windows, dtype="float64") for g in arrays[:2]]
    expected = [np.tanh(wanted[0] * 0.01) + wanted[1], wanted[0], arrays[0].sum((0, 2))]
    all_close(got, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.quick(3)
@pytest.mark.parametrize("width", [64, 16])
@pytest.mark.parametrize("j", [2, 3, 5, 7, 11])
def test_short_last_axis(j: int, width: int) -> None:
    for i, t in itertools.product((1, 3, 9), (j + 1, 16, 37)):
        run(Config(width=width), i, j, t, t)
        run(Config(width=width), i, j, t, "n")


def test_short_last_axis_compiled() -> None:
    run(Config("numba"), 9, 3, 37, "n")


def test_threads_share_the_rows() -> None:
    run(Config(width=64, threads=3), 9, 3, 37, "n")


def test_lanes_run_along_the_sum() -> None:
    with Config(width=64).active():
        x, w, g = (sj.tensor(shape, "float32") for shape in (("B", 8, "n"), (8, 8, 5), ("B", 8, "m")))
        y = sj.conv1d(x, w)
        gradient, value = (sj.function([x, w, g], of, mode="emulate") for of in (sj.vjp(y, w, g), y * g))
        assert "16 lanes along the reductions, tiles of" in gradient.explain()
        assert "16 lanes, tiles of" in value.explain()


def test_a_product_waits_for_what_its_epilogue_needs() -> None:
    x, w, b, c = sj.matrix("x"), sj.matrix("w"), sj.vector("b"), sj.vector("c")
    f = sj.function([x, w, b, c], x @ w + sj.concatenate([b, c]), mode="emulate")
    assert "nest contract_add" in f.explain()
    x, w, b, c = np.eye(3), np.ones((3, 3)), np.ones(2), np.zeros(1)
    np.testing.assert_array_equal(f(x, w, b, c), x @ w + [1, 1, 0])


# ---- columns that are left after whole tiles -------------------------------------------------------------------------


@pytest.mark.quick(4)
@pytest.mark.parametrize("columns", [1, 2, 16, 22, 40, 64, 72, 80, 100, 200])
@pytest.mark.parametrize("threads", [1, 3])
def test_columns_after_whole_tiles(columns: int, threads: int) -> None:
    """One or two vectors at a time, whichever columns a thread has; the last one may not be full."""
    rng = np.random.default_rng(columns)
    a, b = rng.standard_normal((7, 5)), rng.standard_normal((5, columns))
    x, w = sj.tensor((None, 5)), sj.tensor((5, columns))
    for config in (Config(width=64, threads=threads), Config(width=16, threads=threads)):
        with config.active():
            f = sj.function([x, w], [sj.tanh(x @ w), x @ w], mode="emulate")
            if config.width == 16 and columns > 4 and not host.target().has_avx512:
                assert "next0 = " in f.source, "two vectors at a time"
            for rows in (0, 1, 4, 7):
                product = a[:rows] @ b
                all_close(f(a[:rows], b), (np.tanh(product), product), rtol=1e-9, atol=1e-12)


def test_tiles_that_cannot_be_shared_evenly() -> None:
    """Five tiles of 64 columns are three and two for two threads; twenty vectors are ten and ten."""
    with Config(width=64).active():
        for columns, singles in ((320, True), (200, True), (512, False), (1280, False)):
            x, w = sj.tensor((None, 64), "float32"), sj.shared(np.zeros((64, columns), "float32"))
            assert ("left0 = " in sj.function([x], x @ w, mode="emulate").source) == singles, columns


@pytest.mark.parametrize("columns", ["N", 9, 300])
def test_sums_of_columns(columns: int | str) -> None:
    """Several sums of each column: a row of all of them is read in pieces of several vectors, whatever is known."""
    x, y = (sj.tensor((None, columns), "float64") for _ in "xy")
    wanted = [lambda x, y: x.sum(0), lambda x, y: (x * y).sum(0), lambda x, y: (y - x).sum(0)]
    for width, threads in itertools.product((16, 64), (1, 3)):
        with Config(width=width, threads=threads, small=True).active():
            f = sj.function([x, y], [sum_(x, y) for sum_ in wanted], mode="emulate")
            assert "vectors side by side" in f.explain() or (width, columns) == (64, 9)
            for rows, size in itertools.product((0, 1, 5), (1, 7, 64, 301) if columns == "N" else (columns,)):
                rng = np.random.default_rng(rows)
                given = [rng.normal(size=(rows, size)) for _ in "xy"]  # type: ignore[arg-type]
                for got, sum_ in zip(f(*given), wanted, strict=True):
                    np.testing.assert_allclose(got, sum_(*given), rtol=1e-12, atol=1e-12)


# ---- groups of tiles, and sums that begin with zeros -----------------------------------------------------------------


@pytest.mark.quick(3)
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("group_bytes", [1, 1200, 10**6])
def test_groups_of_columns(group_bytes: int, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums over time go on from block to block: the same bits whatever the order of the tiles; zeros without time."""
    monkeypatch.setattr(sums, "DEPTH", 4)
    x, w, r = sj.tensor(("T", "B", 3), "float32"), sj.tensor((3, 27), "float32"), sj.tensor((27, 27), "float32")
    states = sj.scan(lambda x_t, h: sj.tanh(x_t @ w + h @ r), x, [sj.zeros((x.shape[1], 27), "float32")])
    gradients = sj.grad((states * states).sum(), [w, r])
    rng = np.random.default_rng(group_bytes)
    weights = [rng.standard_normal(shape).astype("float32") / 5 for shape in ((3, 27), (27, 27))]
    near = replace(with_vectors(16), level2_bytes=4 * group_bytes)
    with Config(threads=threads).active(), host.using(near):
        f = sj.function([x, w, r], gradients, mode="emulate")
        assert "last0 = min(first0 + " in f.source
        reference = sj.function([x, w, r], gradients, mode="reference")
        for length, batch in ((0, 2), (1, 1), (2, 0), (7, 2), (9, 3)):
            value = rng.standard_normal((length, batch, 3)).astype("float32")
            all_close(f(value, *weights), reference(value, *weights), rtol=2e-5, atol=2e-5)


@pytest.mark.quick(2)
@pytest.mark.parametrize("features", ["+avx2,+fma", "neon"])
@pytest.mark.parametrize("columns", ["N", 100])
def test_whole_tiles_have_no_masks(columns: int | str, features: str, rng: np.random.Generator) -> None:
    """Masks take registers that sums need, where they have none of their own; and some processors take long for them.
    Only the last vector of a row has one."""
    x, many, w = (sj.tensor(shape, "float32") for shape in ((None, 6), (40, 6), (6, columns)))
    target = (
        target_for("aarch64-linux-gnu") if features == "neon" else target_for("x86_64-linux-gnu", "znver3", features)
    )
    for threads in (1, 3):
        with Config(threads=threads).active(), host.using(target):
            f, g = (sj.function([y, w], [y @ w, sj.tanh(y @ w[:, ::-1]) * 2], mode="emulate") for y in (x, many))
            s = sj.function([w], w.sum(0), mode="emulate")
            for each in (g, s):
                tiles = re.findall(r"for j0 in range\(.*?for j1 in range\(", each.source, re.DOTALL)
                assert tiles
                assert not any("mask" in tile for tile in tiles)
            for size in (0, 1, 7, 8, 24, 25, 47, 100) if columns == "N" else (int(columns),):
                for rows in (0, 1, 5):
                    a, b = rng.standard_normal((rows, 6), np.float32), rng.standard_normal((6, size), np.float32)
                    all_close(f(a, b), (a @ b, np.tanh(a @ b[:, ::-1]) * 2), rtol=2e-5, atol=2e-5)
                    np.testing.assert_allclose(s(b), b.sum(0), rtol=2e-5, atol=2e-5)


def test_nothing_is_loaded_behind_the_last_panel(rng: np.random.Generator) -> None:
    """A load of no lanes takes hundreds of cycles where memory is not mapped."""
    x, w = sj.tensor((40, "K"), "float32"), sj.tensor(("K", "N"), "float32")
    with host.using(target_named("x86-64-v4")):
        f = sj.function([x, w], x @ w, mode="emulate")
    (tiled,) = (part for part in f.source.split("def ") if "beside" in part)
    products = re.findall(r"for k\d+ in range\(.*?\n {0,16}\S", tiled, re.DOTALL)
    assert products and all("fma" in text and "beside" in text and "load_masked" not in text for text in products)
    for columns in (1, 16, 17, 32, 33, 47, 49):
        a, b = rng.standard_normal((40, 5), np.float32), rng.standard_normal((5, columns), np.float32)
        np.testing.assert_allclose(f(a, b), a @ b, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("target", "most"), [("x86-64-v3", 1), ("x86-64-v4", 4)])
def test_gates_share_a_tile_where_there_are_many_registers(target: str, most: int) -> None:
    x, w, v = (sj.tensor(shape, "float32") for shape in ((None, None, 5), (5, 160), (40, 160)))
    found = target_named(target)
    assert found is not None
    with host.using(found):
        f = sj.function([x, w, v], lstm_outputs(x, w, v), mode="emulate")
    reductions = [int(n) for n in re.findall(r"(\d+) reductions", f.explain())]
    assert max(reductions) == most
    assert sum(reductions) == 5


@pytest.mark.parametrize(("products", "rows"), [(2, 2), (3, 2)])
def test_products_of_one_right_operand_share_its_vectors(products: int, rows: int, rng: np.random.Generator) -> None:
    """Their rows are those of one tile. Each left element is used up before the next one is loaded, so that the sums,
    the vectors and one element fit 16 registers."""
    lefts = [sj.tensor((None, 7), "float32") for _ in range(products)]
    right = sj.tensor((None, 53), "float32")
    for threads in (1, 3):
        with Config(threads=threads).active(), host.using(target_for("x86_64-linux-gnu", "znver3", "+avx2,+fma,+avx")):
            f = sj.function([*lefts, right], [x.T @ right for x in lefts], mode="emulate")
        loop = re.findall(r"for k0 in .*?\n((?: {20}.*\n)+)", f.source)[0]
        vectors = loop.count("load_f32x8")
        assert rows * products * vectors == 12
        assert re.findall("broadcast|fma", loop) == ["broadcast", *["fma"] * vectors] * (products * rows)
        for count in (0, 1, 5, 31):
            arrays = [rng.standard_normal((count, x.shape[1]), np.float32) for x in lefts]
            g = rng.standard_normal((count, 53), np.float32)
            for got, a in zip(f(*arrays, g), arrays, strict=True):
                np.testing.assert_allclose(got, a.T @ g, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize(
    ("terms", "columns", "far"), [(64, 1032, True), ("K", "N", True), (64, 1024, False), (63, 1032, False)]
)
def test_far_rows_are_fetched_before_sums(terms: int | str, columns: int | str, far: bool) -> None:
    """Rows in different pages of memory, if there are many terms meanwhile."""
    x, w, y = (sj.tensor(shape, "float32") for shape in ((40, terms), (terms, columns), (40, columns)))
    with host.using(target_for("x86_64-linux-gnu", "znver3", "+avx2,+fma,+avx")):
        f = sj.function([x, w, y], np.tanh(x @ w) + y, mode="emulate")
    tile = re.search(r"for j0 in .*?store\((.*?)for turn0", f.source, re.DOTALL)
    assert tile is not None
    block = tile[0].count("broadcast_f32x8")
    width = tile[0].count("splat_f32x8") // block * 8 * 4
    before, sums = tile[0].split("for k0", 1)
    assert "prefetch" not in sums
    assert before.count("prefetch(") == (block * -(-width // 64) if far else 0)
    if terms == "K":
        rng = np.random.default_rng(0)
        a, b, c = (rng.uniform(-1, 1, n).astype("float32") for n in ((40, 7), (7, 27), (40, 27)))
        np.testing.assert_allclose(f(a, b, c), np.tanh(a @ b) + c, rtol=1e-4, atol=1e-5)


# ---- shapes of tiles -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", MEASURED)
def test_measured_shapes_fit_the_registers(key: str) -> None:
    name, nbytes = key.split()
    target = target_for("x86_64-linux-gnu", name, vector_bytes=int(nbytes))
    for products, found in target.tiles.items():
        assert all(rows * vectors * products <= target.most_sums for rows, vectors in found)
        for size in (0, 1, 3, 20):
            rows, vectors = shapes.shape(products, NestLoop(size), target)
            assert 1 <= rows <= max(size, 1)
            assert vectors >= 1


def test_shapes_are_those_of_the_target() -> None:
    rows = NestLoop(types.counter("rows"))
    wide = target_for("x86_64-linux-gnu", vector_bytes=64)
    assert shapes.shape(1, rows, target_for("x86_64-linux-gnu", "znver4", vector_bytes=64)) == (4, 4)
    assert shapes.shape(1, rows, target_for("x86_64-linux-gnu", "another", vector_bytes=32)) == (4, 3)
    assert shapes.shape(3, NestLoop(5), wide) == (5, 1)
    assert shapes.shape(100, rows, wide) == (1, 1)
    assert shapes.shape(2, None, wide) == (1, 2)


@pytest.mark.parametrize("key", MEASURED)
def test_pairs_that_are_taken_apart_have_registers(key: str) -> None:
    """The two numbers of each pair of a vector need registers beside the sums and two left elements."""
    name, nbytes = key.split()
    target = target_for("x86_64-linux-gnu", name, vector_bytes=int(nbytes))
    for size in (1, 4, 5, 6, 16, 20, 48):
        rows, vectors = shapes.shape(1, NestLoop(size), target, NestLoop(480), target.lanes(4), apart=True)
        assert rows * vectors + 2 * vectors + 2 <= target.registers
        assert rows * vectors >= min(size, 4) * 2


def test_shapes_leave_few_columns_empty() -> None:
    """A row of 26 numbers fills two vectors of 16. Of a row of unknown length, as much is expected."""
    target = target_for("x86_64-linux-gnu", "znver4", "+avx512f,+avx512vl", vector_bytes=64)
    rows, many = NestLoop(64), types.counter("columns")
    for columns, wanted in ((26, (8, 2)), (many, (8, 2)), (38, (5, 3)), (64, (4, 4)), (256, (4, 4))):
        assert shapes.shape(1, rows, target, NestLoop(columns), 16) == wanted
    assert shapes.shape(1, NestLoop(4), target, NestLoop(256), 16) == (4, 4)


def test_a_small_batch_fills_tiles_of_an_unknown_number_of_rows() -> None:
    """Columns that are left after whole tiles are computed one vector at a time: that costs less than rows that a small
    batch does not have."""
    target = target_for("x86_64-linux-gnu", "znver4", "+avx512f,+avx512vl", vector_bytes=64)
    batch = NestLoop(types.counter("batch"))
    for products, columns in itertools.product((1, 2, 3, 4), (64, 80, 96, 112, 160, 200)):
        rows, vectors = shapes.shape(products, batch, target, NestLoop(columns), 16)
        assert (rows, vectors * products >= 3) == (4, True), (products, columns)


def test_two_threads_share_the_tiles_of_their_rows_evenly() -> None:
    """Of 5 tiles of 4 rows, one of two threads would have 3."""
    target = target_for("x86_64-linux-gnu", "znver4", "+avx512f,+avx512vl", vector_bytes=64)
    steps, columns = types.size("steps"), NestLoop(320)
    for size, block in ((16, 4), (20, 5), (24, 4), (12, 6), (40, 4), (64, 4), (100, 4)):
        for rows in (NestLoop(size), NestLoop(size * steps)):  # all rows of some steps
            assert shapes.shape(1, rows, target, columns, 16)[0] == block, rows.size
    assert shapes.shape(4, NestLoop(20), target, columns, 16) == (5, 1)
    assert shapes.shape(1, NestLoop(3 * steps), target, columns, 16)[0] == 4


@pytest.mark.parametrize("columns", ["N", 40, 56])
def test_columns_that_fill_half_a_tile_are_single_vectors(columns: int | str, rng: np.random.Generator) -> None:
    """Of a tile of 4 vectors of 8 numbers, a row of 40 would leave 3 vectors empty behind the first tile."""
    a, b = sj.tensor((3,), "float64"), sj.tensor((3, columns), "float64")
    x = rng.standard_normal(3)
    for threads in (1, 3):
        with Config(width=64, threads=threads, small=True).active():
            f = sj.function([a, b], [a @ b, b[::2].sum(0), b.max(0), sj.argmax(b, 0)], mode="emulate")
            source = f.source
            assert source.count("maximum(") == source.count("maximum(best")  # argmax finds the maximum, too
            assert "left0 = " in source
            for size in (1, 8, 9, 16, 17, 32, 33, 40, 48, 49, 64) if columns == "N" else (columns,):
                y = rng.standard_normal((3, int(size)))
                all_close(f(x, y), (x @ y, y[::2].sum(0), y.max(0), y.argmax(0)), rtol=1e-12, atol=1e-12)


# ---- columns that threads cannot share evenly ------------------------------------------------------------------------


@pytest.mark.quick(2)
@pytest.mark.parametrize("threads", [1, 2, 3, 7])
def test_threads_share_the_rows_of_the_last_columns(threads: int) -> None:
    """Five tiles of columns for two threads: two for each, and rows of the fifth."""
    x, w = sj.tensor(("T", "B", 5), "float32"), sj.tensor((66, 264), "float32")
    v = sj.tensor((5, 264), "float32")

    def step(row: Any, h: Any) -> Any:
        a, b, c, d = ((row @ v + h @ w)[:, 66 * i : 66 * (i + 1)] for i in range(4))
        return sj.tanh(a) * b + sj.sigmoid(c) * d

    inputs, states = [x, v, w], sj.scan(step, x, sj.zeros((x.shape[1], 66), "float32"))
    masks = target_for("x86_64-linux-gnu", features="+avx512f,+avx512vl", vector_bytes=64)
    with Config(threads=threads).active(), host.using(masks):
        f = sj.function(inputs, states, mode="emulate")
        assert "left0 = even0*" in f.source
        reference = sj.function(inputs, states, mode="reference")
        rng = np.random.default_rng(threads)
        weights = [rng.standard_normal(s).astype("float32") / 8 for s in ((5, 264), (66, 264))]
        for batch in (0, 1, 2, 7, 20):
            value = rng.standard_normal((3, batch, 5)).astype("float32")
            np.testing.assert_allclose(f(value, *weights), reference(value, *weights), rtol=2e-5, atol=2e-5)


def test_a_row_that_fills_one_tile_is_one_loop() -> None:
    """No code is written for what is never left."""
    x, y = sj.tensor((None, 10), dtype="float32"), sj.tensor((None, 64), dtype="float32")
    with host.using(target_for("x86_64-linux-gnu", features="+avx,+avx2,+fma")):
        f = sj.function([x, y], [x.sum(axis=0), sj.tanh(y.T @ x)], mode="emulate")
    given = [np.random.default_rng(0).standard_normal((21, n), np.float32) for n in (10, 64)]
    with np.errstate(all="ignore"):
        sums, product = f(*given)
    np.testing.assert_allclose(sums, given[0].sum(axis=0), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(product, np.tanh(given[1].T @ given[0]), rtol=1e-5, atol=1e-5)
    assert "left" not in f.source


@pytest.mark.parametrize(("size", "step", "halved"), [
    ("N", lambda h: sj.concatenate([h[:1], 0.5 * (h[1:] - h[:-1])]), True),
    ("N", lambda h: 0.5 * h - h * h, False),
    ("N", lambda h: sj.concatenate([h[:8], h[8:] - h[:-8]]), False),
    (6, lambda h: sj.concatenate([h[:1], 0.5 * (h[1:] - h[:-1])]), False),
])  # fmt: skip
def test_neighbours_in_vectors_of_half_the_width(size, step, halved, monkeypatch):
    """A step that reads neighbours takes narrower vectors, if two of them take as long as a full one."""
    h = sj.tensor((size,), "float64", "h")
    y = sj.scan(step, outputs_info=h, n_steps=5)[-1]
    given = np.random.default_rng(0).standard_normal(6 if size == 6 else 37)
    results = []
    for halves in (False, True):
        monkeypatch.setattr(Target, "halves_vectors", halves)
        with Config(width=64).active():
            f = sj.function([h], y, mode="emulate")
        results.append(f(given))
        assert ("4 lanes" in sj.dprint(f, file="str", stage="blocks")) == (halves and halved)
    np.testing.assert_array_equal(*results)
    np.testing.assert_allclose(results[0], sj.function([h], y, mode="reference")(given))


@pytest.mark.parametrize("rows", range(4, 10))
def test_the_last_rows_of_a_thread_are_finished_from_both_ends(rows: int) -> None:
    """What is read in even steps is fetched ahead, which takes the next rows from the thread that computes them."""
    x, w = sj.tensor((3, rows, 16), "float32", "x"), sj.tensor((16, 16), "float32", "w")
    h = sj.scan(lambda row, h: sj.tanh(row + h @ w), x, sj.zeros((rows, 16), "float32"))
    f = sj.function([x, w], h, mode="emulate")
    place, *_ = re.findall(r"place0 = (.*)", f.source)
    orders = [[eval(place, {"turn0": turn, "count0": rows, "last0": last}) for turn in range(rows)] for last in (0, 1)]
    assert orders[0] == sorted(orders[1]) == list(range(rows))
    assert len({after - before for before, after in itertools.pairwise(orders[1])}) == rows - 1
    xv = np.linspace(-1, 1, 48 * rows, dtype="float32").reshape(3, rows, 16)
    wv = np.linspace(-1, 1, 256, dtype="float32").reshape(16, 16)
    hv = np.zeros((rows, 16), "float32")
    for row, got in zip(xv, f(xv, wv), strict=True):
        hv = np.tanh(row + hv @ wv)
        np.testing.assert_allclose(got, hv, rtol=1e-4, atol=1e-5)


def test_a_processor_that_was_not_measured_is_like_one_of_its_maker() -> None:
    known = {
        name: speeds(name, 64, 32) for name in ("sapphirerapids", "rocketlake", "znver4", "znver5", "", "x86-64-v4")
    }
    intel, amd = known["sapphirerapids"], known["znver4"]
    assert [known[name] is intel for name in known] == [True, True, False, False, False, False]
    assert [known[name] is amd for name in known] == [False, False, True, True, True, True]
    assert speeds("skylake", 32, 16) is speeds("znver4", 32, 16)

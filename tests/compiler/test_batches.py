"""Batches of products of matrices: each right matrix is packed, each left one copied, where that is worth a pass over
memory."""

from __future__ import annotations

import numpy as np
import pytest

import scanjit as sj
from scanjit import types
from scanjit.ir import Node
from scanjit.runtime import host
from scanjit.schedule.nests import Access, Blocks, Buffer, NestLoop
from scanjit.schedule.tiles import lefts
from scanjit.schedule.tiles.pack import with_room
from scanjit.schedule.tiles.products import may_overlap
from scanjit.target import target_for
from tests.compare import all_close
from tests.fuzz.check import Config
from tests.pairs import pairwise

AVX2 = target_for("x86_64-linux-gnu", features="+avx2,+fma")
PACKED, HOISTED = "right operands are packed", "right operands are packed once, before the loop"


def _turned(x: object) -> object:
    return sj.swapaxes(x, -1, -2)  # type: ignore[arg-type]


@pytest.mark.quick(5)
@pairwise(
    sizes=[(3, 17, 7, 9), (2, 20, 40, 33), (1, 5, 3, 4), (4, 16, 5, 1), (2, 64, 0, 5)],
    known=[True, False],
    dtype=["float32", "float64"],
    threads=[1, 3],
)
def test_values_and_gradients(sizes: tuple[int, ...], known: bool, dtype: str, threads: int) -> None:
    """Right operands that lie transposed, backwards, and in batches of two axes."""
    n, rows, terms, columns = sizes
    a = sj.tensor((2, n, rows, terms) if known else (None, "n", "rows", "terms"), dtype)
    b = sj.tensor((2, n, columns, terms) if known else (None, "n", "columns", "terms"), dtype)
    y = a[0] @ _turned(b[0])
    outputs = [a @ _turned(b), a[::-1, :, ::-1] @ _turned(b[::-1, ::-1, ::-1]), y, *sj.grad((y**2).sum(), [a, b])]
    rng = np.random.default_rng(0)
    given = [rng.normal(size=(2, n, size, terms)).astype(dtype) for size in (rows, columns)]
    with Config(threads=threads).active(), host.using(AVX2):
        found = sj.function([a, b], outputs, mode="emulate")(*given)
    near = 1e-4 if dtype == "float32" else 1e-12
    all_close(found, sj.function([a, b], outputs, mode="reference")(*given), rtol=near, atol=near * 10)


@pytest.mark.parametrize("batch", [16, 1000])
@pytest.mark.parametrize(
    ("shape", "turned", "packed"),
    [
        ((16, 32, 32), True, True),
        ((8, 32, 32), True, False),  # few rows read what is packed
        ((16, 32, 32), False, False),  # vectors are read where they are
        ((64, 32, 32), False, True),
        (("rows", 32, 32), True, True),
        (("rows", 32, 32), False, False),
    ],
)
def test_what_is_packed(shape: tuple[int | str, ...], turned: bool, packed: bool, batch: int) -> None:
    rows, terms, columns = shape
    a = sj.tensor((batch, rows, terms), "float32")
    b = sj.tensor((batch, columns, terms) if turned else (batch, terms, columns), "float32")
    with host.using(AVX2):
        f = sj.function([a, b], a @ (_turned(b) if turned else b), mode="emulate")
    assert (PACKED in f.explain()) == packed


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("axes", [((1, 2), (0, 2)), ((2, 1), (2, 1)), ((1, 2), (1, 0))])
def test_terms_along_two_axes_of_an_operand(axes: tuple[tuple[int, int], ...], known: bool) -> None:
    """Panels hold them one after the other, also where no step in memory leads through all of them."""
    sizes = {axes[0][0]: 5, axes[0][1]: 7, 3 - sum(axes[0]): 20}
    left = [sizes[i] for i in range(3)]
    right = [0, 0, 0]
    right[axes[1][0]], right[axes[1][1]], right[3 - sum(axes[1])] = 5, 7, 18
    a, b = sj.tensor(left if known else (None, None, None)), sj.tensor(right if known else (None, None, None))
    with Config(threads=2).active(), host.using(AVX2):
        f = sj.function([a, b], sj.tensordot(a, b, axes=axes), mode="emulate")
    assert PACKED in f.explain()
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=left), rng.normal(size=right)
    np.testing.assert_allclose(f(x, y), np.tensordot(x, y, axes=axes), rtol=1e-12, atol=1e-13)


def test_parts_of_a_matrix_have_panels_of_their_own(rng: np.random.Generator) -> None:
    """They begin at one place, but one part has more columns. A product of the same part shares its panels."""
    shapes = (140, 7), (140, 7), (7, 64)
    a, b, w = (sj.tensor(shape) for shape in shapes)
    y = [a @ w[:, :20], sj.sort(b, 0) @ w[:, :50], sj.sort(a, 0) @ w[:, :20]]
    f, reference = (sj.function([a, b, w], y, mode=mode) for mode in ("emulate", "reference"))
    assert str(sj.dprint(f, file="str", stage="blocks")).count("temporary panels") == 2
    given = [rng.normal(size=shape) for shape in shapes]
    all_close(f(*given), reference(*given), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("other", ["one matrix", "terms along two axes"])
def test_products_of_one_left_operand_that_need_panels_of_their_own(other: str, rng: np.random.Generator) -> None:
    """Both are computed in one nest: one reads a batch of matrices or terms that lie along one axis, the other does
    not."""
    shapes: list[tuple[int, ...]] = [(3, 140, 7), (3, 20, 7), (20, 7)]
    if other != "one matrix":
        shapes = [(140, 3, 4), (3, 4, 20), (3, 8, 20)]
    a, b, c = (sj.tensor(shape) for shape in shapes)
    if other == "one matrix":
        y = (a @ _turned(b)) * (a @ _turned(c))
    else:
        y = sj.tensordot(a, b, 2) * sj.tensordot(a, c[:, :4], 2)
    f, reference = (sj.function([a, b, c], y, mode=mode) for mode in ("emulate", "reference"))
    assert f.explain().count(PACKED) == 2
    given = [rng.normal(size=shape) for shape in shapes]
    np.testing.assert_allclose(f(*given), reference(*given), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_heads_of_a_recurrence_are_packed_before_the_loop(dtype: str, rng: np.random.Generator) -> None:
    """Forward and in the gradient, where each head's matrix is read transposed."""
    x, w = sj.tensor(("T", 3, "B", 8), dtype), sj.tensor((3, 8, 8), dtype)
    h = sj.scan(lambda row, h: sj.tanh(row + h @ w), x, sj.zeros((3, x.shape[2], 8), dtype))
    outputs = [h, *sj.grad((h**2).sum(), [x, w])]
    with host.using(AVX2):
        f = sj.function([x, w], outputs, mode="emulate")
        assert f.explain().count(HOISTED) == 2
        for steps, batch in ((0, 2), (1, 1), (7, 5)):
            given = rng.normal(size=(steps, 3, batch, 8)).astype(dtype), rng.normal(size=(3, 8, 8)).astype(dtype)
            all_close(f(*given), sj.function([x, w], outputs, mode="reference")(*given), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("sizes", [(3, 12, 20, 9), (1, 9, 0, 5)])
def test_left_matrices_are_copied(sizes: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"LONG": 8, "WIDE": 4, "FEW_ROWS": 2}.items():
        monkeypatch.setattr(lefts, name, value)
    n, rows, terms, columns = sizes
    a, b = sj.tensor((2, None, None, rows)), sj.tensor((2, None, None, columns))
    y = _turned(a) @ b
    with host.using(AVX2):
        f = sj.function([a, b], y, mode="emulate")
    assert "a left operand is copied" in f.explain()
    rng = np.random.default_rng(2)
    given = rng.normal(size=(2, n, terms, rows)), rng.normal(size=(2, n, terms, columns))
    np.testing.assert_allclose(f(*given), given[0].swapaxes(-1, -2) @ given[1], rtol=1e-12, atol=1e-12)


def test_matrices_that_may_overlap() -> None:
    buffer, channels = Buffer(np.dtype("float32"), (4, 12, 8), "input", "x"), types.size("channels")
    batch, places, window, lane = NestLoop(4), NestLoop(10), NestLoop(3), NestLoop(8)
    block, some = NestLoop(types.counter("rows")), NestLoop(types.size("some"))
    for strides, expected in (
        ({batch: 96, window: 8, lane: 1}, False),
        ({batch: 96, places: 8, window: 8, lane: 1}, True),
        ({batch: 96, places: 16, window: 8, lane: 1}, True),
        ({batch: 96, NestLoop(4): 24, window: 8, lane: 1}, False),
        ({batch: 96, places: -8, window: 8, lane: 1}, True),
        ({batch: 12 * channels, places: channels, window: channels}, True),
        ({batch: 12 * channels, places: 2 * channels, window: channels}, True),
        ({batch: 12 * channels, NestLoop(4): 3 * channels, window: channels}, False),
        ({batch: 32 * channels, block: channels, lane: 1}, False),
        ({batch: 512, block: 32, lane: 1}, False),
        ({batch: 96, block: 8, window: 8, lane: 1}, True),
        ({places: 2, some: 1}, True),
        ({places: 100, some: 1}, False),
    ):
        assert may_overlap(Access(buffer, 0, strides)) == expected, strides


def test_a_matrix_that_steps_change_is_packed_each_time_it_is_read(rng: np.random.Generator) -> None:
    """A row of it is set where it lies: a pack before the loop, and one from before the change, would hold the old
    row."""
    x, w, h = sj.tensor(("T", 20, 12)), sj.tensor((12, 12)), sj.tensor((20, 12))

    def step(t: Node, row: Node, h: Node, w: Node) -> tuple[Node, Node]:
        h = sj.tanh(row + h @ w.T)
        w = w[t].set(h[0])
        return sj.tanh(row + h @ w.T), w

    rows, matrices = sj.scan(step, [sj.arange(x.shape[0]), x], [h, w])
    outputs = [rows, matrices[-1]]
    with host.using(AVX2):
        f = sj.function([x, w, h], outputs, mode="emulate")
        assert f.explain().count(PACKED) == 2
        given = [rng.normal(size=size) for size in ((5, 20, 12), (12, 12), (20, 12))]
        all_close(f(*given), sj.function([x, w, h], outputs, mode="reference")(*given), rtol=1e-10, atol=1e-12)


def test_there_is_room_for_the_longest_block_if_the_last_one_has_no_steps():
    first, count = types.counter("first"), types.counter("count")
    matrices = count * types.minimum(6 - first, 1)
    assert with_room((matrices, first + count, 3), [Blocks(7, 2, first, count, ())]) == (2, 9, 3)

"""Reductions down the columns of arrays that fit in no cache: in strips of columns, with the same bits as without."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import scanjit as sj
from scanjit.schedule.cost import rates
from scanjit.schedule.tiles import columns
from tests.compare import all_close
from tests.fuzz.check import Config

WIDE, LONG = (0, 1, 9, 17, 40), (0, 1, 5, 12)
STRIPS = "columns a strip"


def features(x: sj.Node) -> list[sj.Node]:
    """What a statistician asks of each feature: two sums in one nest, sums behind which more is computed, a greatest
    element, a product, a sum of integers, where the greatest element is, and sums that need it or another one."""
    return [
        x.sum(0),
        np.sqrt((x * x).mean(0)) + x.mean(0),
        x.max(0),
        np.minimum(x, 0.5).min(0) * 2,
        (1 + x / 100).prod(0),
        x.astype("int32").sum(0),
        x.argmax(0),
        sj.logsumexp(x, 0),
        ((x - x.mean(0)) ** 2).max(0) + x.min(0),
    ]


def given(rows: int, width: int, dtype: str) -> np.ndarray:
    return np.random.default_rng(rows + width).normal(size=(rows, width)).astype(dtype)


def same(got: list[np.ndarray], x: np.ndarray) -> None:
    node = sj.tensor((None, None), x.dtype, "x")
    expected = sj.function([node], features(node), mode="reference")(x)
    all_close(got, expected, rtol=2e-5 if x.dtype == "float32" else 1e-12, atol=1e-5)


@pytest.mark.quick(2)
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_strips_of_columns(dtype: str, threads: int) -> None:
    """Strips, chunks and terms that are whole and that are not, in calls with many columns and with few."""
    x = sj.tensor((None, None), dtype, "x")
    with Config(width=16, threads=threads, small=True).active():
        f = sj.function([x], features(x), mode="emulate")
        assert STRIPS in f.explain()
        for rows, width in itertools.product(LONG[1:], WIDE):
            value = given(rows, width, dtype)
            same(f(value), value)


@pytest.mark.parametrize("threads", [1, 3])
def test_sums_over_a_middle_axis(threads: int) -> None:
    x = sj.tensor((None, None, None), "float32", "x")
    outputs = [x.sum(1), np.sqrt((x * x).mean(1)), x.max(1)]
    with Config(width=16, threads=threads, small=True).active():
        f = sj.function([x], outputs, mode="emulate")
        assert STRIPS in f.explain()
        for many, rows, width in itertools.product((0, 1, 3), (1, 5, 12), WIDE):
            value = given(many * rows, width, "float32").reshape(many, rows, width)
            expected = [value.sum(1), np.sqrt((value * value).mean(1)), value.max(1)]
            all_close(f(value), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("threads", [1, 3])
def test_the_last_tile_of_a_strip(threads: int) -> None:
    """It may reach beyond the columns. No thread computes columns of another one, and no sum is read before it is
    set."""
    x = sj.tensor((None, None), "float32", "x")
    with Config(width=16, threads=threads, small=True).active():
        f = sj.function([x], [x.max(0)], mode="emulate")
        assert STRIPS in f.explain()
        for width in (29, 25, 41):
            value = given(12, width, "float32")
            np.testing.assert_array_equal(f(value)[0], value.max(0))


def test_sums_of_other_sizes() -> None:
    """The sums of an odd number of columns, of 4 bytes and then of 8: each lies at a multiple of its own size."""
    x = sj.tensor((None, None), "float32", "x")
    with Config(width=4, small=True).active():
        f = sj.function([x], [x.max(0) + (x > 0).sum(0)], mode="emulate")
        assert "21 columns a strip" in f.explain()
        value = given(12, 40, "float32")
        np.testing.assert_array_equal(f(value)[0], value.max(0) + (value > 0).sum(0))


@pytest.mark.parametrize("width", [4, 17, 32, 70])
def test_known_columns(width: int) -> None:
    x = sj.tensor((12, width), "float32", "x")
    with Config(width=16, small=True).active():
        f = sj.function([x], features(x), mode="emulate")
        assert (STRIPS in f.explain()) == (width > 16)
        value = given(12, width, "float32")
        same(f(value), value)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int16"])
def test_the_first_of_equal_elements(dtype: str) -> None:
    """Its place, also where it is in another turn of a strip than the others; and the place of the first NaN."""
    x = sj.tensor((None, None), dtype, "x")
    with Config(width=16, small=True).active():
        f = sj.function([x], [x.argmax(0), x.argmin(0)], mode="emulate")
        assert STRIPS in f.explain()
    for seed, width in enumerate((17, 40, 41)):
        value = np.random.default_rng(seed).integers(-1, 2, (19, width)).astype(dtype)
        if dtype != "int16":
            value[seed + 3 :: 9, ::3] = np.nan
        np.testing.assert_array_equal(f(value), [value.argmax(0), value.argmin(0)])


def test_terms_are_fetched_ahead(capsys: pytest.CaptureFixture[str]) -> None:
    """Those of the same columns that come after the terms of other columns: always in short rows, of long rows if all
    of them do not fit into the third-level cache."""
    for width, some in ((17, "fetched ahead;"), (4000, "fetched ahead where min((16000*x.shape[0] // ")):
        x = sj.tensor((None, width), "float32", "x")
        with Config(width=16, small=True).active():
            f = sj.function([x], [x.sum(0)], mode="emulate")
            sj.dprint(f, stage="blocks")
        assert "prefetch(" in f.source
        assert some in capsys.readouterr().out


def test_no_rows() -> None:
    """No strip has no terms: sums are zero."""
    x = sj.tensor((None, None), "float32", "x")
    with Config(width=16, small=True).active():
        f = sj.function([x], [x.sum(0)], mode="emulate")
        for width in WIDE:
            np.testing.assert_array_equal(f(np.zeros((0, width), "float32"))[0], np.zeros(width))


def test_threads_and_strips_change_no_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums of many chunks: in one thread or three; and, but for columns behind the last whole tile, as a function adds
    them that goes through each tile of columns by itself."""
    for name in ("SMALLEST_NEST", "WAKING", "LEAST_GAIN"):
        monkeypatch.setattr(rates, name, 0)
    x, found = sj.tensor((None, None), "float32", "x"), []
    for least in (columns.LEAST_BYTES, 10**6):
        monkeypatch.setattr(columns, "LEAST_BYTES", least)
        fs = [sj.function([x], [feature]) for feature in (*features(x)[:3], *features(x)[6:8])]
        assert all((STRIPS in f.explain()) == (least < 10**6) for f in fs)
        for sj.config.threads in (1, 3):
            sizes = ((1100, 1300), (300, 1028), (33, 20000))
            found.append([f(given(rows, width, "float32"))[0] for f in fs for rows, width in sizes])
    np.testing.assert_equal(found[1::2], found[::2])
    for strips, tiles in zip(found[0], found[2], strict=True):
        whole = strips.size // 64 * 64
        np.testing.assert_array_equal(strips[:whole], tiles[:whole])
        np.testing.assert_allclose(strips, tiles, rtol=1e-4, atol=1e-3)


def test_rounding_errors_grow_slowly() -> None:
    """A sum of chunks: one chain of a million additions would be wrong in the third digit."""
    value = np.full((300_000, 80), np.float32(0.1))
    got = sj.jit(lambda x: x.sum(0))(value)
    np.testing.assert_allclose(got, 300_000 * float(np.float32(0.1)), rtol=2e-5)


def product(x: sj.Node, w: sj.Node) -> list[sj.Node]:
    return [w @ x, x.T @ w]


def test_products_with_one_row() -> None:
    """A vector times a matrix goes down its columns."""
    x, w = sj.tensor((None, None), "float64", "x"), sj.vector("w", "float64")
    with Config(width=16, small=True).active():
        f = sj.function([x, w], product(x, w), mode="emulate")
        assert STRIPS in f.explain()
        for rows, width in itertools.product(LONG, WIDE):
            value = given(rows, width, "float64")
            factor = np.arange(1.0, rows + 1)
            for got in f(value, factor):
                np.testing.assert_allclose(got, factor @ value, rtol=1e-12, atol=1e-12)


def test_nests_in_steps_have_no_strips() -> None:
    """What a step sums is near, and its nests are small."""
    x, h = sj.tensor((None, None, None), "float32", "x"), sj.tensor((None,), "float32", "h")
    y = sj.scan(lambda x, h: np.tanh(h + (x * h).sum(0)), sequences=x, outputs_info=[h])
    with Config(width=16, small=True).active():
        assert STRIPS not in sj.function([x, h], [y], mode="emulate").explain()

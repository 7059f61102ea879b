"""Products of many terms: in blocks of terms, with the bits of one long sum."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

import scanjit as sj
from scanjit.runtime import host
from scanjit.schedule.time import long_sums
from tests.fuzz.check import Config

SIZES = (0, 1, 3, 4, 5, 11)


def program(rows: int | str, batch: int | str, dtype: str = "float32") -> tuple[list[sj.Node], list[sj.Node]]:
    """Gradients of two weights that share an operand, over rows of a batch."""
    x, g = sj.tensor((rows, batch, 6), dtype, name="x"), sj.tensor((rows, batch, 9), dtype, name="g")
    return [x, g], [sj.tensordot(x, g, [[0, 1], [0, 1]]), sj.tensordot(sj.tanh(x), g, [[0, 1], [0, 1]])]


def values(rows: int, batch: int, dtype: str = "float32") -> list[np.ndarray]:
    rng = np.random.default_rng(rows + 10 * batch)
    return [rng.standard_normal((rows, batch, n)).astype(dtype) for n in (6, 9)]


@pytest.mark.quick(2)
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_blocks_of_terms(dtype: str, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    inputs, outputs = program("T", "B", dtype)
    with Config(width=16, threads=threads).active():
        monkeypatch.setattr(long_sums, "LEAST", 10**6)
        whole = sj.function(inputs, outputs, mode="emulate")
        monkeypatch.setattr(long_sums, "LEAST", 4)
        with host.using(replace(host.target(), level2_bytes=4)):
            blocked = sj.function(inputs, outputs, mode="emulate")
        assert "are made in blocks of" in blocked.explain()
        for rows, batch in itertools.product(SIZES, (0, 1, 3)):
            given = values(rows, batch, dtype)
            for got, bits, x in zip(blocked(*given), whole(*given), (given[0], np.tanh(given[0])), strict=True):
                np.testing.assert_array_equal(got, bits)
                np.testing.assert_allclose(got, np.tensordot(x, given[1], [[0, 1], [0, 1]]), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("rows", "batch"), [(11, 3), ("T", 3), (11, "B")])
def test_known_sizes(rows: int | str, batch: int | str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long_sums, "LEAST", 4)
    inputs, outputs = program(rows, batch)
    f = sj.function(inputs, outputs, mode="emulate")
    assert "are made in blocks of" in f.explain()
    given = values(11, 3)
    for got, x in zip(f(*given), (given[0], np.tanh(given[0])), strict=True):
        np.testing.assert_allclose(got, np.tensordot(x, given[1], [[0, 1], [0, 1]]), rtol=1e-5, atol=1e-5)


def test_few_terms_stay_together() -> None:
    x, w = sj.matrix("x"), sj.tensor((100, 30))
    assert "are made in blocks of" not in sj.function([x, w], x @ w, mode="emulate").explain()


def test_sums_with_an_epilogue_stay_together() -> None:
    x, w = sj.matrix("x"), sj.tensor((10000, 30))
    assert "are made in blocks of" not in sj.function([x, w], sj.tanh(x @ w), mode="emulate").explain()


@pytest.mark.parametrize("terms", [2, 5, 40, "n"])
def test_lanes_along_the_sum(terms: int | str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What has fewer columns than lanes may be summed along the lanes, which begin with nothing."""
    monkeypatch.setattr(long_sums, "LEAST", 1)
    size = terms if isinstance(terms, int) else 9
    a, b = np.random.default_rng(size).standard_normal((2, 5, size))
    x, y = (sj.tensor((5, terms)) for _ in range(2))
    with Config(width=64, small=True).active():
        got = sj.function([x, y], sj.tensordot(x, y, [[1], [1]]), mode="emulate")(a, b)
    np.testing.assert_allclose(got, a @ b.T, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("size", [4, 300, 5000])
def test_products_of_vectors_of_known_sizes(size: int) -> None:
    x, y = sj.tensor((size,), name="x"), sj.tensor((size,), name="y")
    a, b = np.random.default_rng(size).normal(size=(2, size))
    np.testing.assert_allclose(sj.function([x, y], sj.dot(x, y), mode="emulate")(a, b), a @ b)

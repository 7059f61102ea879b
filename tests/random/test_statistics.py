"""Distributions and independence. Seeds are fixed, so a test that passes always passes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import stats

import scanjit as sj
from scanjit.random import Stream
from tests.random.support import drawn

COUNT = 100_000
LEAST = 1e-3
"""The least probability, of a result as far off, that a test accepts."""


def correlation(a: np.ndarray, b: np.ndarray) -> float:
    """In standard deviations of what independent numbers give."""
    return float(np.corrcoef(a.ravel(), b.ravel())[0, 1]) * np.sqrt(a.size)


def fits(counts: np.ndarray, probabilities: Any) -> bool:
    expected = np.asarray(probabilities) / np.sum(probabilities) * counts.sum()
    return stats.chisquare(counts, expected).pvalue > LEAST


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_normal(dtype: str) -> None:
    x = drawn(lambda s: s.normal((COUNT,), dtype=dtype)).astype("float64")
    for power, expected in ((1, 0), (2, 1), (3, 0), (4, 3), (6, 15)):
        deviation = np.std(x**power) / np.sqrt(COUNT)
        assert abs(np.mean(x**power) - expected) < 4 * deviation, power
    assert stats.kstest(x, "norm").pvalue > LEAST
    edges = stats.norm.ppf(np.linspace(0, 1, 201))
    assert fits(np.histogram(x, edges)[0], np.ones(200))
    assert fits(np.histogram(np.abs(x), [0, 2, 3, 3.5, 9])[0], np.diff(stats.norm.cdf([0, 2, 3, 3.5, 9])))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_uniform(dtype: str) -> None:
    x = drawn(lambda s: s.uniform((COUNT,), dtype=dtype)).astype("float64")
    assert stats.kstest(x, "uniform").pvalue > LEAST
    assert fits(np.histogram(x, 256, (0, 1))[0], np.ones(256))
    scaled = x * 2 ** (24 if dtype == "float32" else 53)
    assert np.all(scaled == np.floor(scaled)) and fits(np.bincount(np.mod(scaled, 64).astype(int)), np.ones(64))
    assert stats.kstest(drawn(lambda s: s.uniform((COUNT,), -3, 5)), "uniform", (-3, 8)).pvalue > LEAST


@pytest.mark.parametrize("p", [0.01, 0.5, 0.9])
def test_bernoulli(p: float) -> None:
    for dtype in ("bool", "float32"):
        x = drawn(lambda s, dtype=dtype: s.bernoulli((COUNT,), p, dtype))
        assert fits(np.bincount(x.astype(int)), [1 - p, p])


def test_integers() -> None:
    x = drawn(lambda s: s.integers(-5, 8, (COUNT,)))
    assert x.min() == -5 and x.max() == 7 and fits(np.bincount(x + 5), np.ones(13))
    wide = drawn(lambda s: s.integers(2**40, shape=(COUNT,)))
    assert stats.kstest(wide / 2**40, "uniform").pvalue > LEAST


@pytest.mark.parametrize("how", ["p", "logits"])
def test_categorical(how: str) -> None:
    p = np.array([[0.1, 0.4, 0.0, 0.5], [7.0, 1.0, 1.0, 1.0]])
    with np.errstate(divide="ignore"):
        given = {"p": p} if how == "p" else {"logits": np.log(p) + 3}
    found = drawn(lambda s: s.categorical(**given, shape=(20000, 2)))
    for row, column in zip(p, found.T, strict=True):
        counts = np.bincount(column, minlength=4)
        assert np.all(counts[row == 0] == 0) and fits(counts[row > 0], row[row > 0])


def test_permutations_are_equally_likely() -> None:
    orders = drawn(lambda s: sj.vmap(lambda _: s.permutation(4))(np.zeros(24000)))
    codes = orders @ np.array([64, 16, 4, 1])
    kinds, counts = np.unique(codes, return_counts=True)
    assert len(kinds) == 24 and fits(counts, np.ones(24))


def test_places_in_larger_permutations() -> None:
    orders = drawn(lambda s: sj.vmap(lambda _: s.permutation(30))(np.zeros(6000)))
    for place in (0, 17, 29):
        assert fits(np.bincount(orders[:, place]), np.ones(30))
    followed = (orders[:, 1] - orders[:, 0]) % 30
    assert fits(np.bincount(followed, minlength=30)[1:], np.ones(29))


def test_choice() -> None:
    p = np.array([0.1, 0.2, 0.7])
    assert fits(np.bincount(drawn(lambda s: s.choice(3, (20000,), p=p))), p)
    pairs = drawn(lambda s: sj.vmap(lambda _: s.choice(3, (2,), replace=False, p=p))(np.zeros(20000)))
    table = np.array([[0 if i == j else p[i] * p[j] / (1 - p[i]) for j in range(3)] for i in range(3)])
    counts = np.bincount(pairs @ np.array([3, 1]), minlength=9)
    assert fits(counts[table.ravel() > 0], table[table > 0])


def one(stream: Stream) -> Any:
    return stream.normal((COUNT,))


@pytest.mark.parametrize(
    "pair",
    [
        lambda: drawn(lambda s: [one(s), one(s)]),
        lambda: [drawn(one, calls=1), drawn(one, calls=2)],
        lambda: [drawn(one, seed=1), drawn(one, seed=2)],
        lambda: drawn(lambda s: sj.scan(lambda: one(s), n_steps=2)),
        lambda: drawn(lambda s: sj.vmap(lambda x: x + one(s))(np.zeros((2, 1)))),
    ],
    ids=["draws", "calls", "seeds", "steps", "examples"],
)
def test_independence(pair: Callable[[], Any]) -> None:
    a, b = pair()
    for f in (lambda x: x, np.abs, np.square):
        assert abs(correlation(f(a), f(b))) < 4
        for lag in (1, 2, 8):
            assert abs(correlation(f(a[:-lag]), f(b[lag:]))) < 4
    cells = np.histogram2d(stats.norm.cdf(a), stats.norm.cdf(b), 16, [[0, 1], [0, 1]])[0]
    assert fits(cells.ravel(), np.ones(256))


def test_independence_of_neighbours() -> None:
    x = drawn(one)
    for lag in (1, 2, 4, 8, 16, 256):
        assert abs(correlation(x[:-lag], x[lag:])) < 4
        assert abs(correlation(np.abs(x[:-lag]), np.abs(x[lag:]))) < 4


def test_steps_draw_normal_numbers() -> None:
    """One number a step, for many steps: a random walk's increments."""
    rows = drawn(lambda s: sj.scan(lambda h: (h + s.normal(), s.normal()), outputs_info=[0.0, None], n_steps=5000))
    increments = np.diff(rows[0])
    for x in (increments, rows[1]):
        assert stats.kstest(x, "norm").pvalue > LEAST and abs(correlation(x[:-1], x[1:])) < 4
    assert abs(correlation(increments, rows[1][1:])) < 4

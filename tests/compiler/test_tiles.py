"""Register tiles along reductions: sums of products where the last axis of the result is too short for the lanes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import scanjit as sj
from tests.fuzz.check import Config


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
    for u, v in zip(got, expected, strict=True):
        np.testing.assert_allclose(u, v, rtol=1e-5, atol=1e-5)


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

"""Nests of a step that threads compute without a meeting in between."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import scanjit as sj
from scanjit.runtime import host
from scanjit.schedule.cost import rates
from scanjit.target import target_for
from tests.compare import same_for_any_threads
from tests.fuzz.check import Config

H = 40
"""Threads share the columns."""


def gates(row: Any, h: Any, w: Any) -> list[Any]:
    return [row[:, H * i : H * (i + 1)] + h @ w[:, H * i : H * (i + 1)] for i in range(4)]


def lstm(row: Any, h: Any, c: Any, w: Any) -> Any:
    i, f, g, o = gates(row, h, w)
    c = sj.sigmoid(f) * c + sj.sigmoid(i) * sj.tanh(g)
    return sj.sigmoid(o) * sj.tanh(c), c


def one_after_the_other(row: Any, h: Any, c: Any, w: Any) -> Any:
    """Each product needs the whole result of the one before."""
    for i in range(3):
        h = sj.tanh(row[:, H * i : H * (i + 1)] + h @ w[:, H * i : H * (i + 1)])
    return h, c + h


def calls(source: str) -> list[int]:
    """For each loop over the pieces of products of a step: how many functions it calls."""
    pieces = re.findall(r"while (piece\d+) >= 0:\n((?: +contract\w*\(.*\n)+) +\1 = next_piece", source)
    return [calls.count("\n") for _, calls in pieces]


@pytest.mark.quick(1)
@pytest.mark.parametrize(("step", "most"), [(lstm, 3), (one_after_the_other, 1)])
def test_products_that_need_nothing_of_each_other_have_one_meeting(step: Any, most: int) -> None:
    """The emulator finds what two threads touch without a meeting in between."""
    x, w = sj.tensor((None, None, 4 * H), "float32"), sj.tensor((H, 4 * H), "float32")
    zeros = sj.zeros((x.shape[1], H), "float32")
    outputs = sj.scan(lambda row, h, c: step(row, h, c, w), x, [zeros, zeros])
    reference = sj.function([x, w], outputs, mode="reference")
    rng = np.random.default_rng(0)
    weights = rng.standard_normal((H, 4 * H), np.float32) / 4
    for threads in (1, 2, 3):
        with Config(threads=threads).active(), host.using(target_for("x86_64-linux-gnu", features="+avx2,+fma")):
            f = sj.function([x, w], outputs, mode="emulate")
            assert max(calls(f.source)) == most
            for batch in (0, 1, 2, 9):
                value = rng.standard_normal((3, batch, 4 * H), np.float32)
                for got, wanted in zip(f(value, weights), reference(value, weights), strict=True):
                    np.testing.assert_allclose(got, wanted, rtol=2e-5, atol=2e-5)


def test_the_same_bits_for_any_number_of_threads(rng: np.random.Generator) -> None:
    x, w = sj.tensor((None, None, 4 * H), "float32"), sj.tensor((H, 4 * H), "float32")
    zeros = sj.zeros((x.shape[1], H), "float32")
    y = sj.scan(lambda row, h, c: lstm(row, h, c, w), x, [zeros, zeros])[0]
    f = sj.function([x, w], [y, *sj.grad((y**2).sum(), [x, w])])
    given = rng.standard_normal((20, 9, 4 * H), np.float32), rng.standard_normal((H, 4 * H), np.float32) / 4
    same_for_any_threads(f, *given)


def test_a_result_does_not_lie_where_another_thread_still_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """`first` is read for the last time by a product of which threads would go on to the next one without a meeting.
    The result of that one could have the memory of `first`."""
    x = sj.tensor((None, None, H), "float32")
    weights = [sj.tensor((H, H), "float32") for _ in range(5)]

    def step(row: Any, h: Any) -> Any:
        first = sj.tanh(h @ weights[0])
        second, third = first @ weights[1], h @ weights[2]
        fourth, fifth = second @ weights[3], third @ weights[4]
        return sj.tanh(fourth) + sj.sigmoid(fifth) * row - 0.1 * h.mean(0)  # rows meet, so no thread keeps its own

    y = sj.scan(step, x, sj.zeros((x.shape[1], H), "float32"))
    reference = sj.function([x, *weights], y, mode="reference")
    rng = np.random.default_rng(0)
    given = [rng.standard_normal((4, 9, H), np.float32), *rng.standard_normal((5, H, H), np.float32) / 4]
    monkeypatch.setattr(rates, "MEETING", 0.0)  # threads share the columns
    target = target_for("x86_64-linux-gnu", features="+avx2,+fma")
    with Config(threads=3, shared=True).active(), host.using(target):
        f = sj.function([x, *weights], y, mode="emulate")
        np.testing.assert_allclose(f(*given), reference(*given), rtol=2e-5, atol=2e-5)

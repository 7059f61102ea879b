"""A thread that is interrupted runs some more statements before it ends: these find memory that nobody has written."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import scanjit as sj
from scanjit.runtime import emulation
from scanjit.schedule.cost import rates
from scanjit.simd import emulate
from tests.fuzz.check import Config

N = 3
W4 = np.random.default_rng(0).standard_normal((4, 4)) * 0.4
W = W4[:N, :N]
Made = Callable[[Any, Any], Any]


class Unwritten(emulate.Allocations):
    """Memory that holds anything at first, and may be read all the same."""

    def _check_written(self, *access: object) -> None:
        pass

    def _check_met(self, *access: object) -> None:
        pass


def ends_early(x: sj.Tensor, n: sj.Tensor) -> sj.Tensor:
    """A loop that one thread runs."""
    return sj.scan(lambda h: (h * 1.1 + 0.1, sj.until(h > 1e3)), outputs_info=x[0, 0], n_steps=n)


def many_end_early(x: sj.Tensor, n: sj.Tensor) -> sj.Tensor:
    return sj.scan(lambda h: (np.tanh(h @ W), sj.until(h.sum() > 1e3)), outputs_info=x[:, :N], n_steps=n)


def last(x: sj.Tensor, n: sj.Tensor) -> Any:
    hs = ends_early(x, n)
    return [hs, sj.tanh(hs[-1]) * 2, hs.sum()]


def last_of_many(x: sj.Tensor, n: sj.Tensor) -> Any:
    hs = many_end_early(x, n)
    return [hs, hs[-1] + 1, hs[::2].sum()]


def gradient(x: sj.Tensor, n: sj.Tensor) -> Any:
    return sj.grad((ends_early(x, n) ** 2).sum(), x)


def gradient_of_many(x: sj.Tensor, n: sj.Tensor) -> Any:
    return sj.grad((many_end_early(x, n) ** 2).sum(), x)


def inside(x: sj.Tensor, n: sj.Tensor) -> Any:
    def step(row: sj.Tensor, s: sj.Tensor) -> sj.Tensor:
        hs = sj.scan(lambda h: (h * 1.1 + s.sum(), sj.until(h > 40)), outputs_info=row[0], n_steps=n)
        return s + hs[-1] * row[:N]

    return sj.scan(step, x, sj.zeros(N))


def side_by_side(x: sj.Tensor, n: sj.Tensor) -> Any:
    a, b = ends_early(x, n), ends_early(x * 2, n)
    return [a[-1] * b[-1], a, b]


def branches(x: sj.Tensor, n: sj.Tensor) -> Any:
    y = sj.scan(lambda row, h: np.tanh(row[:N] + h @ W), x, x[0, :N])
    return sj.ifelse(y.sum() > 0, lambda: y[0] @ W, lambda: y[n - 1] @ W @ W)


def wave(x: sj.Tensor, n: sj.Tensor) -> Any:
    y = x
    for _ in range(3):
        y = sj.scan(lambda row, h: np.tanh(row + h @ W4), y, x[0])
    return [y, sj.grad((y * y).sum(), x)]


def places(x: sj.Tensor, n: sj.Tensor) -> Any:
    y = sj.scan(lambda row, h: np.tanh(row[:N] + h @ W), x, x[0, :N])
    some = sj.cast(abs(y[:, 0]), "int64")
    return [x[y.argmax(axis=0)], x[y[:, 0].argsort()], x[some % y.shape[0]], x[:, some.argsort() % N]]


PROGRAMS = [
    last, last_of_many, gradient, gradient_of_many, inside, side_by_side, branches, places, wave,
]  # fmt: skip


class Ended(Exception):
    """What Python would raise when the program has returned."""


class Looks:
    """Threads are interrupted at the look with this number, and at all later ones."""

    def __init__(self) -> None:
        self.number = self.before = 0

    def interrupted(self, *where: int) -> bool:
        self.before += 1
        return self.over()

    def over(self) -> bool:
        return self.before > self.number

    def resolve(self, name: str, memory: emulate.Allocations) -> Any:
        return self.interrupted if name in ("interrupted", "interrupted_at") else RESOLVE(name, memory)


RESOLVE = emulate.resolve


@pytest.mark.quick(5)
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("made", PROGRAMS, ids=lambda made: made.__name__)
def test_who_is_interrupted_stays_inside_of_the_arrays(
    made: Made, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rates, "WAKING", 0)
    monkeypatch.setattr(rates, "LEAST_GAIN", 0)
    looks, x, n = Looks(), sj.tensor(("T", 4), "float64", "x"), sj.scalar("n", "int64")
    data, ended = np.random.default_rng(1).standard_normal((5, 4)), 0
    with Config(threads=threads, ended=looks.over).active():
        f, run = sj.function([x, n], made(x, n), mode="emulate"), emulation.emulate

        def run_and_raise(*operands: Any) -> int:
            status = run(*operands)
            if looks.over():
                raise Ended
            return status

        with monkeypatch.context() as patch:
            patch.setattr(emulation, "Allocations", Unwritten)
            patch.setattr(emulate, "resolve", looks.resolve)
            patch.setattr(emulation, "emulate", run_and_raise)
            for looks.number in itertools.count():
                looks.before = 0
                try:
                    f(data, 7)
                    break
                except Ended:
                    ended += 1
    assert ended
    assert made is not wave or threads == 1 or "blocks of" in f.explain().split("side by side in turns")[1]

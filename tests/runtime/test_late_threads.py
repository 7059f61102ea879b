"""Nobody waits for a thread that is late: what it would compute, others compute in its place.

Here one real thread is thread 0 of three. The others come when it has ended, or never.
"""

from __future__ import annotations

import ctypes
import math
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import scanjit as sj
from scanjit.codegen.places import SYNC_WORDS
from scanjit.config import config
from scanjit.runtime.native import native
from scanjit.schedule.cost import rates
from scanjit.schedule.threads import waves
from scanjit.schedule.threads.teams import MOST_TEAMS

N, THREADS = 8, 3
W = np.random.default_rng(0).standard_normal((N, N)) * 0.4
Made = Callable[[Any], Any]


@pytest.fixture(autouse=True)
def three_threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("WAKING", "LEAST_GAIN", "SMALLEST_NEST"):
        monkeypatch.setattr(rates, name, 0)
    before, config.threads = config.threads, THREADS
    yield
    config.threads = before


def loop(x: sj.Tensor, backwards: bool = False) -> sj.Tensor:
    return sj.scan(lambda row, h: np.tanh(row + h @ W), x, x[0], go_backwards=backwards)


def gradient(x: sj.Tensor) -> sj.Tensor:
    return sj.grad((loop(x) ** 2).sum(), x)


def side_by_side(x: sj.Tensor) -> sj.Tensor:
    return np.tanh(loop(x) @ W) + loop(x, backwards=True)


def wave(x: sj.Tensor) -> sj.Tensor:
    """Each loop is one block of time behind the one before."""
    return loop(loop(loop(x)))


def until(x: sj.Tensor) -> sj.Tensor:
    hs = sj.scan(lambda h: (h @ (1.3 * W) + 0.5, sj.until(abs(h).max() > 40)), outputs_info=x[0], n_steps=50)
    return np.tanh(np.tanh(hs[-1] @ W) @ W + hs.shape[0])


def branches(x: sj.Tensor) -> sj.Tensor:
    y = sj.ifelse(x.sum() > 1e6, lambda: loop(x) @ W, lambda: np.tanh(loop(x, backwards=True) @ W + 1))
    return np.tanh(np.tanh(y @ W) @ W)


def bands(x: sj.Tensor) -> sj.Tensor:
    """Points of different bands never meet."""
    s = sj.scan(lambda a, s: 0.1 + 0.1 * a * a + 0.8 * s, x, x[0])
    return (sj.log(s * s + 1) + x * x / (s * s + 1)).sum(axis=0)


def one_series(x: sj.Tensor) -> sj.Tensor:
    """A loop that one thread runs in a nest, and tells how far it is."""
    return sj.scan(lambda a, s: sj.tanh(a + 0.5 * s), x[:, 0, 0], sj.constant(0.0)) * 2


def alone(x: sj.Tensor) -> sj.Tensor:
    """A loop whose threads share nothing of a step."""

    def step(row: sj.Tensor, m: sj.Tensor, P: sj.Tensor) -> Any:
        P = W[:2, :2] @ P @ W[:2, :2].T + np.eye(2)
        return m + P @ row, P / P.sum()

    return sj.scan(step, x[:, 0, :2], [sj.zeros(2), sj.constant(np.eye(2))])[0]


def late(number: int, others: tuple[int, ...]) -> Callable[..., int]:
    """Runs a program like `native().run`: as one thread, and then as others, who find that all is done."""
    kind = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 4)

    def run(program: int, table: int, threads: int, tick: Any, places: int, arrays: list[np.ndarray]) -> int:
        assert threads == THREADS
        call = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 4)(program)
        pairs = (ctypes.c_int64 * (1 + 2 * ctypes.c_int64.from_address(places).value)).from_address(places)
        for entry, array in zip(pairs[1::2], pairs[2::2], strict=True):
            ctypes.c_int64.from_address(table + 8 * entry).value = arrays[array].ctypes.data
        ctypes.memset(native().place, 0, (1 + MOST_TEAMS) * 8 * SYNC_WORDS)
        ended, stop = ctypes.c_int64(0), kind(lambda *_: 1)
        line = (ctypes.c_int64 * 40)(ctypes.addressof(ended), 0, ctypes.cast(stop, ctypes.c_void_p).value or 0)
        timer = threading.Timer(20, lambda: setattr(ended, "value", 1))  # it would wait for ever
        timer.start()
        for thread in (number, *others):
            call(table, thread, threads, ctypes.addressof(line))
        timer.cancel()
        assert ended.value == 0, "a thread waited for one that never came"
        return threads

    return run


@pytest.mark.quick(5)
@pytest.mark.parametrize(
    "made, first",
    [
        (loop, 1),
        (gradient, 1),
        (side_by_side, 2),
        (wave, 2),
        (until, 1),
        (branches, 2),
        (bands, 1),
        (one_series, 0),
        (alone, 0),
    ],
)
@pytest.mark.parametrize("apart", [0.0, 1e9], ids=["shared", "kept"])
def test_nobody_waits_for_a_late_thread(made: Made, first: int, apart: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """`first` is another thread that may be the only one; 0 if the others wait for the thread of the call."""
    monkeypatch.setattr(rates, "MEETING", apart)
    monkeypatch.setattr(waves, "GAIN", math.inf)
    monkeypatch.setattr(waves, "SHORTEST", 2)
    x = sj.tensor(("T", "B", N), "float64", "x")
    f, data = sj.function([x], made(x)), np.random.default_rng(1).standard_normal((7, 9, N))
    wanted = f(data)
    (stage,) = f.executable.stages
    for number in {0, first}:
        monkeypatch.setattr(stage, "_run", late(number, tuple({*range(THREADS)} - {number})))
        np.testing.assert_array_equal(f(data), wanted)

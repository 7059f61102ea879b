"""What is interrupted: calls of every kind, each with what has to hold afterwards."""

from __future__ import annotations

import collections
import contextlib
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import scanjit as sj
from scanjit.config import config
from scanjit.runtime import probes
from scanjit.runtime.shared import SharedVariable
from tests.workers import nobody_works


@dataclass
class Kind:
    """A call to make again and again, on so many threads; the variables of which it adds one to each, and more that
    has to hold after an interrupt. `beside` runs in another thread meanwhile, again and again."""

    name: str
    call: Callable[[], Any]
    threads: int = 1
    counters: Sequence[SharedVariable] = ()
    check: Callable[[], bool] = lambda: True
    beside: Callable[[], Any] | None = None
    several: bool = field(default=False)
    """Whether one signal comes right after the other."""
    endless: bool = False
    """Whether nothing but the signal ends the call: that takes as long as a tick of the clock."""

    def share(self, count: int) -> int:
        """How many of so many interrupts."""
        return -(-count // 50) if self.endless else count

    def faults(self) -> list[str]:
        """What does not hold: nothing, it is hoped."""
        found = []
        values = {int(v.get_value(borrow=True)) for v in self.counters}
        if len(values) > 1:
            found.append(f"half of the variables are updated: {sorted(values)}")
        if any(v._lock._is_owned() for v in self.counters):  # type: ignore[attr-defined]
            found.append("a lock is held")
        if self.beside is None and not nobody_works():
            found.append("threads still work")
        if not self.check():
            found.append("a value is wrong")
        return found


def kinds() -> list[Kind]:
    """All kinds."""
    return [
        _short(),
        _reading(),
        _setting(),
        _long(1),
        _long(3),
        *map(_wave, (2, 4)),
        *map(_gates, (2, 3)),
        _storm(),
        _crowd(),
        _lapack(),
        _weights(),
        _jitted(),
        _printing(),
        _failing(),
        *map(_endless, (1, 3)),
    ]


def _counters(many: int) -> list[SharedVariable]:
    return [sj.shared(0, f"count{i}") for i in range(many)]


def _short() -> Kind:
    counters = _counters(12)
    f = sj.function([], updates={v: v + 1 for v in counters})
    return Kind("short calls with updates", f, counters=counters)


def _reading() -> Kind:
    x = sj.vector("x")
    f, given = sj.function([x], {"twice": 2 * x, "sum": x.sum()}), np.arange(50.0)
    return Kind("short calls without updates", lambda: f(given))


def _setting() -> Kind:
    v = sj.shared(np.zeros(100), "v")
    values = [np.full(100, float(i)) for i in range(3)]

    def call() -> None:
        for value in values:
            v.set_value(value)

    return Kind("setting values", call, check=lambda: len(set(v.get_value(borrow=True))) == 1)


def _product(threads: int, counters: Sequence[SharedVariable]) -> tuple[Callable[[], Any], Callable[[], bool]]:
    """A call that takes a millisecond or so, and whether results are right and those of before unchanged."""
    x = sj.matrix("x")
    f = sj.function([x], [sj.exp(x) * 2 + sj.sin(x), sj.tanh(x).sum(0)], updates={v: v + 1 for v in counters})
    return _checked(f, np.random.default_rng(0).random((300, 200)), threads)


def _checked(f: Any, given: np.ndarray, threads: int) -> tuple[Callable[[], Any], Callable[[], bool]]:
    """A call of a function, and whether results are right and those of before unchanged."""
    config.threads = threads
    kept = f(given)
    wanted = [array.copy() for array in kept]
    turn = 0

    def check() -> bool:
        nonlocal turn
        turn += 1
        right = all((a == b).all() for a, b in zip(kept, wanted, strict=True))
        if turn % 50 == 0:
            right = right and all((a == b).all() for a, b in zip(f(given), wanted, strict=True))
        return right

    return lambda: f(given), check


def _long(threads: int) -> Kind:
    counters = _counters(5)
    call, check = _product(threads, counters)
    return Kind(f"long calls, threads: {threads}", call, threads, counters, check)


def _storm() -> Kind:
    counters = _counters(3)
    call, check = _product(3, counters)
    return Kind("long calls, one signal after the other", call, 3, counters, check, several=True)


def _wave(threads: int) -> Kind:
    """Layers in turns, each a block of time behind the one below; the gradient too."""
    x, counters = sj.tensor(("T", 1, 128), "float32", "x"), _counters(3)
    w = np.random.default_rng(0).standard_normal((128, 128)).astype("float32") * 0.05
    y = x
    for _ in range(3):
        y = sj.scan(lambda row, h: np.tanh(row @ w + h @ w), y, sj.zeros((1, 128), "float32"))
    f = sj.function([x], [y, sj.grad((y * y).sum(), x)], updates={v: v + 1 for v in counters})
    given = np.random.default_rng(1).standard_normal((100, 1, 128)).astype("float32")
    call, check = _checked(f, given, threads)
    assert "blocks of" in f.explain().split("side by side in turns")[1], "the layers run in no wave"
    return Kind(f"waves, threads: {threads}", call, threads, counters, check)


def _gates(threads: int) -> Kind:
    """Threads do not meet between the products of a step, of which each computes some columns."""
    x, counters = sj.tensor(("T", 1, 256), "float32", "x"), _counters(3)
    w = np.random.default_rng(0).standard_normal((64, 256)).astype("float32") * 0.05

    def step(row: sj.Tensor, h: sj.Tensor, c: sj.Tensor) -> list[sj.Tensor]:
        i, f, g, o = (row[:, 64 * k : 64 * k + 64] + h @ w[:, 64 * k : 64 * k + 64] for k in range(4))
        c = sj.sigmoid(f) * c + sj.sigmoid(i) * np.tanh(g)
        return [sj.sigmoid(o) * np.tanh(c), c]

    y = sj.scan(step, x, [sj.zeros((1, 64), "float32")] * 2)[0]
    f = sj.function([x], [y, sj.grad((y * y).sum(), x)], updates={v: v + 1 for v in counters})
    call, check = _checked(f, np.random.default_rng(1).standard_normal((300, 1, 256)).astype("float32"), threads)
    return Kind(f"products without meetings, threads: {threads}", call, threads, counters, check)


def _crowd() -> Kind:
    """Another thread calls the same function."""
    counters = _counters(5)
    call, check = _product(2, counters)
    lock = threading.Lock()  # so that nobody counts in the middle of the other one's update

    def beside() -> None:
        with lock:
            call()

    def alone() -> bool:
        with lock:
            return check() and len({int(v.get_value(borrow=True)) for v in counters}) == 1

    return Kind("long calls from two threads", call, 2, (), alone, beside)


def _lapack() -> Kind:
    a, counters = sj.matrix("a"), _counters(3)
    f = sj.function([a], sj.inv(a), updates={v: v + 1 for v in counters})
    given = np.random.default_rng(0).random((60, 60)) + 60 * np.eye(60)
    return Kind("calls of LAPACK", lambda: f(given), counters=counters)


def _weights() -> Kind:
    """What is made of weights once a value is right, also if the call that was to make it was interrupted."""
    w, x = sj.shared(np.eye(70), "w"), sj.matrix("x")
    f = sj.function([x], x @ w.T)
    given, factor = np.random.default_rng(0).random((40, 70)), 1.0

    def call() -> None:
        nonlocal factor
        factor = 3.0 - factor
        w.set_value(factor * np.eye(70))
        f(given)

    def check() -> bool:
        return np.allclose(f(given), given * w.get_value(borrow=True)[0, 0])

    return Kind("weights that change", call, check=check)


def _jitted() -> Kind:
    """Traced anew at each call, and compiled without kernels of its own."""

    def call() -> Any:
        v = sj.shared(np.zeros(3))
        return sj.function([], (v * 2).sum(), updates={v: v + 1}, mode="reference")()

    return Kind("building functions", call)


def _printing() -> Kind:
    """What is printed after a call comes before its updates: an interrupt between two lines leaves them out."""
    x, counters, lines = sj.vector("x"), _counters(5), collections.deque[str](maxlen=3)
    h = sj.scan(lambda row, h: sj.print_(sj.assert_(row > 0, row + h), "sum"), x, 0.0)
    f, given = sj.function([x], h, updates={v: v + 1 for v in counters}), np.ones(3)
    vars(probes)["print"] = lines.append
    return Kind("calls that print and check", lambda: f(given), counters=counters, check=lambda: all(map(len, lines)))


def _failing() -> Kind:
    """A call whose assertion does not hold updates nothing."""
    x, counters = sj.vector("x"), _counters(5)
    y = sj.scan(lambda row, h: sj.assert_(row > 0, row * h, "not positive"), x, 1.0)
    f, given = sj.function([x], y, updates={v: v + 1 for v in counters}), np.array([1.0, 2.0, -3.0])

    def call() -> None:
        with contextlib.suppress(sj.AssertError):
            f(given)

    return Kind("calls that fail", call, counters=counters, check=lambda: int(counters[0].get_value(borrow=True)) == 0)


def _endless(threads: int) -> Kind:
    """A loop that never ends, over a product of which threads share the columns."""
    x, counters = sj.matrix("x"), _counters(5)
    out = sj.while_loop(lambda h: h.min() > -2, lambda h: np.tanh(h @ x), x)
    f, given = sj.function([x], out, updates={v: v + 1 for v in counters}), np.full((200, 200), 0.1)

    def check() -> bool:
        return all(int(v.get_value(borrow=True)) == 0 for v in counters)

    return Kind(f"calls without end, threads: {threads}", lambda: f(given), threads, counters, check, endless=True)

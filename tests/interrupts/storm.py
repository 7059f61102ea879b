"""Interrupts of one kind of call, so many of them."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from scanjit.config import config
from tests.interrupts.kinds import Kind

PATIENCE = 30.0
"""Seconds after which what makes no progress is called a hang."""


class Stop(Exception):
    """What the handler raises."""


class Alarm:
    """A handler of SIGALRM that raises while it is armed."""

    def __init__(self) -> None:
        self.armed = False

    def __call__(self, *_: Any) -> None:
        if self.armed:
            raise Stop

    @contextmanager
    def installed(self) -> Iterator[None]:
        """While this is open, it is the handler."""
        before = signal.signal(signal.SIGALRM, self)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)


def interrupt(kind: Kind, count: int, seed: int = 0) -> list[str]:
    """Interrupt calls of a kind so many times, or its share of them; returns what went wrong."""
    chance, alarm, faults = random.Random(seed), Alarm(), list[str]()
    before, config.threads = config.threads, kind.threads
    try:
        with alarm.installed(), _watched(kind) as progress:
            seconds = _seconds_a_call(kind)
            for _ in range(kind.share(count)):
                progress[0] = time.monotonic()
                _once(kind, alarm, chance.uniform(1e-5, 1e-5 + 2 * seconds))
                faults += kind.faults()
    finally:
        config.threads = before
    return faults


def _once(kind: Kind, alarm: Alarm, seconds: float) -> None:
    """Call until the alarm comes."""
    try:
        signal.setitimer(signal.ITIMER_REAL, seconds, 2e-5 if kind.several else 0.05)
        alarm.armed = True
        while True:
            kind.call()
    except Stop:
        alarm.armed = False
    signal.setitimer(signal.ITIMER_REAL, 0)


def _seconds_a_call(kind: Kind) -> float:
    if kind.endless:
        return 1e-3
    kind.call()
    start = time.perf_counter()
    for _ in range(5):
        kind.call()
    return min((time.perf_counter() - start) / 5, 5e-3)


@contextmanager
def _watched(kind: Kind) -> Iterator[list[float]]:
    """While this is open, a hang ends the process; and another thread calls what the kind has `beside`."""
    progress, over = [time.monotonic()], threading.Event()

    def watch() -> None:
        while not over.wait(1):
            if time.monotonic() - progress[0] > PATIENCE:
                print(f"{kind.name}: hangs", flush=True)
                os._exit(3)

    def call() -> None:
        while not over.wait(1e-3):
            assert kind.beside is not None
            kind.beside()

    threads = [threading.Thread(target=watch, daemon=True)]
    threads += [threading.Thread(target=call, daemon=True)] if kind.beside else []
    for thread in threads:
        thread.start()
    try:
        yield progress
    finally:
        over.set()
        for thread in threads:
            thread.join()

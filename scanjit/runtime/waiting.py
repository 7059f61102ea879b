"""Tells who waits for a function to be compiled how far it is."""

from __future__ import annotations

import contextlib
import threading
import time
import weakref
from collections.abc import Iterator
from contextvars import ContextVar
from typing import TextIO

from scanjit.errors import suppressed
from scanjit.runtime import bars
from scanjit.runtime.bars import Bar


class Progress:
    """How far the compilation of a function is. `kernels` are known so far, `done` of them are compiled, and `kept` of
    them written to the cache."""

    def __init__(self, name: str) -> None:
        self.name, self.begun = name, time.monotonic()
        self.kernels = self.done = self.kept = 0
        self.shown = False
        self.ended = threading.Event()

    @property
    def seconds(self) -> float:
        """How long it has taken so far."""
        return time.monotonic() - self.begun

    def __str__(self) -> str:
        if not self.kernels:
            return f"compiling {self.name}: {self.seconds:.0f} s"
        return f"compiling {self.name}: {self.done} of {self.kernels} kernels, {self.seconds:.0f} s"


_current: ContextVar[Progress | None] = ContextVar("progress", default=None)


def current() -> Progress | None:
    """What this thread compiles, if somebody is told about it."""
    return _current.get()


@contextlib.contextmanager
def told(name: str) -> Iterator[None]:
    """While inside, and once it takes more than a second, say how far compiling is (see `bars`); afterwards how long it
    took. What is compiled inside of something that is told of already is part of that."""
    stream = bars.seen()
    if stream is None or _current.get() is not None:
        yield
        return
    progress = Progress(name)
    token = _current.set(progress)
    thread = threading.Thread(target=_show, args=(weakref.ref(progress), stream), name="scanjit-progress", daemon=True)
    try:
        with contextlib.suppress(RuntimeError):  # there may be no more threads
            thread.start()
        yield
        progress.ended.set()
        if thread.ident is not None:
            thread.join()
        if progress.shown:
            made = f": {progress.kernels} kernels" if progress.kernels else ""
            kept = "; the next process takes them from the cache" if progress.kept == progress.kernels > 0 else ""
            with suppressed(OSError, ValueError):
                print(f"compiled {name}{made} in {progress.seconds:.1f} s{kept}", file=stream)
    finally:
        progress.ended.set()
        _current.reset(token)


def _show(reference: weakref.ref[Progress], stream: TextIO) -> None:
    """Draw until compiling has ended, or was left by an exception."""
    bar: Bar | None = None
    ended = False
    while not ended and (progress := reference()) is not None:
        ended, wait = progress.ended.wait(bars.OFTEN), progress.seconds < bars.SILENT
        if not ended and not wait:
            bar = bar or Bar(stream)
            progress.shown = True
            bar.draw(str(progress), progress.done, progress.kernels)
        del progress
    if bar is not None:
        bar.clear()

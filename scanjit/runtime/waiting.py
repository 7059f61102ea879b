"""Tells who waits for a function to be compiled how far it is."""

import contextlib
import threading
import time
from collections.abc import Iterator
from contextvars import ContextVar

from scanjit.errors import suppressed
from scanjit.runtime import bars


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

    def state(self) -> tuple[str, int, int] | None:
        """What a bar shows of it."""
        if self.seconds < bars.SILENT:
            return None
        self.shown = True
        kernels = f"{self.done} of {self.kernels} kernels, " if self.kernels else ""
        return f"compiling {self.name}: {kernels}{self.seconds:.0f} s", self.done, self.kernels

    def __str__(self) -> str:
        made = f": {self.kernels} kernels" if self.kernels else ""
        kept = "; the next process takes them from the cache" if self.kept == self.kernels > 0 else ""
        return f"compiled {self.name}{made} in {self.seconds:.1f} s{kept}"


_current: ContextVar[Progress | None] = ContextVar("progress", default=None)


def current() -> Progress | None:
    """The compilation of this thread that users are told about, if there is one."""
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
    try:
        drawing = bars.Watcher(progress, stream)
        yield
        progress.ended.set()
        drawing.wait()
        if progress.shown:
            with suppressed(OSError, ValueError):
                print(progress, file=stream)
    finally:
        progress.ended.set()
        _current.reset(token)

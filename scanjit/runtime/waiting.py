"""Tells whoever waits for a function to be compiled how far that is."""

import contextlib
import threading
import time
from collections.abc import Iterator
from contextvars import ContextVar

from scanjit.errors import suppressed
from scanjit.runtime import bars


class Progress:
    """How far the compilation of a function is. `kernels` is the number of kernels that are known so far; `done` of
    them are compiled, and `kept` of them written to the cache."""

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
        """The text and the numbers for a bar."""
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
    """The compilation of this thread of which users are told, if there is one."""
    return _current.get()


@contextlib.contextmanager
def told(name: str) -> Iterator[None]:
    """A context that says how far compiling is once it takes more than a second (see `bars`), and how long it took at
    the end. A compilation inside another one that users are told of is a part of it."""
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

"""Tells who waits for a function to be compiled how far it is."""

from __future__ import annotations

import contextlib
import importlib
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any, TextIO

from scanjit.config import config

SILENT = 1.0
"""What takes fewer seconds says nothing."""
_OFTEN = 0.25
"""Seconds between two looks at how far it is."""


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
    """While inside, and once it takes more than a second, say on stderr or in the notebook's cell how far compiling is;
    afterwards how long it took. Nothing is said where stderr is no terminal, or `config.progress` is False."""
    stream = sys.stderr
    if not config.progress or not _seen(stream) or _current.get() is not None:
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
            print(f"compiled {name}{made} in {progress.seconds:.1f} s{kept}", file=stream)
    finally:
        progress.ended.set()
        _current.reset(token)


def _seen(stream: TextIO | None) -> bool:
    """Whether somebody looks at a stream: in a terminal or in a notebook."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    with contextlib.suppress(AttributeError, ValueError):  # replaced by something else, or closed
        return stream is not None and (stream.isatty() or getattr(shell, "kernel", None) is not None)
    return False


def _show(reference: weakref.ref[Progress], stream: TextIO) -> None:
    """Draw until compiling has ended, or was left by an exception."""
    bar: Any = None
    ended = False
    while not ended and (progress := reference()) is not None:
        ended, wait = progress.ended.wait(_OFTEN), progress.seconds < SILENT
        if not ended and not wait:
            bar = bar or _bar(stream)
            progress.shown = True
            bar.draw(progress)
        del progress
    if bar is not None:
        bar.clear()


def _bar(stream: TextIO) -> _Text | _Tqdm:
    try:
        return _Tqdm(importlib.import_module("tqdm.auto").tqdm, stream)
    except ImportError:
        return _Text(stream)


class _Text:
    """One line of text, written over and over."""

    def __init__(self, stream: TextIO) -> None:
        self._stream, self._width = stream, 0

    def draw(self, progress: Progress) -> None:
        """Write how far it is."""
        self._write(str(progress))

    def clear(self) -> None:
        """Leave an empty line."""
        self._write("")
        self._stream.write("\r")
        self._stream.flush()

    def _write(self, text: str) -> None:
        self._stream.write("\r" + text.ljust(self._width))
        self._stream.flush()
        self._width = len(text)


class _Tqdm:
    """A bar of tqdm's."""

    def __init__(self, tqdm: Any, stream: TextIO) -> None:
        self._new, self._stream = tqdm, stream
        self._bar: Any = None

    def draw(self, progress: Progress) -> None:
        """Show how far it is."""
        if self._bar is None:
            self._bar = self._new(total=0, leave=False, file=self._stream, bar_format="{desc} |{bar}|")
        self._bar.total, self._bar.n = progress.kernels, progress.done
        self._bar.set_description_str(str(progress))

    def clear(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.close()

"""Bars that say how far something is: on stderr if that is a terminal, or in the notebook's cell.

A thread of its own draws each bar. So an exception of a signal handler, which Python raises in the main thread, never
leaves a bar half drawn, nor tqdm's lock held. And a terminal that takes no more text does not stop a computation.
"""

import _thread
import contextlib
import importlib
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Protocol, Self, TextIO

from scanjit.config import config

SILENT = 1.0
"""Work that takes fewer seconds shows no bar."""
OFTEN = 0.25
"""Seconds between two drawings of a bar."""
PATIENCE = 0.5
"""The end of the work waits this many seconds, at most, until the bar is taken away."""
_BROKEN = (OSError, ValueError, AttributeError)
"""The exceptions of a stream that is closed, full, or of another encoding."""


_counting: ContextVar[bool] = ContextVar("counting", default=False)
"""Whether a `Count` is shown for what this thread does."""


class BarContent(Protocol):
    """The content of a bar. When `ended` is set, the bar is taken away."""

    ended: threading.Event

    def state(self) -> tuple[str, int, int] | None:
        """A text, and how many of how many things are done. None if there is nothing to show now."""


def seen() -> TextIO | None:
    """The stream on which somebody sees a bar. None if nobody does: stderr is a file, `config.progress` is False, or
    the work is part of what a `Count` shows already."""
    stream = sys.stderr
    if not config.progress or _counting.get():
        return None
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    with contextlib.suppress(AttributeError, ValueError):  # replaced by something else, or closed
        if stream is not None and (stream.isatty() or getattr(shell, "kernel", None) is not None):
            return stream
    return None


class Watcher:
    """Shows some content from now on, until it has ended or nobody refers to it any more."""

    def __init__(self, shown: BarContent, stream: TextIO) -> None:
        # (An exception that comes while one of `threading`'s threads starts would leave that module confused.)
        self._gone = _thread.allocate_lock()
        self._gone.acquire()
        try:
            _thread.start_new_thread(_draw, (weakref.ref(shown), stream, self._gone.release))
        except RuntimeError:  # there may be no more threads
            self._gone.release()

    def wait(self) -> None:
        """Wait until the bar is taken away, but not for long."""
        self._gone.acquire(timeout=PATIENCE)


class Count:
    """Shows how many of many things are done, once they take more than a second: `fit: 20 of 1,000 problems, 3 s`.

    Code that runs meanwhile shows no bars of its own.
    """

    def __init__(self, name: str, total: int, things: str) -> None:
        self.ended = threading.Event()
        self._name, self._total, self._things = name, total, things
        self._done, self._begun = -1, time.monotonic()
        self._drawing: Watcher | None = None

    def tell(self, done: int) -> None:
        """Note that `done` things are done. The first of them may include compiling, which has a bar of its own."""
        again, self._done = self._done >= 0, done
        if again and self._drawing is None and time.monotonic() - self._begun >= SILENT:
            if (stream := seen()) is not None:
                self._drawing = Watcher(self, stream)
                _counting.set(True)

    def state(self) -> tuple[str, int, int] | None:
        """The text and the numbers for a bar."""
        counts = f"{self._done:,} of {self._total:,} {self._things}"
        return f"{self._name}: {counts}, {time.monotonic() - self._begun:.0f} s", self._done, self._total

    def __enter__(self) -> Self:
        self._token = _counting.set(_counting.get())
        return self

    def __exit__(self, *_: object) -> None:
        _counting.reset(self._token)
        self.ended.set()
        if self._drawing is not None:
            self._drawing.wait()


def _draw(reference: weakref.ref[BarContent], stream: TextIO, gone: Callable[[], None]) -> None:
    bar: Bar | None = None
    ended = False
    try:
        while not ended and (shown := reference()) is not None:
            ended = shown.ended.wait(OFTEN)
            if not ended and (state := shown.state()) is not None:
                bar = bar or Bar(stream)
                bar.draw(*state)
            del shown
        if bar is not None:
            bar.clear()
    finally:
        gone()


def _columns(stream: TextIO) -> int | None:
    """The width of a terminal, 0 if it does not know it; None for a notebook's cell."""
    try:
        return os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):  # a notebook's stream is no file
        return None


class Bar:
    """A bar of tqdm's if it is installed, or else one line of text that is written over and over.

    A terminal that does not know its width gets the line too: tqdm would show nothing there. If the stream fails,
    nothing is shown, and the computation goes on.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream, self._width = stream, 0
        self._tqdm: Any = None
        with contextlib.suppress(ImportError, *_BROKEN):
            if _columns(stream) == 0:
                return
            new = importlib.import_module("tqdm.auto").tqdm
            self._tqdm = new(total=0, leave=False, file=stream, bar_format="{desc} |{bar}|")

    def draw(self, text: str, done: int, total: int) -> None:
        """Show a text, and that `done` of `total` are done."""
        with contextlib.suppress(*_BROKEN):
            if self._tqdm is None:
                self._write(text)
            else:
                if total != self._tqdm.total:
                    self._tqdm.reset(total)  # a notebook's bar learns of it in no other way
                self._tqdm.n = done
                self._tqdm.set_description_str(text)

    def clear(self) -> None:
        """Take the bar away."""
        with contextlib.suppress(*_BROKEN):
            if self._tqdm is None:
                self._write("")
                self._stream.write("\r")
                self._stream.flush()
            else:
                self._tqdm.close()

    def _write(self, text: str) -> None:
        columns = _columns(self._stream)
        text = text[: columns - 1] if columns else text  # what goes into the next line stays there
        self._stream.write("\r" + text.ljust(self._width))
        self._stream.flush()
        self._width = len(text)

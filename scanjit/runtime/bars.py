"""Bars that say how far something is, on stderr if that is a terminal, or in the notebook's cell."""

from __future__ import annotations

import contextlib
import importlib
import sys
from typing import Any, TextIO

from scanjit.config import config
from scanjit.errors import suppressed

SILENT = 1.0
"""What takes fewer seconds says nothing."""
OFTEN = 0.25
"""Seconds between two drawings of a bar."""
_BROKEN = (OSError, ValueError, AttributeError)
"""What a stream raises that is closed, full, or of another encoding."""


def seen() -> TextIO | None:
    """Where somebody sees a bar. None if nobody does: stderr is a file, or `config.progress` is False."""
    stream = sys.stderr
    if not config.progress:
        return None
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    with contextlib.suppress(AttributeError, ValueError):  # replaced by something else, or closed
        if stream is not None and (stream.isatty() or getattr(shell, "kernel", None) is not None):
            return stream
    return None


class Bar:
    """A bar of tqdm's if it is installed, or else one line of text that is written over and over.

    What goes wrong with the stream ends no computation: then nothing is shown."""

    def __init__(self, stream: TextIO) -> None:
        self._stream, self._width = stream, 0
        self._tqdm: Any = None
        with suppressed(ImportError, *_BROKEN):
            new = importlib.import_module("tqdm.auto").tqdm
            self._tqdm = new(total=0, leave=False, file=stream, bar_format="{desc} |{bar}|")

    def draw(self, text: str, done: int, total: int) -> None:
        """Show a text, and that `done` of `total` are done."""
        with suppressed(*_BROKEN):
            if self._tqdm is None:
                self._write(text)
            else:
                self._tqdm.total, self._tqdm.n = total, done
                self._tqdm.set_description_str(text)

    def clear(self) -> None:
        """Take the bar away."""
        with suppressed(*_BROKEN):
            if self._tqdm is None:
                self._write("")
                self._stream.write("\r")
                self._stream.flush()
            else:
                self._tqdm.close()

    def _write(self, text: str) -> None:
        self._stream.write("\r" + text.ljust(self._width))
        self._stream.flush()
        self._width = len(text)

"""A terminal that tests read."""

from __future__ import annotations

import importlib
import io
import sys
import time
import types
from collections.abc import Callable
from typing import Self

import pytest

from scanjit.runtime import bars


class Terminal(io.StringIO):
    """What is written to a terminal."""

    def isatty(self) -> bool:
        return True

    def lines(self) -> list[str]:
        """What one line showed, after each time that it was written over; without blanks at the end."""
        return [line.rstrip() for line in self.getvalue().split("\r")]

    def wait_for(self, text: str) -> None:
        """Wait until a text is shown."""
        self._wait(lambda: self.lines()[-1].startswith(text))

    def wait_for_nothing(self) -> None:
        """Wait until the line is empty."""
        self._wait(lambda: not self.lines()[-1])

    def _wait(self, seen: Callable[[], bool]) -> None:
        deadline = time.perf_counter() + 20
        while not seen() and time.perf_counter() < deadline:
            time.sleep(0.005)
        assert seen(), self.lines()

    @classmethod
    def instead_of_stderr(cls, monkeypatch: pytest.MonkeyPatch) -> Self:
        """The stderr that bars see. (pytest sets the real one again and again.)"""
        stream = cls()
        monkeypatch.setattr(bars, "sys", types.SimpleNamespace(stderr=stream, modules=sys.modules))
        return stream


def without_tqdm(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if tqdm were not installed."""
    real = importlib.import_module
    monkeypatch.setattr(
        bars.importlib, "import_module", lambda name: real("no_such_module" if name.startswith("tqdm") else name)
    )

"""Tells whoever waits for a call how many steps its loop over time has made.

No thread watches a call. When the clock has ticked (see `native`), the thread of the call takes a step in Python
anyway, so that signal handlers run. In this step it looks how far its own loop is. Other threads of the call are about
as far: they meet in each step, or each of them makes all steps for its own rows of a batch.
"""

import threading
import time

from scanjit.runtime import bars
from scanjit.runtime.team_source import TICK
from scanjit.simd.line import LineFields

_LOST = 1.0
"""A call that has not ticked for this many seconds has ended: by an exception of a signal handler that came before
anybody could note it."""


class Steps:
    """Shows the steps of the calls of a function of this name, in each call that takes more than a second."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.running: dict[int, _Call] = {}
        """The calls that have lasted for a tick, by the addresses of their tables."""

    def __call__(self, line: int) -> None:
        """Note that the clock has ticked in the call whose line is at this address, or that this call has ended."""
        words, now = LineFields.from_address(line), time.monotonic()
        call = self.running.get(words.table)
        if not words.function:
            if call is not None:
                del self.running[words.table]
                call.end()
            return
        if call is None or call.lost(now):
            call = self.running[words.table] = _Call(self.name, now - TICK)
        call.tick(words, now)


class _Call:
    """A call: when it began and when it was seen last, and how far it was then."""

    def __init__(self, name: str, begun: float) -> None:
        self.name, self.begun, self.seen = name, begun, begun
        self.ended = threading.Event()
        self._drawing: bars.Watcher | None = None
        self._text, self._done, self._total = "", 0, 0

    def tick(self, words: LineFields, now: float) -> None:
        """Note how far the call is. If this is not known, in the middle of a product, say, the last note stays."""
        self.seen = now
        if words.total == 0:
            self._text = f"{self.name}: " if self._text else ""  # the loop has ended
        elif (step := words.step if words.done < 0 else words.done) >= 0:
            which = f", loop {words.loops}" if words.loops > 1 else ""
            most = "at most " if words.early else ""
            each = f", element {words.element + 1:,} of {words.elements:,}" if words.done < 0 < words.elements else ""
            self._done, self._total = step, words.total
            self._text = f"{self.name}{which}: step {step:,} of {most}{words.total:,}{each}, "
        if self._drawing is None and self._text and now - self.begun >= bars.SILENT:
            if (stream := bars.seen()) is not None:
                self._drawing = bars.Watcher(self, stream)

    def lost(self, now: float) -> bool:
        """Whether the call has ended without a note."""
        return now - self.seen > _LOST

    def state(self) -> tuple[str, int, int] | None:
        """The text and the numbers for a bar."""
        now = time.monotonic()
        if self.lost(now):
            self.ended.set()
            return None
        return f"{self._text}{now - self.begun:.0f} s", self._done, self._total

    def end(self) -> None:
        """Let the bar be taken away."""
        self.ended.set()
        if self._drawing is not None:
            self._drawing.wait()

"""Tells who waits for a call how many steps its loop over time has made.

No thread watches a call. When the clock has ticked (see `native`), the thread of the call takes a step in Python
anyway, so that signal handlers run: here it looks at how far its own loop is. Other threads of the call are about as
far: they meet in each step, or each of them makes all steps for its own rows of a batch.
"""

from __future__ import annotations

import time

from scanjit.runtime import bars
from scanjit.runtime.bars import Bar
from scanjit.runtime.native import TICK, Line


class Steps:
    """Shows the steps of the calls of a function of this name, in each call that takes more than a second."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.running: dict[int, _Call] = {}
        """The calls that have lasted for a tick, by the addresses of their tables."""

    def __call__(self, line: int) -> None:
        """The clock has ticked in the call with a line at this address."""
        words, now = Line.from_address(line), time.monotonic()
        call = self.running.get(words.table)
        if call is None or now - call.seen > bars.SILENT:  # an interrupt may have ended a call before `ended` ran
            call = self.running[words.table] = _Call(now)
        call.seen = now
        if now >= call.due and (stream := bars.seen()) is not None:
            self._update(call, words)
            if call.text:
                call.bar = call.bar or Bar(stream)
                call.due = now + bars.OFTEN
                call.bar.draw(f"{call.text}{now - call.begun:.0f} s", call.done, call.total)

    def ended(self, table: int) -> None:
        """The call with this table has ended."""
        call = self.running.pop(table, None)
        if call is not None and call.bar is not None:
            call.bar.clear()

    def _update(self, call: _Call, words: Line) -> None:
        """Find how far a call is. A look that does not know it, such as one in a product, leaves it as it was."""
        if words.total == 0:
            call.text = f"{self.name}: " if call.text else ""  # the loop has ended
        elif (step := words.step if words.done < 0 else words.done) >= 0:
            which = f", loop {words.loops}" if words.loops > 1 else ""
            most = "at most " if words.early else ""
            each = f", element {words.element + 1:,} of {words.elements:,}" if words.done < 0 < words.elements else ""
            call.done, call.total = step, words.total
            call.text = f"{self.name}{which}: step {step:,} of {most}{words.total:,}{each}, "


class _Call:
    """A call: when it began, when it was seen last, and when its bar is to be drawn next."""

    def __init__(self, now: float) -> None:
        self.begun, self.seen, self.due = now - TICK, now, now + bars.SILENT - TICK
        self.bar: Bar | None = None
        self.text, self.done, self.total = "", 0, 0

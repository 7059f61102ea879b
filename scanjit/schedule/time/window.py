"""The steps that a loop goes over: all of those of another one, or (where a gradient is truncated) the last of them.

A gradient over the last 4 of 6 steps has a window of length 4. Of two stretches of 3 steps, the first has step 0 of the
window (step 2 of the 6), and the second one steps 1 to 3.
"""

from __future__ import annotations

from dataclasses import dataclass

from scanjit import types
from scanjit.schedule.nests.plan import Plan
from scanjit.types import Dimension


@dataclass(frozen=True)
class Window:
    """The last `length` of the `total` steps of a loop, which goes over its rows from the last one on if `reverse`."""

    total: Dimension
    reverse: bool
    length: Dimension

    @classmethod
    def last(cls, plan: Plan, length: Dimension) -> Window:
        """The last steps of a loop."""
        return cls(plan.length, plan.reverse, length)

    @property
    def first_row(self) -> Dimension:
        """The row at which it begins."""
        return 0 if self.reverse else self.total - self.length

    def rows_of(self, first: Dimension, rows: Dimension) -> tuple[Dimension, Dimension]:
        """Its part of the stretch of `rows` steps from `first` on: the first row, counted from its own first row, and
        how many rows there are."""
        skipped = self.total - self.length
        begin, end = (types.maximum(step, skipped) - skipped for step in (first, first + rows))
        return self.length - end if self.reverse else begin, end - begin

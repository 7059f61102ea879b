"""Windows: the steps of a loop that another one goes over, all of them or (if a gradient is truncated) the last ones.

A gradient over the last 4 of 6 steps has a window of length 4. Of two stretches of 3 steps, the first has step 0 of the
window (step 2 of the 6), and the second has steps 1 to 3.
"""

from __future__ import annotations

from scanjit import types
from scanjit.records import record
from scanjit.schedule.nests.plan import Plan
from scanjit.types import Dimension


@record(eq=True)
class Window:
    """The last `length` of the `total` steps of a loop. If `reverse`, the loop goes over its rows from the last one to
    the first."""

    total: Dimension
    reverse: bool
    length: Dimension

    @classmethod
    def last(cls, plan: Plan, length: Dimension) -> Window:
        """The last `length` steps of the loop with this plan."""
        return cls(plan.length, plan.reverse, length)

    @property
    def first_row(self) -> Dimension:
        """The first of its rows, counted among all rows."""
        return 0 if self.reverse else self.total - self.length

    def rows_of(self, first: Dimension, rows: Dimension) -> tuple[Dimension, Dimension]:
        """The part of the window in the stretch of `rows` steps from `first` on: its first row, counted from the first
        row of the window, and how many rows it has."""
        skipped = self.total - self.length
        begin, end = (types.maximum(step, skipped) - skipped for step in (first, first + rows))
        return self.length - end if self.reverse else begin, end - begin

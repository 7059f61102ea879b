"""The steps that a loop goes over: all of those of another one, or (where a gradient is truncated) the last of them."""

from __future__ import annotations

from collections.abc import Iterable
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

    @classmethod
    def of(cls, windows: Iterable[Window], rows: Dimension) -> Window | None:
        """The window, of these, that has so many rows."""
        return next((window for window in windows if window.length == rows), None)

    @classmethod
    def within(cls, plan: Plan, length: Dimension) -> bool:
        """Whether there are certainly so many steps."""
        return types.not_negative(plan.length - length)

    @property
    def first_row(self) -> Dimension:
        """The row at which it begins."""
        return 0 if self.reverse else self.total - self.length

    def cut(self, first: Dimension, rows: Dimension) -> Cut:
        """Its part of the stretch of `rows` steps from `first` on."""
        skipped = self.total - self.length
        return Cut(self, types.maximum(first, skipped) - skipped, types.maximum(first + rows, skipped) - skipped)


@dataclass(frozen=True)
class Cut:
    """Steps of a window, `begin` to `end` as the loop counts them that it is a window of."""

    window: Window
    begin: Dimension
    end: Dimension

    @property
    def rows(self) -> Dimension:
        """How many they are."""
        return self.end - self.begin

    @property
    def base(self) -> Dimension:
        """The first of their rows."""
        return self.window.length - self.end if self.window.reverse else self.begin

    def start(self, reverse: bool) -> Dimension:
        """The first of their steps, as a loop counts them that has no others than the window's."""
        return self.begin if reverse == self.window.reverse else self.window.length - self.end


def lies_in(low: Dimension, high: Dimension, size: Dimension) -> bool:
    """Whether positions from `low` to `high` certainly lie in `size` elements (where there are any positions)."""
    return types.not_negative(low) and types.not_negative(size - 1 - high)

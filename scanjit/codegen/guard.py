"""Guards: tests before the loops of a reduction, where a mask says that what they add up is not wanted, or zero."""

from __future__ import annotations

from collections.abc import Sequence

from scanjit.codegen.frame import Point
from scanjit.codegen.values import ValueWriter
from scanjit.schedule.program import Reduce, Value

STRETCH = 16
"""So many terms of a sum are left out together, or none of them."""


class GuardWriter(ValueWriter):
    """Writes the tests of guards."""

    def open_guard(self, reduction: Reduce, inner: bool, points: Sequence[Point]) -> None:
        """Open a scope that is entered if something in the register tile is wanted. Outside of the reduction's loops
        that is so for a guard that does not depend on them, inside of all but the last one for others."""
        guard, last = reduction.guard, reduction.loops[-1]
        if guard is None or last in (loops := self.depends(guard)) or inner is not bool(loops & set(reduction.loops)):
            return
        self.push(f"if {self._any(guard, points)}:")

    def by_stretches(self, reduction: Reduce, points: Sequence[Point]) -> str | None:
        """Where the guard depends on the last loop of a sum: open a loop over stretches of that, and a scope for those
        that are not left out. Returns the counter of the loop."""
        guard, loop = reduction.guard, reduction.loops[-1]
        if guard is None or loop not in self.depends(guard) or self.tile.rows is None or self.tile.horizontal:
            return None
        if self.lane in self.depends(guard):
            return None
        start, mask, size = self.fresh("first"), self.fresh("mask"), self.size(loop.size)
        self.push(f"for {start} in range(0, {size}, {STRETCH}):", loop, start)
        self.scope.add(f"{mask} = head_x{STRETCH}({size} - {start})")
        lane, masks = self.lane, self.masks[-1]
        self.lane, self.masks[-1] = loop, [mask]
        text = self._any(guard, [Point(point.row, 0, STRETCH) for point in points])
        self.lane, self.masks[-1] = lane, masks
        self.push(f"if {text}:")
        return start

    def _any(self, guard: Value, points: Sequence[Point]) -> str:
        """Whether a guard holds at one of the points of a register tile, at least."""
        across = self.lane in self.depends(guard)
        own = [Point(p.row, p.vector if across else 0, p.width if across else 1) for p in points]
        return f"any_of({' | '.join(dict.fromkeys(self.value(guard, point) for point in own))})"

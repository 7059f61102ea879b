"""Guards: tests before the loops of a reduction, where a mask says that what they add up is not wanted, or zero.

Rows of a register tile that a mask excludes are worth leaving out only if all rows of the tile are excluded. So a nest
with such a mask goes through its rows in another order: those that are wanted first. What is computed of a row does not
depend on the rows beside it in a tile, and so not on the order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from scanjit.codegen.frame import SCRATCH, Point
from scanjit.codegen.values import ValueWriter
from scanjit.schedule.nests import NestLoop, Reduce, Value, walk_values

MOST_ROWS = 512
"""So many rows are put into order together."""
ROWS_AT = 4096
"""Where their list lies in the scratch memory of a thread, behind what register tiles need of it."""


@dataclass(frozen=True)
class RowOrder:
    """Variables: the address of a list of rows, how many there are, how many of them (the first ones) are wanted, and,
    inside the loop over tiles, the place of a tile's first row in the list."""

    rows: str
    count: str
    wanted: str
    first: str = ""


class GuardWriter(ValueWriter):
    """Writes the tests of guards."""

    order: RowOrder | None = None

    def open_guard(self, reduction: Reduce, depth: int, points: Sequence[Point]) -> None:
        """Open a scope that is entered if something in the register tile is wanted, at the outermost place at which
        that is known: before the reduction's loops (`depth` 0), before the last one (1), or inside of all (2)."""
        guard = reduction.guard
        if guard is None:
            return
        loops = self.depends(guard)
        inside = loops & set(reduction.loops)
        if depth != (2 if reduction.loops[-1] in inside else 1 if inside else 0):
            return
        if depth == 2 and (self.tile.rows is None or self.tile.horizontal or self.lane in loops):
            return  # with so little to do for each term, a test costs more than the term
        if self.order is not None and depth == 0:
            self.push(f"if {self.order.first} < {self.order.wanted}:")
        else:
            self.push(f"if {self._any(guard, points)}:")

    def _any(self, guard: Value, points: Sequence[Point]) -> str:
        """Whether a guard holds at one of the points of a register tile, at least."""
        loops = self.depends(guard)
        across = self.lane in loops  # (a vector of a tile is a column where lanes run along the reduction)
        beside = across or self.columns in loops
        own = [Point(p.row, p.vector if beside else 0, p.width if across else 1) for p in points]
        return f"any_of({' | '.join(dict.fromkeys(self.value(guard, point) for point in own))})"

    # ---- rows in another order ---------------------------------------------------------------------------------------

    def order_rows(self, lane: NestLoop, rows: NestLoop) -> None:
        """Make a list of the rows of this thread, a stretch at a time, those that are wanted first; where all
        reductions are guarded by one mask of the rows."""
        reductions = [value for value in walk_values(self.nest.roots) if isinstance(value, Reduce)]
        guards = {value.guard for value in reductions}
        guard = guards.pop() if len(guards) == 1 else None
        if guard is None or self.tile.row_block == 1 or self.tile.horizontal:
            return
        loops = self.depends(guard)
        if rows not in loops or lane in loops or any(loop in loops for value in reductions for loop in value.loops):
            return
        begin, end = self.bounds(rows)
        start, stop, wanted, other = (self.fresh(hint) for hint in ("start", "stop", "wanted", "other"))
        self.push(f"for {start} in range({begin}, {end}, {MOST_ROWS}):")
        address = self.fresh("rows")
        self.scope.add(f"{address} = {self.address(SCRATCH, 0)} + {ROWS_AT}")
        self.scope.add(f"{stop} = min({start} + {MOST_ROWS}, {end})")
        self.scope.add(f"{wanted} = 0")
        self._listed(guard, rows, (start, stop), address, wanted, "{}")
        self.scope.add(f"{other} = {wanted}")
        self._listed(guard, rows, (start, stop), address, other, "1 - {}")
        self.order = RowOrder(address, f"({stop} - {start})", wanted)

    def _listed(
        self, guard: Value, rows: NestLoop, bounds: tuple[str, str], address: str, count: str, text: str
    ) -> None:
        """Append rows to a list, without a branch: each is written, and the next one over it if it does not count."""
        depth, name = len(self.scopes), self.fresh("i")
        self.push(f"for {name} in range({bounds[0]}, {bounds[1]}):", rows, name)
        self.scope.add(f"store_i64({address} + {count}*8, {name})")
        holds = f"lane_i64(cast_i64x1({self.value(guard, Point())}), 0)"
        self.scope.add(f"{count} += {text.format(holds)}")
        self.pop(depth)

    def ordered_tile(self, rows: NestLoop, block: int) -> None:
        """The loop over the tiles of a list of rows. Rows beyond the last repeat it."""
        order, first = self.order, self.fresh("i")
        assert order is not None
        self.push(f"for {first} in range(0, {order.count}, {block}):", rows, first)
        self.order = RowOrder(order.rows, order.count, order.wanted, first)
        for r in range(block):
            place = f"min({first} + {r}, {order.count} - 1)" if r else first
            self.index[rows, r] = self.fresh("row")
            self.scope.add(f"{self.index[rows, r]} = load_i64({order.rows} + {place}*8)")

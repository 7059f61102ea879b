"""Guards: tests before the loops of a reduction, if a mask says that its terms are not wanted, or zero.

Rows of a register tile can be left out only if the mask excludes all rows of the tile. So a nest with such a mask goes
through its rows in another order: the wanted ones first. The result of a row does not depend on the other rows of its
tile, and so not on the order.
"""

from collections.abc import Sequence

from scanjit.codegen.frame import Frame, Point, RowOrder, ValueOf
from scanjit.codegen.places import SCRATCH
from scanjit.schedule.nests import NestLoop, Reduce, Value, reductions_in

MOST_ROWS = 512
"""This many rows are put into order at a time."""
ROWS_AT = 4096
"""The place of their list in the scratch memory of a thread, behind what register tiles need of it."""


def open_guard(frame: Frame, value_of: ValueOf, reduction: Reduce, depth: int, points: Sequence[Point]) -> None:
    """Open a scope that is entered if the register tile has a wanted term. It is opened at the outermost of three
    places where this is known: before the loops of the reduction (`depth` 0), before the last of them (1), or inside
    all of them (2)."""
    guard = reduction.guard
    if guard is None:
        return
    loops = frame.depends(guard)
    inside = loops & set(reduction.loops)
    if depth != (2 if reduction.loops[-1] in inside else 1 if inside else 0):
        return
    if depth == 2 and (frame.tile.rows is None or frame.tile.horizontal or frame.lane in loops):
        return  # with so little to do for each term, a test costs more than the term
    if frame.order is not None and depth == 0:
        frame.push(f"if {frame.order.first} < {frame.order.wanted}:")
    else:
        frame.push(f"if {_any(frame, value_of, guard, points)}:")


def _any(frame: Frame, value_of: ValueOf, guard: Value, points: Sequence[Point]) -> str:
    """Text that says whether a guard holds at any point of a register tile."""
    loops = frame.depends(guard)
    across = frame.lane in loops  # (a vector of a tile is a column where lanes run along the reduction)
    beside = across or frame.columns in loops
    own = [Point(p.row, p.vector if beside else 0, p.width if across else 1) for p in points]
    return f"any_of({' | '.join(dict.fromkeys(value_of(guard, point) for point in own))})"


# ---- rows in another order -----------------------------------------------------------------------------------------


def order_rows(frame: Frame, value_of: ValueOf, lane: NestLoop, rows: NestLoop) -> None:
    """If all reductions are guarded by one mask of the rows, write a list of the rows of this thread, `MOST_ROWS` at a
    time, with the wanted rows first."""
    reductions = reductions_in(frame.nest.values)
    guards = {value.guard for value in reductions}
    guard = guards.pop() if len(guards) == 1 else None
    tile = frame.tile
    if guard is None or tile.row_block == 1 or tile.horizontal or tile.matrices:
        return
    loops = frame.depends(guard)
    if rows not in loops or lane in loops or any(loop in loops for value in reductions for loop in value.loops):
        return

    def listed(count: str, text: str) -> None:
        """Append rows to the list, without a branch: each row is written, and the next one overwrites it if it does not
        count."""
        name = frame.fresh("i")
        with frame.inside(f"for {name} in range({start}, {stop}):", rows, name):
            frame.scope.add(f"store_i64({address} + {count}*8, {name})")
            frame.scope.add(f"{count} += {text.format(f'lane_i64(cast_i64x1({value_of(guard, Point())}), 0)')}")

    begin, end = frame.bounds(rows)
    start, stop, wanted, other = (frame.fresh(hint) for hint in ("start", "stop", "wanted", "other"))
    frame.push(f"for {start} in range({begin}, {end}, {MOST_ROWS}):")
    address = frame.fresh("rows")
    frame.scope.add(f"{address} = {frame.address(SCRATCH, 0)} + {ROWS_AT}")
    frame.scope.add(f"{stop} = min({start} + {MOST_ROWS}, {end})")
    frame.scope.add(f"{wanted} = 0")
    listed(wanted, "{}")
    frame.scope.add(f"{other} = {wanted}")
    listed(other, "1 - {}")
    frame.order = RowOrder(address, f"({stop} - {start})", wanted)


def ordered_tile(frame: Frame, rows: NestLoop, block: int) -> None:
    """The loop over the tiles of a list of rows. Rows beyond the last one repeat it."""
    order, first = frame.order, frame.fresh("i")
    assert order is not None
    frame.push(f"for {first} in range(0, {order.count}, {block}):", rows, first)
    frame.order = RowOrder(order.rows, order.count, order.wanted, first)
    for r in range(block):
        place = f"min({first} + {r}, {order.count} - 1)" if r else first
        frame.index[rows, r] = frame.fresh("row")
        frame.scope.add(f"{frame.index[rows, r]} = load_i64({order.rows} + {place}*8)")

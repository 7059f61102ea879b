"""The stores of a nest without time, at every point of a register tile."""

from collections.abc import Callable
from functools import partial

from scanjit.codegen.frame import IN_LOOP, Frame, Point
from scanjit.codegen.matrices import Meanwhile, multiply_matrices
from scanjit.codegen.names import suffix
from scanjit.codegen.places import SCRATCH
from scanjit.codegen.reduce import reduction
from scanjit.codegen.space import split_joined
from scanjit.codegen.values import Values
from scanjit.records import replace
from scanjit.schedule.nests import NestLoop, Reduce, reductions_in, walk_values
from scanjit.schedule.tiles import products


def store_tile(frame: Frame, values: Values) -> None:
    """Write the stores of a nest at every point of the register tile."""
    tile = frame.tile
    if tile.rows is not None and tile.matrices:
        sums = frame.address(SCRATCH, 0)
        if tile.meanwhile and frame.group is not None:
            _use_meanwhile(frame, values, tile.rows, sums)
            return
        multiply_matrices(frame, values, tile.rows, sums)
        points = _loop_over_rows(frame, tile.rows, sums)
    elif tile.rows is not None and tile.row_block > 1 and _has_epilogue(frame):
        for access in products.far_rows(frame.nest, tile.rows):
            for row in range(tile.row_block):
                frame.fetch(access, row)
        points = _loop_over_rows(frame, tile.rows, _spill(frame, values))
    else:
        points = frame.points()
    for point in points:
        values.store(point)


def begin_tiles(frame: Frame, values: Values) -> Callable[[], None] | None:
    """What computes the sums of the first tile of a group, if those of the others are computed meanwhile."""
    rows, sums = frame.tile.rows, frame.address(SCRATCH, 0) if frame.tile.meanwhile else ""
    return partial(multiply_matrices, frame, values, rows, sums) if rows is not None and sums else None


def _use_meanwhile(frame: Frame, values: Values, rows: NestLoop, sums: str) -> None:
    """Store what is computed of the sums of a tile, while registers compute those of the next one."""
    depth, following = len(frame.scopes), Meanwhile(frame, rows)
    points = _loop_over_rows(frame, rows, sums, following.turn)
    for point in points:
        values.store(point)
    frame.pop(depth)
    following.end()


def _has_epilogue(frame: Frame) -> bool:
    """Whether more is done with the results of reductions than storing them, and no reduction depends on another."""
    stored = [store.value for store in frame.nest.stores]
    reductions = reductions_in(walk_values(stored))
    nested = any(reductions_in(walk_values([value.term])) for value in reductions)
    return not nested and any(not isinstance(value, Reduce) for value in stored)


def _spill(frame: Frame, values: Values) -> str:
    """Put the sums of a register tile into memory, from the address that is returned on: row by row, and in each row
    vector by vector, those of all reductions side by side."""
    sums, offset = frame.address(SCRATCH, 0), 0
    for point in frame.points():
        for value in reductions_in(frame.nest.values):
            total = reduction(frame, values.value, value, point)
            frame.scope.add(f"store({_moved(sums, offset)}, {total})")
            offset += _bytes(value, point)
    return sums


def _loop_over_rows(
    frame: Frame, rows: NestLoop, sums: str, in_turn: Callable[[str], None] | None = None
) -> list[Point]:
    """Open a loop over the rows of a tile whose sums lie in memory, so that the lines behind them are written once.
    That is less code, and rows that do not exist take no time. Returns the points inside the loop."""
    inner = [replace(point, row=IN_LOOP) for point in frame.points() if point.row == 0]
    parts = [(value, point) for point in inner for value in reductions_in(frame.nest.values)]
    first, block, size, order = frame.index[rows, 0], frame.tile.row_block, rows.size, frame.order
    whole = isinstance(size, int) and size % block == 0 and rows is not frame.tile.own
    stop = frame.bounds(rows)[1] if rows is frame.tile.own else frame.size(size)
    if order is not None:
        first, stop, whole = order.first, order.count, False
    count = str(block) if whole else frame.line("count", f"min({block}, {stop} - {first})")
    turn, own = frame.fresh("turn"), order is None and rows is frame.tile.own
    last = frame.line("last", f"max(min({first} + {2 * block + 1} - {stop}, 1), 0)") if own else ""
    frame.push(f"for {turn} in range({count}):", rows, turn, block)
    place = frame.line("place", _from_both_ends(turn, count, last)) if own else turn
    at = f"{first} + {place}"
    frame.index[rows, IN_LOOP] = frame.line("row", at if order is None else f"load_i64({order.rows} + ({at})*8)")
    split_joined(frame, rows, IN_LOOP)
    if in_turn is not None:
        in_turn(turn)
    row, offset = frame.line("row", f"{sums} + {place}*{sum(_bytes(*part) for part in parts)}"), 0
    for value, point in parts:
        text = f"load_{suffix(value.dtype, point.width)}({_moved(row, offset)})"
        frame.memos[-1]["reduced", value, point] = frame.line("dot", text)
        offset += _bytes(value, point)
    return inner


def _bytes(value: Reduce, point: Point) -> int:
    return point.width * max(value.dtype.itemsize, 1)


def _moved(address: str, offset: int) -> str:
    return f"{address} + {offset}" if offset else address


def _from_both_ends(turn: str, count: str, last: str) -> str:
    """The row of a turn. In the `last` two tiles (1; else 0), the first row is followed by the last, the second, the
    last but one, and so on.

    Processors fetch ahead what an instruction reads in even steps. Behind the rows of this thread they would fetch
    those of another one, whose core then has to get them back."""
    return f"({turn} >> {last}) + ({turn} & {last})*({count} - 1 - ({turn} >> 1)*2)"

"""The stores of a nest without time, at every point of a register tile."""

from collections.abc import Sequence

from scanjit.codegen.frame import Frame, Point
from scanjit.codegen.matrices import multiply_matrices
from scanjit.codegen.names import suffix
from scanjit.codegen.places import SCRATCH
from scanjit.codegen.reduce import reduction
from scanjit.codegen.space import split_joined
from scanjit.codegen.values import Values
from scanjit.schedule.nests import NestLoop, Reduce, reductions_in, walk_values
from scanjit.schedule.tiles import products

SPILLED = -1
"""The row number of points inside the loop over the rows of a tile that was put into memory."""


def store_tile(frame: Frame, values: Values) -> None:
    """Write the stores of a nest at every point of the register tile."""
    points: Sequence[Point] = frame.points()
    tile = frame.tile
    if tile.rows is not None and (tile.matrices or (tile.row_block > 1 and _has_epilogue(frame))):
        for access in () if tile.matrices else products.far_rows(frame.nest, tile.rows):
            for row in range(tile.row_block):
                frame.fetch(access, row)
        points = _spill(frame, values, tile.rows, points)
    for point in points:
        values.store(point)


def _has_epilogue(frame: Frame) -> bool:
    """Whether more is done with the results of reductions than storing them, and no reduction depends on another."""
    stored = [store.value for store in frame.nest.stores]
    reductions = reductions_in(walk_values(stored))
    nested = any(reductions_in(walk_values([value.term])) for value in reductions)
    return not nested and any(not isinstance(value, Reduce) for value in stored)


def _spill(frame: Frame, values: Values, rows: NestLoop, points: Sequence[Point]) -> list[Point]:
    """Put the register tile into memory and open a loop over its rows, so that the lines behind it are written once.
    That is less code, and rows that do not exist take no time. Returns the points inside the loop."""
    reductions = reductions_in(frame.nest.values)
    scratch, offsets, nbytes = frame.address(SCRATCH, 0), {}, 0
    for point in points:
        for value in reductions:
            offsets[value, point] = nbytes
            if not frame.tile.matrices:
                total = reduction(frame, values.value, value, point)
                frame.scope.add(f"store({scratch}{f' + {nbytes}' if nbytes else ''}, {total})")
            nbytes += point.width * max(value.dtype.itemsize, 1)
    if frame.tile.matrices:
        multiply_matrices(frame, values, rows, scratch)
    first, block, size, order = frame.index[rows, 0], frame.tile.row_block, rows.size, frame.order
    whole = isinstance(size, int) and size % block == 0 and rows is not frame.tile.own
    stop = frame.bounds(rows)[1] if rows is frame.tile.own else frame.size(size)
    if order is not None:
        first, stop, whole = order.first, order.count, False
    count = str(block) if whole else frame.line("count", f"min({block}, {stop} - {first})")
    place, own = frame.fresh("turn"), order is None and rows is frame.tile.own
    last = frame.line("last", f"max(min({first} + {2 * block + 1} - {stop}, 1), 0)") if own else ""
    frame.push(f"for {place} in range({count}):", rows, place, block)
    place = frame.line("place", _from_both_ends(place, count, last)) if own else place
    at = f"{first} + {place}"
    frame.index[rows, SPILLED] = frame.line("row", at if order is None else f"load_i64({order.rows} + ({at})*8)")
    split_joined(frame, rows, SPILLED)
    row = frame.line("row", f"{scratch} + {place}*{nbytes // block}")
    inner = [Point(SPILLED, point.vector, point.width) for point in points if point.row == 0]
    for point in inner:
        for value in reductions:
            offset = offsets[value, Point(0, point.vector, point.width)]
            text = f"load_{suffix(value.dtype, point.width)}({row}{f' + {offset}' if offset else ''})"
            frame.memos[-1]["reduced", value, point] = frame.line("dot", text)
    return inner


def _from_both_ends(turn: str, count: str, last: str) -> str:
    """The row of a turn. In the `last` two tiles (1; else 0), the first row is followed by the last, the second, the
    last but one, and so on.

    Processors fetch ahead what an instruction reads in even steps. Behind the rows of this thread they would fetch
    those of another one, whose core then has to get them back."""
    return f"({turn} >> {last}) + ({turn} & {last})*({count} - 1 - ({turn} >> 1)*2)"

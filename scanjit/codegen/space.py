"""The loops over the space of a nest: those around its values, blocks of rows, and the loop along which lanes run."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from scanjit.codegen.frame import Frame
from scanjit.codegen.guard import order_rows, ordered_tile
from scanjit.codegen.values import Values
from scanjit.schedule.nests import NestLoop, reductions_in
from scanjit.types import Dimension

MANY = 8
"""If a loop has at least this many turns, each for a tile of rows or several vectors of a sum, their number is a
parameter, even if it is known: LLVM would write all of them, and read what they need in an order of its own. So it is
if a turn has a sum of unknown length: few such turns are not written one after the other anyway, and products with
other numbers of rows then have the same kernel."""


class Space:
    """Writes loops over the space.

    Parameters
    ----------
    frame : where they are written.
    inside : writes the lines inside the loops, at every point of the register tile.
    before : writes what is computed of the first tile of a group before the loop over its tiles.
    """

    def __init__(self, frame: Frame, inside: Callable[[], None], before: Callable[[], None] | None = None) -> None:
        self.frame, self._inside, self._before = frame, inside, before
        self._reduces = bool(reductions_in(frame.nest.values))

    def write(self, values: Values) -> None:
        """Write all loops."""
        frame, rows = self.frame, self.frame.tile.rows
        for loop in frame.nest.space:
            if loop not in (frame.lane, *frame.tile.row_loops, frame.columns):
                frame.loop(loop, "i", frame.bounds(loop))
        if frame.lane is not None:
            if rows is not None:
                order_rows(frame, values.value, frame.lane, rows)
            self._lanes(frame.lane)
            return
        if frame.columns is not None:
            self._blocked(frame.columns, frame.tile.vectors)
        if rows is not None:
            self._blocked(rows, frame.tile.row_block)
        self._inside()

    # ---- the loop along which lanes run ------------------------------------------------------------------------------

    def _lanes(self, lane: NestLoop) -> None:
        """The loop along which lanes run. It is written in parts; around a register tile, where parts would double the
        code, it is masked throughout."""
        frame, tile, size = self.frame, self.frame.tile, lane.size
        width = tile.lanes * tile.vectors
        whole = lane not in (tile.split, tile.own) and not tile.narrow
        if size in tile.brief or (whole and isinstance(size, int) and 0 < size < width):
            self.lane_range(lane, None, "", True)
        elif self._reduces:
            self.sums(lane, *frame.bounds(lane))
        else:
            self.in_parts(lane, *frame.bounds(lane))

    def in_parts(self, lane: NestLoop, start: str, stop: str, down: Dimension = 0) -> None:
        """Loops over a range: first the vector that is not full, then the vectors that fill no tile, then whole tiles,
        the last of them first if `down` is 1.

        In a step of a strip, the masked lanes of that vector reach into the next row. If it came last, its load would
        wait, because the step would just have stored to that row.
        """
        tile = self.frame.tile
        width = tile.lanes * tile.vectors
        if tile.narrow:
            stop = self._narrow(lane, start, stop)
        with self.frame.fewer_vectors():
            if not tile.narrow and not self.frame.fills(lane, tile.lanes):
                stop = self._rest(lane, start, stop, tile.lanes, True, 1)
            if tile.vectors > 1 and (lane is tile.split or not self.frame.fills(lane, width)):
                stop = self._rest(lane, start, stop, width, False, tile.vectors)
        if not (isinstance(lane.size, int) and lane.size < width):
            self.lane_range(lane, start, stop, False, down=down)

    def _narrow(self, lane: NestLoop, start: str, stop: str) -> str:
        """Write the points of a range that are left after whole vectors: at most one vector of each smaller number of
        lanes, the one with the fewest last. Returns where they begin. If all points of a thread go in strips, its
        range ends before it begins, and nothing is left."""
        start, lanes = start if start == "0" else self.frame.line("start", f"min({start}, {stop})"), 1
        while lanes < self.frame.tile.lanes:
            if lane is self.frame.tile.own or not isinstance(lane.size, int) or lane.size & lanes:
                with self.frame.fewer_vectors(lanes=lanes):
                    stop = self._rest(lane, start, stop, 2 * lanes, False, 1)
            lanes *= 2
        return stop

    def _rest(self, lane: NestLoop, start: str, stop: str, width: int, masked: bool, most: int) -> str:
        """A loop over the end of a range, behind all whole pieces of this width, with at most `most` turns. Returns
        where it begins."""
        length, first = (stop, "") if start == "0" else (f"({stop} - {start})", f"{start} + ")
        full = self.frame.line("full", f"{first}{length}//{width}*{width}")
        self.lane_range(lane, full, stop, masked, most)
        return full

    def _tiles_and_left(self, lane: NestLoop, start: str, stop: str) -> None:
        """Whole tiles of a range without masks, then the vectors that are left, some at a time. These are masked, if
        the last one may not be full. Of 40 vectors, 12 whole tiles of 3 leave two pairs."""
        frame, tile = self.frame, self.frame.tile
        full, top, width = frame.fills(lane, tile.lanes), stop, tile.lanes * tile.vectors
        if not full and lane is not tile.own:  # a share of columns may end beyond the last one, or be empty behind it
            whole = f"min({stop}, {frame.size(lane.size // tile.lanes * tile.lanes)})"
            top = whole if start == "0" else f"max({whole}, {start})"
        most = -(-tile.vectors // tile.left)
        if full and tile.left == 2 and tile.vectors % 2 == 1:
            most = tile.vectors - 1
            rest = f"({top} - {start})*{tile.vectors + 1} % {2 * width}"
            left = frame.line("left", f"max({top} - {rest}, {start})")
        else:
            left = frame.line("left", f"{start} + ({top} - {start})//{width}*{width}")
        self.lane_range(lane, start, left, False)
        with frame.fewer_vectors(tile.left):
            self.lane_range(lane, left, stop, not full, most, repeats=tile.left > 1)

    def sums(self, lane: NestLoop, start: str, stop: str) -> None:
        """Loops over a range of sums: tiles, then the vectors that are left, as many at a time as the tile says. If it
        says nothing, they are left if they fill at most half of a tile, one at a time, and all are masked. Tiles of
        some rows then leave none."""
        tile = self.frame.tile
        width = tile.lanes * tile.vectors
        if tile.left:
            self._tiles_and_left(lane, start, stop)
            return
        if tile.vectors == 1 or tile.rows is not None or self.frame.fills(lane, width):
            self.lane_range(lane, start, stop, width > 1 and not self.frame.fills(lane, width))
            return
        if self._is_one_piece(lane, width):
            self.lane_range(lane, start, stop, True)
            return
        left = self.frame.line("left", f"{start} + ({stop} - {start} + {width // 2 - 1})//{width}*{width}")
        self.lane_range(lane, start, left, True)
        with self.frame.fewer_vectors():
            self.lane_range(lane, left, stop, True, tile.vectors // 2)

    def _is_one_piece(self, lane: NestLoop, width: int) -> bool:
        """Whether a range of the lanes' loop certainly fills one tile of this width, and more than half of it."""
        tile = self.frame.tile
        whole = lane is not tile.own and (lane is not tile.split or tile.unit % width == 0)
        return whole and isinstance(lane.size, int) and width // 2 < lane.size <= width

    def lane_range(
        self,
        lane: NestLoop,
        start: str | None,
        stop: str,
        masked: bool,
        most: int | None = None,
        down: Dimension = 0,
        repeats: bool = False,
    ) -> None:
        """A loop over a range of the lanes' loop, with at most `most` turns. If `start` is None, one vector is all,
        without a loop. The loop over the rows of tiles stands inside or, for groups of tiles, around it. A tile of two
        vectors `repeats` the first one if there is no other: it stores the same values again."""
        frame, tile, depth = self.frame, self.frame.tile, len(self.frame.scopes)
        rows, width = tile.rows, tile.lanes * tile.vectors
        if rows is not None and start is not None and tile.group != 1:
            start, stop = group(frame, start, stop, frame.size(tile.group * width))
            self._blocked(rows, tile.row_block)
            rows = None
            if self._before is not None:
                with frame.inside(None, lane, start):
                    self._mask(lane, masked)
                    self._before()
                frame.group = start, stop
        if start is None:
            frame.push(None, lane, "0")
        else:
            j = frame.loop(lane, "j", (start, stop), width, most, down)
            if repeats:
                frame.index[lane, 1] = frame.line(
                    "next", f"{j} + min(({stop} - {j} - 1)//{tile.lanes}, 1)*{tile.lanes}"
                )
        self._mask(lane, masked)
        if rows is not None:
            self._blocked(rows, tile.row_block)
        self._inside()
        frame.pop(depth)
        frame.index.pop((lane, 1), None)
        frame.group = None

    def _mask(self, lane: NestLoop, masked: bool) -> None:
        """Mask the lanes of the present tile that do not exist."""
        if masked:
            self.frame.masks[-1] = [self._head(lane, vector) for vector in range(self.frame.tile.vectors)]

    def _head(self, lane: NestLoop, vector: int) -> str:
        """The mask of the lanes of a vector that exist."""
        frame, lanes = self.frame, self.frame.tile.lanes
        left = frame.bounds(lane)[1] if lane is frame.tile.own else frame.size(lane.size)
        own = frame.index.get((lane, vector))
        counter = own or frame.index[lane, 0]
        left += f" - {counter}" if counter != "0" else ""
        left += f" - {vector * lanes}" if own is None else ""
        return frame.line("mask", f"head_x{lanes}({left})")

    # ---- blocks of rows ----------------------------------------------------------------------------------------------

    def _blocked(self, loop: NestLoop, block: int) -> None:
        """The loop over blocks of rows (or columns). Rows beyond the last one repeat it: they store the same values
        again."""
        frame, size = self.frame, loop.size
        if frame.order is not None and loop is frame.tile.rows:
            ordered_tile(frame, loop, block)
            return
        name = frame.fresh("i")
        start, stop = frame.bounds(loop)
        whole = isinstance(size, int) and size % block == 0 and loop is not frame.tile.own
        most = -(-size // block) if isinstance(size, int) else None
        sums = [each.size for value in reductions_in(frame.nest.values) for each in value.loops]
        many = most is not None and most >= (MANY if all(isinstance(n, int) for n in sums) else 2)
        if whole and many and loop is not frame.tile.split:
            stop = frame.parameters.number_of(loop, size)
        frame.push(f"for {name} in range({start}, {stop}, {block}):", loop, name, most)
        last = f"{stop} - 1" if loop is frame.tile.own else frame.size(size - 1)
        rows = 1 if frame.tile.matrices else block  # no line is written for one of the rows of a matrix
        for row in range(1, rows):
            text = f"({name} + {row})" if whole else frame.line("row", f"min({name} + {row}, {last})")
            frame.index[loop, row] = text
        for row in range(rows):
            split_joined(frame, loop, row)


@contextmanager
def around(frame: Frame, bounds: tuple[str, str]) -> Iterator[tuple[str, str]]:
    """The loops around the one along which lanes run, between these bounds of the first loop. Yields the bounds of the
    loop of the lanes."""
    depth, (*outer, lane) = len(frame.scopes), frame.nest.space
    for loop in outer:
        frame.loop(loop, "i", bounds if loop is outer[0] else frame.bounds(loop))
    yield frame.bounds(lane) if outer else bounds
    frame.pop(depth)


def group(frame: Frame, start: str, stop: str, columns: str) -> tuple[str, str]:
    """Open a loop over groups of `columns` columns. Returns the range of a group."""
    first, last = frame.fresh("first"), frame.fresh("last")
    frame.push(f"for {first} in range({start}, {stop}, max({columns}, 1)):")  # a step of 0 could raise
    frame.scope.add(f"{last} = min({first} + {columns}, {stop})")
    return first, last


def split_joined(frame: Frame, loop: NestLoop, row: int) -> None:
    """The counters of the loops that were joined into one, at a row of the joined loop."""
    if not loop.parts:
        return
    left = frame.index[loop, row]
    for part in reversed(loop.parts[1:]):
        size, many, at = frame.size(part.size), frame.fresh("many"), frame.fresh("at")
        frame.scope.add(f"{many} = {left}//{size}")
        frame.scope.add(f"{at} = {left} - {many}*{size}")
        frame.level[part], frame.index[part, row], left = frame.level[loop], at, many
    frame.level[loop.parts[0]], frame.index[loop.parts[0], row] = frame.level[loop], left

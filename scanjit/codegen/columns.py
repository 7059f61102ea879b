"""Sums down columns in strips: a few terms are added to all sums of a strip, then the next (`schedule.tiles.columns`).
The sums of a strip lie in the thread's own memory."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import accumulate

from scanjit import types
from scanjit.codegen import reduce
from scanjit.codegen.frame import Frame, Point
from scanjit.codegen.names import suffix
from scanjit.codegen.places import SCRATCH
from scanjit.codegen.reduce import Together
from scanjit.codegen.space import Space, group
from scanjit.codegen.stores import store_tile
from scanjit.codegen.values import Values
from scanjit.schedule.nests import Reduce, reductions_in
from scanjit.schedule.tiles import columns


def write_columns(frame: Frame, values: Values) -> None:
    """Write the loops over strips of columns; and, for calls with few numbers, those in which each tile of columns adds
    all of its terms."""
    first, lane = frame.nest.space[0], frame.nest.space[-1]
    start, stop = frame.bounds(first)
    if frame.tile.many == 1:
        with _around(frame, (start, stop)) as bounds:
            _Columns(frame, values).write(*bounds)
        return
    many = frame.size(first.size * frame.tile.many)
    with _around(frame, (start, f"min({stop}, {many})")) as bounds:
        _Columns(frame, values).write(*bounds)
    with _around(frame, (f"min(max({start}, {many}), {stop})", stop)) as bounds:
        Space(frame, lambda: store_tile(frame, values)).sums(lane, *bounds)


@contextmanager
def _around(frame: Frame, bounds: tuple[str, str]) -> Iterator[tuple[str, str]]:
    """The loops around the columns, between these bounds of the first loop. Yields the bounds of the columns."""
    depth, (*outer, lane) = len(frame.scopes), frame.nest.space
    for loop in outer:
        frame.loop(loop, "i", bounds if loop is outer[0] else frame.bounds(loop))
    yield frame.bounds(lane) if outer else bounds
    frame.pop(depth)


class _Columns:
    """Writes strips of columns."""

    def __init__(self, frame: Frame, values: Values) -> None:
        self.frame, self.values = frame, values
        self.lane, self.columns = frame.nest.space[-1], types.as_int(frame.tile.strips[-1])
        self.reductions = reductions_in(frame.nest.values)
        self.chunked = [reduction for reduction in self.reductions if columns.in_chunks(reduction)]
        self.first = ""
        """The variable of the first column of the strip."""
        sums = [*((r, False) for r in self.reductions), *((r, True) for r in self.chunked)]
        sums.sort(key=lambda each: -each[0].dtype.itemsize)  # so that each begins at a multiple of its own size
        sizes = [self.columns * reduction.dtype.itemsize for reduction, _ in sums]
        self.places = dict(zip(sums, accumulate(sizes, initial=0), strict=False))
        """Where the sums of a strip begin, in bytes: those of a chunk of terms (False), and of all chunks before
        (True)."""

    def write(self, start: str, stop: str) -> None:
        """Write the loop over strips of a range of columns."""
        frame, depth, (loop,) = self.frame, len(self.frame.scopes), self.reductions[0].loops
        strip = group(frame, start, stop, str(self.columns))
        self.first = strip[0]
        self._each((self.first, f"{self.first} + {self.columns}"), self._begin)  # a tile may reach beyond the last sum
        chunk, end, around = "0", frame.size(loop.size), len(frame.scopes)
        if self.chunked:
            chunk = frame.loop(None, "chunk", (chunk, end), reduce.CHUNK)
            end = frame.line("end", f"min({chunk} + {reduce.CHUNK}, {end})")
        inside = len(frame.scopes)
        most = -(-reduce.CHUNK // columns.TERMS) if self.chunked else None
        some = frame.loop(None, "some", (chunk, end), columns.TERMS, most)
        last = frame.line("last", f"min({some} + {columns.TERMS}, {end})")
        Space(frame, lambda: self._terms(some, last)).sums(self.lane, *strip)
        frame.pop(inside)
        if self.chunked:
            self._each(strip, self._chunk)
        frame.pop(around)
        self._each(strip, self._finish)
        frame.pop(depth)

    def _each(self, strip: tuple[str, str], inside: Callable[[], None]) -> None:
        """A loop over the vectors of a strip."""
        frame, most = self.frame, self.columns // self.frame.tile.lanes
        with frame.single_vectors():
            masked = not frame.fills(self.lane, frame.tile.lanes)
            Space(frame, inside).lane_range(self.lane, *strip, masked, most)

    # ---- at some columns ---------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        """All sums are empty."""
        together = self._together()
        for point in self.frame.points():
            for reduction, total in self.places:
                (empty,) = together.empty(reduction, point)
                self._store(reduction, total, point, empty)

    def _terms(self, start: str, stop: str) -> None:
        """Some terms are added."""
        totals = {(r, p): [self._load(r, False, p)] for p in self.frame.points() for r in self.reductions}
        self._together().terms(totals, start, stop)
        for (reduction, point), (total,) in totals.items():
            self._store(reduction, False, point, total)

    def _chunk(self) -> None:
        """The sums of a chunk are added to those before. The next chunk begins empty."""
        together = self._together()
        for point in self.frame.points():
            for reduction in self.chunked:
                total, part = (self._load(reduction, which, point) for which in (True, False))
                self._store(reduction, True, point, f"{total} + {part}")
                (empty,) = together.empty(reduction, point)
                self._store(reduction, False, point, empty)

    def _finish(self) -> None:
        """The results are computed and stored."""
        for point in self.frame.points():
            for reduction in self.reductions:
                found = self._load(reduction, reduction in self.chunked, point)
                self.frame.memos[-1]["reduced", reduction, point] = found
        store_tile(self.frame, self.values)

    # ---- the sums ----------------------------------------------------------------------------------------------------

    def _together(self) -> Together:
        return Together(self.frame, self.values.value, self.reductions[0])

    def _load(self, reduction: Reduce, total: bool, point: Point) -> str:
        text = f"load_{suffix(reduction.dtype, point.width)}({self._place(reduction, total, point)})"
        return self.frame.line("acc", text)

    def _store(self, reduction: Reduce, total: bool, point: Point, text: str) -> None:
        self.frame.scope.add(f"store({self._place(reduction, total, point)}, {text})")

    def _place(self, reduction: Reduce, total: bool, point: Point) -> str:
        """The address of some sums of the strip."""
        frame, itemsize = self.frame, reduction.dtype.itemsize
        base = f"{frame.address(SCRATCH, 0)} + ({frame.index[self.lane, 0]} - {self.first})*{itemsize}"
        return f"{base} + {self.places[reduction, total] + point.vector * point.width * itemsize}"

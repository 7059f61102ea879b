"""Reductions down columns in strips: a few terms are added to all sums of a strip, then the next
(`schedule.tiles.columns`). The sums of a strip lie in the thread's own memory."""

from collections.abc import Callable
from itertools import accumulate

from scanjit import types
from scanjit.codegen import reduce
from scanjit.codegen.frame import Frame, Point
from scanjit.codegen.names import suffix
from scanjit.codegen.places import SCRATCH
from scanjit.codegen.reduce import Together
from scanjit.codegen.space import Space, around, group
from scanjit.codegen.stores import store_tile
from scanjit.codegen.values import Values
from scanjit.schedule.nests import Load, Reduce, reductions_in, walk_values
from scanjit.schedule.tiles import columns


def write_columns(frame: Frame, values: Values) -> None:
    """Write the loops over strips of columns; and, for calls with few numbers, those in which each tile of columns adds
    all of its terms."""
    first, lane = frame.nest.space[0], frame.nest.space[-1]
    start, stop = frame.bounds(first)
    if frame.tile.many == 1:
        with around(frame, (start, stop)) as bounds:
            _Columns(frame, values).write(*bounds)
        return
    many = frame.size(first.size * frame.tile.many)
    with around(frame, (start, f"min({stop}, {many})")) as bounds:
        _Columns(frame, values).write(*bounds)
    with around(frame, (f"min(max({start}, {many}), {stop})", stop)) as bounds:
        Space(frame, lambda: store_tile(frame, values)).sums(lane, *bounds)


class _Columns:
    """Writes strips of columns."""

    def __init__(self, frame: Frame, values: Values) -> None:
        self.frame, self.values = frame, values
        self.lane, self.columns = frame.nest.space[-1], types.as_int(frame.tile.strips[-1])
        self.turns = columns.turns(reductions_in(frame.nest.values))
        self.reductions = [reduction for turn in self.turns for reduction in turn]
        self.first = ""
        """The variable of the first column of the strip."""
        parts = [(r, k, dtype.itemsize) for r in self.reductions for k, dtype in enumerate(columns.kept(r))]
        parts.sort(key=lambda part: -part[2])  # so that each begins at a multiple of its own size
        starts = accumulate((self.columns * itemsize for *_, itemsize in parts), initial=0)
        self.places = {(reduction, k): start for (reduction, k, _), start in zip(parts, starts, strict=False)}
        """Where the parts that are kept of each reduction begin, in bytes."""

    def write(self, start: str, stop: str) -> None:
        """Write the loop over strips of a range of columns."""
        frame, depth, (loop,) = self.frame, len(self.frame.scopes), self.reductions[0].loops
        strip = group(frame, start, stop, str(self.columns))
        self.first = strip[0]
        self._each((self.first, f"{self.first} + {self.columns}"), self._begin)  # a tile may reach beyond the last sum
        for turn in self.turns:
            self._turn(turn, strip, frame.size(loop.size))
        self._each(strip, self._finish)
        frame.pop(depth)

    def _turn(self, turn: list[Reduce], strip: tuple[str, str], end: str) -> None:
        """Add all terms of some reductions."""
        frame, around, chunk = self.frame, len(self.frame.scopes), "0"
        chunked = [reduction for reduction in turn if columns.in_chunks(reduction)]
        if chunked:
            chunk = frame.loop(None, "chunk", (chunk, end), reduce.CHUNK)
            end = frame.line("end", f"min({chunk} + {reduce.CHUNK}, {end})")
        inside = len(frame.scopes)
        most = -(-reduce.CHUNK // columns.TERMS) if chunked else None
        some = frame.loop(None, "some", (chunk, end), columns.TERMS, most)
        last = frame.line("last", f"min({some} + {columns.TERMS}, {end})")
        Space(frame, lambda: self._terms(turn, some, last)).sums(self.lane, *strip)
        frame.pop(inside)
        if chunked:
            self._each(strip, lambda: self._chunk(chunked))
        frame.pop(around)

    def _each(self, strip: tuple[str, str], inside: Callable[[], None]) -> None:
        """A loop over the vectors of a strip."""
        frame, most = self.frame, self.columns // self.frame.tile.lanes
        with frame.fewer_vectors():
            masked = not frame.fills(self.lane, frame.tile.lanes)
            Space(frame, inside).lane_range(self.lane, *strip, masked, most)

    # ---- at some columns ---------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        """All sums are empty."""
        together = self._together()
        for point in self.frame.points():
            for reduction in self.reductions:
                empty = together.empty(reduction, point)
                for k in range(len(columns.kept(reduction))):
                    self._store(reduction, k, point, empty[k % len(empty)])

    def _terms(self, turn: list[Reduce], start: str, stop: str) -> None:
        """Some terms are added."""
        self._fetch_ahead(turn, start)
        self._known([needed for reduction in turn for needed in columns.needed(reduction)])
        together = self._together()
        totals = {
            (r, p): [self._load(r, k, p) for k in range(1 if columns.in_chunks(r) else len(columns.kept(r)))]
            for p in self.frame.points()
            for r in turn
        }
        together.terms(totals, start, stop)
        for (reduction, point), names in totals.items():
            for k, name in enumerate(names):
                self._store(reduction, k, point, name)

    def _fetch_ahead(self, turn: list[Reduce], start: str) -> None:
        """Fetch the terms that these columns add after the next ones of other columns. Processors do not foresee short
        pieces of rows, and while a term is computed for long they do not look so far ahead."""
        frame, depth, (loop,) = self.frame, len(self.frame.scopes), turn[0].loops
        if frame.tile.ahead == 0:
            return
        loads = [value for value in walk_values([r.term for r in turn]) if isinstance(value, Load)]
        count = frame.size(frame.tile.ahead * columns.TERMS)
        name = frame.loop(None, "ahead", (start, f"{start} + {count}"), most=columns.TERMS)
        frame.push(None, loop, f"({name} + {columns.TERMS})")
        for access in dict.fromkeys(load.access for load in loads if {self.lane, loop} <= load.access.strides.keys()):
            frame.fetch(access, 0)
        frame.pop(depth)

    def _chunk(self, chunked: list[Reduce]) -> None:
        """The sums of a chunk are added to those before. The next chunk begins empty."""
        together = self._together()
        for point in self.frame.points():
            for reduction in chunked:
                total, part = (self._load(reduction, k, point) for k in (1, 0))
                self._store(reduction, 1, point, f"{total} + {part}")
                (empty,) = together.empty(reduction, point)
                self._store(reduction, 0, point, empty)

    def _finish(self) -> None:
        """What is computed of the results is stored."""
        self._known(self.reductions)
        store_tile(self.frame, self.values)

    def _known(self, reductions: list[Reduce]) -> None:
        """The results of reductions are known."""
        for point in self.frame.points():
            for reduction in reductions:
                found = self._load(reduction, len(columns.kept(reduction)) - 1, point)
                self.frame.memos[-1]["reduced", reduction, point] = found

    # ---- the sums ----------------------------------------------------------------------------------------------------

    def _together(self) -> Together:
        return Together(self.frame, self.values.value, self.reductions[0])

    def _load(self, reduction: Reduce, k: int, point: Point) -> str:
        text = f"load_{suffix(columns.kept(reduction)[k], point.width)}({self._place(reduction, k, point)})"
        return self.frame.line("acc", text)

    def _store(self, reduction: Reduce, k: int, point: Point, text: str) -> None:
        self.frame.scope.add(f"store({self._place(reduction, k, point)}, {text})")

    def _place(self, reduction: Reduce, k: int, point: Point) -> str:
        """The address of some sums of the strip."""
        frame, itemsize = self.frame, columns.kept(reduction)[k].itemsize
        base = f"{frame.address(SCRATCH, 0)} + ({frame.index[self.lane, 0]} - {self.first})*{itemsize}"
        return f"{base} + {self.places[reduction, k] + point.vector * point.width * itemsize}"

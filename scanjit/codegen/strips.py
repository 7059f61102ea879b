"""Time around strips of points: each step, or a few light ones, is done for all points of a strip. Between them,
carries are in memory."""

from collections.abc import Mapping, Sequence

from scanjit.codegen.frame import Frame
from scanjit.codegen.memory import write
from scanjit.codegen.neighbours import in_pairs
from scanjit.codegen.space import Space, around, group
from scanjit.codegen.time import TimeInside, count
from scanjit.codegen.values import Values
from scanjit.records import replace
from scanjit.schedule.nests import Load, NestLoop, Register, Store

Ranges = Mapping[NestLoop, tuple[str, str]]
"""For each loop of a nest, where a strip begins and ends."""


class Strips:
    """Writes the loops of a nest with time around strips of points."""

    def __init__(self, frame: Frame, values: Values, time: NestLoop) -> None:
        self.frame, self.values, self.time = frame, values, time

    def write(self) -> None:
        """Write the loops in which strips of points go through time; and, for calls with few points, those in which
        each vector goes through time alone. The number of all points decides, not that of a thread: the last bits of
        results depend on whether carries are in registers."""
        frame, first = self.frame, self.frame.nest.space[0]
        start, stop = frame.bounds(first)
        if frame.tile.many == 1:
            self._strips((start, stop))
            return
        many = frame.size(first.size * frame.tile.many)
        self._strips((start, f"min({stop}, {many})"))
        self._alone((f"max({start}, {many})", stop))

    def _strips(self, bounds: tuple[str, str]) -> None:
        """Loops over strips between these bounds of the first loop. Inside them stands the loop over time, and inside
        that loops over points."""
        frame, depth, ranges = self.frame, len(self.frame.scopes), {}
        for loop, strip in zip(frame.nest.space, frame.tile.strips, strict=True):
            first, last = bounds if loop is frame.nest.space[0] else frame.bounds(loop)
            ranges[loop] = (first, last) if strip == loop.size else group(frame, first, last, frame.size(strip))
        size, together = self.time.size, frame.tile.steps
        full = size // together * together
        self._turns(ranges, ("0", frame.size(full)), together)
        if size != full:
            self._turns(ranges, (frame.size(full), frame.size(size)), 1, together - 1)
        frame.pop(depth)

    def _turns(self, ranges: Ranges, steps: tuple[str, str], together: int, most: int | None = None) -> None:
        """A loop over some steps, `together` of them in each turn, with at most `most` turns."""
        frame, depth, rows = self.frame, len(self.frame.scopes), list[str]()
        start = frame.loop(self.time, "t", steps, together, most)
        for i in range(together):
            count(frame, self.time, f"{start} + {i}" if i else start)
            rows.append(frame.index[self.time, 0])
        *outer, lane = frame.nest.space
        for loop in outer:
            frame.loop(loop, "i", ranges[loop], down=frame.tile.down)
        Space(frame, lambda: self._steps(rows)).in_parts(lane, *ranges[lane], frame.tile.down)
        frame.pop(depth)

    def _alone(self, bounds: tuple[str, str]) -> None:
        """Loops over vectors between these bounds of the first loop, with the loop over time inside them."""
        frame, lane = self.frame, self.frame.nest.space[-1]
        space = Space(frame, TimeInside(frame, self.values, self.time).write)
        with around(frame, bounds) as inner, frame.fewer_vectors():
            if frame.tile.narrow:
                space.in_parts(lane, *inner)
            else:
                space.lane_range(lane, *inner, masked=not frame.fills(lane, frame.tile.lanes))

    def _steps(self, rows: Sequence[str]) -> None:
        """Some steps of some vectors of points, one after the other, with carries in registers between them. `opaque`
        keeps LLVM from joining a product of one step with a sum of the next one. So the bits are the same as if the
        carries came from memory."""
        frame, nest = self.frame, self.frame.nest
        self._begin(rows[0])
        for register, access in zip(nest.registers, nest.carried, strict=True):
            carry = Load(register.dtype, access)
            for point in frame.points():
                frame.registers[register.index, point.vector] = self.values.value(carry, point)
        for row in rows[1:]:
            for place, text in self._step(nest.stores).items():
                frame.registers[place] = frame.line("c", f"opaque({text})")
            self._begin(row)
        kept = {store.value.index: store for store in nest.finals if isinstance(store.value, Register)}
        new = zip(nest.registers, nest.updates, strict=True)
        updates = [replace(kept[r.index], value=update) for r, update in new if r.index in kept]
        self._step([*nest.stores, *updates])

    def _begin(self, row: str) -> None:
        """Go to a row. Variables that hold values of the row before are forgotten, also those written outside of the
        loops over points, such as a number that all points read."""
        frame = self.frame
        frame.index[self.time, 0] = row
        for level in range(frame.level[self.time], len(frame.memos)):
            frame.memos[level] = {}

    def _step(self, stores: Sequence[Store]) -> dict[tuple[int, int], str]:
        """A step: first everything that it reads, then everything that it stores. Returns the new carries."""
        points, nest, value = self.frame.points(), self.frame.nest, self.values.value
        pairs = [(pair, point) for pair in in_pairs(stores) for point in points]
        made = [[value(store.value, point) for store in pair] for pair, point in pairs]
        new = {
            (register.index, point.vector): value(update, point)
            for register, update in zip(nest.registers, nest.updates, strict=True)
            for point in points
        }
        for (pair, point), texts in zip(pairs, made, strict=True):
            write(self.frame, pair, texts, point)
        return new

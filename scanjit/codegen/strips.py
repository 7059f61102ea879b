"""Time around strips of points: each step, or a few light ones, is done for all points of a strip. Between them,
carries are in memory."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from scanjit.codegen.frame import Frame
from scanjit.codegen.memory import write
from scanjit.codegen.neighbours import in_pairs
from scanjit.codegen.space import Space, around, group
from scanjit.codegen.time import TimeInside, count
from scanjit.codegen.values import Values
from scanjit.schedule.nests import Load, NestLoop, Register, Store


def write_strips(frame: Frame, values: Values, time: NestLoop) -> None:
    """Write the loops in which strips of points go through time; and, for calls with few points, those in which each
    vector goes through time alone. The number of all points decides, not that of a thread: the last bits of results
    depend on whether carries are in registers."""
    first = frame.nest.space[0]
    if frame.tile.many == 1:
        _strips(frame, values, time, frame.bounds(first))
        return
    many = frame.size(first.size * frame.tile.many)
    start, stop = frame.bounds(first)
    _strips(frame, values, time, (start, f"min({stop}, {many})"))
    _alone(frame, values, time, (f"max({start}, {many})", stop))


def _strips(frame: Frame, values: Values, time: NestLoop, bounds: tuple[str, str]) -> None:
    """Loops over strips between these bounds of the first loop. Inside them stands the loop over time, and inside that
    loops over points."""
    depth, ranges = len(frame.scopes), {}
    for loop, strip in zip(frame.nest.space, frame.tile.strips, strict=True):
        first, last = bounds if loop is frame.nest.space[0] else frame.bounds(loop)
        ranges[loop] = (first, last) if strip == loop.size else group(frame, first, last, frame.size(strip))
    size, together = time.size, frame.tile.steps
    full = size // together * together
    _turns(frame, values, time, ranges, ("0", frame.size(full)), together)
    if size != full:
        _turns(frame, values, time, ranges, (frame.size(full), frame.size(size)), 1, together - 1)
    frame.pop(depth)


def _turns(
    frame: Frame,
    values: Values,
    time: NestLoop,
    ranges: Mapping[NestLoop, tuple[str, str]],
    steps: tuple[str, str],
    together: int,
    most: int | None = None,
) -> None:
    """A loop over some steps, `together` of them in each turn, with at most `most` turns."""
    depth, rows = len(frame.scopes), list[str]()
    start = frame.loop(time, "t", steps, together, most)
    for i in range(together):
        count(frame, time, f"{start} + {i}" if i else start)
        rows.append(frame.index[time, 0])
    *outer, lane = frame.nest.space
    for loop in outer:
        frame.loop(loop, "i", ranges[loop], down=frame.tile.down)
    Space(frame, lambda: _steps(frame, values, time, rows)).in_parts(lane, *ranges[lane], frame.tile.down)
    frame.pop(depth)


def _alone(frame: Frame, values: Values, time: NestLoop, bounds: tuple[str, str]) -> None:
    """Loops over vectors between these bounds of the first loop, with the loop over time inside them."""
    lane, space = frame.nest.space[-1], Space(frame, TimeInside(frame, values, time).write)
    with around(frame, bounds) as inner, frame.fewer_vectors():
        if frame.tile.narrow:
            space.in_parts(lane, *inner)
        else:
            space.lane_range(lane, *inner, masked=not frame.fills(lane, frame.tile.lanes))


def _steps(frame: Frame, values: Values, time: NestLoop, rows: Sequence[str]) -> None:
    """Some steps of some vectors of points, one after the other, with carries in registers between them. `opaque` keeps
    LLVM from joining a product of one step with a sum of the next one. So the bits are the same as if the carries came
    from memory."""
    points, nest = frame.points(), frame.nest
    _begin(frame, time, rows[0])
    for register, access in zip(nest.registers, nest.carried, strict=True):
        carry = Load(register.dtype, access)
        for point in points:
            frame.registers[register.index, point.vector] = values.value(carry, point)
    for row in rows[1:]:
        new = _step(frame, values, nest.stores)
        for place, text in new.items():
            frame.registers[place] = frame.line("c", f"opaque({text})")
        _begin(frame, time, row)
    kept = {store.value.index: store for store in nest.finals if isinstance(store.value, Register)}
    updates = [
        replace(kept[register.index], value=update)
        for register, update in zip(nest.registers, nest.updates, strict=True)
        if register.index in kept
    ]
    _step(frame, values, [*nest.stores, *updates])


def _begin(frame: Frame, time: NestLoop, row: str) -> None:
    """Go to a row. Variables that hold values of the row before are forgotten, also those written outside of the loops
    over points, such as a number that all points read."""
    frame.index[time, 0] = row
    for level in range(frame.level[time], len(frame.memos)):
        frame.memos[level] = {}


def _step(frame: Frame, values: Values, stores: Sequence[Store]) -> dict[tuple[int, int], str]:
    """A step: first everything that it reads, then everything that it stores. Returns the new carries."""
    points, nest = frame.points(), frame.nest
    made = [
        (pair, [values.value(store.value, point) for store in pair], point)
        for pair in in_pairs(stores)
        for point in points
    ]
    new = {
        (register.index, point.vector): values.value(update, point)
        for register, update in zip(nest.registers, nest.updates, strict=True)
        for point in points
    }
    for pair, texts, point in made:
        write(frame, pair, texts, point)
    return new

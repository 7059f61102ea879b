"""Time around strips of points: each step is done for all points of a strip, and carries are in memory."""

from dataclasses import replace

from scanjit.codegen.frame import Frame
from scanjit.codegen.memory import write
from scanjit.codegen.neighbours import in_pairs
from scanjit.codegen.space import Space, group
from scanjit.codegen.time import TimeInside, count
from scanjit.codegen.values import Values
from scanjit.schedule.nests import Load, NestLoop, Register


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
    count(frame, time, frame.loop(time, "t", ("0", frame.size(time.size))))
    *outer, lane = frame.nest.space
    for loop in outer:
        frame.loop(loop, "i", ranges[loop], down=frame.tile.down)
    Space(frame, lambda: _step(frame, values)).in_parts(lane, *ranges[lane], frame.tile.down)
    frame.pop(depth)


def _alone(frame: Frame, values: Values, time: NestLoop, bounds: tuple[str, str]) -> None:
    """Loops over vectors between these bounds of the first loop, with the loop over time inside them."""
    depth, (*outer, lane) = len(frame.scopes), frame.nest.space
    for loop in outer:
        frame.loop(loop, "i", bounds if loop is frame.nest.space[0] else frame.bounds(loop))
    space, masked = Space(frame, TimeInside(frame, values, time).write), not frame.fills(lane, frame.tile.lanes)
    with frame.single_vectors():
        start, stop = frame.bounds(lane) if outer else bounds
        if frame.tile.narrow:
            space.in_parts(lane, start, stop)
        else:
            space.lane_range(lane, start, stop, masked)
    frame.pop(depth)


def _step(frame: Frame, values: Values) -> None:
    """A step of some vectors of points: first everything that it reads, then everything that it stores."""
    points, nest = frame.points(), frame.nest
    for register, access in zip(nest.registers, nest.carried, strict=True):
        for point in points:
            frame.registers[register.index, point.vector] = values.value(Load(register.dtype, access), point)
    kept = {store.value.index: store for store in nest.finals if isinstance(store.value, Register)}
    updates = [
        replace(kept[register.index], value=update)
        for register, update in zip(nest.registers, nest.updates, strict=True)
        if register.index in kept
    ]
    made = [
        (stores, [values.value(store.value, point) for store in stores], point)
        for stores in in_pairs([*nest.stores, *updates])
        for point in points
    ]
    for stores, texts, point in made:
        write(frame, stores, texts, point)

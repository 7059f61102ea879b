"""Time around strips of points: each step is done for all points of a strip, and what is carried is in memory."""

from __future__ import annotations

from scanjit import types
from scanjit.codegen.frame import Frame
from scanjit.codegen.memory import write
from scanjit.codegen.space import Space, group
from scanjit.codegen.time import TimeInside, count
from scanjit.codegen.values import Values
from scanjit.schedule.nests import Load, NestLoop, Register


def write_strips(frame: Frame, values: Values, time: NestLoop) -> None:
    """Strips of points go through time. Along one loop of unknown size, the vector that is not full goes through time
    alone; so do all, if fewer than two are full. Which points do so does not depend on threads: with carries in
    registers, the last bit may be another one."""
    (*outer, lane), width = frame.nest.space, frame.tile.lanes
    first, last = frame.bounds(lane)
    if outer or isinstance(lane.size, int) or lane is frame.tile.own:
        _until(frame, values, time, last)
        return
    full = frame.size(lane.size // width * width * types.minimum(lane.size // (2 * width), 1))
    _until(frame, values, time, f"min({last}, {full})")
    alone = Space(frame, TimeInside(frame, values, time).write)
    alone.lane_range(lane, f"max({first}, {full})", last, True)


def _until(frame: Frame, values: Values, time: NestLoop, end: str) -> None:
    """Loops over strips, the last of which ends there; in them the loop over time, in that loops over points."""
    depth, ranges = len(frame.scopes), {}
    for loop, strip in zip(frame.nest.space, frame.tile.strips, strict=True):
        first, last = frame.bounds(loop)
        last = end if loop is frame.lane else last
        ranges[loop] = (first, last) if strip == loop.size else group(frame, first, last, frame.size(strip))
    count(frame, time, frame.loop(time, "t", ("0", frame.size(time.size))))
    *outer, lane = frame.nest.space
    for loop in outer:
        point = frame.fresh("i")
        frame.push(f"for {point} in range({', '.join(ranges[loop])}):", loop, point)
    (first, last), width = ranges[lane], frame.tile.lanes
    whole = lane.size % width == 0 if isinstance(lane.size, int) else not outer
    points = Space(frame, lambda: _step(frame, values))
    if whole and lane is not frame.tile.own:
        points.lane_range(lane, first, last, False)
    else:
        points.full_and_rest(lane, first, last, width)
    frame.pop(depth)


def _step(frame: Frame, values: Values) -> None:
    """A step of a vector of points: all that it reads, then all that it stores."""
    (point,), nest = frame.points(), frame.nest
    for register, access in zip(nest.registers, nest.carried, strict=True):
        frame.registers[register.index, 0] = values.value(Load(register.dtype, access), point)
    kept = {store.value.index: store for store in nest.finals if isinstance(store.value, Register)}
    made = [(store, values.value(store.value, point)) for store in nest.stores]
    for register, update in zip(nest.registers, nest.updates, strict=True):
        if register.index in kept:
            made.append((kept[register.index], values.value(update, point)))
    for store, text in made:
        write(frame, store, text, point)

"""Nests that only copy, from where elements lie side by side along one loop to where they do along another: square
blocks are loaded by rows and stored by columns."""

from collections.abc import Iterator
from dataclasses import replace as changed

from scanjit.codegen.frame import Frame, Point
from scanjit.codegen.memory import write
from scanjit.codegen.names import suffix
from scanjit.codegen.values import Values
from scanjit.schedule.nests import Access, Load, Nest, NestLoop

LEAST_BYTES = 4
"""Vectors of smaller elements have too many lanes: a block would be hundreds of instructions."""


def crossed(nest: Nest) -> NestLoop | None:
    """The loop along which what a nest copies lies side by side, if that is another one than the loop of lanes, along
    which the copy does. None if the nest does anything else."""
    tile = nest.tile
    if nest.time is not None or nest.sequential or tile is None or tile.lanes == 1 or tile.horizontal:
        return None
    found = [_crossed(store.access, store.value, nest) for store in nest.stores if not store.indices and not store.add]
    return found[0] if len(set(found)) == 1 and len(found) == len(nest.stores) else None


def _crossed(target: Access, value: object, nest: Nest) -> NestLoop | None:
    *outer, lane = nest.space
    if not isinstance(value, Load) or value.when != 1 or value.widens or value.dtype.itemsize < LEAST_BYTES:
        return None
    if target.strides.get(lane, 0) != 1 or value.access.strides.get(lane, 0) in (0, 1):
        return None
    return next((loop for loop in outer if value.access.strides.get(loop, 0) == 1 and loop in target.strides), None)


def in_blocks(nest: Nest) -> Nest:
    """The nest with a tile of one vector: a block has as many rows as that has lanes."""
    assert nest.tile is not None
    return changed(nest, tile=changed(nest.tile, vectors=1))


def write_transposed(frame: Frame, values: Values, down: NestLoop) -> None:
    """Loops over blocks of as many rows as a vector has lanes. A block that is not whole is copied row by row."""
    lane, lanes = frame.nest.space[-1], frame.tile.lanes
    for loop in frame.nest.space:
        if loop not in (down, lane):
            frame.loop(loop, "i", frame.bounds(loop))
    (start, stop), (first, last) = frame.bounds(down), frame.bounds(lane)
    column = frame.loop(lane, "j", (first, last), lanes)
    row = frame.loop(down, "i", (start, stop), lanes)
    whole = frame.line("whole", f"{row} + {lanes} <= {stop} and {column} + {lanes} <= {last}")
    depth, point = len(frame.scopes), Point(width=lanes)
    frame.push(f"if {whole}:")
    for target, source in _copied(frame.nest):
        (to, _), (at, across) = frame.vector(target, point), frame.vector(source.access, point)
        step = frame.size(target.strides[down] * target.buffer.dtype.itemsize)
        name = suffix(source.dtype, lanes)
        frame.scope.add(f"transpose_{name}({to}, {step}, {at}, {frame.size(across)})")
    frame.pop(depth)
    frame.push(f"if not {whole}:")
    frame.masks[-1] = [frame.line("mask", f"head_x{lanes}({last} - {column})")]
    frame.loop(down, "k", (row, f"min({row} + {lanes}, {stop})"), most=lanes)
    for store in frame.nest.stores:
        write(frame, store, values.value(store.value, point), point)


def _copied(nest: Nest) -> Iterator[tuple[Access, Load]]:
    """Where a nest stores, and what it copies there."""
    yield from ((store.access, store.value) for store in nest.stores if isinstance(store.value, Load))

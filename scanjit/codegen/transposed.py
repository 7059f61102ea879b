"""Nests that only transpose: elements that are read lie side by side along one loop, those that are written along
another one. Square blocks are loaded by rows and stored by columns."""

from collections.abc import Iterator
from dataclasses import replace as changed

from scanjit.codegen.frame import Frame, Point
from scanjit.codegen.memory import write
from scanjit.codegen.names import suffix
from scanjit.codegen.values import Values
from scanjit.schedule.nests import Access, Load, Nest, NestLoop

LEAST_BYTES = 4
"""Vectors of smaller elements have so many lanes that a block would be hundreds of instructions."""

LEAST_LANES = 4
"""The fewest lanes of a block."""


def crossed(nest: Nest) -> NestLoop | None:
    """The loop along which a nest reads neighbours, if the nest only copies elements and writes neighbours along
    another loop, that of the lanes. Otherwise None."""
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
    """The nest with a tile of one vector, as a block has as many rows as a vector has lanes."""
    assert nest.tile is not None
    return changed(nest, tile=changed(nest.tile, vectors=1))


def write_transposed(frame: Frame, values: Values, down: NestLoop) -> None:
    """Loops over blocks of as many rows as a vector has lanes. Rows and columns that are left are copied in smaller
    blocks. Rows that are too few for the smallest block are copied one by one."""
    lane = frame.nest.space[-1]
    for loop in frame.nest.space:
        if loop not in (down, lane):
            frame.loop(loop, "i", frame.bounds(loop))
    _write_blocks(frame, values, down, frame.tile.lanes, frame.bounds(down), frame.bounds(lane))


def _write_blocks(
    frame: Frame, values: Values, down: NestLoop, lanes: int, rows: tuple[str, str], columns: tuple[str, str]
) -> None:
    """Copy rows and columns in blocks of `lanes` lanes. For example, 13 rows are one block of 8 lanes above one of 4,
    and one row."""
    lane, most = frame.nest.space[-1], None if lanes == frame.tile.lanes else 2
    column = frame.loop(lane, "j", columns, lanes, most)
    row = frame.loop(down, "i", rows, lanes, most)
    whole = frame.line("whole", f"{row} + {lanes} <= {rows[1]} and {column} + {lanes} <= {columns[1]}")
    depth = len(frame.scopes)
    frame.push(f"if {whole}:")
    _write_block(frame, down, Point(width=lanes))
    frame.pop(depth)
    frame.push(f"if not {whole}:")
    end = frame.line("end", f"min({row} + {lanes}, {rows[1]})")
    if lanes <= LEAST_LANES:
        return _write_rows(frame, values, down, lanes, (row, end), f"{columns[1]} - {column}")
    behind = frame.line("end", f"min({column} + {lanes}, {columns[1]})")
    if most is not None:  # the number of rows is a multiple of the rows of the smallest block
        return _write_blocks(frame, values, down, lanes // 2, (row, end), (column, behind))
    inner, full = len(frame.scopes), frame.line("full", f"{end} - ({end} - {row}) % {LEAST_LANES}")
    _write_blocks(frame, values, down, lanes // 2, (row, full), (column, behind))
    frame.pop(inner)
    _write_rows(frame, values, down, lanes, (full, end), f"{columns[1]} - {column}")


def _write_block(frame: Frame, down: NestLoop, point: Point) -> None:
    """A whole block, each row of which is a vector."""
    for target, source in _copied(frame.nest):
        (to, _), (at, across) = frame.vector(target, point), frame.vector(source.access, point)
        step = frame.size(target.strides[down] * target.buffer.dtype.itemsize)
        name = suffix(source.dtype, point.width)
        frame.scope.add(f"transpose_{name}({to}, {step}, {at}, {frame.size(across)})")


def _write_rows(frame: Frame, values: Values, down: NestLoop, lanes: int, rows: tuple[str, str], columns: str) -> None:
    """Copy single rows of at most `columns` columns."""
    point = Point(width=lanes)
    frame.masks[-1] = [frame.line("mask", f"head_x{lanes}({columns})")]
    frame.loop(down, "k", rows, most=lanes)
    for store in frame.nest.stores:
        write(frame, (store,), (values.value(store.value, point),), point)


def _copied(nest: Nest) -> Iterator[tuple[Access, Load]]:
    """Each place that a nest stores to, and the load that it copies there."""
    yield from ((store.access, store.value) for store in nest.stores if isinstance(store.value, Load))

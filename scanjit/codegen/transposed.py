"""Nests that transpose: elements that are read lie side by side along one loop, those that are written along another
one. Square blocks are loaded by rows and stored by columns.

If the nest computes more, as `x + y.T` does, a block of `y` is transposed on the stack.
"""

from scanjit.codegen.frame import Frame, Point
from scanjit.codegen.memory import write
from scanjit.codegen.names import suffix
from scanjit.codegen.values import Values
from scanjit.records import replace as changed
from scanjit.schedule.nests import Apply, Fetch, Load, Nest, NestLoop, Reduce, Register, Search

LEAST_BYTES = 4
"""Vectors of smaller elements have so many lanes that a block would be hundreds of instructions."""

CHEAP = 8
"""A nest is computed in blocks if a point takes at most this many operations. Others go along rows: processors then
fetch ahead what they read, while they compute."""

LEAST_LANES = 4
"""The fewest lanes of a block."""


def crossed(nest: Nest) -> NestLoop | None:
    """The loop along which a nest reads neighbours, if it computes each point by itself and writes neighbours along
    another loop, that of the lanes. Otherwise None."""
    tile = nest.tile
    if nest.time is not None or nest.sequential or tile is None or tile.lanes == 1 or tile.horizontal or tile.brief:
        return None
    if any(isinstance(value, Reduce | Fetch | Search | Register) for value in nest.values):
        return None
    *outer, lane = nest.space
    across = _across(nest)
    downs = [loop for loop in outer if across and all(load.access.strides.get(loop, 0) == 1 for load in across)]
    for store in nest.stores:
        steps = store.access.strides
        downs = [loop for loop in downs if loop in steps and steps.get(lane, 0) == 1]
        downs = [] if store.indices or store.add else downs
    if sum(value.cost for value in nest.values if isinstance(value, Apply)) > CHEAP:
        return None
    plain = all(load.when == 1 and not load.widens and load.dtype.itemsize >= LEAST_BYTES for load in across)
    return downs[0] if downs and plain else None


def _across(nest: Nest) -> list[Load]:
    """The loads whose lanes do not lie side by side."""
    loads = [value for value in nest.values if isinstance(value, Load)]
    return [load for load in loads if load.access.strides.get(nest.space[-1], 0) not in (0, 1)]


def _copies(nest: Nest) -> bool:
    """Whether a nest only copies what it reads across."""
    return all(isinstance(store.value, Load) for store in nest.stores) and len(_across(nest)) == len(nest.values)


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
    if _copies(frame.nest):
        _write_blocks(frame, values, down, frame.tile.lanes, frame.bounds(down), frame.bounds(lane))
    else:
        _compute_blocks(frame, values, down, frame.bounds(down), frame.bounds(lane))


def _compute_blocks(
    frame: Frame, values: Values, down: NestLoop, rows: tuple[str, str], columns: tuple[str, str]
) -> None:
    """Compute whole columns of vectors in blocks, and rows that are left in them; then the columns that are left."""
    lane, lanes, depth = frame.nest.space[-1], frame.tile.lanes, len(frame.scopes)
    full, whole = (
        frame.line("full", f"{start} + ({stop} - {start})//{lanes}*{lanes}") for start, stop in (columns, rows)
    )
    frame.loop(lane, "j", (columns[0], full), lanes)
    inside = len(frame.scopes)
    _compute_block(frame, values, down, frame.loop(down, "i", (rows[0], whole), lanes))
    frame.pop(inside)
    _compute_rows(frame, values, down, (whole, rows[1]))
    frame.pop(depth)
    column = frame.loop(lane, "j", (full, columns[1]), lanes, most=1)
    frame.masks[-1] = [frame.line("mask", f"head_x{lanes}({columns[1]} - {column})")]
    _compute_rows(frame, values, down, rows)


def _compute_block(frame: Frame, values: Values, down: NestLoop, row: str) -> None:
    """Compute the rows from `row` on, as many as a vector has lanes."""
    lanes = frame.tile.lanes
    point = Point(width=lanes)
    squares = {load: frame.turned(load, point) for load in _across(frame.nest)}
    inner = frame.loop(down, "k", (row, f"{row} + {lanes}"), most=lanes)
    for load, square in squares.items():
        place = f"{square} + ({inner} - {row})*{lanes * load.dtype.itemsize}"
        values.given(load, point, f"load_{suffix(load.dtype, lanes)}({place})")
    _store(frame, values, Point(width=frame.tile.lanes))


def _compute_rows(frame: Frame, values: Values, down: NestLoop, rows: tuple[str, str]) -> None:
    """Compute rows of one vector."""
    frame.loop(down, "k", rows)
    _store(frame, values, Point(width=frame.tile.lanes))


def _write_blocks(
    frame: Frame, values: Values, down: NestLoop, lanes: int, rows: tuple[str, str], columns: tuple[str, str]
) -> None:
    """Copy rows and columns in blocks of `lanes` lanes. For example, 13 rows are one block of 8 lanes above one of 4,
    and one row."""
    lane, most = frame.nest.space[-1], None if lanes == frame.tile.lanes else 2
    column = frame.loop(lane, "j", columns, lanes, most)
    row = frame.loop(down, "i", rows, lanes, most)
    whole = frame.line("whole", f"{row} + {lanes} <= {rows[1]} and {column} + {lanes} <= {columns[1]}")
    with frame.inside(f"if {whole}:"):
        _write_block(frame, down, Point(width=lanes))
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
    for store in frame.nest.stores:
        target, source = store.access, store.value
        assert isinstance(source, Load)
        (to, _), (at, across) = frame.vector(target, point), frame.vector(source.access, point)
        step = frame.size(target.strides[down] * target.buffer.dtype.itemsize)
        name = suffix(source.dtype, point.width)
        frame.scope.add(f"transpose_{name}({to}, {step}, {at}, {frame.size(across)})")


def _write_rows(frame: Frame, values: Values, down: NestLoop, lanes: int, rows: tuple[str, str], columns: str) -> None:
    """Copy single rows of at most `columns` columns."""
    point = Point(width=lanes)
    frame.masks[-1] = [frame.line("mask", f"head_x{lanes}({columns})")]
    frame.loop(down, "k", rows, most=lanes)
    _store(frame, values, point)


def _store(frame: Frame, values: Values, point: Point) -> None:
    """Compute and store a vector."""
    for store in frame.nest.stores:
        write(frame, (store,), (values.value(store.value, point),), point)

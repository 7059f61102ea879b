"""Whether statements go through a buffer row by row: row t at step t.

Let `p` have rows of 8 elements. A nest over loops (t, j) that loads `p` at `8 * t + j` goes through it row by row. So
does a loop over time that loads `p` at `8 * row + j` in each step. Memory for a few rows is then enough for a few
steps.
"""

from collections.abc import Iterator, Set as AbstractSet

from scanjit import types
from scanjit.schedule.nests import Access, Buffer, Fetch, Index, Nest, Search, Statement, row_major
from scanjit.schedule.time.flow import plan_of
from scanjit.types import Dimension


def is_rowwise(nest: Nest | None, length: Dimension, buffers: AbstractSet[Buffer]) -> bool:
    """Whether the first loop of a nest is time, with `length` steps, and the nest goes through these buffers row by
    row."""
    if nest is None or not nest.space or nest.space[0].size != length or nest.sequential:
        return False
    found = [access for access, _ in nest.accesses if access.buffer in buffers]
    return all(a.buffer.shape and a.strides.get(nest.space[0], 0) == row_step(a.buffer) for a in found)


def scan_is_rowwise(scan: Statement, buffer: Buffer) -> bool:
    """Whether all accesses of a scan to a buffer move by one row from step to step. The load of an initial value does
    not count."""
    step = row_step(buffer)
    if isinstance(scan, Nest):
        assert scan.time is not None
        return all(access.strides.get(scan.time, 0) == step for access in _after_begin(scan, buffer))
    return all(offset - first == plan_of(scan).row * step for offset, first in _offsets(scan, buffer))


def first_offsets(statement: Statement, buffer: Buffer) -> list[Dimension]:
    """The offset of each access of a scan, or of a rowwise nest, to a buffer at row 0."""
    if isinstance(statement, Nest):
        return [access.offset for access in _after_begin(statement, buffer)]
    return [first for _, first in _offsets(statement, buffer)]


def _after_begin(nest: Nest, buffer: Buffer) -> Iterator[Access]:
    """The accesses of a nest to a buffer, without loads of the initial values of registers."""
    begin = {register.init.access for register in nest.registers}  # type: ignore[attr-defined]
    return (access for access, _ in nest.accesses if access.buffer is buffer and access not in begin)


def _offsets(scan: Statement, buffer: Buffer) -> Iterator[tuple[Dimension, Dimension]]:
    """The offset of each access of a loop over time to a buffer: at any step, and at row 0."""
    (row,) = types.atoms(plan_of(scan).row)
    for other, offset, _ in scan.all_refs():
        if other is buffer:
            yield offset, types.substitute(offset, {row: 0})


def row_step(buffer: Buffer) -> Dimension:
    """How many elements apart the rows of a buffer lie."""
    return row_major(buffer.shape)[0]


def computed(nest: Nest) -> Iterator[tuple[Access, tuple[Index, ...]]]:
    """The accesses of a nest at computed indices, each with its indices."""
    yield from ((value.access, value.indices) for value in nest.values if isinstance(value, Fetch | Search))
    yield from ((store.access, store.indices) for store in nest.stores if store.indices)


def lies_in(low: Dimension, high: Dimension, size: Dimension) -> bool:
    """Whether positions from `low` to `high` certainly lie among `size` elements, if there are any positions."""
    return types.not_negative(low) and types.not_negative(size - 1 - high)

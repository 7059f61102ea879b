"""Loops over time whose rows (the sequences of a batch, say) never meet: a thread may keep its rows through all steps.

Threads that share every nest of a step wait for each other after each. Where all nests of a step go over the same rows,
and what is written of a row is read for that row alone, a thread can compute its rows from the first step to the last,
and meet nobody. It then reads all right operands, not a part of their columns; whether that pays is decided when the
sizes are known (`parallel`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace as changed

from scanjit import types
from scanjit.schedule.nests import (
    Access,
    Buffer,
    Fetch,
    Nest,
    NestLoop,
    OwnRows,
    Program,
    Statement,
    TimeLoop,
    counter,
    walk_values,
)
from scanjit.types import Atom, Dimension

Own = tuple[NestLoop, Dimension]
"""The loop of a nest that goes over the rows, and how many of its iterations are one row."""


def find_rows(program: Program) -> list[TimeLoop]:
    """Find the loops over time whose rows never meet, and note the rows in them and in their nests."""
    return list(_loops(program.body, set()))


def _loops(body: Sequence[Statement], counters: set[Atom]) -> Iterator[TimeLoop]:
    for statement in body:
        counted = counters | {atom for dim in statement.counters for atom in types.atoms(dim)}
        if isinstance(statement, TimeLoop) and _mark(statement, counted):
            yield statement
        else:
            yield from _loops(statement.inner, counted)


def _mark(loop: TimeLoop, counters: set[Atom]) -> bool:
    nests = [statement for statement in loop.body if isinstance(statement, Nest)]
    if len(nests) < len(loop.body) or not all(map(_is_plain, nests)) or loop.stop is not None:
        return False
    written = {store.access.buffer for nest in nests for store in (*nest.stores, *nest.finals)}
    for size in _sizes(nests):
        steps: dict[Buffer, Dimension] = {}
        found = [_own(nest, size, written, steps) for nest in nests]
        own = [pair for pair in found if pair is not None]
        if len(own) == len(nests) and counters.isdisjoint(types.atoms(size)):
            unit = 1
            for nest, (rows, each) in zip(nests, own, strict=True):
                assert nest.tile is not None
                rest = nest.tile.rest and rows is nest.tile.rows and each == 1
                nest.tile = changed(nest.tile, own=rows, each=each, rest=rest)
                unit = max(unit, nest.tile.row_block if rows is nest.tile.rows else 1)
            loop.rows = OwnRows(size, unit, counter("kept"))
            return True
    return False


def _is_plain(nest: Nest) -> bool:
    return nest.tile is not None and not nest.sequential and not any(store.indices for store in nest.stores)


def _sizes(nests: Sequence[Nest]) -> list[Dimension]:
    """What may be the number of rows: the rows of register tiles first."""
    tiled = [nest.tile.rows.size for nest in nests if nest.tile is not None and nest.tile.rows is not None]
    found = dict.fromkeys([*tiled, *(loop.size for nest in nests for loop in nest.space)])
    return [size for size in found if not isinstance(size, int) or size > 1]


def _own(nest: Nest, size: Dimension, written: set[Buffer], steps: dict[Buffer, Dimension]) -> Own | None:
    """The loop over rows of a nest, if all that it does with what the loop writes stays in its own row. `steps`: how
    far apart two rows of a buffer are."""
    assert nest.tile is not None
    for loop in nest.space:
        each = loop.size // size
        if each * size != loop.size or (nest.tile.singles and loop is nest.space[-1]):
            continue
        met = dict(steps)
        if all(_stays(access, (loop, each), size, met) for access in _accesses(nest, written)):
            if not any(isinstance(v, Fetch) and v.access.buffer in written for v in walk_values(nest.roots)):
                steps.update(met)
                return loop, each
    return None


def _accesses(nest: Nest, buffers: set[Buffer]) -> list[Access]:
    return [access for access, _ in nest.accesses() if access.buffer in buffers]


def _stays(access: Access, own: Own, size: Dimension, steps: dict[Buffer, Dimension]) -> bool:
    """Whether an access at a row touches that row only, wherever time is: all else that it adds to an address is less
    than the way to the next row, or goes from one set of rows to another."""
    rows, each = own
    stride = access.strides.get(rows, 0)
    step = stride * each
    if step == 0 or steps.setdefault(access.buffer, step) != step:
        return False
    offset = types.remainder(access.offset, step * size)
    extent = offset + (each - 1) * stride
    if not types.not_negative(offset):
        return False
    for loop, along in access.strides.items():
        if loop is not rows and types.remainder(along, step * size) != 0:
            if not types.not_negative(along):
                return False
            extent = extent + (loop.size - 1) * along
    return types.not_negative(step - 1 - extent)

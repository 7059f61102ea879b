"""Threads: which loop of a nest they share, and whether a program is worth more than one.

All threads run the same main function over the same statements and meet after each (a barrier). Of a nest, each
computes a part of one loop of its space. Nothing is ever added up across threads, so results do not depend on their
number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from scanjit import types
from scanjit.ops import Elementwise
from scanjit.schedule.program import (
    Apply,
    Blocks,
    Loop,
    Nest,
    Pack,
    Program,
    Reduce,
    Statement,
    Tile,
    TimeLoop,
    walk_values,
)
from scanjit.types import Atom, Dimension

MOST_THREADS = 64
SMALLEST_NEST = 16384
"""A nest whose size is known, and that does less work than this, is computed by one thread."""
SMALLEST_PROGRAM = 8e6
"""A program that does less work (in operations) than this runs on one thread: waking the others costs more."""
SMALLEST_STRETCH = 1e5
"""What the threads do between two meetings must on average be this much work."""


def choose_split(nest: Nest, tile: Tile) -> tuple[Loop | None, int]:
    """The loop that threads share, and the number of its iterations that stay together."""
    if nest.sequential or not nest.space:
        return None, 1
    work = _work(nest, {})
    if work is not None and work < SMALLEST_NEST:
        return None, 1
    first, lane = nest.space[0], nest.space[-1]
    if tile.horizontal:
        return first, 1
    width = tile.lanes * tile.vectors
    if tile.rows is not None:  # by columns: each thread keeps its part of the right operands in its own cache
        wide = not isinstance(lane.size, int) or lane.size >= 4 * width
        return (lane, width) if wide else (tile.rows, tile.row_block)
    if first is not lane and first.size != 1:
        return first, 1
    return lane, width


def worth(program: Program, sizes: Mapping[Atom, int]) -> bool:
    """Whether a program is large enough for several threads, with these sizes."""
    work, meetings = _total(program.body, dict(sizes))
    return work >= SMALLEST_PROGRAM and work >= SMALLEST_STRETCH * meetings


def _total(body: Sequence[Statement], sizes: dict[Atom, int]) -> tuple[float, float]:
    """(work, meetings) of statements."""
    work = meetings = 0.0
    for statement in body:
        if isinstance(statement, TimeLoop):
            counters = _at(statement.step, 0) | _at(statement.row, 0) | _at(statement.ran, 0)
            inner = _total(statement.body, sizes | counters)
            times = types.evaluate(statement.length, sizes)
        elif isinstance(statement, Blocks):
            total, size = types.evaluate(statement.total, sizes), types.evaluate(statement.size, sizes)
            inner = _total(statement.body, sizes | _at(statement.first, 0) | _at(statement.rows, min(total, size)))
            times = -(-total // size)
        else:
            inner, times = (_work(statement, sizes) or 0.0, 1.0), 1
        work, meetings = work + times * inner[0], meetings + times * inner[1]
    return work, meetings


def _at(dim: Dimension, value: int) -> dict[Atom, int]:
    atom = types.as_atom(dim)
    return {} if atom is None else {atom: value}


def _work(statement: Nest | Pack, sizes: Mapping[Atom, int]) -> float | None:
    """About how many operations a statement takes; None where that depends on sizes that are not given."""
    try:
        if isinstance(statement, Pack):
            return float(types.evaluate(types.product(statement.target.shape), sizes))
        points = [loop.size for loop in statement.space] + ([statement.time.size] if statement.time else [])
        each = 1.0
        inside: set[object] = set()
        for value in walk_values(statement.roots):
            if isinstance(value, Reduce):
                steps = types.evaluate(types.product(loop.size for loop in value.loops), sizes)
                parts = [v for v in walk_values([value.body]) if isinstance(v, Apply) and v not in inside]
                inside.update(parts)
                each += steps * (1 + sum(_cost(v) for v in parts))
        each += sum(_cost(v) for v in walk_values(statement.roots) if isinstance(v, Apply) and v not in inside)
        return types.evaluate(types.product(points), sizes) * each
    except KeyError:
        return None


def _cost(value: Apply) -> int:
    return value.op.cost if isinstance(value.op, Elementwise) else 1

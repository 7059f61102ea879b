"""Threads: which loop of a nest they share, and whether a program is worth more than one.

All threads run the same main function over the same statements and meet after each (a barrier). Of a nest, each
computes a part of one loop of its space. Nothing is ever added up across threads, so results do not depend on their
number.
"""

from __future__ import annotations

from collections.abc import Mapping

from scanjit.schedule.account import costs, operations
from scanjit.schedule.program import Loop, Nest, Program, Tile
from scanjit.types import Atom

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
    work = operations(nest, {})
    if work is not None and work < SMALLEST_NEST:
        return None, 1
    first, lane = nest.space[0], nest.space[-1]
    if tile.horizontal and tile.rows is not None:
        return tile.rows, tile.row_block
    if tile.horizontal:
        return first, tile.vectors if first is lane else 1
    width = tile.lanes * (1 if tile.singles else tile.vectors)
    if tile.rows is not None:  # by columns: each thread keeps its part of the right operands in its own cache
        wide = not isinstance(lane.size, int) or lane.size >= 4 * width
        return (lane, width) if wide else (tile.rows, tile.row_block)
    if first is not lane and first.size != 1:
        return first, 1
    return lane, width


def worth(program: Program, sizes: Mapping[Atom, int]) -> bool:
    """Whether a program is large enough for several threads, with these sizes."""
    work = meetings = 0.0
    for cost in costs(program, sizes):
        work, meetings = work + cost.runs * cost.operations, meetings + cost.runs
    return work >= SMALLEST_PROGRAM and work >= SMALLEST_STRETCH * meetings

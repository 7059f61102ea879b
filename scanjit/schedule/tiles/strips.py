"""Where the steps of an elementwise scan go: inside all other loops, the carries in registers; or around strips of
points, the carries in memory.

With time inside, one vector of points goes through all steps: each step waits for the one before it, and finds its row
far from that one's. With time around a strip, many vectors go through a step side by side, none waits for another, and
rows are read in long pieces; but each vector loads its carries and stores them again. The choice follows an estimate of
what a step takes. It needs the number of points only where they are few: one that is not known counts as many.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from scanjit import types
from scanjit.ops import Elementwise
from scanjit.schedule.nests import Apply, Nest, Tile, Value, walk_values
from scanjit.types import Dimension

WAIT = 4.0
"""How long an operation waits for the result of another, in operations: two vector operations start in each cycle, and
one takes four cycles. Much of what an expensive one consists of can be done side by side, so that counts for half."""
MANY = 16
"""As many vectors as are not counted: a number of points that is not known, and what is in flight at a time."""
FAR = 4.0
"""What it takes to reach the next row at every step, where a step goes through no more of a row than a vector."""


MOST_SIDE_BY_SIDE = 4
"""So many vectors may go through time together, with their carries in registers: all that there are in a short row."""
MOST_WORK = 160.0
"""And so many operations, which are written once for each of these vectors."""


class Choice(NamedTuple):
    """Where time goes. `lengths` has the length of a strip for each loop of the space; it is empty where time is inside
    all of these. `vectors` go through time together."""

    lengths: tuple[Dimension, ...]
    vectors: int


class Costs(NamedTuple):
    """What a step of a vector takes, in operations: with time `inside` all loops, where `vectors` go through time
    together with their carries in registers; and in `strips`."""

    vectors: int
    inside: float
    strips: float


def choose(nest: Nest, lanes: int, near_bytes: int) -> Choice:
    """Where time goes in a nest that holds all steps of a scan. A step of a strip reads and writes `near_bytes`."""
    costs = _costs(nest, lanes)
    return Choice(_lengths(nest, lanes, near_bytes), 1) if costs.strips < costs.inside else Choice((), costs.vectors)


def _costs(nest: Nest, lanes: int) -> Costs:
    vectors, (work, chain) = _vectors(nest, lanes), _work(nest)
    together, moves = _side_by_side(nest, lanes, work), 2.0 * len(nest.registers)
    far = FAR * sum(nest.time in access.strides for access, _ in nest.accesses()) if vectors > together else 0.0
    inside = max(work, WAIT * chain / together) + far
    strips = max(work + moves, WAIT * (chain + moves) / min(vectors, MANY))
    return Costs(together, inside, strips)


def described(nest: Nest, tile: Tile) -> str:
    """Where time is, and why, for `explain`."""
    found = _costs(nest, tile.lanes)
    if not nest.space:
        return "inside"
    costs = f"a vector's step takes {found.inside:.0f} operations with time inside, {found.strips:.0f} in strips"
    if tile.strips:
        return f"around strips of {' x '.join(map(str, tile.strips))} points, carries in memory ({costs})"
    return f"inside, carries in registers ({costs})"


def _vectors(nest: Nest, lanes: int) -> int:
    """How many vectors the points fill, as far as that is known."""
    sizes = [loop.size if isinstance(loop.size, int) else MANY * lanes for loop in nest.space]
    return max(math.prod([*sizes[:-1], max(sizes[-1] // lanes, 1)]), 1) if sizes else 1


def _side_by_side(nest: Nest, lanes: int, work: float) -> int:
    """How many vectors may go through time with their carries in registers: those of a known short row."""
    size = nest.space[-1].size if nest.space else 1
    few = size // lanes if isinstance(size, int) and size and size % lanes == 0 else 1
    return few if few <= MOST_SIDE_BY_SIDE and few * work <= MOST_WORK else 1


def _work(nest: Nest) -> tuple[float, float]:
    """How many operations a step takes, and how many of them wait for each other between a carry and the next one."""
    longest: dict[Value, float] = dict.fromkeys(nest.registers, 0.0)
    work = 0.0
    for value in walk_values(nest.roots):
        own = _cost(value)
        work += own
        found = [longest[part] for part in value.operands if part in longest]
        if found and value not in longest:
            longest[value] = max(found) + (1 + own) / 2
    return work, max((longest.get(update, 0.0) for update in nest.updates), default=0.0)


def _cost(value: Value) -> float:
    if isinstance(value, Apply):
        return float(value.op.cost) if isinstance(value.op, Elementwise) else 1.0
    return float(len(value.accesses))


def _lengths(nest: Nest, lanes: int, near_bytes: int) -> tuple[Dimension, ...]:
    """How many iterations of each loop of the space a strip has: as many points as stay near, of whole rows if these
    are short."""
    lane = nest.space[-1]
    places = {(access.buffer, access.offset) for access, _ in nest.accesses() if access.strides.get(lane, 0) != 0}
    nbytes = sum(buffer.dtype.itemsize for buffer, _ in places)
    points = max(near_bytes // max(nbytes, 1) // lanes, 1) * lanes
    found: list[Dimension] = []
    for loop in reversed(nest.space):
        rest = points // types.maximum(types.product(found), 1)
        found.append(types.minimum(loop.size, types.maximum(rest, 1)))
    return tuple(reversed(found))

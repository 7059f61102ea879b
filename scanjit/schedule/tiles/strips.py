"""Where the loop over the steps of an elementwise scan stands: inside all other loops, with the carries in registers;
or around strips of points, with the carries in memory.

With time inside, one vector of points goes through all steps. Each step waits for the step before it, and reads a row
that is far from the last one. With time around a strip, many vectors go through a step side by side. None waits for
another, and rows are read in long pieces, but each vector loads and stores its carries in every step. An estimate of
the time of a step decides. For few points it depends on their number: if that is not known, code for both is made, and
each call takes one of them.
"""

from functools import reduce

from scanjit import types
from scanjit.schedule.nests import Nest, Tile
from scanjit.schedule.tiles.estimates import (
    computes_longer_than_fetches,
    fewest_vectors,
    most_side_by_side,
    places,
    side_by_side,
    step_costs,
    steps_together,
    takes_less_in_narrow_vectors,
)
from scanjit.schedule.tiles.products import PAGE
from scanjit.target import Target
from scanjit.types import Dimension


def with_time(nest: Nest, lanes: int, target: Target) -> Tile:
    """The tile of a nest that holds all steps of a scan."""
    costs, narrow = step_costs(nest, lanes), not target.has_masks and takes_less_in_narrow_vectors(nest)
    if nest.until is None and costs.strips < costs.inside:
        vectors = side_by_side(nest, lanes)
        strips = _lengths(nest, lanes * vectors, target)
        steps = steps_together(nest, vectors)
        return Tile(
            lanes, vectors, strips=strips, steps=steps, many=_many(nest, lanes), narrow=narrow, down=_down(nest)
        )
    return Tile(lanes, costs.vectors if nest.until is None else most_side_by_side(nest, lanes), narrow=narrow)


def described(nest: Nest, tile: Tile) -> str:
    """Where the time loop stands, and why, for `explain`."""
    found = step_costs(nest, tile.lanes)
    if not nest.space:
        return "inside"
    if nest.until is not None:
        return "inside, carries in registers"
    costs = f"a vector's step takes {found.inside:.0f} operations with time inside, {found.strips:.0f} in strips"
    if tile.strips:
        few = "" if tile.many == 1 else "; inside, where points are few"
        steps = f", {tile.steps} steps at a time" if tile.steps > 1 else ""
        return f"around strips of {' x '.join(map(str, tile.strips))} points{steps}, carries in memory{few} ({costs})"
    return f"inside, carries in registers ({costs})"


def _many(nest: Nest, lanes: int) -> Dimension:
    """1 in calls whose points fill enough vectors for strips (rounded), 0 in others."""
    least, sizes = fewest_vectors(nest, lanes) * lanes - lanes // 2, [loop.size for loop in nest.space]
    known = types.product(size for size in sizes if isinstance(size, int))
    return 1 if types.not_negative(known - least) else types.minimum(types.product(sizes) // least, 1)


def _down(nest: Nest) -> Dimension:
    """1 in calls in which rows are no longer than a page, and most of them lie below those of the step before, else 0.
    Then what is read next always lies below."""
    time = nest.time
    assert time is not None
    rows = {(access.buffer, access.strides[time]) for access, _ in nest.accesses if time in access.strides}
    lower = [stride for _, stride in rows if types.not_negative(stride if nest.reverse else -stride)]
    if 2 * len(lower) <= len(rows):
        return 0
    apart = [types.maximum(stride, -stride) * buffer.dtype.itemsize for buffer, stride in rows]
    return 1 - types.minimum(reduce(types.maximum, apart) // (PAGE + 1), 1)


def _lengths(nest: Nest, width: int, target: Target) -> tuple[Dimension, ...]:
    """How many iterations of each loop of the space a strip has, in multiples of `width`; whole rows if they are short.

    What a short strip reads and writes in one step stays in the first cache, that of a long strip in the second one.
    Rows that come from far come faster in long pieces. So strips are long if a step computes for longer than it takes
    to fetch its carries from the second cache. Otherwise they are long only in calls whose rows come from memory,
    because they do not fit into the third cache."""
    points: Dimension = _points(nest, width, target.near_bytes)
    if not computes_longer_than_fetches(nest):
        near = _points(nest, width, target.level1_bytes)
        points = near + (points - near) * types.minimum(_bytes_of_rows(nest) // (target.far_bytes + 1), 1)
    found: list[Dimension] = []
    for loop in reversed(nest.space):
        rest = points // types.maximum(types.product(found), 1)
        found.append(types.minimum(loop.size, types.maximum(rest, 1)))
    return tuple(reversed(found))


def _points(nest: Nest, width: int, nbytes: int) -> int:
    """How many points read and write so many bytes in one step, in multiples of `width`."""
    return max(nbytes // max(sum(buffer.dtype.itemsize for buffer, _ in places(nest)), 1) // width, 1) * width


def _bytes_of_rows(nest: Nest) -> Dimension:
    """The size of all buffers in which each step has a row of its own."""
    lane, time = nest.space[-1], nest.time
    rows = (access for access, _ in nest.accesses if time in access.strides and access.strides.get(lane, 0) != 0)
    total: Dimension = 0
    for buffer in dict.fromkeys(access.buffer for access in rows):
        total += types.product(buffer.shape) * buffer.dtype.itemsize
    return total

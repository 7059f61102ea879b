"""How a nest is computed: what lanes run along, and how many rows and vectors a register tile has."""

from collections.abc import Collection, Sequence

import numpy as np

from scanjit import types
from scanjit.ops.elementwise import INVERT, WHERE
from scanjit.ops.extremes import FEW_PLACES, FEW_TRUTHS, ArgReduction
from scanjit.schedule.nests import (
    Apply,
    Buffer,
    Nest,
    NestLoop,
    Reduce,
    Tile,
    Value,
    finds_first,
    joined,
    loops_of,
    rereads,
    walk_values,
)
from scanjit.schedule.tiles import shapes, strips
from scanjit.schedule.tiles.along import Kept, horizontal, never, row_loop, thin
from scanjit.schedule.tiles.columns import in_strips
from scanjit.schedule.tiles.estimates import (
    lanes_of,
    long_rows,
    may_scatter_few,
    reads_neighbours,
    side_by_side,
    takes_less_in_narrow_vectors,
    waits_less_step_by_step,
)
from scanjit.schedule.tiles.linear import linear
from scanjit.schedule.tiles.products import factors, is_packed, packable, reductions_of, takes_apart
from scanjit.schedule.tiles.still import is_in_order, still_lanes
from scanjit.target import Target
from scanjit.types import Dimension

ROWS_OF_SMALL = 4
"""A register tile of one vector has at most this many rows if it goes over a batch of matrices: these have few rows,
too."""
ROWS_OF_SQUARES = 3
"""A register tile has so many rows if the operand that they share is read in square blocks."""
SHORT_ROW, TILES_IN_SHORT_ROW = 8192, 4
"""Rows of at most this many bytes are computed at most this many tiles of columns at a time."""
MANY_ROWS = 64
"""With this many rows, the last register tile may be partly empty: it is a small part of the work."""


def choose_tile(
    nest: Nest, target: Target, once: bool = False, kept: Kept = never, changed: Collection[Buffer] = ()
) -> Tile:
    """How a nest is computed (see `Tile`). If it is computed `once`, in no step of a loop, the rows of a register tile
    may come from several loops, and long columns are summed in strips. In a step, operands that are `kept` can be
    packed before the loop; of `changed` buffers, single elements are changed."""
    reductions = reductions_of(nest)
    lanes = lanes_of(nest, target)
    free = bool(nest.space) and _lanes_free(nest)
    sums = reductions and not nest.space and nest.time is None  # lanes along the terms of one point, but for its stores
    if not sums and (nest.sequential or (not free and any(store.indices for store in nest.stores))):
        return Tile(lanes=_fit(lanes, nest.space[-1].size) if free else 1)
    if nest.few == "squares":
        return _of_squares(nest, lanes)
    if reductions and horizontal(nest, reductions, kept):
        return _along_sums(nest, reductions, target, changed)
    if not nest.space:
        steps = linear(nest)
        if steps is not None and still_lanes(nest, target) and is_in_order(nest, steps):
            return Tile(lanes=1)
        return Tile(lanes=1 if steps is None or waits_less_step_by_step(nest, steps, lanes) else lanes)
    if reductions and rereads(nest.stores):
        return Tile(_fit(lanes, nest.space[-1].size))
    if reductions and thin(nest, reductions, lanes):
        return _along_thin_sums(nest, reductions, target)
    if nest.time is not None and (nest.lane is nest.time or (nest.lane is None and long_rows(nest, lanes) == 1)):
        return Tile(lanes, horizontal=True)
    lanes = _fit(lanes, nest.space[-1].size)
    if nest.time is not None:
        return strips.with_time(nest, lanes, target)
    if not reductions:
        if not once and target.halves_vectors and reads_neighbours(nest, lanes):
            lanes //= 2
        narrow = not once and not target.has_masks and takes_less_in_narrow_vectors(nest)
        return Tile(lanes, side_by_side(nest, lanes), narrow=narrow or may_scatter_few(nest))
    rows = (_joined(nest, reductions) if once else None) or row_loop(nest, reductions)
    tile = _of_sums(nest, reductions, rows, lanes, target)
    return tile if rows is not None or not once else in_strips(nest, reductions, tile, target)


def _along_sums(nest: Nest, reductions: Sequence[Reduce], target: Target, changed: Collection[Buffer]) -> Tile:
    """The tile with lanes along the reductions. What is computed of their results has no lanes. Where a position is
    looked for, there are as many lanes as a vector of positions has; one if it is looked for once, among few elements:
    a step of a loop waits longer for a vector, whose elements it may have just stored one by one."""
    lanes = target.lanes(max(value.dtype.itemsize for value in walk_values([r.term for r in reductions])))
    parts = walk_values([reduction.term for reduction in reductions])
    single = not nest.space and not {a.buffer for value in parts for a in value.accesses}.isdisjoint(changed)
    sizes = [loop.size for reduction in reductions for loop in reduction.loops]
    most = max(size if isinstance(size, int) else FEW_TRUTHS + 1 for size in sizes)
    if single and most <= FEW_TRUTHS and all(map(_finds_cheaply, reductions)):
        lanes = 1
    elif any(isinstance(reduction.op, ArgReduction) for reduction in reductions):
        lanes = 1 if single and most <= FEW_PLACES else min(lanes, target.lanes(8))
    return Tile(lanes=max(_fit(lanes, reduction.loops[-1].size) for reduction in reductions), horizontal=True)


def _finds_cheaply(reduction: Reduce) -> bool:
    """Whether a reduction is the first place at which something is true that takes one comparison."""
    ops = [value for value in walk_values([reduction.term]) if isinstance(value, Apply)]
    return finds_first(reduction) and sum(value.op not in (WHERE, INVERT) for value in ops) <= 1


def _of_squares(nest: Nest, lanes: int) -> Tile:
    """The tile of a variant that reads an operand in square blocks. A product with one column has no other loop."""
    *others, lane = nest.space
    return Tile(_fit(lanes, lane.size), rows=others[-1] if others else None, row_block=ROWS_OF_SQUARES if others else 1)


def _along_thin_sums(nest: Nest, reductions: Sequence[Reduce], target: Target) -> Tile:
    """The tile with lanes along the reductions, and some rows and columns in a register tile (see `thin`)."""
    lanes, rows = lanes_of(nest, target), row_loop(nest, reductions)
    block, columns = _thin_blocks(nest, len(reductions), rows, target)
    lanes = min(_fit(lanes, reduction.loops[-1].size) for reduction in reductions)
    return Tile(lanes, columns, rows, block, horizontal=True)


def _of_sums(nest: Nest, reductions: Sequence[Reduce], rows: NestLoop | None, lanes: int, target: Target) -> Tile:
    """The tile with lanes along the last loop of the space. Its sums stay in registers."""
    lane = nest.space[-1]
    apart = any(takes_apart(reduction, target) for reduction in reductions)
    block, vectors = shapes.shape(len(reductions), rows, target, lane, lanes, _lefts(reductions, lane), apart)
    if nest.few == "rows":
        one = 0 if len(nest.space) > 2 else shapes.vectors_of_one_row(len(reductions), lane.size, lanes, target)
        block, vectors = 1, max(vectors, one)
    if rows is None and not any(_is_matrix(r, lane) for r in reductions):
        vectors = shapes.sums_side_by_side(len(reductions), target)
    vectors = vectors if lanes > 1 else 1  # the last vector of a row is masked, and scalars have no masks
    while vectors > 1 and isinstance(size := lane.size, int) and size <= lanes * vectors // 2:
        vectors //= 2
    if nest.few == "columns":
        vectors, block = 1, block if len(nest.space) == 2 else min(block, ROWS_OF_SMALL)
    group, ahead, beyond = (1, 0, False) if rows is None else _way(nest, reductions, rows, lanes * vectors, target)
    left_apart = shapes.masks_cost if rows is None else shapes.left_apart
    some_left = left_apart(lane.size, lanes, vectors, target)
    if some_left and isinstance(lane.size, int) and lane.size < lanes * vectors:  # there is no whole tile
        vectors = vectors if rows is None else 1
        some_left = rows is not None and left_apart(lane.size, lanes, 1, target)
    left = shapes.left_at_a_time(block * len(reductions), vectors, target) if some_left else 0
    if block == 1:
        ahead, beyond = 0, False
    return Tile(lanes, vectors, rows, block, left=left, group=group, ahead=ahead, beyond=beyond)


def _way(
    nest: Nest, reductions: Sequence[Reduce], rows: NestLoop, width: int, target: Target
) -> tuple[Dimension, int, bool]:
    """The way of register tiles of so many columns through rows and columns: how many of them are computed for some
    rows before the next rows, and whether they fetch ahead (`ahead` and `beyond` of `Tile`).

    Where the second cache delivers more slowly than a core computes, all rows go over columns whose right operands stay
    in the first cache."""
    lane = nest.space[-1]
    if target.outruns_level2 and _fits(_panel_bytes(reductions, lane, width), target.first_bytes, False):
        return 1, 0, False
    far = not _fits(_panel_bytes(reductions, lane, lane.size), target.level2_bytes, True)
    ahead = int(target.outruns_level2)
    return group_of(nest, reductions, rows, width, target.near_bytes), ahead, ahead == 1 and far


def _lefts(reductions: Sequence[Reduce], lane: NestLoop) -> int:
    """How many left operands sums of products have, if all share one right operand; else 1. The two numbers of pairs
    that are read separately are one operand."""
    found = [factors(reduction) for reduction in reductions]
    rights = {load.access for each in found for load in each or () if lane in load.access.strides}
    lefts = {frozenset(load.access for load in each or () if load.access not in rights) for each in found}
    return len(lefts) if None not in found and len(rights) == 1 else 1


def group_of(nest: Nest, reductions: Sequence[Reduce], rows: NestLoop, width: int, near_bytes: int) -> Dimension:
    """How many tiles of columns are computed for some rows, before the next rows: as many as stay near, but in short
    rows, fewer. Processors also fetch what comes behind a piece of a row. Where threads share the columns, that soon
    belongs to another thread: then both cores want the same lines of the cache."""
    most, size = near_tiles(nest, reductions, rows, width, near_bytes), nest.space[-1].size
    short = isinstance(size, int) and size * np.dtype(nest.dtype).itemsize <= SHORT_ROW
    return types.minimum(most, TILES_IN_SHORT_ROW) if short and most != 1 else most


def near_tiles(nest: Nest, reductions: Sequence[Reduce], rows: NestLoop, width: int, near_bytes: int) -> Dimension:
    """How many tiles of columns read `near_bytes` of right operands, which stay in the cache while some rows are
    computed, and then the next rows. Results are then written in long pieces of rows, and processors foresee which
    memory comes next. With one tile at a time, every row would be far from the one before."""
    lane, over = nest.space[-1], set(rows.parts or (rows,))
    loops: dict[Value, set[NestLoop]] = {}
    again = any(isinstance(v, Apply) and lane in loops_of(v, loops) and not over & loops[v] for v in nest.values)
    if again or (isinstance(lane.size, int) and lane.size <= width):
        return 1  # values that depend on the column alone are then computed once for all rows
    return types.maximum(near_bytes // types.maximum(_panel_bytes(reductions, lane, width), 1), 1)


def _panel_bytes(reductions: Sequence[Reduce], lane: NestLoop, width: Dimension) -> Dimension:
    """How many bytes of right operands lie in so many columns."""
    rights = {load for r in reductions for load in factors(r) or () if lane in load.access.strides}
    terms = types.product(loop.size for loop in reductions[0].loops)
    return terms * (width * sum(load.dtype.itemsize for load in rights))


def _fits(nbytes: Dimension, most: int, unknown: bool) -> bool:
    """Whether something is at most so large; `unknown` if nobody knows how large it is."""
    return nbytes <= most if isinstance(nbytes, int) else unknown


def _fit(lanes: int, size: Dimension) -> int:
    """As many lanes as a size may fill, at most `lanes`: 4 of 16 for a size of 3, 1 for one of `min(N, 1)`."""
    while lanes > 1 and types.not_negative(lanes // 2 - size):
        lanes //= 2
    return lanes


def _lanes_free(nest: Nest) -> bool:
    """Whether lanes along the last loop always store to different elements: every store moves with the loop, and no
    computed index of a store depends on it."""
    lane, inside = nest.space[-1], [index.value for store in nest.stores for index in store.indices]
    return all(lane not in loops_of(value) for value in inside) and all(lane in s.access.strides for s in nest.stores)


def _is_matrix(reduction: Reduce, lane: NestLoop) -> bool:
    """Whether the right operand of a product is one matrix, which is packed or can be packed."""
    rights = [load for load in factors(reduction) or () if lane in load.access.strides]
    one = all(load.access.strides.keys() == {lane, *reduction.loops} for load in rights)
    return one and (is_packed(reduction, lane) or packable(reduction, lane) is not None)


def _joined(nest: Nest, reductions: Sequence[Reduce]) -> NestLoop | None:
    """One loop for all loops but the last. None if the last of these has enough rows for full register tiles."""
    loops, lane = nest.space[:-1], nest.space[-1]
    if len(loops) < 2 or not reductions or not all(_is_matrix(r, lane) for r in reductions):
        return None
    size = loops[-1].size
    return None if isinstance(size, int) and size >= MANY_ROWS else joined(loops)


def _thin_blocks(nest: Nest, reductions: int, rows: NestLoop | None, target: Target) -> tuple[int, int]:
    """How many rows and columns the register tile has if lanes run along reductions. Sums fill most registers, so that
    each loaded vector is used in several products."""
    size, many = nest.space[-1].size, target.registers >= 32
    assert isinstance(size, int)
    least, most = (3, 5) if many else (2, 3)
    columns = min(range(min(most, size), min(least, size) - 1, -1), key=lambda n: -(-size // n) * n) if size else 1
    block = 1 if rows is None else max(1, (24 if many else 8) // (columns * reductions))
    return min(block, max(rows.size, 1)) if rows is not None and isinstance(rows.size, int) else block, columns

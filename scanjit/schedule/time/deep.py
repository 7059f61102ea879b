"""Products of many terms, such as the gradient of a layer's weights over a large batch: summed a stretch of terms at a
time, so that what a stretch reads of both operands stays near. The order of the terms is the same.
"""

from __future__ import annotations

from dataclasses import replace as changed

from scanjit import types
from scanjit.schedule.lower.region import Region
from scanjit.schedule.nests import Nest, Reduce, Statement, walk_values
from scanjit.schedule.tiles.choose import choose_tile
from scanjit.schedule.tiles.lanes import lanes_last
from scanjit.schedule.tiles.merge import merge_loops
from scanjit.schedule.tiles.pack import pack_operands
from scanjit.schedule.tiles.products import factors, is_packed, reductions_of
from scanjit.schedule.time import sums
from scanjit.schedule.time.parts import Writer
from scanjit.schedule.time.stretch import Stretch
from scanjit.schedule.time.summed import SumLoops
from scanjit.types import Dimension

LEAST = 256
"""A stretch has at least so many terms: results are read and written once for them."""
LEAST_PACKED = 2048
"""The same, where the right operands lie in panels: of these, one after the other is read for many rows."""


def deep(region: Region, nest: Nest) -> SumLoops | None:
    """The products that a nest consists of, each with the loop to be cut. None if the nest does anything else, or if a
    product certainly has few terms."""
    if region.parent is not None or nest.time is not None or nest.sequential:
        return None
    found: SumLoops = {}
    for value in walk_values(nest.roots):
        if isinstance(value, Reduce):
            if not sums.is_float_sum(value) or factors(value) is None:
                return None
            found[value] = next((loop for loop in value.loops if loop.size != 1), value.loops[0])
    plain = all(store.value in found and not store.indices and not store.add for store in nest.stores)
    if not found or not plain or nest.finals or len({loop.size for loop in found.values()}) > 1:
        return None
    many = [types.product(loop.size for loop in value.loops) for value in found]
    if any(isinstance(terms, int) and terms < 2 * _least(nest) for terms in many):
        return None
    chosen = sums.tile_of_stretch(nest, found, region.context.target)
    return found if chosen.rows is not None and not chosen.horizontal else None


def packed(region: Region, nest: Nest) -> tuple[list[Statement], Nest]:
    """Packs of whole right operands (not stretch by stretch), and the nest that reads these. Only for operands that are
    the same in all calls, as they are packed once."""
    target = region.context.target
    if region.parent is not None or deep(region, nest) is None:
        return [], nest
    shaped = lanes_last(merge_loops(nest), target)
    shaped = changed(shaped, tile=choose_tile(shaped, target, True))
    right = [load for value in reductions_of(shaped) for load in factors(value) or ()]
    if not any(shaped.space[-1] in load.access.strides and load.access.buffer.fixed for load in right):
        return [], nest
    packs, shaped = pack_operands(region, shaped)
    return packs, changed(shaped, tile=None, lane=shaped.space[-1])


def blocked(region: Region, nest: Nest, found: SumLoops) -> tuple[list[Statement], list[str]]:
    """The statements of a nest of long products (`found` as `deep` gives it), and the notes."""
    writer = Writer(region)
    total = next(iter(found.values())).size
    steps = _terms(nest, region.context.target.near_bytes) // types.maximum(sums.depth(found) or 0, 1)
    size = types.minimum(types.maximum(steps, 1), total)
    stretch = Stretch(writer.first, writer.first, writer.rows, {}, writer.rows)
    made = writer.loop([writer.sums(nest, found, stretch)], total, size)
    text = f"nest {nest.label}: sums over {total} are made in blocks of {size}, each read while it is near"
    return made, [text]


def _terms(nest: Nest, near_bytes: int) -> Dimension:
    """How many terms a stretch has: as many as read about `near_bytes` of an operand."""
    widest = types.maximum(nest.space[-1].size, types.product(loop.size for loop in nest.space[:-1]))
    itemsize = nest.stores[0].value.dtype.itemsize
    return types.maximum(near_bytes // types.maximum(widest * itemsize, 1), _least(nest))


def _least(nest: Nest) -> int:
    packed = bool(nest.space) and all(is_packed(value, nest.space[-1]) for value in reductions_of(nest))
    return LEAST_PACKED if packed else LEAST

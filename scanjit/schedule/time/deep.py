"""Products of many terms, such as the gradient of a layer's weights over a large batch: summed a block of terms at a
time, so that what a block reads of both operands stays near. The order of the terms is the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace as changed

from scanjit import types
from scanjit.schedule.fuse.groups import Group
from scanjit.schedule.lower.region import Region
from scanjit.schedule.nests import Blocks, Nest, NestLoop, Reduce, Statement, counter, walk_values
from scanjit.schedule.tiles.choose import choose_tile
from scanjit.schedule.tiles.lanes import lanes_last
from scanjit.schedule.tiles.merge import merge_loops
from scanjit.schedule.tiles.pack import pack_operands
from scanjit.schedule.tiles.products import factors, is_packed, reductions_of
from scanjit.schedule.time import sums
from scanjit.schedule.time.blocks import Written
from scanjit.schedule.time.stretch import Stretch
from scanjit.types import Dimension

LEAST = 256
"""A block has at least so many terms: results are read and written once for them."""
LEAST_PACKED = 2048
"""The same, where the right operands lie in panels: of these, one after the other is read for many rows."""


def deep(region: Region, nest: Nest) -> dict[Reduce, NestLoop] | None:
    """The products that a nest consists of, each with the loop to be cut; None if there is anything else in it, or if
    there certainly are few terms."""
    if region.parent is not None or nest.time is not None or nest.sequential:
        return None
    found: dict[Reduce, NestLoop] = {}
    for value in walk_values(nest.roots):
        if isinstance(value, Reduce):
            if not sums.is_chain(value) or not sums.is_product(value):
                return None
            found[value] = next((loop for loop in value.loops if loop.size != 1), value.loops[0])
    values = [store.value for store in nest.stores]
    alone = all(
        v in found and not store.indices and not store.add for v, store in zip(values, nest.stores, strict=True)
    )
    if not found or not alone or nest.finals:
        return None
    many = [types.product(loop.size for loop in value.loops) for value in found]
    one = next(iter(found.values())).size
    if any(isinstance(terms, int) and terms < 2 * _least(nest) for terms in many):
        return None
    same = all(loop.size == one for loop in found.values())
    if not same:
        return None
    chosen = sums.tile_of_block(nest, found, region.context.target)
    return found if chosen.rows is not None and not chosen.horizontal else None


def packed(region: Region, nest: Nest) -> tuple[list[Statement], Nest]:
    """A nest whose right operands are packed whole, not block by block, where that is done once for many calls."""
    target = region.context.target
    if region.parent is not None or deep(region, nest) is None:
        return [], nest
    shaped = lanes_last(merge_loops(nest), target)
    shaped.tile = choose_tile(shaped, target, True)
    right = [load for value in reductions_of(shaped) for load in factors(value) or ()]
    if not any(shaped.space[-1] in load.access.strides and load.access.buffer.fixed for load in right):
        return [], nest
    packs, shaped = pack_operands(region, shaped)
    return packs, changed(shaped, tile=None, lane=shaped.space[-1])


def blocked(
    region: Region, group: Group, nests: Mapping[Group, Nest], found: dict[Reduce, NestLoop]
) -> list[Statement]:
    """The statements of such a nest."""
    first, rows = counter("first"), counter("rows")
    made = Written(region, nests, {*types.atoms(first), *types.atoms(rows)}, ())
    made.sum(group, found, Stretch(first, rows, first, {}, rows), False)
    total = next(iter(found.values())).size
    terms = _terms(nests[group], region.context.target.near_bytes)
    size = types.minimum(types.maximum(terms // types.maximum(made.depths[0], 1), 1), total)
    made.hold({atom: size for atom in types.atoms(rows)})
    text = f"nest {nests[group].label}: sums over {total} are made in blocks of {size}, each read while it is near"
    region.context.notes.append(text)
    return [*made.first, Blocks(total, types.maximum(size, 1), first, rows, made.body), *made.last]


def _terms(nest: Nest, near_bytes: int) -> Dimension:
    """How many terms a block has: as many as read about `near_bytes` of an operand."""
    widest = types.maximum(nest.space[-1].size, types.product(loop.size for loop in nest.space[:-1]))
    itemsize = nest.stores[0].value.dtype.itemsize
    return types.maximum(near_bytes // types.maximum(widest * itemsize, 1), _least(nest))


def _least(nest: Nest) -> int:
    packed = bool(nest.space) and all(is_packed(value, nest.space[-1]) for value in reductions_of(nest))
    return LEAST_PACKED if packed else LEAST

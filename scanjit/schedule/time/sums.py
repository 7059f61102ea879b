"""Sums over time that are made block by block: the gradients of weights, while what they are made of is there.

Such a sum is one chain of additions in the order in which the scan made the summands, so that it is the same to the
last bit whatever the blocks are. What else a nest does with its sums is done after the last block.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from dataclasses import replace as changed

from scanjit import types
from scanjit.ops.elementwise import MUL
from scanjit.ops.stretch import SUM
from scanjit.schedule.lower import maps
from scanjit.schedule.lower.region import Region
from scanjit.schedule.nests import (
    Access,
    Apply,
    Buffer,
    Literal,
    Load,
    Nest,
    NestLoop,
    Reduce,
    Ref,
    Store,
    Tile,
    Value,
    counter,
    row_major,
    walk_values,
)
from scanjit.schedule.tiles.choose import choose_tile
from scanjit.schedule.tiles.lanes import lanes_last
from scanjit.schedule.tiles.merge import merge_loops
from scanjit.schedule.time.stretch import Stretch
from scanjit.target import Target
from scanjit.types import Dimension

DEPTH = 192
"""A product is summed over at least so many elements at a time: its result is loaded and stored once for them."""


@dataclass(eq=False)
class Sums:
    """A nest with sums over time taken apart.

    Parameters
    ----------
    zeros : sets the sums to zero where there is no time at all; None where there certainly is some.
    nest : adds to them; over all of time, to be cut to a block by `block`. The first block begins with zeros.
    finish : what is made of the sums after the last block, if it is more than the sums.
    times : the loops over time.
    depth : how many elements of a product are summed in each step; None if nothing is a product.
    """

    zeros: Nest | None
    nest: Nest
    finish: Nest | None
    times: list[NestLoop]
    depth: Dimension | None

    def block(self, stretch: Stretch, reverse: bool) -> Nest:
        """The part of a block of time."""
        made = stretch.nest(self.nest, *self.times)
        begun = types.minimum(stretch.start, 1)
        starts: dict[Value, Value] = {
            value.init: changed(value.init, when=begun)
            for value in walk_values(made.roots)
            if isinstance(value, Reduce) and isinstance(value.init, Load)
        }
        made = made.rebuilt(values=starts)
        return _backwards(made) if reverse else made


def timed(nest: Nest, length: Dimension, buffers: AbstractSet[Buffer], target: Target) -> dict[Reduce, NestLoop] | None:
    """The sums of a nest over the rows of buffers, each with its loop over time; None if there is anything else that
    the nest does with the buffers, or if the sums cannot be made block by block."""
    if nest.time is not None or nest.sequential or not nest.space:
        return None
    found: dict[Reduce, NestLoop] = {}
    for value in walk_values(nest.roots):
        if isinstance(value, Reduce):
            time = next((loop for loop in value.loops if loop.size == length), None)
            if time is not None and is_chain(value) and any(a.buffer in buffers for a in _inside(value)):
                found[value] = time
    if not found or not covers(found, nest, buffers):
        return None
    return None if tile_of_block(nest, found, target).horizontal else found


def tile_of_block(nest: Nest, found: dict[Reduce, NestLoop], target: Target) -> Tile:
    """How the part of a block would be computed. Not with lanes along the sums: all lanes had what these begin with."""
    rows = counter("rows")
    stretch = Stretch(0, rows, 0, {}, rows)
    made = merge_loops(stretch.nest(_adding(nest, found, {}), *found.values()))
    return choose_tile(lanes_last(made, target), target)


def covers(found: dict[Reduce, NestLoop], nest: Nest, buffers: AbstractSet[Buffer]) -> bool:
    """Whether all that a nest does with buffers is to go through them row by row in these sums."""
    for value, time in found.items():
        for access in _inside(value):
            if access.buffer in buffers and access.strides.get(time, 0) != row_major(access.buffer.shape)[0]:
                return False
    return buffers.isdisjoint(_others(found, nest))


def _others(found: dict[Reduce, NestLoop], nest: Nest) -> Iterator[Buffer]:
    """What a nest reads and writes that is not in these sums, whatever they share with it."""
    yield from (store.access.buffer for store in (*nest.stores, *nest.finals))
    seen: set[Value] = {*found}
    stack = [value for value in nest.roots if value not in seen]
    while stack:
        value = stack.pop()
        if value not in seen:
            seen.add(value)
            stack += value.operands
            yield from (access.buffer for access in value.accesses)


def apart(region: Region, nest: Nest, found: dict[Reduce, NestLoop]) -> Sums:
    """A nest taken apart; `found` as `timed` gives it."""
    alone = {store.value: store.access for store in nest.stores if store.value in found and not store.indices}
    if len(alone) == len(nest.stores) and not any(store.add for store in nest.stores):
        places, finish = alone, None
    else:
        places = {value: _place(region, nest, value) for value in found}
        replace: dict[Value, Value] = {value: Load(value.dtype, places[value]) for value in found}
        finish = nest.rebuilt(values=replace)
    depths = [
        types.product(loop.size for loop in value.loops if loop is not time)
        for value, time in found.items()
        if is_product(value)
    ]
    adding = _adding(nest, found, places)
    times = list(dict.fromkeys(found.values()))
    return Sums(_zeros(nest, places, times[0].size), adding, finish, times, depths[0] if depths else None)


def _zeros(nest: Nest, places: dict[Reduce, Access], length: Dimension) -> Nest | None:
    """The nest that sets sums at their places to zero if there is no time: over a space that is empty otherwise."""
    none = 1 - types.minimum(length, 1)
    if none == 0:
        return None
    first, rest = nest.space[0], nest.space[1:]
    short = NestLoop(first.size * none)
    zeros = [Store(access, Literal(value.dtype, value.dtype.type(0))) for value, access in places.items()]
    made = Nest(list(nest.space), zeros, "zeros")
    return made.rebuilt(lambda a: _over(a, first, short), space=[short, *rest])


def _over(access: Access, old: NestLoop, new: NestLoop) -> Access:
    return changed(access, strides={new if loop is old else loop: step for loop, step in access.strides.items()})


def _place(region: Region, nest: Nest, value: Reduce) -> Access:
    """Memory for a sum."""
    buffer = Buffer(value.dtype, tuple(loop.size for loop in nest.space), "temporary", "sum")
    region.buffers.add(buffer)
    return maps.place(Ref.whole(buffer), maps.identity(tuple(nest.space)))


def _adding(nest: Nest, found: dict[Reduce, NestLoop], places: dict[Reduce, Access]) -> Nest:
    """The nest that adds to sums at their places; with time as the outermost loop of each."""
    stores = []
    for value, time in found.items():
        access = places.get(value) or Access(Buffer(value.dtype, (), "temporary"), 0, {})
        loops = (time, *(loop for loop in value.loops if loop is not time))
        stores.append(Store(access, changed(value, loops=loops, init=Load(value.dtype, access))))
    return Nest(list(nest.space), stores, nest.label, lane=nest.lane)


def _backwards(nest: Nest) -> Nest:
    """Sums from the last row of time to the first; those of products (whose loops become one) from the last element."""
    sums = [store.value for store in nest.stores if isinstance(store.value, Reduce)]
    products = any(map(is_product, sums))
    turned = {loop for value in sums for loop in (value.loops if products else value.loops[:1])}

    def access(old: Access) -> Access:
        offset, strides = old.offset, dict(old.strides)
        for loop in turned & set(strides):
            offset = offset + (loop.size - 1) * strides[loop]
            strides[loop] = -1 * strides[loop]
        return changed(old, offset=offset, strides=strides)

    return nest.rebuilt(access)


def is_chain(value: Reduce) -> bool:
    """Whether a reduction is a sum of floats over what is no reduction itself."""
    nested = any(isinstance(inner, Reduce) for inner in walk_values([value.body]))
    return value.op is SUM and value.dtype.kind == "f" and value.init is None and not nested


def is_product(value: Reduce) -> bool:
    body = value.body
    return isinstance(body, Apply) and body.op is MUL and all(isinstance(arg, Load) for arg in body.args)


def _inside(value: Reduce) -> list[Access]:
    roots = [value.body] if value.guard is None else [value.body, value.guard]
    return [access for value in walk_values(roots) for access in value.accesses]

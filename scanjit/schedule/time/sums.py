"""Sums over time, such as the gradients of weights: which sums of a nest can be made stretch by stretch, and what
such a nest does before the first stretch, in each stretch, and after the last.

With `dw[i, j] = sum over t of x[t, i] * y[t, j]` and 6 steps in stretches of 2, each stretch adds two terms to `dw`,
while the rows of `x` and `y` that it needs are in memory.
"""

from collections.abc import Collection, Iterator, Set as AbstractSet

from scanjit import types
from scanjit.kinds import kind_of
from scanjit.ops.elementwise import ADD
from scanjit.ops.stretch import SUM
from scanjit.records import record, replace as changed
from scanjit.schedule.lower import maps
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
    Statement,
    Store,
    Tile,
    Value,
    walk_values,
)
from scanjit.schedule.tiles.choose import choose_tile
from scanjit.schedule.tiles.lanes import lanes_last
from scanjit.schedule.tiles.merge import merge_loops
from scanjit.schedule.tiles.products import factors
from scanjit.schedule.time.flow import Flow, plan_of
from scanjit.schedule.time.rows import is_rowwise, row_step
from scanjit.schedule.time.stretch import Stretch
from scanjit.target import Target
from scanjit.types import Dimension
from scanjit.walks import top_down

SumLoops = dict[Reduce, NestLoop]
"""Sums of a nest, each with its loop over time."""
DEPTH = 192
"""A product is summed over at least this many elements at a time: its result is loaded and stored once for all of
them."""


def sums_over_time(
    nest: Nest, length: Dimension, buffers: AbstractSet[Buffer], target: Target, numbers: bool = False
) -> SumLoops | None:
    """The sums of a nest over the rows of buffers, each with its loop over time. None if the nest uses the buffers in
    any other way, or if the sums cannot be made stretch by stretch. With `numbers`, sums may be single numbers, whose
    last bits depend on the stretches."""
    if nest.time is not None or nest.sequential or not (nest.space or numbers):
        return None
    found: SumLoops = {}
    for value in nest.values:
        if isinstance(value, Reduce):
            time = next((loop for loop in value.loops if loop.size == length), None)
            if time is not None and is_float_sum(value) and not buffers.isdisjoint(_buffers(value)):
                found[value] = time
    if not found or not only_sums(found, nest, buffers) or _has_no_room(found, nest):
        return None
    return None if nest.space and tile_of_stretch(nest, found, target).horizontal else found


def sums_of_gradients(flow: Flow, chains: Collection[Statement], target: Target) -> dict[Statement, Nest]:
    """New forms of the nests outside of chains that sum over time what reverse scans make: they add in the order of the
    last scan that makes some of it, as they would in its chain. So the order does not depend on checkpoints, with which
    other sums are in chains."""
    found: dict[Statement, Nest] = {}
    for scan in flow.scans:
        plan, made = plan_of(scan), set(flow.writes[scan])
        for statement in flow.statements[flow.at[scan] + 1 :]:
            nest = flow.nests.get(statement)
            if nest is None or made.isdisjoint(flow.reads[statement]):
                continue
            if is_rowwise(nest, plan.length, made):
                made |= {store.access.buffer for store in nest.stores if not made.isdisjoint(_buffers(store.value))}
            elif statement not in chains and (plan.reverse or statement in found):
                if (sums := sums_over_time(nest, plan.length, made, target)) is not None:
                    in_tiles = tile_of_stretch(nest, sums, target).rows is not None  # their terms are in order anyway
                    found[statement] = summed_in_order(nest, sums, plan.reverse, from_zero=not in_tiles)
    return found


def _has_no_room(found: SumLoops, nest: Nest) -> bool:
    """Whether the sums need a buffer of their own, because more is made of them, and its size would change from band to
    band."""
    more = any(store.value not in found or store.indices or store.add for store in nest.stores)
    return more and any(atom.kind == "counter" for loop in nest.space for atom in types.atoms(loop.size))


def is_float_sum(value: Reduce) -> bool:
    """Whether a reduction is a sum of floats that may be made as several sums, and has no reduction inside."""
    nested = any(isinstance(inner, Reduce) for inner in walk_values([value.term]))
    return value.op is SUM and kind_of(value.dtype).floating and value.init is None and not (nested or value.whole)


def tile_of_stretch(nest: Nest, found: SumLoops, target: Target) -> Tile:
    """The tile for the part of a stretch. If its lanes run along the sums, the nest cannot be cut: each lane would
    begin with the sum of the stretches before."""
    rows = types.counter("rows")
    made = Stretch(0, 0, rows, {}, rows).nest(adding(nest, found, {}), *found.values())
    return choose_tile(lanes_last(merge_loops(made), target), target)


def only_sums(found: SumLoops, nest: Nest, buffers: AbstractSet[Buffer]) -> bool:
    """Whether a nest uses buffers only in these sums, and goes through them row by row."""
    inside = ((access, time) for value, time in found.items() for access in _read(value))
    rowwise = all(a.strides.get(time, 0) == row_step(a.buffer) for a, time in inside if a.buffer in buffers)
    return rowwise and buffers.isdisjoint(_others(found, nest))


def summed(found: SumLoops) -> set[Buffer]:
    """The buffers that sums read."""
    return {buffer for value in found for buffer in _buffers(value)}


def depth(found: SumLoops) -> Dimension | None:
    """How many terms the first product of the sums adds in each step; None if no sum is a product."""
    products = ((value, time) for value, time in found.items() if factors(value) is not None)
    return next((types.product(loop.size for loop in v.loops if loop is not time) for v, time in products), None)


def _buffers(value: Value) -> set[Buffer]:
    return {access.buffer for access in _read(value)}


def _read(value: Value) -> list[Access]:
    return [access for inner in walk_values([value]) for access in inner.accesses]


def _others(found: SumLoops, nest: Nest) -> Iterator[Buffer]:
    """The buffers that a nest reads and writes outside of these sums, also if one of the sums reads them too."""
    yield from (store.access.buffer for store in (*nest.stores, *nest.finals))
    for value in top_down(nest.roots, lambda value: () if value in found else value.operands):
        if value not in found:
            yield from (access.buffer for access in value.accesses)


@record(eq=True)
class Summed:
    """A nest with sums over time, taken apart.

    Parameters
    ----------
    zeros : sets the sums to zero if there are no steps; None if there certainly are some.
    adds : adds to the sums, over all of time. The first stretch begins with zeros.
    finish : computes results from the sums after the last stretch; None if the sums are all results.
    times : the loops over time.
    """

    zeros: Nest | None
    adds: Nest
    finish: Nest | None
    times: tuple[NestLoop, ...]

    def cut(self, stretch: Stretch, reverse: bool) -> Nest:
        """The nest that adds the terms of a stretch."""
        made = stretch.nest(self.adds, *self.times)
        begun, totals = types.minimum(stretch.start, 1), {store.access.buffer for store in made.stores}
        starts: dict[Value, Value] = {
            value: changed(value, when=begun)
            for value in made.values
            if isinstance(value, Load) and value.access.buffer in totals
        }
        made = made.rebuilt(values=starts)
        sums = [store.value for store in made.stores if isinstance(store.value, Reduce)]
        return _backwards(made, sums) if reverse else made


def taken_apart(nest: Nest, found: SumLoops) -> Summed:
    """A nest taken apart."""
    plain = [store for store in nest.stores if store.value in found and not store.indices and not store.add]
    stores: dict[Value, Access] = {store.value: store.access for store in plain}
    finish = None
    if left := tuple(store for store in nest.stores if stores.get(store.value) is not store.access):
        shape, at = tuple(loop.size for loop in nest.space), maps.identity(tuple(nest.space))
        for value in found:
            if value not in stores:
                place = Ref.whole(Buffer(value.dtype, shape, "temporary", "sum"))
                stores[value] = maps.place(place, at)
        replace: dict[Value, Value] = {value: Load(value.dtype, stores[value]) for value in found}
        finish = changed(nest, stores=left).rebuilt(values=replace)
    times = tuple(dict.fromkeys(found.values()))
    return Summed(_zeros(nest, stores, times[0].size), adding(nest, found, stores), finish, times)


def _zeros(nest: Nest, places: dict[Value, Access], length: Dimension) -> Nest | None:
    """The nest that sets the sums at these places to zero if there are no steps. If there are steps, its space is
    empty."""
    none = 1 - types.minimum(length, 1)
    if none == 0:
        return None
    first, *rest = nest.space or (NestLoop(1),)
    short = NestLoop(first.size * none)
    zeros = (Store(access, Literal(value.dtype, value.dtype.type(0))) for value, access in places.items())
    made = Nest((first, *rest), tuple(zeros), "zeros", sequential=not nest.space)
    return made.rebuilt(lambda a: _over(a, first, short), space=[short, *rest])


def _over(access: Access, old: NestLoop, new: NestLoop) -> Access:
    return changed(access, strides={new if loop is old else loop: step for loop, step in access.strides.items()})


def adding(nest: Nest, found: SumLoops, places: dict[Value, Access]) -> Nest:
    """The nest that adds to the sums at these places (anywhere, if a sum has none). Time is the outermost loop of each
    sum."""
    stores = []
    for value, time in found.items():
        access = places.get(value) or Access(Buffer(value.dtype, (), "temporary"), 0, {})
        total = Load(value.dtype, access)
        more: Value = changed(_with_time_outside(value, time), init=total if nest.space else None)
        stores.append(Store(access, more if nest.space else Apply(value.dtype, ADD, (total, more), {})))
    return Nest(nest.space, tuple(stores), nest.label, lane=nest.lane, few=nest.few)


def summed_in_order(nest: Nest, found: SumLoops, reverse: bool, from_zero: bool) -> Nest:
    """A nest with all of its sums in the order in which a scan makes the terms, as if it were cut into stretches. With
    `from_zero`, each sum begins with a literal zero: it is then one chain of additions."""
    sums: dict[Value, Reduce] = {}
    for value, time in found.items():
        zero = Literal(value.dtype, value.dtype.type(0)) if from_zero else None
        sums[value] = changed(_with_time_outside(value, time), init=zero)
    made = nest.rebuilt(values=sums)
    return _backwards(made, sums.values()) if reverse else made


def _with_time_outside(value: Reduce, time: NestLoop) -> Reduce:
    return changed(value, loops=(time, *(loop for loop in value.loops if loop is not time)))


def _backwards(nest: Nest, sums: Collection[Reduce]) -> Nest:
    """A nest whose chains of additions go from the last row to the first, as a reverse scan makes the terms. For
    products, all loops of a sum are turned around: they are merged later, and go from the last element to the first."""
    products = any(factors(value) is not None for value in sums)
    turned = {loop for value in sums for loop in (value.loops if products else value.loops[:1])}

    def access(old: Access) -> Access:
        offset, strides = old.offset, dict(old.strides)
        for loop in turned & set(strides):
            offset = offset + (loop.size - 1) * strides[loop]
            strides[loop] = -1 * strides[loop]
        return changed(old, offset=offset, strides=strides)

    return nest.rebuilt(access)

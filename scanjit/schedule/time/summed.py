"""A nest with sums over time, taken apart: what is done before the first stretch, in each stretch, and after the last.

A sum is one chain of additions in the order in which the scan makes the terms. So it is the same to the last bit,
however long the stretches are, with checkpoints or without. There is one exception: if a sum makes a single number,
each stretch is summed by itself, with lanes along the terms, and then added.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace as changed

from scanjit import types
from scanjit.ops.elementwise import ADD
from scanjit.records import record
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
    Store,
    Value,
)
from scanjit.schedule.tiles.products import factors
from scanjit.schedule.time.stretch import Stretch
from scanjit.types import Dimension

SumLoops = dict[Reduce, NestLoop]
"""Sums of a nest, each with its loop over time."""


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


def summed_backwards(nest: Nest, found: SumLoops, from_zero: bool) -> Nest:
    """A nest with all of its sums in the order in which a reverse scan makes the terms, as if it were cut into
    stretches. With `from_zero`, each sum begins with a literal zero: it is then one chain of additions."""
    sums: dict[Value, Reduce] = {}
    for value, time in found.items():
        zero = Literal(value.dtype, value.dtype.type(0)) if from_zero else None
        sums[value] = changed(_with_time_outside(value, time), init=zero)
    return _backwards(nest.rebuilt(values=sums), sums.values())


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

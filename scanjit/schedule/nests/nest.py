"""A nest: loops, and the values that are stored at every point of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Self

from scanjit import types
from scanjit.kinds import kind_of
from scanjit.records import record
from scanjit.schedule.nests.buffers import Buffer, Rebase
from scanjit.schedule.nests.loops import NestLoop
from scanjit.schedule.nests.plan import Plan
from scanjit.schedule.nests.statement import Job, Reference, Traffic
from scanjit.schedule.nests.tile import Tile
from scanjit.schedule.nests.values import (
    Access,
    Apply,
    Index,
    Reduce,
    Register,
    Value,
    places_read,
    substitute,
    walk_values,
)
from scanjit.signatures import DType
from scanjit.types import Dimension
from scanjit.walks import bottom_up


@record
class Store:
    """A value written at every point of a nest. With `indices`, at computed positions; with `add`, added there. Two
    points may meet in one element, unless they are `apart`."""

    access: Access
    value: Value
    indices: tuple[Index, ...] = ()
    add: bool = False
    code: int = 0
    apart: bool = False

    @property
    def values(self) -> tuple[Value, ...]:
        """What is computed: the value, and the indices."""
        return (self.value, *(value for index in self.indices for value in index.values))

    def rebuilt(self, value: Callable[[Value], Value]) -> Store:
        """The same with changed values."""
        indices = tuple(index.rebuilt(value) for index in self.indices)
        return replace(self, value=value(self.value), indices=indices)


def rereads(stores: Iterable[Store]) -> bool:
    """Whether what stores write depends on what was there: nothing may be written twice. What sums begin with does
    not count: all rows of a tile read it before one of them is written."""
    stores = list(stores)
    buffers = {store.access.buffer for store in stores}
    changed = {store.access.where(store.indices) for store in stores}
    written = [value for store in stores for value in store.values]
    read = bottom_up(written, lambda value: () if isinstance(value, Reduce) else value.operands)
    return any(store.add for store in stores) or not changed.isdisjoint(places_read(read, buffers))


def one_of(dtype: DType) -> int | float:
    """The factor that changes nothing: all bits of an integer (see `Linear`)."""
    return -1 if kind_of(dtype).integral else 1.0


@record
class Linear:
    """A register that becomes `max(low, min(high, factor * register + term))` in a step.

    A term of None is 0, and bounds of None are none. A factor of None is 1; or 0, if the register `forgets` what it
    was. Of an integer, the factor is 0 or all bits (`one_of`): `factor & register` takes less time than a product.
    """

    register: Register
    factor: Value | None
    term: Value | None
    low: Value | None
    high: Value | None
    forgets: bool


@record
class Lanewise:
    """The first `steps` of a nest with time are done as many at a time as a vector has lanes. Its registers are listed
    in an order in which each depends only on itself and those before it."""

    registers: tuple[Linear, ...]
    steps: Dimension

    @property
    def roots(self) -> list[Value]:
        """All factors, terms and bounds."""
        parts = [(step.factor, step.term, step.low, step.high) for step in self.registers]
        return [value for part in parts for value in part if value is not None]


@record
class Nest(Job):
    """Loops (the last is the one that lanes run along, once the nest has its shape: `lane`, where that is decided
    before), and what is stored at every point.

    With `time`, a loop inside all others, `registers` are carried from step to step (`updates` are their new values),
    `stores` happen at every step and `finals` (stores of registers) after the last; `reverse` runs time backwards.
    Where steps read what earlier ones have stored, they do so `reach` steps later, or even later.
    `plan` says where the carries and outputs of the scan lie whose steps these are, if they are all of its steps.
    Where points go through time in strips (see `Tile`), registers are in memory from step to step: `carried` says where
    each lies before a step. After it, it lies where a store or a final puts it.
    With `lanewise`, some of the steps are done several at a time.
    """

    space: tuple[NestLoop, ...]
    stores: tuple[Store, ...]
    label: str
    time: NestLoop | None = None
    reverse: bool = False
    registers: tuple[Register, ...] = ()
    updates: tuple[Value, ...] = ()
    finals: tuple[Store, ...] = ()
    carried: tuple[Access, ...] = ()
    sequential: bool = False
    unroll: int = 1
    tile: Tile | None = None
    reach: Dimension | None = None
    lane: NestLoop | None = None
    plan: Plan | None = None
    lanewise: Lanewise | None = None

    @property
    def title(self) -> str:
        """Its label."""
        return self.label or "nest"

    @property
    def roots(self) -> list[Value]:
        """All values that are stored or carried."""
        stored = [value for store in (*self.stores, *self.finals) for value in store.values]
        return [*stored, *self.registers, *self.updates]

    @cached_property
    def values(self) -> tuple[Value, ...]:
        """Every value that it computes, operands first, terms of reductions included."""
        return tuple(walk_values(self.roots))

    @property
    def loops(self) -> tuple[NestLoop, ...]:
        """Its loops, those of reductions left out: its space, then time."""
        return self.space if self.time is None else (*self.space, self.time)

    def accesses(self) -> Iterator[tuple[Access, bool]]:
        """Every access, and whether it writes."""
        for value in self.values:
            for access in value.accesses:
                yield access, False
        for access in self.carried:
            yield access, False
        for store in (*self.stores, *self.finals):
            yield store.access, True

    def refs(self) -> Iterator[Reference]:
        """The places of its accesses at the first point."""
        for access, written in self.accesses():
            yield access.buffer, access.offset, written

    def rebuilt(
        self,
        access: Callable[[Access], Access] = lambda access: access,
        loop: Callable[[NestLoop], NestLoop] = lambda loop: loop,
        space: Iterable[NestLoop] | None = None,
        values: Mapping[Value, Value] | None = None,
    ) -> Self:
        """The nest with every access and every loop changed, over another space, and with some values replaced. Which
        steps are done in lanes is to be found anew."""
        get = substitute(self.roots, values or {}, access, loop)

        def store(old: Store) -> Store:
            return replace(old.rebuilt(get), access=access(old.access))

        return replace(
            self,
            space=self.space if space is None else tuple(space),
            stores=tuple(map(store, self.stores)),
            finals=tuple(map(store, self.finals)),
            registers=tuple(new for new in map(get, self.registers) if isinstance(new, Register)),
            updates=tuple(map(get, self.updates)),
            carried=tuple(map(access, self.carried)),
            lanewise=None,
        )

    def rebased(self, place: Rebase) -> Self:
        """The same nest with elements at other places."""

        def moved(access: Access) -> Access:
            buffer, offset = place(access.buffer, access.offset)
            if buffer is access.buffer and offset == access.offset:
                return access
            return replace(access, buffer=buffer, offset=offset)

        return replace(self.rebuilt(moved), plan=None if self.plan is None else self.plan.rebased(place))

    @property
    def in_steps(self) -> bool:
        """Whether it has a loop over time and threads share none of its loops."""
        return self.time is not None and (self.tile is None or self.tile.split is None)

    @property
    def dtype(self) -> str:
        """float64 if some value is of that type."""
        return "float64" if any(value.dtype == "float64" for value in self.roots) else "float32"

    @property
    def dims(self) -> tuple[Dimension, ...]:
        """Offsets and strides of its accesses, shapes of their buffers, sizes of its loops, positions, bounds."""
        own = [dim for value in self.values for dim in value.own_dims]
        touched = [
            dim for access, _ in self.accesses()
            for dim in (access.offset, *access.buffer.shape, *access.strides.values())
        ]  # fmt: skip
        indices = [dim for store in self.stores for index in store.indices for dim in index.dims]
        return (*touched, *(loop.size for loop in self.loops), *own, *indices)

    @property
    def repeatable(self) -> bool:
        """Whether it cannot report an error."""
        indexed = any(store.indices for store in (*self.stores, *self.finals))
        return not indexed and not any(value.reports for value in self.values)

    # ---- cost -------------------------------------------------------------------------------------------------------

    @cached_property
    def operations(self) -> Dimension:
        """The operations at every point, of elementwise ops, and at every term, of reductions."""
        each: Dimension = 1
        inside: set[Value] = set()
        values = self.values
        for value in values:
            if type(value) is Reduce:  # isinstance takes long to find that it is none
                terms = types.product(loop.size for loop in value.loops)
                parts = [v for v in walk_values([value.term]) if type(v) is Apply and v not in inside]
                inside.update(parts)
                each = each + terms * (1 + sum(part.cost for part in parts))
        each = each + sum(v.cost for v in values if type(v) is Apply and v not in inside)
        return types.product(loop.size for loop in self.loops) * each

    def traffic(self, shared: bool = False) -> tuple[Traffic, ...]:
        """Of each buffer what its accesses reach."""
        areas: dict[Buffer, dict[Dimension, dict[Dimension, None]]] = {}
        products: dict[tuple[Dimension, ...], Dimension] = {}
        own = self.tile.own if self.tile is not None else None
        for access, _ in self.accesses():
            if not shared or own is None or access.strides.get(own, 0) == 0:
                found = areas.setdefault(access.buffer, {}).setdefault(access.offset, {})
                loops = tuple([loop.size for loop, stride in access.strides.items() if stride != 0])
                if loops not in products:
                    products[loops] = types.product(loops)
                found[products[loops] * access.buffer.dtype.itemsize] = None
        return tuple(Traffic(tuple(map(tuple, some.values())), buffer.nbytes) for buffer, some in areas.items())

    @property
    def pieces(self) -> Dimension:
        """Pieces of the loop that threads share; where they share the rows of what is left too, those times rows."""
        tile = self.tile
        if tile is None or tile.split is None:
            return 1
        pieces = -(-tile.split.size // tile.unit)
        if tile.rest and tile.rows is not None:
            return pieces * types.maximum(-(-tile.rows.size // tile.row_block), 1)
        return types.maximum(pieces, 1)

"""A nest: loops, and the values that are stored at every point of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Literal, Self, TypeGuard

from scanjit import types
from scanjit.kinds import kind_of
from scanjit.records import record, replace
from scanjit.schedule.nests.buffers import Buffer, Rebase
from scanjit.schedule.nests.loops import NestLoop
from scanjit.schedule.nests.plan import Plan
from scanjit.schedule.nests.statement import Job, Reference, Statement, Traffic, every_in
from scanjit.schedule.nests.tile import Tile
from scanjit.schedule.nests.values import (
    Access,
    Apply,
    Index,
    Reduce,
    Register,
    Search,
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
    """A value written at every point of a nest.

    With `indices`, the element is found at computed positions, and `code` reports an index out of bounds. With `add`,
    the value is added to the element. Two points may write the same element, unless the store is `apart`.
    """

    access: Access
    value: Value
    indices: tuple[Index, ...] = ()
    add: bool = False
    code: int = 0
    apart: bool = False

    @property
    def values(self) -> tuple[Value, ...]:
        """The values that are computed for it: the value to store, and the indices."""
        return (self.value, *(value for index in self.indices for value in index.values))

    def rebuilt(self, value: Callable[[Value], Value]) -> Store:
        """The same with changed values."""
        indices = tuple(index.rebuilt(value) for index in self.indices)
        return Store(self.access, value(self.value), indices, self.add, self.code, self.apart)


def rereads(stores: Iterable[Store]) -> bool:
    """Whether computing a point twice would give another result: a store adds, or a stored value reads an element that
    a store changes. Reductions do not count: all rows of a tile compute them before one of the rows is written."""
    stores = list(stores)
    buffers = {store.access.buffer for store in stores}
    changed = {store.access.where(store.indices) for store in stores}
    written = [value for store in stores for value in store.values]
    read = bottom_up(written, lambda value: () if isinstance(value, Reduce) else value.operands)
    return any(store.add for store in stores) or not changed.isdisjoint(places_read(read, buffers))


def _is_costly(value: Value) -> TypeGuard[Apply | Search]:
    """Whether a value has a cost of its own."""
    return type(value) is Apply or type(value) is Search  # isinstance takes long to say no


def one_of(dtype: DType) -> int | float:
    """The factor of a `Linear` that changes nothing: 1.0 for floats; -1, which has all bits, for integers."""
    return -1 if kind_of(dtype).integral else 1.0


def small(dtype: DType) -> int:
    """If integers are nearer to 0 than this, the sum of a vector of them does not wrap around."""
    return 1 << 8 * dtype.itemsize - 8


@record
class Linear:
    """A register that becomes `max(low, min(high, factor * register + term))` in a step.

    A `term` of None is 0. A bound of None is no bound. A `factor` of None is 1, or 0 if the register `forgets` its old
    value. The factor of an integer is 0 or all bits (`one_of`): `factor & register` takes less time than a product.

    An `unread` register is a minimum or maximum that only its own next step reads. The factor of a `signed` float
    is a constant in some steps that is 0 or negative, and there is a term.
    """

    register: Register
    factor: Value | None
    term: Value | None
    low: Value | None
    high: Value | None
    forgets: bool
    unread: bool
    signed: bool

    @property
    def may_wrap(self) -> bool:
        """Whether sums of integers are compared to a bound. Then steps can be composed only if no sum wraps around."""
        bounded = self.low is not None or self.high is not None
        return kind_of(self.register.dtype).integral and bounded and self.term is not None and not self.forgets


@record
class Lanewise:
    """The first `steps` of a nest with time, computed as many at a time as a vector has lanes. Each of the `registers`
    depends only on itself and those before it."""

    registers: tuple[Linear, ...]
    steps: Dimension

    @property
    def roots(self) -> list[Value]:
        """All factors, terms and bounds."""
        parts = [(step.factor, step.term, step.low, step.high) for step in self.registers]
        return [value for part in parts for value in part if value is not None]


IN_MATRICES = 8
"""Registers that hold matrices add so many products of packs in the time in which those of vectors add one."""
GUESSED_STEPS = 64
"""A loop that may end early counts with at most so many steps where its cost is estimated."""
Few = Literal["rows", "columns", "squares"]
"""What a product may have few of; or "squares", if it has few rows or one column, and the terms of the other operand
are neighbours."""


@record
class Nest(Job):
    """Loops, and what is stored at every point of them.

    Attributes
    ----------
    space : the loops, the outermost first. Lanes run along the last one, once the nest is tiled.
    stores : what is stored at every point; with time, at every step.
    label : the name in listings.
    time : a loop over the steps of a scan, inside all other loops. `reverse` runs it backwards.
    registers : values that are carried from step to step. `updates` are their new values.
    finals : stores of registers, after the last step.
    carried : where each register lies in memory before a step, if points go through time in strips (see `Tile`). After
        the step it lies where a store or a final puts it.
    sequential : whether points go one after the other, because two may write the same element.
    unroll : how many copies of a step are written one after the other.
    tile : how the nest is vectorised and shared.
    reach : if steps read what earlier steps stored: at least how many steps later.
    lane : the loop that lanes are to run along, if that is decided before the tile: one of the space, or time.
    few : of what products have few in calls with this variant of the nest. Of few rows, register tiles have one row,
        and read right operands where they are; of few columns, one vector. With "squares", lanes run along the other
        operand, which is read in square blocks. This is decided before the tile.
    plan : where the carries and outputs of a scan lie, if these are all of its steps.
    lanewise : the steps that are computed several at a time.
    guessed : choices that are branches (see `schedule.tiles.guesses`).
    still : if steps have a form for those that change no register: how many are computed at a time. Otherwise 0.
    until : in a loop that may end early: what is true at a point after its last step. A vector goes on until it is true
        in all lanes, and further steps do not change the other ones.
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
    few: Few | None = None
    plan: Plan | None = None
    lanewise: Lanewise | None = None
    guessed: tuple[Value, ...] = ()
    still: int = 0
    until: Value | None = None

    @property
    def title(self) -> str:
        """Its label."""
        return self.label or "nest"

    @property
    def roots(self) -> list[Value]:
        """All values that it stores or carries, and the indices of its stores."""
        stored = [value for store in (*self.stores, *self.finals) for value in store.values]
        return [*stored, *self.registers, *self.updates, *([] if self.until is None else [self.until])]

    @cached_property
    def values(self) -> tuple[Value, ...]:
        """Every value that it computes, operands first, terms of reductions included."""
        return tuple(walk_values(self.roots))

    @property
    def loops(self) -> tuple[NestLoop, ...]:
        """Its loops, those of reductions left out: its space, then time."""
        return self.space if self.time is None else (*self.space, self.time)

    @cached_property
    def accesses(self) -> tuple[tuple[Access, bool], ...]:
        """Every access, and whether it writes."""
        read = [access for value in self.values for access in value.accesses]
        written = [store.access for store in (*self.stores, *self.finals)]
        return tuple([*[(access, False) for access in (*read, *self.carried)], *[(access, True) for access in written]])

    def refs(self) -> Iterator[Reference]:
        """The places of its accesses at the first point."""
        return iter(self._refs)

    @cached_property
    def _refs(self) -> tuple[Reference, ...]:
        return tuple([(access.buffer, access.offset, written) for access, written in self.accesses])

    def rebuilt(
        self,
        access: Callable[[Access], Access] = lambda access: access,
        loop: Callable[[NestLoop], NestLoop] = lambda loop: loop,
        space: Iterable[NestLoop] | None = None,
        values: Mapping[Value, Value] | None = None,
    ) -> Self:
        """The nest with every access and every loop changed, over another space, and with some values replaced. It has
        no `lanewise`, which must be found again."""
        get = substitute([*self.roots, *self.guessed], values or {}, access, loop)

        def store(old: Store) -> Store:
            indices = tuple([index.rebuilt(get) for index in old.indices])
            return Store(access(old.access), get(old.value), indices, old.add, old.code, old.apart)

        return replace(
            self,
            space=self.space if space is None else tuple(space),
            stores=tuple(map(store, self.stores)),
            finals=tuple(map(store, self.finals)),
            registers=tuple(new for new in map(get, self.registers) if isinstance(new, Register)),
            updates=tuple(map(get, self.updates)),
            carried=tuple(map(access, self.carried)),
            lanewise=None,
            guessed=tuple(map(get, self.guessed)),
            until=None if self.until is None else get(self.until),
            lane=None if self.lane is None else loop(self.lane),
        )

    def rebased(self, place: Rebase) -> Self:
        """The same nest with its elements at other places."""

        def moved(access: Access) -> Access:
            buffer, offset = place(access.buffer, access.offset)
            if buffer is access.buffer and offset == access.offset:
                return access
            return replace(access, buffer=buffer, offset=offset)

        return replace(self.rebuilt(moved), plan=None if self.plan is None else self.plan.rebased(place))

    @property
    def in_steps(self) -> bool:
        """Whether it has time, and threads share none of its loops."""
        return self.time is not None and (self.tile is None or self.tile.split is None)

    @property
    def dtype(self) -> str:
        """float64 if it stores or carries a value of that type, else float32."""
        return "float64" if any(value.dtype == "float64" for value in self.roots) else "float32"

    @property
    def dims(self) -> tuple[Dimension, ...]:
        """The offsets and strides of its accesses, the shapes of their buffers, the sizes of its loops, and the
        dimensions in its values and indices."""
        own = [dim for value in self.values for dim in value.own_dims]
        touched = [
            dim for access, _ in self.accesses
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
        """For each point: the costs of its elementwise ops, and for each term of a reduction one operation and the
        costs of the ops in the term. A loop that may end early counts with few steps."""
        each: Dimension = 1
        in_matrices = self.tile is not None and self.tile.matrices
        inside: set[Value] = set()
        values = self.values
        for value in values:
            if type(value) is Reduce:  # isinstance takes long to say no
                terms = types.product(loop.size for loop in value.loops)
                parts = [v for v in walk_values([value.term]) if _is_costly(v) and v not in inside]
                inside.update(parts)
                cost = terms * (1 + sum(part.cost for part in parts))
                each = each + ((cost + (IN_MATRICES - 1)) // IN_MATRICES if in_matrices else cost)
        each = each + sum(v.cost for v in values if _is_costly(v) and v not in inside)
        sizes = [loop.size for loop in self.space]
        if self.time is not None:
            steps = self.time.size
            sizes.append(steps if self.until is None else types.minimum(steps, GUESSED_STEPS))
        return types.product(sizes) * each

    def traffic(self, shared: bool = False) -> tuple[Traffic, ...]:
        """For each buffer, the bytes that its accesses reach."""
        areas: dict[Buffer, dict[Dimension, dict[Dimension, None]]] = {}
        products: dict[tuple[Dimension, ...], Dimension] = {}
        own = self.tile.own_loops if self.tile is not None else ()
        for access, _ in self.accesses:
            if not shared or not any(access.strides.get(loop, 0) != 0 for loop in own):
                found = areas.setdefault(access.buffer, {}).setdefault(access.offset, {})
                loops = tuple([loop.size for loop, stride in access.strides.items() if stride != 0])
                if loops not in products:
                    products[loops] = types.product(loops)
                found[products[loops] * access.buffer.dtype.itemsize] = None
        return tuple(
            Traffic(tuple(map(tuple, some.values())), buffer.nbytes, buffer.kind == "temporary" and not buffer.fixed)
            for buffer, some in areas.items()
        )

    @property
    def pieces(self) -> Dimension:
        """Into how many pieces threads divide the loop that they share, with the rows of the last tile divided too if
        the tile has `rest`."""
        tile = self.tile
        if tile is None or tile.split is None:
            return 1
        pieces = -(-tile.split.size // tile.unit)
        if tile.rest and tile.rows is not None:
            return pieces * types.maximum(-(-tile.rows.size // tile.row_block), 1)
        return types.maximum(pieces, 1)


def nests_of(suite: Iterable[Statement]) -> list[Nest]:
    """The nests of statements, in order."""
    return [statement for statement in every_in(suite) if isinstance(statement, Nest)]

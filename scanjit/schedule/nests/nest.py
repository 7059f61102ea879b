"""A nest: loops, and the values that are stored at every point of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from scanjit.schedule.nests.loops import JoinedLoop, NestLoop
from scanjit.schedule.nests.values import Access, Fetch, Index, Load, Register, Value, walk_values
from scanjit.types import Dimension


@dataclass(eq=False)
class Store:
    """A value written at every point of a nest. With `indices`, at computed positions; with `add`, added there."""

    access: Access
    value: Value
    indices: tuple[Index, ...] = ()
    add: bool = False
    code: int = 0


@dataclass(frozen=True)
class Tile:
    """How a nest is vectorised and blocked.

    `lanes` elements a vector. Lanes run along the last loop of the space, `vectors` vectors at a time; where
    `horizontal`, along the last loop of each reduction. `rows` is a loop (or several, joined) of which `row_block`
    iterations share the loads that do not depend on it. With `singles`, the vectors that are left after whole tiles are
    computed one at a time; threads may then share them more evenly. Tiles of columns go in groups of `group`: some rows
    of all of these, then the next rows. Threads share the loop `split`, in pieces of `unit` iterations; or each keeps
    its part of the loop `own`, of which `each` iterations are one row, through all steps (see `OwnRows`). With `rest`,
    all threads compute equally many pieces, and of those that are left some of the rows, which are `own` then.

    In a nest with time, `strips` says of each loop of the space how many iterations a strip has: all points of a strip
    go through a step before any goes through the next. Without strips, time is inside all other loops.
    """

    lanes: int = 1
    vectors: int = 1
    rows: NestLoop | None = None
    row_block: int = 1
    horizontal: bool = False
    singles: bool = False
    group: Dimension = 1
    split: NestLoop | None = None
    unit: int = 1
    own: NestLoop | None = None
    each: Dimension = 1
    rest: bool = False
    strips: tuple[Dimension, ...] = ()

    @property
    def row_loops(self) -> tuple[NestLoop, ...]:
        """The loops of the nest that `rows` stands for."""
        if self.rows is None:
            return ()
        return self.rows.parts if isinstance(self.rows, JoinedLoop) else (self.rows,)


@dataclass(eq=False)
class Nest:
    """Loops (the last is the one that lanes run along, once the nest has its shape: `lane`, where that is decided
    before), and what is stored at every point.

    With `time`, a loop inside all others, `registers` are carried from step to step (`updates` are their new values),
    `stores` happen at every step and `finals` (stores of registers) after the last; `reverse` runs time backwards.
    Where steps read what earlier ones have stored, they do so `reach` steps later, or even later.
    Where points go through time in strips (see `Tile`), registers are in memory from step to step: `carried` says where
    each lies before a step. After it, it lies where a store or a final puts it.
    """

    space: list[NestLoop]
    stores: list[Store]
    label: str
    time: NestLoop | None = None
    reverse: bool = False
    registers: list[Register] = field(default_factory=list)
    updates: list[Value] = field(default_factory=list)
    finals: list[Store] = field(default_factory=list)
    carried: list[Access] = field(default_factory=list)
    sequential: bool = False
    unroll: int = 1
    tile: Tile | None = None
    reach: Dimension | None = None
    lane: NestLoop | None = None

    @property
    def roots(self) -> list[Value]:
        """All values that are stored or carried."""
        stored = [store.value for store in (*self.stores, *self.finals)]
        indexed = [index.value for store in self.stores for index in store.indices]
        return [*stored, *indexed, *self.registers, *self.updates]

    def accesses(self) -> Iterator[tuple[Access, bool]]:
        """Every access, and whether it writes."""
        for value in walk_values(self.roots):
            if isinstance(value, Load | Fetch):
                yield value.access, False
        for access in self.carried:
            yield access, False
        for store in (*self.stores, *self.finals):
            yield store.access, True

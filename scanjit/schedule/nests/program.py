"""The loop-nest IR: what a program does, between the graph and its source code.

A `Program` is a list of statements over buffers: nests (everything that computes), packs (right operands of products,
laid out in panels), and loops over time. Positions in a buffer are *dimensions* (polynomials, see `scanjit.types`) in
elements; inside a loop they may contain the loop's counter, which is an atom like any other.

A `Nest` computes values at every point of its space and stores them. A value is a small expression: loads at affine
positions, elementwise ops, reductions over loops of their own. A product of matrices is a reduction whose body is the
product of two loads; nothing else in this package knows what a GEMM is, except the choice of the register tile.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from scanjit import types
from scanjit.ir import Op
from scanjit.types import Dimension
from scanjit.walks import bottom_up


@dataclass(eq=False)
class Buffer:
    """Memory. `kind`: "input" (given by the caller), "output" (given to the caller), "constant" or "temporary".

    `fixed`: it holds the same in all calls, as long as no shared variable gets another value.
    """

    dtype: np.dtype
    shape: tuple[Dimension, ...]
    kind: str
    name: str = ""
    data: np.ndarray | None = None
    fixed: bool = False

    @property
    def nbytes(self) -> Dimension:
        """The size in bytes."""
        return types.product(self.shape) * self.dtype.itemsize


@dataclass(frozen=True, eq=False)
class Ref:
    """A strided tensor inside a buffer: where a node's value lies. Offset and strides count elements."""

    buffer: Buffer
    offset: Dimension
    shape: tuple[Dimension, ...]
    strides: tuple[Dimension, ...]

    @classmethod
    def whole(cls, buffer: Buffer) -> Ref:
        """All of a buffer, in row-major order."""
        return cls(buffer, 0, buffer.shape, row_major(buffer.shape))

    @property
    def contiguous(self) -> bool:
        """Whether it is certainly in row-major order without gaps."""
        wanted = row_major(self.shape)
        return all(d == 1 or s == w for d, s, w in zip(self.shape, self.strides, wanted, strict=True))

    def row(self, index: Dimension) -> Ref:
        """The entry at `index` of the first axis."""
        return Ref(self.buffer, self.offset + index * self.strides[0], self.shape[1:], self.strides[1:])

    def window(self, axis: int, start: Dimension, length: Dimension) -> Ref:
        """`length` entries of an axis."""
        shape = (*self.shape[:axis], length, *self.shape[axis + 1 :])
        return Ref(self.buffer, self.offset + start * self.strides[axis], shape, self.strides)


def row_major(shape: tuple[Dimension, ...]) -> tuple[Dimension, ...]:
    """The strides of a tensor in row-major order."""
    strides: list[Dimension] = []
    step: Dimension = 1
    for dim in reversed(shape):
        strides.append(step)
        step = dim * step
    return tuple(reversed(strides))


# ---- values --------------------------------------------------------------------------------------------------------


class Loop:
    """One dimension of a nest: a counter from 0 to `size`. Compared by identity."""

    __slots__ = ("size",)

    def __init__(self, size: Dimension) -> None:
        self.size = size

    def __repr__(self) -> str:
        return f"loop({self.size})"


class Joined(Loop):
    """Loops that are counted as one, the last of them fastest."""

    __slots__ = ("parts",)

    def __init__(self, parts: Sequence[Loop]) -> None:
        super().__init__(types.product(loop.size for loop in parts))
        self.parts = tuple(parts)


@dataclass(frozen=True, eq=False)
class Access:
    """Elements of a buffer, one at each point of some loops: `offset + sum(stride * counter)`.

    `panel`: the buffer is packed for the lanes of that loop: a block of lanes is contiguous, and the stride of the
    loop counts from block to block.
    """

    buffer: Buffer
    offset: Dimension
    strides: Mapping[Loop, Dimension]
    panel: Loop | None = None


@dataclass(frozen=True, eq=False)
class Value:
    """An expression, at every point of the loops that it depends on."""

    dtype: np.dtype


@dataclass(frozen=True, eq=False)
class Literal(Value):
    """A number known now."""

    number: Any


@dataclass(frozen=True, eq=False)
class Position(Value):
    """An integer that is affine in loop counters: `offset + sum(stride * counter)`."""

    offset: Dimension
    strides: Mapping[Loop, Dimension]


@dataclass(frozen=True, eq=False)
class Load(Value):
    """What a buffer holds; or zero, where `when` is 0 (it is 0 or 1)."""

    access: Access
    when: Dimension = 1


@dataclass(frozen=True, eq=False)
class Index:
    """An index computed at run time: `value * stride` is added to an address; `0 <= value < size` is checked."""

    value: Value
    stride: Dimension
    size: Dimension


@dataclass(frozen=True, eq=False)
class Fetch(Value):
    """A load at computed indices. Out of bounds it reads nothing, gives zero, and reports `code`. There are indices at
    every point of the loops `over`, and none where one of these is empty."""

    access: Access
    indices: tuple[Index, ...]
    code: int
    over: tuple[Loop, ...] = ()


@dataclass(frozen=True, eq=False)
class Apply(Value):
    """An elementwise op."""

    op: Op
    args: tuple[Value, ...]
    params: Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Reduce(Value):
    """`body` combined over `loops` by a reduction op. For argmax and argmin the value is the position in `loops`.

    A sum with `init` begins with that value instead of zero, and is one chain of additions: the same, to the last bit,
    whether it is computed at once or as several sums, each of which begins with the one before it. With loops inside
    the outermost one, each iteration of that may be summed by itself first.

    Terms at which the `guard`, a bool, is false may be left out.
    """

    op: Op
    loops: tuple[Loop, ...]
    body: Value
    init: Value | None = None
    guard: Value | None = None


@dataclass(frozen=True, eq=False)
class Register(Value):
    """A value that a nest with a time loop carries from step to step."""

    init: Value
    index: int


def operands(value: Value) -> tuple[Value, ...]:
    """The values that a value is computed from, at its own point."""
    if isinstance(value, Apply):
        return value.args
    if isinstance(value, Fetch):
        return tuple(index.value for index in value.indices)
    if isinstance(value, Register):
        return (value.init,)
    if isinstance(value, Reduce):
        return tuple(part for part in (value.body, value.init, value.guard) if part is not None)
    return ()


def walk_values(roots: list[Value]) -> list[Value]:
    """Every value below `roots`, operands first, bodies of reductions included."""
    return bottom_up(roots, operands)


# ---- statements ----------------------------------------------------------------------------------------------------


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
    its part of the loop `own`, of which `each` iterations are one row, through all steps (see `Rows`). With `rest`, all
    threads compute equally many pieces, and of those that are left some of the rows, which are `own` then.

    In a nest with time, `strips` says of each loop of the space how many iterations a strip has: all points of a strip
    go through a step before any goes through the next. Without strips, time is inside all other loops.
    """

    lanes: int = 1
    vectors: int = 1
    rows: Loop | None = None
    row_block: int = 1
    horizontal: bool = False
    singles: bool = False
    group: Dimension = 1
    split: Loop | None = None
    unit: int = 1
    own: Loop | None = None
    each: Dimension = 1
    rest: bool = False
    strips: tuple[Dimension, ...] = ()

    @property
    def row_loops(self) -> tuple[Loop, ...]:
        """The loops of the nest that `rows` stands for."""
        if self.rows is None:
            return ()
        return self.rows.parts if isinstance(self.rows, Joined) else (self.rows,)


@dataclass(frozen=True)
class Machine:
    """What schedules depend on: bytes a vector register, how many of them there are, and the processor's name."""

    vector_bytes: int = 32
    registers: int = 16
    name: str = ""

    @property
    def key(self) -> str:
        """What measurements of it are listed under."""
        return f"{self.name} {self.vector_bytes}"


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

    space: list[Loop]
    stores: list[Store]
    label: str
    time: Loop | None = None
    reverse: bool = False
    registers: list[Register] = field(default_factory=list)
    updates: list[Value] = field(default_factory=list)
    finals: list[Store] = field(default_factory=list)
    carried: list[Access] = field(default_factory=list)
    sequential: bool = False
    unroll: int = 1
    tile: Tile | None = None
    reach: Dimension | None = None
    lane: Loop | None = None

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


@dataclass(eq=False)
class Pack:
    """Copy right operands `source[k, n]` (one Ref a group) into panels `[n block][k][group][lane]`, padded by zeros; k
    may be several axes."""

    sources: list[Ref]
    target: Buffer
    width: int
    label: str = "pack"


@dataclass(frozen=True)
class Rows:
    """Rows of which each thread may keep some through all steps of a loop: how many there are, of which pieces of
    `unit` stay together, and a number that is 1 where the threads do, else 0."""

    size: Dimension
    unit: int
    kept: Dimension


@dataclass(eq=False)
class Call:
    """A routine of LAPACK, for each matrix of a batch. `written` says which of the places in `refs` it writes, where it
    also finds its operands; `flags` are its options."""

    routine: str
    refs: list[Ref]
    written: tuple[bool, ...]
    flags: Mapping[str, bool] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """Its name in listings."""
        return self.routine

    @property
    def result(self) -> Ref:
        """The matrices that it writes."""
        return next(ref for ref, written in zip(self.refs, self.written, strict=True) if written)


@dataclass(eq=False)
class TimeLoop:
    """Run `body` `length` times, or with `when` (an int64 in memory) not at all where that is 0. `step` counts from
    `start`; `row` is the row read and written (of `total`; from the last to the first if `reverse`).

    With `stop` (an int64 in memory) the loop ends after the step that sets it; `count` (int64) receives the number of
    steps that ran, which `ran` stands for from then on.
    """

    length: Dimension
    step: Dimension
    row: Dimension
    body: list[Statement]
    total: Dimension
    start: Dimension = 0
    reverse: bool = False
    stop: Ref | None = None
    count: Ref | None = None
    when: Ref | None = None
    ran: Dimension = 0
    unroll: int = 1
    label: str = ""
    rows: Rows | None = None
    persistent: list[Buffer] = field(default_factory=list)


@dataclass(eq=False)
class Blocks:
    """Run `body` for stretches of at most `size` of `total` steps: from `first` on, `rows` of them; the last stretch
    first if `backwards`."""

    total: Dimension
    size: Dimension
    first: Dimension
    rows: Dimension
    body: list[Statement]
    backwards: bool = False


@dataclass(eq=False)
class Beside:
    """Loops over time that do not depend on each other: `branches`, each of one statement.

    Where `apart` is not 0, each branch is run by threads of its own, the others not waiting for them: by `many[i]`
    threads from number `first[i]` on. Else, and where there is but one thread, all threads run one branch after the
    other. These numbers are known when sizes and threads are (see `parallel.chosen`).
    """

    branches: list[Statement]
    apart: Dimension
    first: list[Dimension]
    many: list[Dimension]


Leaf = Nest | Pack | Call
Statement = Leaf | TimeLoop | Blocks | Beside


def counter(name: str) -> Dimension:
    """A new dimension that changes while the program runs."""
    dim = types.size()
    atom = types.as_atom(dim)
    assert atom is not None
    atom.name = f"{name}{atom.serial}"
    return dim


@dataclass(eq=False)
class Program:
    """Statements, and the buffers for inputs and outputs. `outputs` say where each result lies in its buffer."""

    inputs: list[Buffer]
    outputs: list[Ref]
    body: list[Statement]
    codes: list[Any]
    notes: list[str] = field(default_factory=list)


def inner(statement: Statement) -> list[Statement]:
    """The statements that a loop, or what stands side by side, consists of."""
    if isinstance(statement, TimeLoop | Blocks):
        return statement.body
    return statement.branches if isinstance(statement, Beside) else []


def leaves_of(body: Iterable[Statement]) -> Iterator[Leaf]:
    """The statements that consist of no others."""
    for statement in body:
        if isinstance(statement, Leaf):
            yield statement
        else:
            yield from leaves_of(inner(statement))


def statement_refs(statement: Statement) -> Iterator[tuple[Buffer, Dimension, bool]]:
    """(buffer, offset, whether written) of every access of a statement; of a loop, only what decides whether it runs:
    what is in a loop has accesses of its own."""
    if isinstance(statement, Nest):
        for access, written in statement.accesses():
            yield access.buffer, access.offset, written
    elif isinstance(statement, Pack):
        for ref in statement.sources:
            yield ref.buffer, ref.offset, False
        yield statement.target, 0, True
    elif isinstance(statement, TimeLoop) and statement.when is not None:
        yield statement.when.buffer, statement.when.offset, False
    elif isinstance(statement, Call):
        for ref, written in zip(statement.refs, statement.written, strict=True):
            yield ref.buffer, ref.offset, written

"""Statements: what a program runs, one after the other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from scanjit import types
from scanjit.schedule.nests.buffers import Buffer, Ref
from scanjit.schedule.nests.nest import Nest
from scanjit.types import Dimension


@dataclass(eq=False)
class Pack:
    """Copy right operands `source[k, n]` (one Ref a group) into panels `[n block][k][group][lane]`, padded by zeros; k
    may be several axes."""

    sources: list[Ref]
    target: Buffer
    width: int
    label: str = "pack"


@dataclass(frozen=True)
class OwnRows:
    """Rows of which each thread may keep some through all steps of a loop: how many there are, of which pieces of
    `unit` stay together, and a number that is 1 where the threads do, else 0."""

    size: Dimension
    unit: int
    kept: Dimension


@dataclass(eq=False)
class LapackCall:
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
    rows: OwnRows | None = None
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


Leaf = Nest | Pack | LapackCall
Statement = Leaf | TimeLoop | Blocks | Beside


def counter(name: str) -> Dimension:
    """A new dimension that changes while the program runs."""
    dim = types.size()
    atom = types.as_atom(dim)
    assert atom is not None
    atom.name = f"{name}{atom.serial}"
    return dim


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
    elif isinstance(statement, LapackCall):
        for ref, written in zip(statement.refs, statement.written, strict=True):
            yield ref.buffer, ref.offset, written

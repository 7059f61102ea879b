"""The questions that every statement of a program answers: which memory it touches, which counters it has, which
statements it consists of."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import ClassVar, NamedTuple, Self

from scanjit import records, types
from scanjit.schedule.nests.buffers import Buffer, Rebase, Ref
from scanjit.schedule.nests.plan import Plan
from scanjit.types import Atom, Dimension

Reference = tuple[Buffer, Dimension, bool]
"""A buffer, the offset in it (in elements), and whether it is written there."""
Counters = Mapping[Atom, Dimension]
"""The values of counters in some run of a statement."""


class Traffic(NamedTuple):
    """What one run of a job touches of a buffer of `most` bytes. For each offset, `areas` has the numbers of bytes that
    the accesses there reach; equal ones stand once."""

    areas: tuple[tuple[Dimension, ...], ...]
    most: Dimension


class Statement(ABC):
    """Something that a program runs. Statements are compared by identity. The fields `suite_names` hold the statements
    that it consists of."""

    suite_names: ClassVar[tuple[str, ...]] = ()

    @property
    @abstractmethod
    def title(self) -> str:
        """What it is called in listings."""

    @property
    def suites(self) -> tuple[Sequence[Statement], ...]:
        """The sequences of statements that it consists of: one of a loop, two of an `If`, none of a job."""
        return tuple(getattr(self, name) for name in self.suite_names)

    @property
    def inner(self) -> list[Statement]:
        """The statements that it consists of, in order."""
        return [statement for suite in self.suites for statement in suite]

    def with_suites(self, *suites: Sequence[Statement]) -> Self:
        """The same statement with other `suites`."""
        changed = dict(zip(self.suite_names, map(tuple, suites), strict=True))
        return records.with_parts(self, changed) if changed else self

    @property
    def counters(self) -> tuple[Dimension, ...]:
        """The dimensions that get their values while it runs."""
        return ()

    @property
    def dims(self) -> tuple[Dimension, ...]:
        """All dimensions that what it does itself depends on."""
        return ()

    def refs(self) -> Iterator[Reference]:
        """Every place that it touches itself; the statements in it have references of their own."""
        yield from ()

    def rebased(self, place: Rebase) -> Self:
        """The same statement with elements at other places; those of the statements in it change too."""
        changed = {name: _rebased(part, place) for name, part in records.parts(self).items()}
        return records.with_parts(self, changed)

    @property
    def ends_early(self) -> bool:
        """Whether only a run says how many steps some loop in it makes."""
        return any(statement.ends_early for statement in self.inner)

    @property
    def repeats(self) -> bool:
        """Whether its `inner` statements may run several times."""
        return False

    @property
    def lasting(self) -> set[Buffer]:
        """The buffers that hold something from one turn to the next, or for the first turn."""
        return set()

    @property
    def in_steps(self) -> bool:
        """Whether threads that share it meet many times in it, or cannot share it at all."""
        return any(statement.in_steps for statement in self.inner)

    @property
    def samples(self) -> list[tuple[Counters, Dimension]]:
        """Runs of its `inner` statements that stand for all: the counters of a run, and how many there are. Where there
        are several, the dearest one counts."""
        return [({}, 1)]

    def every(self) -> Iterator[Statement]:
        """It, and every statement in it, however deep."""
        yield self
        for statement in self.inner:
            yield from statement.every()

    def all_refs(self) -> Iterator[Reference]:
        """Every place that it and the statements in it touch."""
        for statement in self.every():
            yield from statement.refs()


class Job(Statement, ABC):
    """A statement that consists of no others: it is one call of one function."""

    @property
    @abstractmethod
    def dtype(self) -> str:
        """The type that it computes in."""

    @property
    def repeatable(self) -> bool:
        """Whether a second run on the same inputs may be left out: it changes nothing and reports nothing."""
        return True

    @property
    @abstractmethod
    def operations(self) -> Dimension:
        """About how many operations a run takes (a multiply-add counts as two)."""

    @abstractmethod
    def traffic(self, shared: bool = False) -> tuple[Traffic, ...]:
        """The memory that a run reads and writes. With `shared`, only memory that belongs to no single one of the rows
        that a thread may keep (see `OwnRows`)."""

    @property
    def pieces(self) -> Dimension:
        """Into how many pieces threads can divide it."""
        return 1


def _rebased(part: object, place: Rebase) -> object:
    """A field of a statement, with elements at other places."""
    if isinstance(part, tuple):
        return tuple(_rebased(each, place) for each in part)
    if isinstance(part, Buffer):
        return place(part, 0)[0]
    return part.rebased(place) if isinstance(part, Ref | Plan | Statement) else part


def jobs_of(suite: Iterable[Statement]) -> Iterator[Job]:
    """The jobs of statements, in order."""
    for statement in suite:
        yield from (other for other in statement.every() if isinstance(other, Job))


def at(dim: Dimension, value: Dimension) -> dict[Atom, Dimension]:
    """The value of a counter."""
    atom = types.as_atom(dim)
    return {} if atom is None else {atom: value}

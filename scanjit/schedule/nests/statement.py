"""The questions that every statement of a program answers: which memory it touches, which counters it has, which
statements it consists of."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
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
    """The bytes of one buffer that a run of a job touches.

    `areas` has a tuple for each offset at which accesses begin: the numbers of bytes that they reach from there, each
    number once. `most` is the size of the buffer in bytes. `new` says whether each call writes the buffer anew.
    """

    areas: tuple[tuple[Dimension, ...], ...]
    most: Dimension
    new: bool = False


class Statement(ABC, metaclass=records.Quick):
    """Something that a program runs. Statements are compared by identity. `suite_names` names the fields that hold
    other statements, and `repeats` says whether these may run several times."""

    suite_names: ClassVar[tuple[str, ...]] = ()
    repeats: ClassVar[bool] = False

    @property
    @abstractmethod
    def title(self) -> str:
        """What it is called in listings."""

    @property
    def suites(self) -> tuple[Sequence[Statement], ...]:
        """Its sequences of statements: one for a loop, two for an `If`, none for a job."""
        return tuple([getattr(self, name) for name in self.suite_names])

    @property
    def inner(self) -> list[Statement]:
        """The statements in its suites, in order."""
        return [statement for suite in self.suites for statement in suite]

    def with_suites(self, *suites: Sequence[Statement]) -> Self:
        """The same statement with other `suites`."""
        changed = dict(zip(self.suite_names, map(tuple, suites), strict=True))
        return records.replace(self, **changed) if changed else self

    @property
    def counters(self) -> tuple[Dimension, ...]:
        """The dimensions that get their values while it runs."""
        return ()

    @property
    def dims(self) -> tuple[Dimension, ...]:
        """The dimensions that it depends on itself, without those of its inner statements."""
        return ()

    def refs(self) -> Iterator[Reference]:
        """Every place that it touches itself. Its inner statements have references of their own."""
        yield from ()

    def rebased(self, place: Rebase) -> Self:
        """The same statement with elements at other places, also in its inner statements."""
        changed = {name: _rebased(part, place) for name, part in records.parts(self).items()}
        return records.replace(self, **changed)

    @property
    def ends_early(self) -> bool:
        """Whether some loop in it may end early: its number of steps is then known only when it has run."""
        return any(statement.ends_early for statement in self.inner)

    @property
    def lasting(self) -> set[Buffer]:
        """The buffers whose contents pass from one turn to the next, or into the first turn."""
        return set()

    @property
    def in_steps(self) -> bool:
        """Whether threads that share it meet many times in it, or cannot share it at all."""
        return any(statement.in_steps for statement in self.inner)

    @property
    def samples(self) -> list[tuple[Counters, Dimension]]:
        """Some runs of its inner statements that stand for all runs: the counters of such a run, and how many runs it
        stands for. Each sample stands for all runs; the most expensive one counts."""
        return [({}, 1)]

    def every(self) -> Iterator[Statement]:
        """It, and every statement in it, however deep."""
        left: list[Statement] = [self]
        while left:
            statement = left.pop()
            yield statement
            left += reversed(tuple(statement.inner))

    @property
    def written_buffers(self) -> set[Buffer]:
        """The buffers that it or a statement in it writes."""
        return {buffer for buffer, writes in self.touched if writes}

    @cached_property
    def touched(self) -> dict[tuple[Buffer, bool], None]:
        """Every buffer that it or a statement in it touches, and whether it is written there, in order."""
        own = dict.fromkeys([(buffer, writes) for buffer, _, writes in self.refs()])
        for statement in self.inner:
            own |= statement.touched
        return own

    def all_refs(self) -> Iterator[Reference]:
        """Every place that it and the statements in it touch."""
        for statement in self.every():
            yield from statement.refs()


class Job(Statement, ABC):
    """A statement that contains no others: one call of one function."""

    def every(self) -> Iterator[Statement]:
        """Itself."""
        yield self

    @property
    @abstractmethod
    def dtype(self) -> str:
        """The dtype that it computes in."""

    @property
    def repeatable(self) -> bool:
        """Whether it may be left out if its inputs have not changed: it changes none of them, and reports no error."""
        return True

    @property
    @abstractmethod
    def operations(self) -> Dimension:
        """About how many operations a run takes. A multiply-add counts as two."""

    @abstractmethod
    def traffic(self, shared: bool = False) -> tuple[Traffic, ...]:
        """The memory that a run reads and writes. With `shared`, only memory that does not belong to single rows which
        a thread may keep (see `OwnRows`): the weights of a layer, but not its states."""

    @property
    def pieces(self) -> Dimension:
        """Into how many pieces threads can divide it."""
        return 1


def _rebased(part: object, place: Rebase) -> object:
    """The value of a field, with elements at other places."""
    if isinstance(part, tuple):
        return tuple(_rebased(each, place) for each in part)
    if isinstance(part, Buffer):
        return place(part, 0)[0]
    return part.rebased(place) if isinstance(part, Ref | Plan | Statement) else part


def every_in(suite: Iterable[Statement]) -> Iterator[Statement]:
    """All statements of a suite, however deep, in order."""
    return (inside for statement in suite for inside in statement.every())


def jobs_of(suite: Iterable[Statement]) -> Iterator[Job]:
    """The jobs of statements, in order."""
    return (statement for statement in every_in(suite) if isinstance(statement, Job))


def with_outer(
    suite: Iterable[Statement], around: tuple[Statement, ...] = ()
) -> Iterator[tuple[Statement, tuple[Statement, ...]]]:
    """All statements of a suite, each with the statements around it, the innermost first."""
    for statement in suite:
        yield statement, around
        yield from with_outer(statement.inner, (statement, *around))


def at(dim: Dimension, value: Dimension) -> dict[Atom, Dimension]:
    """A mapping from the atom of a counter to its value. It is empty if `dim` is not a counter."""
    atom = types.as_atom(dim)
    return {} if atom is None else {atom: value}

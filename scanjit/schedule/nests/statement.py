"""What every statement of a program answers: what it touches, what it counts, which statements it consists of."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence

from scanjit import types
from scanjit.schedule.nests.buffers import Buffer, Rebase
from scanjit.types import Atom, Dimension

Reference = tuple[Buffer, Dimension, bool]
"""A buffer, the offset in it (in elements), and whether it is written there."""
Sizes = Mapping[Atom, int]


class Statement(ABC):
    """Something that a program runs. Statements are compared by identity."""

    @property
    @abstractmethod
    def title(self) -> str:
        """What it is called in listings."""

    @property
    def suites(self) -> tuple[Sequence[Statement], ...]:
        """The sequences of statements that it consists of: one of a loop, two of an `If`, none of a job."""
        return ()

    @property
    def inner(self) -> list[Statement]:
        """The statements that it consists of, in order."""
        return [statement for suite in self.suites for statement in suite]

    @abstractmethod
    def with_suites(self, *suites: Sequence[Statement]) -> Statement:
        """The same statement with other `suites`."""

    @property
    def counters(self) -> tuple[Dimension, ...]:
        """The dimensions that get their values while it runs."""
        return ()

    @property
    @abstractmethod
    def dims(self) -> tuple[Dimension, ...]:
        """All dimensions that what it does itself depends on."""

    @abstractmethod
    def refs(self) -> Iterator[Reference]:
        """Every place that it touches itself; the statements in it have references of their own."""

    @abstractmethod
    def rebased(self, place: Rebase) -> Statement:
        """The same statement with elements at other places; those of the statements in it change too."""

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

    @abstractmethod
    def samples(self, sizes: Sizes) -> list[tuple[Sizes, int]]:
        """Runs of its `inner` statements that stand for all: the sizes and counters of a run, and how many there are.
        Where there are several, the dearest one counts."""

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

    def with_suites(self, *suites: Sequence[Statement]) -> Statement:
        """Itself: it has none."""
        return self

    def samples(self, sizes: Sizes) -> list[tuple[Sizes, int]]:
        """None: no statement is in it."""
        return []

    @property
    @abstractmethod
    def dtype(self) -> str:
        """The type that it computes in."""

    @property
    def repeatable(self) -> bool:
        """Whether a second run on the same inputs may be left out: it changes nothing and reports nothing."""
        return True

    @abstractmethod
    def operations(self, sizes: Sizes) -> float:
        """About how many operations a run takes (a multiply-add counts as two). KeyError for sizes that are missing."""

    @abstractmethod
    def nbytes(self, sizes: Sizes, shared: bool = False) -> float:
        """How many different bytes a run reads and writes; with `shared`, only those that belong to no single row of
        those that a thread may keep (see `OwnRows`). KeyError for sizes that are missing."""

    def pieces(self, sizes: Sizes) -> int:
        """Into how many pieces threads can divide it."""
        return 1


def jobs_of(suite: Iterable[Statement]) -> Iterator[Job]:
    """The jobs of statements, in order."""
    for statement in suite:
        yield from (other for other in statement.every() if isinstance(other, Job))


def counter(name: str) -> Dimension:
    """A new dimension that changes while the program runs."""
    return types.anonymous_size(name)


def is_counter(atom: Atom) -> bool:
    """Whether an atom is one that `counter` made: these alone are named after what they count."""
    return atom.kind == "size" and not types.is_named(atom) and atom.name != f"n{atom.serial}"


def at(dim: Dimension, value: int) -> dict[Atom, int]:
    """The value of a counter."""
    atom = types.as_atom(dim)
    return {} if atom is None else {atom: value}

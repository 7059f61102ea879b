"""Statements that run some of their suites (`If`), or several at the same time (`Beside`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import ClassVar, Self

from scanjit.records import record
from scanjit.schedule.nests.buffers import Ref
from scanjit.schedule.nests.statement import Reference, Statement
from scanjit.types import Dimension


@record
class If(Statement):
    """Run `then` if an int64 in memory is not 0, else `otherwise`."""

    condition: Ref
    then: tuple[Statement, ...]
    otherwise: tuple[Statement, ...]
    label: str = ""
    suite_names: ClassVar[tuple[str, ...]] = ("then", "otherwise")

    @property
    def title(self) -> str:
        """Its label."""
        return self.label

    @property
    def dims(self) -> tuple[Dimension, ...]:
        """Where the condition lies."""
        return (self.condition.offset,)

    def refs(self) -> Iterator[Reference]:
        """The condition."""
        yield self.condition.buffer, self.condition.offset, False


@record
class Beside(Statement):
    """Loops over time that do not depend on each other: `branches`, each of one statement.

    Where `apart` is not 0, each branch has threads of its own, and no branch waits for another. Branch i has `many[i]`
    threads, from number `first[i]` on, which meet at the meeting place of number `place[i]`. Where `apart` is 0, or
    there is one thread only, all threads run one branch after the other. `threads.sharing` decides these numbers in
    each call, from the sizes and the number of threads.
    """

    branches: tuple[Statement, ...]
    apart: Dimension
    first: tuple[Dimension, ...]
    many: tuple[Dimension, ...]
    place: tuple[Dimension, ...]

    @property
    def title(self) -> str:
        """The titles of its branches."""
        return ", ".join(branch.title for branch in self.branches)

    @property
    def suites(self) -> tuple[Sequence[Statement], ...]:
        """One suite for each branch."""
        return tuple([branch] for branch in self.branches)

    def with_suites(self, *suites: Sequence[Statement]) -> Self:
        """The same with other branches."""
        return replace(self, branches=tuple(branch for (branch,) in suites))

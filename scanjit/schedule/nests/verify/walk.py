"""Walks over programs, for the rules of the verifier."""

from collections.abc import Iterable, Iterator

from scanjit.schedule.nests.nest import Nest
from scanjit.schedule.nests.program import Program
from scanjit.schedule.nests.statement import Statement

Problem = tuple[Statement, str]
"""The statement that breaks a rule, and how."""


def with_outer(
    suite: Iterable[Statement], outer: tuple[Statement, ...] = ()
) -> Iterator[tuple[Statement, tuple[Statement, ...]]]:
    """Every statement, each with the statements around it, the outermost first."""
    for statement in suite:
        yield statement, outer
        yield from with_outer(statement.inner, (*outer, statement))


def nests(program: Program) -> Iterator[Nest]:
    """Every nest."""
    for statement, _ in with_outer(program.suite):
        if isinstance(statement, Nest):
            yield statement

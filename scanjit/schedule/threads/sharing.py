"""How the threads share a program, for the sizes of a call: whether there are several at all, and what each does.

All threads run the same main function over the same statements, and wait for each other after each. Each computes a
part of every nest. Loops that stand side by side may have threads of their own, and a thread may compute its own rows
of a batch through all steps of a loop. Nothing is added up across threads, so results do not depend on their number.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scanjit import types
from scanjit.schedule.cost import rates
from scanjit.schedule.cost.statements import Cost, costs
from scanjit.schedule.nests import Beside, Program, Statement, TimeLoop
from scanjit.schedule.threads.rows import with_rows
from scanjit.schedule.threads.teams import Assignment, Team, assignment
from scanjit.schedule.threads.times import Work
from scanjit.types import Atom, Dimension


@dataclass(frozen=True)
class Sharing:
    """What was decided for some sizes and a number of threads.

    Attributes
    ----------
    threads : for how many threads.
    teams : who runs the branches of each `Beside`.
    rows_apart : for each loop whose rows never meet, whether each thread computes its own rows through all steps.
    several : whether the program is large enough for more than one thread.
    operations : how many operations it has.
    """

    threads: int
    teams: Mapping[Beside, Assignment]
    rows_apart: Mapping[TimeLoop, bool]
    several: bool
    operations: float

    def numbers(self) -> dict[Atom, int]:
        """The dimensions of the program whose values were decided here."""
        found: dict[Atom, int] = {}
        for beside, assigned in self.teams.items():
            teams = assigned.teams or [Team(0, 0)] * len(beside.branches)
            found |= _numbers([beside.apart], [int(assigned.teams is not None)])
            found |= _numbers(beside.first, [team.first for team in teams])
            found |= _numbers(beside.many, [team.many for team in teams])
        for loop, apart in self.rows_apart.items():
            found |= _numbers([loop.own_rows.apart] if loop.own_rows is not None else [], [int(apart)])
        return found


def decided(program: Program) -> list[Dimension]:
    """The dimensions of a program whose values `Sharing.numbers` knows."""
    beside = [dim for s in program.suite if isinstance(s, Beside) for dim in (s.apart, *s.first, *s.many)]
    return beside + [loop.own_rows.apart for loop in with_rows(program.suite) if loop.own_rows is not None]


def sharing(program: Program, sizes: Mapping[Atom, int], threads: int) -> Sharing:
    """How so many threads share a program."""
    teams = {s: assignment(s, sizes, threads, program.target) for s in program.suite if isinstance(s, Beside)}
    own = rows_apart(program, sizes, teams, threads)
    return Sharing(threads, teams, own, *worth(program, sizes, teams, own))


def rows_apart(
    program: Program, sizes: Mapping[Atom, int], teams: Mapping[Beside, Assignment], threads: int
) -> dict[TimeLoop, bool]:
    """For each loop whose rows never meet, whether each thread computes its own rows: if that takes less time."""
    many: dict[TimeLoop, int] = {}
    for beside, assigned in teams.items():
        for branch, team in zip(beside.branches, assigned.teams or (), strict=False):
            many |= dict.fromkeys(with_rows([branch]), team.many)
    work = Work.of(program.suite, sizes, program.target)
    found: dict[TimeLoop, bool] = {}
    for loop in work.loops:
        if loop is not None:
            together, apart = work.times(loop, many.get(loop, threads))
            found[loop] = apart < together
    return found


def team_of_each(statement: Statement, teams: Mapping[Beside, Assignment]) -> list[tuple[Statement, Team | None]]:
    """The branches of a statement with the team that runs each; where all threads run it, itself and None."""
    assigned = teams[statement].teams if isinstance(statement, Beside) else None
    return [(statement, None)] if assigned is None else list(zip(statement.inner, assigned, strict=True))


def worth(
    program: Program, sizes: Mapping[Atom, int], teams: Mapping[Beside, Assignment], own: Mapping[TimeLoop, bool]
) -> tuple[bool, float]:
    """Whether a program is large enough for several threads: it has enough work, and enough of it between two
    meetings. And how many operations it has."""
    work = meetings = 0.0
    for statement in program.suite:
        parts = team_of_each(statement, teams)
        found = [costs([part], sizes) for part, _ in parts]
        work += sum(cost.runs * cost.operations for some in found for cost in some)
        apart = any(team is not None for _, team in parts)
        shared = [some for some, (_, team) in zip(found, parts, strict=True) if team is None or team.many > 1]
        meetings += max((_meetings(some, own) for some in shared), default=0) + apart
    return work >= rates.SMALLEST_PROGRAM and work >= rates.SMALLEST_STRETCH * meetings, max(work, 1.0)


def _meetings(found: Sequence[Cost], own: Mapping[TimeLoop, bool]) -> int:
    """How often threads meet in statements: never inside a loop of which each thread computes its own rows."""
    return sum(cost.runs for cost in found if cost.loop is None or not own[cost.loop])


def _numbers(dims: Sequence[Dimension], values: Sequence[int]) -> dict[Atom, int]:
    return {atom: value for dim, value in zip(dims, values, strict=True) if (atom := types.as_atom(dim)) is not None}

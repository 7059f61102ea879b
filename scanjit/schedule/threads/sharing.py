"""How the threads share a program, for the sizes of a call: whether there are several at all, and what each does.

All threads run the same main function over the same statements, and wait for each other after each. Each computes a
part of every nest. Loops that stand side by side may have threads of their own, and a thread may compute its own rows
of a batch through all steps of a loop. Nothing is added up across threads, so results do not depend on their number.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from scanjit import types
from scanjit.records import record
from scanjit.schedule.cost import rates
from scanjit.schedule.cost.statements import Cost, Price, costs, prices
from scanjit.schedule.nests import Beside, OwnRows, Program
from scanjit.schedule.threads.teams import MOST_TEAMS, Assignment, Team, assignment
from scanjit.schedule.threads.times import Work
from scanjit.types import Atom, Dimension, Numbers


@record
class Part:
    """The costs that decide how threads share a statement: one for each of its `branches`. Only a `Beside` has several;
    its `apart`, `first`, `many` and `place` are dimensions whose values are decided here."""

    branches: tuple[tuple[Price, ...], ...]
    apart: Dimension = 0
    first: tuple[Dimension, ...] = ()
    many: tuple[Dimension, ...] = ()
    place: tuple[Dimension, ...] = ()

    @property
    def decided(self) -> tuple[Dimension, ...]:
        """The dimensions of a `Beside`."""
        return (self.apart, *self.first, *self.many, *self.place)


@dataclass(frozen=True)
class Sharing:
    """What was decided for some sizes and a number of threads.

    Attributes
    ----------
    threads : for how many threads.
    teams : who runs the branches of each `Beside`, by its `apart`.
    rows_apart : for each loop whose rows never meet, by these rows, whether each thread computes its own through all
        steps.
    several : whether the program is large enough for more than one thread.
    operations : how many operations it has.
    numbers : the dimensions of the program whose values were decided here.
    """

    threads: int
    teams: Mapping[Dimension, Assignment]
    rows_apart: Mapping[OwnRows, bool]
    several: bool
    operations: float
    numbers: Mapping[Atom, int]


def parts(program: Program) -> tuple[Part, ...]:
    """The statements of a program, as threads share them."""
    return tuple(
        Part(tuple(prices([branch]) for branch in s.branches), s.apart, s.first, s.many, s.place)
        if isinstance(s, Beside)
        else Part((prices([s]),))
        for s in program.suite
    )


def decided(parts: Iterable[Part]) -> list[Dimension]:
    """The dimensions of a program whose values `Sharing.numbers` has."""
    of_rows = [dim for part in parts for rows in _rows(part) for dim in (rows.apart, rows.copies)]
    return [dim for part in parts for dim in part.decided] + of_rows


def _rows(part: Part) -> list[OwnRows]:
    return list(dict.fromkeys(price.rows for some in part.branches for price in some if price.rows is not None))


def sharing(parts: Sequence[Part], number: Numbers, threads: int, near_bytes: int) -> Sharing:
    """How so many threads share a program, on cores with so many bytes of second-level cache."""
    works = [[Work(costs(some, number), number, near_bytes) for some in part.branches] for part in parts]
    teams: dict[Dimension, Assignment] = {}
    places: dict[Team, int] = {}
    for part, own in zip(parts, works, strict=True):
        if part.first:
            teams[part.apart] = _with_places(assignment(own, threads), places)
    found: dict[Atom, int] = {}
    shared: list[Shared] = []
    for part, own in zip(parts, works, strict=True):
        running = team_of_each(part, teams)
        shared.append(list(zip(own, running, strict=True)))
        if part.first:
            found |= _numbers([part.apart], [int(None not in running)])
            found |= _numbers(part.first, [0 if team is None else team.first for team in running])
            found |= _numbers(part.many, [0 if team is None else team.many for team in running])
            found |= _numbers(part.place, [0 if team is None else places.get(team, 0) for team in running])
    rows = rows_apart(shared, threads)
    for kept, apart in rows.items():
        copies = min(threads, number(kept.size)) if apart else 1
        found |= _numbers([kept.apart, kept.copies], [int(apart), copies])
    operations = float(sum(work.operations for own in works for work in own))
    return Sharing(threads, teams, rows, worth(shared, rows), max(operations, 1.0), found)


def _with_places(assigned: Assignment, places: dict[Team, int]) -> Assignment:
    """An assignment whose teams have places to meet at, numbered from 1. None but the threads of one team ever meet at
    a place: each of them has counted all that was done there. Without teams, if there are more of these than places."""
    new = [team for team in dict.fromkeys(assigned.teams or ()) if team.many > 1 and team not in places]
    if len(places) + len(new) > MOST_TEAMS:
        return assigned._replace(teams=None)
    places.update({team: number for number, team in enumerate(new, len(places) + 1)})
    return assigned


Shared = Sequence[tuple[Work, Team | None]]
"""The branches of a statement, each with the team that runs it; None where all threads run one after the other."""


def team_of_each(part: Part, teams: Mapping[Dimension, Assignment]) -> Sequence[Team | None]:
    """The team that runs each branch of a statement; None where all threads do."""
    return (teams[part.apart].teams if part.first else None) or [None] * len(part.branches)


def rows_apart(shared: Iterable[Shared], threads: int) -> dict[OwnRows, bool]:
    """For each loop whose rows never meet, whether each thread computes its own rows: if that takes less time."""
    found: dict[OwnRows, bool] = {}
    for work, team in chain.from_iterable(shared):
        for rows in work.rows:
            if rows is not None:
                together, apart = work.times(rows, threads if team is None else team.many)
                found[rows] = apart < together
    return found


def worth(shared: Iterable[Shared], own: Mapping[OwnRows, bool]) -> bool:
    """Whether a program is large enough for several threads: it has enough work, and enough of it between two
    meetings."""
    total = meetings = 0.0
    for branches in shared:
        total += sum(work.operations for work, _ in branches)
        met = [_meetings(work.costs, own) for work, team in branches if team is None or team.many > 1]
        meetings += sum(met) if all(team is None for _, team in branches) else max(met, default=0) + 1
    return total >= rates.SMALLEST_PROGRAM and total >= rates.SMALLEST_STRETCH * meetings


def _meetings(found: Sequence[Cost], own: Mapping[OwnRows, bool]) -> int:
    """How often threads meet in statements: never inside a loop of which each thread computes its own rows."""
    return sum(cost.runs for cost in found if cost.rows is None or not own[cost.rows])


def _numbers(dims: Sequence[Dimension], values: Sequence[int]) -> dict[Atom, int]:
    return {atom: value for dim, value in zip(dims, values, strict=True) if (atom := types.as_atom(dim)) is not None}

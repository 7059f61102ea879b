"""How the threads share a program, for the sizes of a call: whether there are several at all, and what each does.

All threads run the same main function over the same statements, and wait for each other after each statement. (Of
several nests of a step that need nothing of each other, they wait after the last.) Each computes a part of every nest.
Loops that stand side by side may have threads of their own, and a thread may compute its own rows of a batch through
all steps of a loop. No sum is divided among threads, so results do not depend on their number.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from scanjit import types
from scanjit.records import record
from scanjit.schedule.cost import rates
from scanjit.schedule.cost.statements import Price, costs, prices
from scanjit.schedule.nests import Beside, Blocks, OwnRows, Program
from scanjit.schedule.nests.statement import at
from scanjit.schedule.threads.teams import MOST_TEAMS, Assignment, Team, Way, assignment
from scanjit.schedule.threads.times import Work
from scanjit.schedule.threads.waves import WaveCosts, wave
from scanjit.types import Atom, Dimension, Numbers


@record
class StatementCosts:
    """The costs that decide how threads share a statement, for each of its `branches`. Only a `Beside` has several; its
    `apart`, `first`, `many` and `place` are dimensions whose values are decided here. It may be a `wave`."""

    branches: tuple[tuple[Price, ...], ...]
    apart: Dimension = 0
    first: tuple[Dimension, ...] = ()
    many: tuple[Dimension, ...] = ()
    place: tuple[Dimension, ...] = ()
    wave: WaveCosts | None = None

    @property
    def decided(self) -> tuple[Dimension, ...]:
        """The dimensions of a `Beside` that are decided here."""
        chosen = () if self.wave is None else (self.wave.chosen,)
        return (self.apart, *self.first, *self.many, *self.place, *chosen)


@record(eq=True)
class Sharing:
    """What was decided for some sizes and a number of threads.

    Attributes
    ----------
    threads : the number of threads.
    teams : maps the `apart` of each `Beside` to the teams that run its branches.
    rows_apart : for each loop whose rows never meet, by its `OwnRows`: whether each thread computes its own rows
        through all steps.
    several : whether the program is large enough for more than one thread.
    small : whether several threads would not pay even if they shared everything evenly.
    operations : how many operations the program has.
    numbers : the values of the dimensions that were decided.
    """

    threads: int
    teams: Mapping[Dimension, Assignment]
    rows_apart: Mapping[OwnRows, bool]
    several: bool
    small: bool
    operations: float
    numbers: Mapping[Atom, int]

    @property
    def other(self) -> bool | None:
        """Another value of `Way.beside` that calls may use; None if no loops can stand side by side."""
        return not any(assigned.teams for assigned in self.teams.values()) if self.teams else None


def statement_costs(program: Program) -> tuple[StatementCosts, ...]:
    """The costs of the statements of a program, in order."""
    return tuple(_costs_beside(s) if isinstance(s, Beside) else StatementCosts((prices([s]),)) for s in program.suite)


def _costs_beside(beside: Beside) -> StatementCosts:
    wave_costs = None
    if (made := beside.wave) is not None:
        loops = [branch for branch in beside.branches if isinstance(branch, Blocks)]
        alone = tuple(types.substitute(loop.size, at(made.chosen, 0)) for loop in loops)
        wave_costs = WaveCosts(made.delays, made.total, made.chosen, alone)
    priced = tuple(prices([branch]) for branch in beside.branches)
    return StatementCosts(priced, beside.apart, beside.first, beside.many, beside.place, wave_costs)


def decided(suite: Iterable[StatementCosts]) -> list[Dimension]:
    """The dimensions whose values `Sharing.numbers` has."""
    of_rows = [dim for priced in suite for rows in _rows(priced) for dim in (rows.apart, rows.copies)]
    return [dim for priced in suite for dim in priced.decided] + of_rows


def _rows(priced: StatementCosts) -> list[OwnRows]:
    return list(dict.fromkeys(price.rows for some in priced.branches for price in some if price.rows is not None))


def sharing(suite: Sequence[StatementCosts], number: Numbers, way: Way, near_bytes: int) -> Sharing:
    """How threads share a program in this way, on cores whose second-level cache has `near_bytes` bytes."""
    threads = way.threads
    works = [_works(priced, number, near_bytes) for priced in suite]
    teams: dict[Dimension, Assignment] = {}
    places: dict[Team, int] = {}
    for priced, own in zip(suite, works, strict=True):
        if priced.wave is not None:
            cut = partial(_works, priced, number, near_bytes)
            teams[priced.apart] = _with_places(wave(priced.wave, number, own, cut, way), places)
        elif priced.first:
            teams[priced.apart] = _with_places(assignment(own, way), places)
    found: dict[Atom, int] = {}
    branches: list[tuple[Work, Team | None]] = []
    time, several = 0.0, max(threads, 2)  # a program of which nothing is decided is asked once for any number
    for priced, own in zip(suite, works, strict=True):
        running = team_of_each(priced, teams)
        branches += zip(own, running, strict=True)
        time += sum(work.time(several) for work in own) if None in running else teams[priced.apart].apart
        if priced.wave is not None:
            found |= _numbers([priced.wave.chosen], [teams[priced.apart].turns.size])
        if priced.first:
            found |= _numbers([priced.apart], [int(None not in running)])
            found |= _numbers(priced.first, [0 if team is None else team.first for team in running])
            found |= _numbers(priced.many, [0 if team is None else team.many for team in running])
            found |= _numbers(priced.place, [0 if team is None else places.get(team, 0) for team in running])
    rows = rows_apart(branches, threads)
    for kept, apart in rows.items():
        copies = min(threads, number(kept.size)) if apart else 1
        found |= _numbers([kept.apart, kept.copies], [int(apart), copies])
    alone = sum(work.time(1) for work, _ in branches)
    operations = max(float(sum(work.operations for work, _ in branches)), 1.0)
    small = not _gains(alone, alone / several)
    return Sharing(threads, teams, rows, _gains(alone, time), small, operations, found)


def _works(priced: StatementCosts, number: Numbers, near_bytes: int, size: int | None = None) -> list[Work]:
    """The works of the branches of a statement. Those of a wave are in blocks of `size` steps, or in the blocks that
    each loop has alone."""
    if priced.wave is None:
        return [Work(costs(some, number), number, near_bytes) for some in priced.branches]
    sizes = [number(own) if size is None else size for own in priced.wave.alone]
    return priced.wave.works(priced.branches, number, near_bytes, sizes)


def _with_places(assigned: Assignment, places: dict[Team, int]) -> Assignment:
    """The assignment, whose teams now have meeting places, numbered from 1. A place belongs to one team: a thread may
    meet only there where it has counted all meetings. If there are not enough places for all teams, the assignment has
    none."""
    new = [team for team in dict.fromkeys(assigned.teams or ()) if team.many > 1 and team not in places]
    if len(places) + len(new) > MOST_TEAMS:
        return assigned._replace(teams=None)
    places.update({team: number for number, team in enumerate(new, len(places) + 1)})
    return assigned


def team_of_each(priced: StatementCosts, teams: Mapping[Dimension, Assignment]) -> Sequence[Team | None]:
    """The team that runs each branch of a statement, or None if all threads run it."""
    return (teams[priced.apart].teams if priced.first else None) or [None] * len(priced.branches)


def rows_apart(branches: Iterable[tuple[Work, Team | None]], threads: int) -> dict[OwnRows, bool]:
    """For each loop whose rows never meet, whether it is faster if each thread computes its own rows. Each branch has a
    team that runs it, or None if all threads run it."""
    found: dict[OwnRows, bool] = {}
    for work, team in branches:
        for rows in work.rows:
            if rows is not None:
                together, apart = work.times(rows, threads if team is None else team.many)
                found[rows] = apart < together
    return found


def _gains(alone: float, together: float) -> bool:
    """Whether several threads are worth waking for a program, for which one takes the time `alone`."""
    return alone >= rates.LEAST_GAIN * (rates.WAKING + together)


def _numbers(dims: Sequence[Dimension], values: Sequence[int]) -> dict[Atom, int]:
    return {atom: value for dim, value in zip(dims, values, strict=True) if (atom := types.as_atom(dim)) is not None}

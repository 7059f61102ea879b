"""Loops that stand side by side: which threads run which of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from scanjit.schedule.cost import rates
from scanjit.schedule.threads.times import Work

MOST_TEAMS = 8
"""A program has at most this many different teams of several threads. Each needs memory for its meeting place."""


class Way(NamedTuple):
    """How many threads a call uses, and whether loops that can stand side by side have threads of their own: all of
    them, none, or (None) those for which that should be faster."""

    threads: int
    beside: bool | None = None

    def chooses(self, faster: bool) -> bool:
        """Whether loops have threads of their own, if that is thought to be `faster` or not."""
        return self.threads > 1 and (faster if self.beside is None else self.beside)

    def on(self, threads: int) -> Way:
        """The way in which a call ran that got only so many threads."""
        return self._replace(threads=threads) if threads > 1 else ALONE


ALONE = Way(1)
"""One thread, which does everything."""


class Team(NamedTuple):
    """The threads that run one branch: `many` threads, from number `first` on."""

    first: int
    many: int


class Turns(NamedTuple):
    """How many blocks of time a wave has, and how many steps a block has. Both are 0 if its loops have no threads of
    their own."""

    many: int
    size: int


class Assignment(NamedTuple):
    """Who runs the branches of a `Beside`.

    `teams` has one team for each branch, or is None if all threads run one branch after the other. `apart` is about how
    long the teams take, `together` how long all threads would take, in operations of one thread. `turns` are those of a
    wave.
    """

    teams: list[Team] | None
    apart: float
    together: float
    turns: Turns = Turns(0, 0)


def assignment(works: Sequence[Work], way: Way) -> Assignment:
    """Who runs branches with these works: teams, or all threads together, as the way says, or whichever should be
    faster."""
    teams, apart = teams_for(works, way.threads)
    together = sum(work.time(way.threads) for work in works)
    return Assignment(teams if way.chooses(apart < together) else None, apart, together)


def teams_for(works: Sequence[Work], threads: int) -> tuple[list[Team], float]:
    """A team for each branch, and how long it takes until the last of them has finished and met the others.

    With at least as many branches as threads, each branch gets one thread: beginning with the longest branch, the
    thread that has least to do so far. Otherwise each branch begins with one thread, and the slowest branch gets one
    more until that does not help.
    """
    order = sorted(range(len(works)), key=lambda i: -works[i].time(1))
    teams = [Team(0, 1)] * len(works)
    if len(works) >= threads:
        busy = [0.0] * threads
        for i in order:
            least = busy.index(min(busy))
            busy[least] += works[i].time(1)
            teams[i] = Team(least, 1)
        return teams, max(busy) + rates.MEETING
    many = [1] * len(works)
    for _ in range(threads - len(works)):
        slowest = max(order, key=lambda i: works[i].time(many[i]))
        if works[slowest].time(many[slowest] + 1) >= works[slowest].time(many[slowest]):
            break
        many[slowest] += 1
    teams = [Team(sum(many[:i]), many[i]) for i in range(len(works))]
    return teams, max(work.time(n) for work, n in zip(works, many, strict=True)) + rates.MEETING

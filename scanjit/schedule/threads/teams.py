"""Loops that stand side by side: which threads run which of them."""

from collections.abc import Sequence
from typing import NamedTuple

from scanjit.schedule.cost import rates
from scanjit.schedule.threads.times import Work

MOST_TEAMS = 8
"""A program has at most so many different teams of several threads: each needs memory where these meet."""


class Team(NamedTuple):
    """The threads that run one branch: `many` of them, from number `first` on."""

    first: int
    many: int


class Assignment(NamedTuple):
    """Who runs the branches of a `Beside`.

    `teams` has one team a branch, or is None if all threads run one branch after the other. `apart` is about how long
    teams take, `together` how long all threads take, in operations of one thread.
    """

    teams: list[Team] | None
    apart: float
    together: float


def assignment(works: Sequence[Work], threads: int) -> Assignment:
    """Who runs branches of so much work, if there are so many threads: whatever is expected to take less time."""
    teams, apart = teams_for(works, threads)
    together = sum(work.time(threads) for work in works)
    return Assignment(teams if apart < together else None, apart, together)


def teams_for(works: Sequence[Work], threads: int) -> tuple[list[Team], float]:
    """A team for each branch; and how long the slowest takes, and the meeting at the end.

    The longest branch comes first. With at least as many branches as threads, each branch gets the one thread that has
    least to do so far. Else each branch has one thread, and the slowest branch gets one more until that does not help.
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

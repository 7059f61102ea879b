"""Waves: loops side by side of which one reads what another one makes, in turns (see `beside`).

With n blocks of time and loops that are at most d blocks behind the first, there are n + d turns. In the first and the
last d turns some loops have nothing to do, so many short blocks are better than few long ones. But threads meet after
each turn, and each block reads the weights of its products anew. A block that is alone in its turn is computed by all
threads, who share its steps.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from scanjit.records import record
from scanjit.schedule.cost import rates
from scanjit.schedule.cost.statements import Price, costs
from scanjit.schedule.threads.teams import Assignment, Team, Turns, Way, teams_for
from scanjit.schedule.threads.times import Work
from scanjit.types import Dimension, Numbers, atoms

SHORTEST = 4
"""A block has at least this many steps, if the loop has: the register tiles of products have several rows."""
GAIN = 0.95
"""A wave is chosen if it should take less than this part of the time that threads take together: these may keep rows
of their own, and then never wait."""
FINER = (1, 1.5, 2, 3, 4, 6, 8, 12, 16)
"""How many times as many blocks as necessary are considered."""


@record
class WaveCosts:
    """What decides how a wave runs. The prices of its loops are those of blocks of `chosen` steps. If a loop runs
    alone, its blocks have as many steps as `alone` says. The other fields are those of `Wave`."""

    delays: tuple[int, ...]
    total: Dimension
    chosen: Dimension
    alone: tuple[Dimension, ...]

    def works(
        self, branches: Sequence[Sequence[Price]], number: Numbers, near_bytes: int, sizes: Sequence[int]
    ) -> list[Work]:
        """The works of loops with these prices, each in blocks of another size."""
        (atom,) = atoms(self.chosen)
        numbers = {size: number.with_more({atom: size}) for size in sizes}
        pairs = zip(branches, (numbers[size] for size in sizes), strict=True)
        return [Work(costs(branch, inside), inside, near_bytes) for branch, inside in pairs]


class BlockTime(NamedTuple):
    """How long a block of a loop takes on the threads of its team, and on all threads, who share its steps."""

    apart: float
    together: float


def wave(
    priced: WaveCosts, number: Numbers, works: Sequence[Work], cut: Callable[[int], Sequence[Work]], way: Way
) -> Assignment:
    """Who runs the loops of a wave, and in which blocks. `works` are those of the loops, one after the other, each in
    the blocks that it has alone; `cut` gives those in blocks of a size."""
    threads = way.threads
    together = sum(work.time(threads) for work in works)
    total, longest = number(priced.total), min(map(number, priced.alone))
    if threads == 1 or total == 0:
        return Assignment(None, together, together)
    fewest = -(-total // longest)
    most = max(min(fewest * FINER[-1], total // SHORTEST), fewest)
    teams, _ = teams_for(works, threads)
    ends = [
        [(work.time(team.many), work.shared(threads)) for work, team in zip(some, teams, strict=True)]
        for some in (works, cut(-(-total // most)))
    ]

    def time(many: int) -> float:
        """How long all turns take. What the loops take grows with the number of blocks."""
        share = (many - fewest) / (most - fewest) if most > fewest else 0.0
        blocks = [
            BlockTime(*((one + (other - one) * share) / many for one, other in zip(*both, strict=True)))
            for both in zip(*ends, strict=True)
        ]
        return turns_time(blocks, priced.delays, teams, many)

    numbers = sorted({min(int(fewest * factor), most) for factor in FINER})
    best = min(numbers, key=time)
    size = -(-total // best)
    if not way.chooses(time(best) < GAIN * together):
        return Assignment(None, time(best), together)
    return Assignment(teams, time(best), together, Turns(-(-total // size), size))


def turns_time(blocks: Sequence[BlockTime], delays: Sequence[int], teams: Sequence[Team], many: int) -> float:
    """How long the turns of a wave take: in each, the busiest team, and a meeting."""
    latest = max(delays)

    def turn(number: int) -> float:
        running = [i for i, delay in enumerate(delays) if 0 <= number - delay < many]
        if len(running) == 1 and number in (0, many + latest - 1):
            return blocks[running[0]].together
        busy = dict.fromkeys((team.first for team in teams), 0.0)
        for i in running:
            busy[teams[i].first] += blocks[i].apart
        return max(busy.values())

    full = max(many - latest, 0)  # turns in which all loops have a block
    others = [*range(min(latest, many + latest)), *range(latest + full, many + latest)]
    return full * turn(latest) + sum(map(turn, others)) + (many + latest) * rates.MEETING

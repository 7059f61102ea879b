"""Threads: which loop of a nest they share, which of them run which loop, and whether a program is worth more than one.

All threads run the same main function over the same statements and meet after each (a barrier). Of a nest, each
computes a part of one loop of its space. Loops over time that stand side by side may be run by threads of their own,
which then meet only each other. Nothing is ever added up across threads, so results do not depend on their number.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from scanjit import types
from scanjit.schedule.nests import Beside, Nest, NestLoop, Program, Statement, Tile, TimeLoop
from scanjit.schedule.threads.cost import Cost, costs, operations
from scanjit.target import Target
from scanjit.types import Atom, Dimension

SMALLEST_NEST = 16384
"""A nest whose size is known, and that does less work than this, is computed by one thread."""
SMALLEST_PROGRAM = 8e6
"""A program that does less work (in operations) than this runs on one thread: waking the others costs more."""
SMALLEST_STRETCH = 1e5
"""What the threads do between two meetings must on average be this much work."""
PIECE = 4e6
"""About so many operations are done at a time of a nest: a millisecond or a few."""
FEW_PIECES = 24
"""Of so few pieces one more or less counts."""
MEETING = 3e4
"""What a meeting of threads costs, in operations."""
NEAR_BYTE, FAR_BYTE = 1.0, 1.25
"""Reading a byte takes as long as so many operations, where what is read fits the second-level cache, and where it does
not: a step of a batch of one reads weights rather than computing with them."""


def choose_split(nest: Nest, tile: Tile) -> tuple[NestLoop | None, int]:
    """The loop that threads share, and the number of its iterations that stay together."""
    if nest.sequential or not nest.space:
        return None, 1
    work = operations(nest, {})
    if work is not None and work < SMALLEST_NEST:
        return None, 1
    first, lane = nest.space[0], nest.space[-1]
    if tile.horizontal and tile.rows is not None:
        return tile.rows, tile.row_block
    if tile.horizontal:
        return first, tile.vectors if first is lane else 1
    width = tile.lanes * (1 if tile.singles else tile.vectors)
    if tile.rows is not None:  # by columns: each thread keeps its part of the right operands in its own cache
        wide = not isinstance(lane.size, int) or lane.size >= 4 * width
        return (lane, width) if wide else (tile.rows, tile.row_block)
    if first is not lane and first.size != 1:
        return first, 1
    return lane, width


def in_pieces(nest: Nest) -> bool:
    """Whether a nest that is in no loop is computed a piece at a time: one of which threads share the outermost loop,
    and that is not known to be small. (Products look themselves whether they are to end.)"""
    tile, work = nest.tile, operations(nest, {})
    outer = tile is not None and tile.split is not None and tile.rows is None and tile.own is None
    return outer and (work is None or work > PIECE)


def piece(nest: Nest, sizes: Mapping[Atom, int]) -> int:
    """How many turns of the loop that threads share are computed at a time: a thread that is to end does so then."""
    assert nest.tile is not None
    assert nest.tile.split is not None
    turns, unit = types.evaluate(nest.tile.split.size, sizes), nest.tile.unit
    return max(int(turns * PIECE / (operations(nest, sizes) or PIECE)) // unit, 1) * unit


def leaves_rest(tile: Tile) -> bool:
    """Whether the number of tiles of columns is odd and so small that one of two threads had much more to do. They then
    share the rows of the last one."""
    if tile.split is None or tile.rows is None or tile.rows is tile.split or tile.horizontal or tile.singles:
        return False
    size = tile.split.size
    pieces = -(-size // tile.unit) if isinstance(size, int) else 0
    return pieces % 2 == 1 and 1 < pieces <= FEW_PIECES


class Team(NamedTuple):
    """The threads of a branch: the number of the first, and how many they are."""

    first: int
    many: int


class Choice(NamedTuple):
    """What the threads do with loops side by side: the teams of the branches, or None where all threads run one after
    the other; and what either is expected to take, in operations of one thread."""

    teams: list[Team] | None
    apart: float
    together: float


def choice(beside: Beside, sizes: Mapping[Atom, int], threads: int, target: Target) -> Choice:
    """What so many threads do with loops side by side."""
    parts = [Part(costs([branch], sizes), sizes, target.level2_bytes) for branch in beside.branches]
    teams, apart = _teams(parts, threads)
    together = sum(_time(part, threads) for part in parts)
    return Choice(teams if apart < together else None, apart, together)


class Part(NamedTuple):
    """The costs of some statements, the sizes that they are for, and the bytes of a core's second-level cache."""

    costs: list[Cost]
    sizes: Mapping[Atom, int]
    near_bytes: int


def _teams(parts: Sequence[Part], threads: int) -> tuple[list[Team], float]:
    """Teams for branches, and the time of the slowest, and of the meeting of all. The longest branches come first: each
    gets the thread that has least to do; or, where there are more threads, the slowest one gets one more."""
    order = sorted(range(len(parts)), key=lambda i: -_time(parts[i], 1))
    teams = [Team(0, 1)] * len(parts)
    if len(parts) >= threads:
        busy = [0.0] * threads
        for i in order:
            least = busy.index(min(busy))
            busy[least] += _time(parts[i], 1)
            teams[i] = Team(least, 1)
        return teams, max(busy) + MEETING
    many = [1] * len(parts)
    for _ in range(threads - len(parts)):
        slowest = max(order, key=lambda i: _time(parts[i], many[i]))
        if _time(parts[slowest], many[slowest] + 1) >= _time(parts[slowest], many[slowest]):
            break
        many[slowest] += 1
    teams = [Team(sum(many[:i]), many[i]) for i in range(len(parts))]
    return teams, max(map(_time, parts, many)) + MEETING


def _time(part: Part, threads: int) -> float:
    """About how long threads take to run statements together."""
    loops = dict.fromkeys(cost.loop for cost in part.costs)
    return sum(min(_times(loop, part, threads)) for loop in loops)


def _times(loop: TimeLoop | None, part: Part, threads: int) -> tuple[float, float]:
    """About how long threads take for the steps of a loop (or for what is in none whose rows they may keep): where they
    share each nest, and meet after it; and where each keeps its rows."""
    found = [cost for cost in part.costs if cost.loop is loop]
    meeting = MEETING if threads > 1 else 0.0
    together = 0.0
    for cost in found:
        share = -(-cost.pieces // threads) / cost.pieces
        together += cost.runs * (_work(cost.operations * share, cost.nbytes * share, part.near_bytes) + meeting)
    if loop is None or loop.rows is None or threads == 1:
        return together, float("inf")
    size, unit = types.evaluate(loop.rows.size, part.sizes), loop.rows.unit
    pieces = -(-size // unit)
    share = min(1.0, -(-pieces // threads) * unit / max(size, 1))
    apart = meeting
    for cost in found:
        nbytes = cost.shared + (cost.nbytes - cost.shared) * share
        apart += cost.runs * _work(cost.operations * share, nbytes, part.near_bytes)
    return together, apart


def _work(operations: float, nbytes: float, near_bytes: int) -> float:
    """About how long a thread takes that reads `nbytes`, of which `near_bytes` fit its cache."""
    return max(operations, nbytes * (NEAR_BYTE if nbytes <= near_bytes else FAR_BYTE))


def keeping(
    program: Program, sizes: Mapping[Atom, int], choices: Mapping[Beside, Choice], threads: int
) -> dict[TimeLoop, bool]:
    """Of the loops whose rows threads may keep: whether they do."""
    many: dict[TimeLoop, int] = {}
    for beside, made in choices.items():
        for branch, team in zip(beside.branches, made.teams or (), strict=False):
            many |= dict.fromkeys((s for s in branch.every() if isinstance(s, TimeLoop)), team.many)
    part = Part(costs(program.body, sizes), sizes, program.target.level2_bytes)
    found: dict[TimeLoop, bool] = {}
    for loop in dict.fromkeys(cost.loop for cost in part.costs):
        if loop is not None:
            together, apart = _times(loop, part, many.get(loop, threads))
            found[loop] = apart < together
    return found


def chosen(beside: Beside, choice: Choice) -> dict[Atom, int]:
    """The numbers of a group that stands side by side."""
    teams = choice.teams or [Team(0, 0)] * len(beside.branches)
    dims = [beside.apart, *beside.first, *beside.many]
    return numbers(dims, [int(choice.teams is not None), *(t.first for t in teams), *(t.many for t in teams)])


def numbers(dims: Iterable[Dimension], values: Iterable[int]) -> dict[Atom, int]:
    """Values of dimensions that are decided for a call."""
    return {atom: value for dim, value in zip(dims, values, strict=True) if (atom := types.as_atom(dim)) is not None}


def team_of_each(statement: Statement, choices: Mapping[Beside, Choice]) -> list[tuple[Statement, Team | None]]:
    """The branches of a statement with the team that runs each; where all threads run it, itself and None."""
    teams = choices[statement].teams if isinstance(statement, Beside) else None
    return [(statement, None)] if teams is None else list(zip(statement.inner, teams, strict=True))


def worth(
    program: Program, sizes: Mapping[Atom, int], choices: Mapping[Beside, Choice], kept: Mapping[TimeLoop, bool]
) -> bool:
    """Whether a program is large enough for several threads, with these sizes."""
    work = meetings = 0.0
    for statement in program.body:
        parts = team_of_each(statement, choices)
        found = [costs([part], sizes) for part, _ in parts]
        work += sum(cost.runs * cost.operations for some in found for cost in some)
        apart = [team for _, team in parts if team is not None]
        shared = [some for some, (_, team) in zip(found, parts, strict=True) if team is None or team.many > 1]
        meetings += max((_runs(some, kept) for some in shared), default=0) + bool(apart)
    return work >= SMALLEST_PROGRAM and work >= SMALLEST_STRETCH * meetings


def _runs(part: Sequence[Cost], kept: Mapping[TimeLoop, bool]) -> int:
    """How often threads meet in statements; the ends of loops whose rows they keep are not counted."""
    return sum(cost.runs for cost in part if cost.loop is None or not kept[cost.loop])

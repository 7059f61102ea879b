"""Where temporaries lie in the workspace: lifetimes now, addresses once the sizes are known."""

from __future__ import annotations

import bisect
import heapq
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from scanjit import types
from scanjit.errors import InternalError
from scanjit.schedule.nests import Beside, Buffer, Program, Statement
from scanjit.types import Atom

ALIGNMENT = 64


@dataclass(frozen=True)
class Lifetime:
    """A temporary, and the first and last moment at which it is used; and by which branches of what stands side by
    side: moments of one branch are neither before nor after those of another."""

    buffer: Buffer
    first: int
    last: int
    branches: Mapping[Beside, frozenset[int]] = field(default_factory=dict)

    def meets(self, other: Lifetime) -> bool:
        """Whether both may be in use at one time."""
        if self.first <= other.last and other.first <= self.last:
            return True
        both = ((own, other.branches[beside]) for beside, own in self.branches.items() if beside in other.branches)
        return any(len(own | others) > 1 for own, others in both)


def lifetimes(program: Program) -> list[Lifetime]:
    """The lifetimes of all temporaries. What a loop uses and something outside it too lives through the whole loop."""
    first: dict[Buffer, int] = {}
    last: dict[Buffer, int] = {}
    branches: dict[Buffer, dict[Beside, frozenset[int]]] = {}
    places: list[tuple[Beside, int]] = []
    moment = 0

    def touch(buffer: Buffer, begin: int, end: int) -> None:
        if buffer.kind == "temporary":
            first[buffer] = min(first.get(buffer, begin), begin)
            last[buffer] = max(last.get(buffer, end), end)
            known = branches.setdefault(buffer, {})
            for beside, branch in places:
                known[beside] = known.get(beside, frozenset()) | {branch}

    def visit(body: Sequence[Statement]) -> None:
        nonlocal moment
        for statement in body:
            begin = moment
            known = set(first)
            for buffer, _, _ in statement.refs():
                touch(buffer, moment, moment)
            for branch, inside in enumerate(statement.bodies):
                apart = [(statement, branch)] if isinstance(statement, Beside) else []
                places.extend(apart)
                visit(inside)
                del places[len(places) - len(apart) :]
            if statement.repeats:
                through = {b for b in first if b in known and last[b] >= begin} | statement.lasting
                for buffer in through:
                    touch(buffer, begin, moment)
                loops.append((begin, moment))
            moment += 1

    loops: list[tuple[int, int]] = []
    visit(program.body)
    for begin, end in loops:  # used inside a loop, and again after it: it must survive the other steps
        for buffer in first:
            if begin <= first[buffer] <= end < last[buffer]:
                first[buffer] = begin
    return [Lifetime(buffer, first[buffer], last[buffer], branches[buffer]) for buffer in first]


def assign(lives: Sequence[Lifetime], sizes: Mapping[Atom, int]) -> tuple[list[int], int]:
    """Offsets of the temporaries in the workspace, and its size: first fit among those that live at the same time."""
    offsets = [0] * len(lives)
    free = _Free()
    ends: list[tuple[int, int, tuple[int, int]]] = []
    beside: list[tuple[int, int, Lifetime]] = []
    for i in sorted(range(len(lives)), key=lambda i: lives[i].first):
        life = lives[i]
        nbytes = -(-max(types.evaluate(life.buffer.nbytes, sizes), 1) // ALIGNMENT) * ALIGNMENT
        while ends and ends[0][0] < life.first:
            free.give(*heapq.heappop(ends)[2])
        taken = sorted((start, end) for start, end, other in beside if life.branches and life.meets(other))
        offsets[i] = free.take(nbytes, taken)
        place = offsets[i], offsets[i] + nbytes
        heapq.heappush(ends, (life.last, i, place))
        if life.branches:
            beside.append((*place, life))
    return offsets, free.total


class _Free:
    """The parts of the workspace that nobody uses at a moment, in order; those beside each other are one."""

    def __init__(self) -> None:
        self.gaps: list[tuple[int, float]] = [(0, math.inf)]
        self.total = 0

    def take(self, nbytes: int, taken: Sequence[tuple[int, int]]) -> int:
        """Where the first so many bytes are that meet none of the places `taken`."""
        for i, (start, end) in enumerate(self.gaps):
            at = start
            for low, high in taken:
                if low < at + nbytes and at < high:
                    at = high
            if at + nbytes <= end:
                rest = [(start, at), (at + nbytes, end)]
                self.gaps[i : i + 1] = [(low, high) for low, high in rest if low < high]
                self.total = max(self.total, at + nbytes)
                return at
        raise InternalError("a workspace without end is full")

    def give(self, start: int, end: float) -> None:
        """Free a place."""
        i = bisect.bisect(self.gaps, (start, end))
        if i < len(self.gaps) and self.gaps[i][0] == end:
            end = self.gaps.pop(i)[1]
        if i and self.gaps[i - 1][1] == start:
            i, start = i - 1, self.gaps.pop(i - 1)[0]
        self.gaps.insert(i, (start, end))

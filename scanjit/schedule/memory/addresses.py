"""Where each temporary lies in the workspace, once the sizes are known."""

import bisect
import heapq
import math
from collections.abc import Callable, Sequence

from scanjit.errors import InternalError
from scanjit.schedule.nests import Lifetime
from scanjit.types import Dimension

ALIGNMENT = 64
"""Every temporary begins at a multiple of this many bytes."""


def assign(lives: Sequence[Lifetime], number: Callable[[Dimension], int]) -> tuple[list[int], int]:
    """The offset of each temporary in the workspace, and the size of the workspace. Each temporary gets the first gap
    that is large enough and that no other temporary uses at the same time. The numbers say which loops side by side
    have threads of their own: others run one after the other."""
    apart = {beside for life in lives for beside in life.branches if number(beside)}
    offsets = [0] * len(lives)
    free = _Free()
    ends: list[tuple[int, int, tuple[int, int]]] = []
    beside: dict[Dimension, list[tuple[int, int, frozenset[int]]]] = {each: [] for each in apart}
    for i in sorted(range(len(lives)), key=lambda i: lives[i].first):
        life = lives[i]
        nbytes = -(-max(number(life.nbytes), 1) // ALIGNMENT) * ALIGNMENT
        while ends and ends[0][0] < life.first:
            free.give(*heapq.heappop(ends)[2])
        own = [(branches, beside[each]) for each, branches in life.branches.items() if each in apart]
        taken = sorted((start, end) for mine, places in own for start, end, others in places if len(mine | others) > 1)
        offsets[i] = free.take(nbytes, taken)
        place = offsets[i], offsets[i] + nbytes
        heapq.heappush(ends, (life.last, i, place))
        for branches, places in own:
            places.append((*place, branches))
    return offsets, free.total


class _Free:
    """The gaps of the workspace at a moment, in order. Two gaps that touch are one; the last gap has no end."""

    def __init__(self) -> None:
        self.gaps: list[tuple[int, float]] = [(0, math.inf)]
        self.total = 0

    def take(self, nbytes: int, taken: Sequence[tuple[int, int]]) -> int:
        """Take `nbytes` bytes from the first gap in which they overlap no place in `taken`. Returns where they
        begin."""
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
        """Free the bytes from `start` to `end`."""
        i = bisect.bisect(self.gaps, (start, end))
        if i < len(self.gaps) and self.gaps[i][0] == end:
            end = self.gaps.pop(i)[1]
        if i and self.gaps[i - 1][1] == start:
            i, start = i - 1, self.gaps.pop(i - 1)[0]
        self.gaps.insert(i, (start, end))

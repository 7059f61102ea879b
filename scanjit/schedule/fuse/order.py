"""Which loops over time are independent, and which nests would make one wait for the other.

Two loops are independent if neither needs the other, as the two directions of a layer. They can run side by side, as
long as no nest stands between them. An example: `a` and `b` are independent, `p` is computed from the results of `a`,
and `q` is needed by `b`. One nest of `p` and `q` would stand behind `a` and in front of `b`: `b` would wait for `a`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TypeGuard

from scanjit.schedule.lower.region import Compound, Item, Task
from scanjit.types import Dimension

Loops = frozenset[Compound]


@dataclass(frozen=True)
class Order:
    """Which loops over time each item needs, and which need it; directly or through others, and itself included.

    A scan that is one nest does not count as a loop: threads do not meet at each of its steps. Nor does an ifelse.
    """

    needs: dict[Item, Loops]
    feeds: dict[Item, Loops]

    @classmethod
    def of(cls, items: Sequence[Item]) -> Order:
        """The order of items, each of which comes after those that it needs."""
        own = {item: frozenset([item] if _is_loop(item) else []) for item in items}
        needs: dict[Item, Loops] = {}
        for item in items:
            needs[item] = own[item].union(*(needs[need] for need in item.needs))
        feeds = dict(own)
        for item in reversed(items):
            for need in item.needs:
                feeds[need] |= feeds[item]
        return cls(needs, feeds)

    def blocks(self, members: Sequence[Item], item: Item) -> bool:
        """Whether a nest of these members and an item makes a loop wait for another one that it does not need."""
        needed, fed = self._all(self.needs, members), self._all(self.feeds, members)
        return self._apart(needed, self.feeds[item]) or self._apart(self.needs[item], fed)

    def ties(self, members: Sequence[Item], item: Item) -> bool:
        """Whether an item needs a loop that is independent of a loop which these members need."""
        before = self._all(self.needs, members)
        return self._apart(before, self.needs[item] - before)

    def parts(self, members: Sequence[Item], item: Item) -> bool:
        """Whether an item and these members compute rows for different loops, and one of these has checkpoints.

        Rows that only this loop reads need memory for one stretch of steps. In a nest with other rows they would need
        it for all steps.
        """
        fed, others = self.feeds[item], self._all(self.feeds, members)
        alone = (fed - others, others - fed)
        return all(alone) and any(_has_checkpoints(loop) and _has_rows(loop, item) for loops in alone for loop in loops)

    def sums_apart(self, members: Sequence[Item], item: Item, sizes: Collection[Dimension]) -> bool:
        """Whether an item sums over time, and needs other loops than these members, with as many steps as its sum has
        terms. `sizes` are the sizes of its sums. A sum is computed along with the steps of the last loop that it needs:
        two sums that need different loops go different ways."""
        others = self._all(self.needs, members) ^ self.needs[item]
        return any(loop.plan.length in sizes for loop in others)

    def _all(self, of: dict[Item, Loops], members: Sequence[Item]) -> Loops:
        return Loops().union(*(of[member] for member in members))

    def _apart(self, some: Loops, others: Loops) -> bool:
        return any(a not in self.needs[b] and b not in self.needs[a] for a in some for b in others)


def _is_loop(item: Item) -> TypeGuard[Compound]:
    return isinstance(item, Compound) and item.scan is not None and item.nest is None


def _has_rows(loop: Compound, item: Item) -> bool:
    return isinstance(item, Task) and bool(item.space) and item.space[0].size == loop.plan.length


def _has_checkpoints(loop: Compound) -> bool:
    return loop.plan.node.params["checkpoint"] not in (None, "all")

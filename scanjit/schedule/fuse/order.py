"""Loops that do not depend on each other, and what would tie them together.

Two loops of which neither needs the other can run side by side. What one of them needs must then not be done together
with what is made of the other's results. And what is made of both has to wait for both: done in one nest with a
product over what one of them made, or block by block along with that one, it would make it wait for the other.
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
    """The loops over time that each item needs, and those that need it, directly or not, itself included. A scan that
    is a nest with time does not count: threads do not meet at each of its steps. Nor does an ifelse."""

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
        """Whether an item that is done together with these members makes a loop wait for one that it does not need."""
        needed, fed = self._all(self.needs, members), self._all(self.feeds, members)
        return self._apart(needed, self.feeds[item]) or self._apart(self.needs[item], fed)

    def ties(self, members: Sequence[Item], item: Item) -> bool:
        """Whether an item needs a loop that does not depend on one which these members need, nor that on it."""
        before = self._all(self.needs, members)
        return self._apart(before, self.needs[item] - before)

    def parts(self, members: Sequence[Item], item: Item) -> bool:
        """Whether an item and these members make rows for different loops, of which some keep checkpoints: rows that
        one loop alone reads need no memory for all of time."""
        fed, others = self.feeds[item], self._all(self.feeds, members)
        alone = (fed - others, others - fed)
        return all(alone) and any(_keeps(loop) and _has_rows(loop, item) for loops in alone for loop in loops)

    def sums_apart(self, members: Sequence[Item], item: Item, sizes: Collection[Dimension]) -> bool:
        """Whether an item that sums over loops of these sizes needs other loops over as many steps than these members:
        each of their sums can be made with the steps of the last loop that it needs, but not both with those of one."""
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


def _keeps(loop: Compound) -> bool:
    return loop.plan.node.params["checkpoint"] not in (None, "all")

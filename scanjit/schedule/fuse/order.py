"""Which loops over time are independent, and what would make one wait for the other.

Two loops are independent if neither needs the other, as the two directions of a layer. They can run side by side, as
long as no nest stands between them. An example: `a` and `b` are independent, `p` is computed from the results of `a`,
and `q` is needed by `b`. One nest of `p` and `q` would stand behind `a` and in front of `b`: `b` would wait for `a`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)
"""What is ordered: items of a region, or statements."""


@dataclass(frozen=True)
class Order(Generic[T]):
    """Which loops over time each thing needs, and which need it; directly or through others, and itself included."""

    needs: Mapping[T, frozenset[T]]
    feeds: Mapping[T, frozenset[T]]

    @classmethod
    def of(cls, needs: Mapping[T, Iterable[T]], is_loop: Callable[[T], bool]) -> Order[T]:
        """The order of things, each of which comes after those that it needs."""
        own = {thing: frozenset([thing] if is_loop(thing) else []) for thing in needs}
        needed: dict[T, frozenset[T]] = {}
        for thing, before in needs.items():
            needed[thing] = own[thing].union(*(needed[need] for need in before))
        feeds = dict(own)
        for thing in reversed(own):
            for need in needs[thing]:
                feeds[need] |= feeds[thing]
        return cls(needed, feeds)

    def blocks(self, members: Iterable[T], thing: T) -> bool:
        """Whether one nest of these members and a thing makes a loop wait for another one that it does not need."""
        needed, fed = self.needed_by(members), self.fed_by(members)
        return self._apart(needed, self.feeds[thing]) or self._apart(self.needs[thing], fed)

    def ties(self, members: Iterable[T], thing: T) -> bool:
        """Whether a thing needs a loop that is independent of a loop which these members need."""
        before = self.needed_by(members)
        return self._apart(before, self.needs[thing] - before)

    def needed_by(self, members: Iterable[T]) -> frozenset[T]:
        """The loops that some of these need."""
        return frozenset[T]().union(*(self.needs[member] for member in members))

    def fed_by(self, members: Iterable[T]) -> frozenset[T]:
        """The loops that need some of these."""
        return frozenset[T]().union(*(self.feeds[member] for member in members))

    def _apart(self, some: frozenset[T], others: frozenset[T]) -> bool:
        return any(a not in self.needs[b] and b not in self.needs[a] for a in some for b in others)

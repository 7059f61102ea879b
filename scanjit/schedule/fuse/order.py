"""Which loops over time are independent, and which changes would make one wait for another.

Two loops are independent if neither needs the other, as with the two directions of a layer. They can run side by side,
as long as no nest stands between them. An example: `a` and `b` are independent, `p` is computed from the results of
`a`, and `q` is needed by `b`. One nest of `p` and `q` would stand behind `a` and in front of `b`: `b` would wait for
`a`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Generic, TypeVar

from scanjit.records import record

T = TypeVar("T", bound=Hashable)
"""The type of the things to order: items of a region, or statements."""


@record(eq=True)
class Around(Generic[T]):
    """The loops over time that something `needs`, and those that need it (`feeds`), directly or through others. A loop
    counts among its own."""

    needs: frozenset[T] = frozenset()
    feeds: frozenset[T] = frozenset()

    def __or__(self, other: Around[T]) -> Around[T]:
        return Around(self.needs | other.needs, self.feeds | other.feeds)


@record(eq=True)
class LoopOrder(Generic[T]):
    """The loops `around` each thing, and for each loop those `beside` it: the loops that are independent of it."""

    around: Mapping[T, Around[T]]
    beside: Mapping[T, frozenset[T]]

    @classmethod
    def of(cls, needs: Mapping[T, Iterable[T]], is_loop: Callable[[T], bool]) -> LoopOrder[T]:
        """The order of things. `needs` lists each thing behind those that it needs."""
        own = {thing: frozenset([thing] if is_loop(thing) else []) for thing in needs}
        needed: dict[T, frozenset[T]] = {}
        for thing, before in needs.items():
            needed[thing] = own[thing].union(*(needed[need] for need in before))
        feeds = dict(own)
        for thing in reversed(own):
            for need in needs[thing]:
                feeds[need] |= feeds[thing]
        loops = frozenset[T]().union(*own.values())
        around = {thing: Around(needed[thing], feeds[thing]) for thing in needs}
        return cls(around, {loop: loops - needed[loop] - feeds[loop] for loop in loops})

    def blocks(self, some: Around[T], other: Around[T]) -> bool:
        """Whether one nest of two things would make a loop wait for another loop that it does not need."""
        return self._are_beside(some.needs, other.feeds) or self._are_beside(other.needs, some.feeds)

    def ties(self, some: Around[T], other: Around[T]) -> bool:
        """Whether one thing needs a loop, and the other needs a loop that is independent of it and that the first does
        not need."""
        return self._are_beside(some.needs, other.needs - some.needs)

    def _are_beside(self, some: frozenset[T], others: frozenset[T]) -> bool:
        return bool(others) and any(not self.beside[loop].isdisjoint(others) for loop in some)

"""Loops that do not depend on each other, and work that would tie them together.

Two loops of which neither needs the other can run side by side. What is made of the results of both must then wait for
both: done in one nest with what only one of them needs, or block by block along with one of them, it would make that
one wait for the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from scanjit.schedule.region import Block, Item

Needed = Mapping[Item, frozenset[Block]]


def needed_loops(items: Sequence[Item]) -> Needed:
    """The loops over time that each item needs, directly or not, itself included. A scan that is a nest with time
    inside is none: its threads do not meet at every step."""
    found: dict[Item, frozenset[Block]] = {}
    for item in items:
        own = frozenset([item] if isinstance(item, Block) and item.nest is None else [])
        found[item] = own.union(*(found[need] for need in item.needs))
    return found


def ties(needed: Needed, members: Iterable[Item], item: Item) -> bool:
    """Whether an item needs a loop that does not depend on one which these members need, nor that on it."""
    before = frozenset().union(*(needed[member] for member in members))
    more = needed[item] - before
    return any(a not in needed[b] and b not in needed[a] for a in before for b in more)

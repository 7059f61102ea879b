"""Ranges of integers, between two ends, each of which may depend on the unknown size of an axis."""

from __future__ import annotations

from collections.abc import Iterable
from typing import final

LONGEST_ROW = 1 << 60
"""A row of unknown size has fewer elements than this."""


@final
class BySize:
    """A number that depends on the unknown size of an axis, linearly: what it is for a size of 1, and of LONGEST_ROW.

    A comparison is true if it holds for both, and so for all sizes between them.
    """

    __slots__ = ("few", "many")

    def __init__(self, few: int, many: int) -> None:
        self.few, self.many = few, many

    def __add__(self, other: End) -> BySize:
        return BySize(self.few + _few(other), self.many + _many(other))

    __radd__ = __add__

    def __neg__(self) -> BySize:
        return BySize(-self.few, -self.many)

    def __sub__(self, other: End) -> BySize:
        return self + -other

    def __rsub__(self, other: End) -> BySize:
        return -self + other

    def __eq__(self, other: object) -> bool:
        return isinstance(other, int | BySize) and (self.few, self.many) == (_few(other), _many(other))

    __hash__ = None  # type: ignore[assignment]

    def __le__(self, other: End) -> bool:
        return self.few <= _few(other) and self.many <= _many(other)

    def __lt__(self, other: End) -> bool:
        return self.few < _few(other) and self.many < _many(other)

    def __ge__(self, other: End) -> bool:
        return self.few >= _few(other) and self.many >= _many(other)

    def __gt__(self, other: End) -> bool:
        return self.few > _few(other) and self.many > _many(other)


End = int | BySize
Range = tuple[End, End]
"""The smallest and the largest number."""


def _few(end: End) -> int:
    return end.few if isinstance(end, BySize) else end


def _many(end: End) -> int:
    return end.many if isinstance(end, BySize) else end


def below(*ends: End) -> End:
    """An end that is at most as large as each of these, whatever the size is."""
    few, many = min(map(_few, ends)), min(map(_many, ends))
    return few if few == many else BySize(few, many)


def above(*ends: End) -> End:
    """An end that is at least as large as each of these, whatever the size is."""
    return -below(*(-end for end in ends))


def lesser(*ends: End) -> End:
    """One of some ends: that which is less for small sizes, as an upper bound that is needed there."""
    return min(ends, key=lambda end: (_few(end), _many(end)))


def greater(*ends: End) -> End:
    """One of some ends: that which is greater for small sizes."""
    return max(ends, key=lambda end: (_few(end), _many(end)))


def joined(found: Iterable[Range | None]) -> Range | None:
    """The range that holds all these."""
    lows, highs = [], []
    for each in found:
        if each is None:
            return None
        lows.append(each[0])
        highs.append(each[1])
    return (below(*lows), above(*highs)) if lows else None

"""The loops of a nest."""

from __future__ import annotations

from collections.abc import Sequence

from scanjit import types
from scanjit.types import Dimension


class NestLoop:
    """One dimension of a nest: a counter from 0 to `size`. Compared by identity.

    It may count several other loops as one, its `parts`, the last of them fastest (see `joined`).
    """

    __slots__ = ("parts", "size")

    def __init__(self, size: Dimension, parts: Sequence[NestLoop] = ()) -> None:
        self.size, self.parts = size, tuple(parts)

    def __repr__(self) -> str:
        return f"loop({self.size})"


def joined(parts: Sequence[NestLoop]) -> NestLoop:
    """Loops that are counted as one: of sizes 3 and 4, a loop of size 12, in which 7 is 1 of the first and 3 of the
    second."""
    return NestLoop(types.product(loop.size for loop in parts), parts)

"""The loops of a nest."""

from __future__ import annotations

from collections.abc import Sequence

from scanjit import types
from scanjit.types import Dimension


class NestLoop:
    """One dimension of a nest: a counter from 0 to `size`. Loops are compared by identity.

    A joined loop counts several loops, its `parts`, as one; the last part counts fastest (see `joined`).
    """

    __slots__ = ("parts", "size")

    def __init__(self, size: Dimension, parts: Sequence[NestLoop] = ()) -> None:
        self.size, self.parts = size, tuple(parts)

    def __repr__(self) -> str:
        return f"loop({self.size})"


def joined(parts: Sequence[NestLoop]) -> NestLoop:
    """One loop that counts several. Loops of sizes 3 and 4 become a loop of size 12, in which 7 means 1 in the first
    and 3 in the second."""
    return NestLoop(types.product(loop.size for loop in parts), parts)

"""The loops of a nest."""

from __future__ import annotations

from collections.abc import Sequence

from scanjit import types
from scanjit.types import Dimension


class NestLoop:
    """One dimension of a nest: a counter from 0 to `size`. Compared by identity."""

    __slots__ = ("size",)

    def __init__(self, size: Dimension) -> None:
        self.size = size

    def __repr__(self) -> str:
        return f"loop({self.size})"


class JoinedLoop(NestLoop):
    """Loops that are counted as one, the last of them fastest."""

    __slots__ = ("parts",)

    def __init__(self, parts: Sequence[NestLoop]) -> None:
        super().__init__(types.product(loop.size for loop in parts))
        self.parts = tuple(parts)

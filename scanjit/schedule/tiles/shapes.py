"""The shapes of register tiles."""

from __future__ import annotations

from scanjit.schedule.nests import NestLoop
from scanjit.target import Shape, Target

MOST = {32: 24, 16: 12}
"""How many registers of so many may hold sums; operands need the others."""
USUAL = (4, 8, 16, 32, 64)
"""Numbers of rows that stand for all, where theirs is not known."""


def shape(products: int, rows: NestLoop | None, target: Target) -> Shape:
    """The (rows, vectors) of a register tile for so many products over some rows: the fastest one. A tile of 4 rows is
    slower than one of 5 where there are 5 rows, as its second tile is almost empty."""
    if not products:
        return 1, 1
    if rows is None:
        return 1, max(1, 4 // products)
    speeds = target.tiles.get(products, {(1, 1): 1.0})
    sizes = (max(rows.size, 1),) if isinstance(rows.size, int) else USUAL

    def speed(shape: Shape) -> float:
        return speeds[shape] * sum(size / (-(-size // shape[0]) * shape[0]) for size in sizes)

    block, vectors = max(speeds, key=speed)
    return min(block, max(sizes)), vectors

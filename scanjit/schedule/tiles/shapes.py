"""The shapes of register tiles."""

from __future__ import annotations

from collections.abc import Sequence

from scanjit.schedule.nests import NestLoop
from scanjit.target import Shape, Target

MOST = {32: 24, 16: 12}
"""How many registers of so many may hold sums; operands need the others."""
USUAL = (4, 8, 16, 32, 64)
"""Numbers of rows that stand for all, where theirs is not known."""
USUAL_COLUMNS = (8, 16, 32, 64, 128)
"""The same for columns."""


def shape(
    products: int, rows: NestLoop | None, target: Target, columns: NestLoop | None = None, lanes: int = 1
) -> Shape:
    """The (rows, vectors) of a register tile for so many products over some rows: the fastest one. A tile of 4 rows is
    slower than one of 5 where there are 5 rows, as its second tile is almost empty. Where the number of columns is not
    known, a tile of 8 rows and 2 vectors is faster than one of 4 and 4, as rows may be short."""
    if not products:
        return 1, 1
    if rows is None:
        return 1, max(1, 4 // products)
    speeds = target.tiles.get(products, {(1, 1): 1.0})
    sizes = (max(rows.size, 1),) if isinstance(rows.size, int) else USUAL
    widths = () if columns is None else (max(columns.size, 1),) if isinstance(columns.size, int) else USUAL_COLUMNS

    def speed(shape: Shape) -> float:
        return speeds[shape] * _filled(sizes, shape[0]) * _filled(widths, lanes * shape[1])

    block, vectors = max(speeds, key=speed)
    return min(block, max(sizes)), vectors


def _filled(sizes: Sequence[int], block: int) -> float:
    """The part of blocks that is used, the mean for these sizes."""
    return sum(size / (-(-size // block) * block) for size in sizes) / len(sizes) if sizes else 1.0

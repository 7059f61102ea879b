"""Which loop of a nest the threads share, and how much of it is computed at a time."""

from __future__ import annotations

from collections.abc import Mapping

from scanjit import types
from scanjit.schedule.cost import rates
from scanjit.schedule.cost.statements import operations
from scanjit.schedule.nests import Nest, NestLoop, Tile
from scanjit.types import Atom

WIDE = 4
"""A row has enough tiles of columns for threads to share them from so many on."""
FEW_PIECES = 24
"""From so many pieces on, it does not matter that one thread computes one more than another."""


def split_of(nest: Nest, tile: Tile) -> tuple[NestLoop | None, int]:
    """The loop that threads share (None: one thread computes the nest), and how many of its iterations stay together.

    Threads share the columns of a product, not its rows: each thread then keeps its part of the right operand in its
    own cache. They share the rows where there are few columns.
    """
    if nest.sequential or not nest.space:
        return None, 1
    work = operations(nest, {})
    if work is not None and work < rates.SMALLEST_NEST:
        return None, 1
    first, lane = nest.space[0], nest.space[-1]
    if tile.horizontal and tile.rows is not None:
        return tile.rows, tile.row_block
    if tile.horizontal:
        return first, tile.vectors if first is lane else 1
    width = tile.lanes * (1 if tile.singles else tile.vectors)
    if tile.rows is not None:
        wide = not isinstance(lane.size, int) or lane.size >= WIDE * width
        return (lane, width) if wide else (tile.rows, tile.row_block)
    if first is not lane and first.size != 1:
        return first, 1
    return lane, width


def leaves_rest(tile: Tile) -> bool:
    """Whether the threads share the rows of the last tile of columns.

    Of 3 tiles, one of two threads would compute 2 and the other 1; so each computes 1, and half the rows of the third.
    Of 25 tiles, one more does not matter.
    """
    if tile.split is None or tile.rows is None or tile.rows is tile.split or tile.horizontal or tile.singles:
        return False
    size = tile.split.size
    pieces = -(-size // tile.unit) if isinstance(size, int) else 0
    return pieces % 2 == 1 and 1 < pieces <= FEW_PIECES


def in_pieces(nest: Nest) -> bool:
    """Whether a nest outside of all loops is computed a piece at a time, so that a thread can end between two of them:
    its threads share the outermost loop, and it is not known to be small. (Products look by themselves.)"""
    tile, work = nest.tile, operations(nest, {})
    outer = tile is not None and tile.split is not None and tile.rows is None and tile.own is None
    return outer and (work is None or work > rates.PIECE)


def piece(nest: Nest, sizes: Mapping[Atom, int]) -> int:
    """How many iterations of the shared loop are one piece: at least those of a strip."""
    assert nest.tile is not None
    split, unit, strips = nest.tile.split, nest.tile.unit, nest.tile.strips
    assert split is not None
    strip = types.evaluate(strips[nest.space.index(split)], sizes) if strips else 1
    turns = types.evaluate(split.size, sizes) * rates.PIECE / (operations(nest, sizes) or rates.PIECE)
    return max(int(turns) // unit, -(-strip // unit), 1) * unit

"""Which loop of a nest the threads share, and how much of it is computed at a time."""

from __future__ import annotations

from typing import NamedTuple

from scanjit.schedule.cost import rates
from scanjit.schedule.nests import Nest, NestLoop, Tile
from scanjit.schedule.tiles.products import reductions_of
from scanjit.types import Dimension, Numbers

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
    if isinstance(nest.operations, int) and nest.operations < rates.SMALLEST_NEST:
        return None, 1
    first, lane = nest.space[0], nest.space[-1]
    if tile.horizontal and tile.rows is not None:
        return tile.rows, tile.row_block
    if tile.horizontal:
        return first, tile.vectors if first is lane else 1
    alone = tile.singles or tile.strips or (nest.time is None and not reductions_of(nest))
    width = tile.lanes * (1 if alone else tile.vectors)
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
    tile = nest.tile
    outer = tile is not None and tile.split is not None and tile.rows is None and tile.own is None
    return outer and not (isinstance(nest.operations, int) and nest.operations <= rates.PIECE)


class Piece(NamedTuple):
    """How a nest is computed a piece at a time: `turns` is the dimension that says how many iterations of the shared
    loop are one piece. That loop has `size` iterations, of which `unit` stay together, and `strip` of a strip; the nest
    has so many `operations`."""

    turns: Dimension
    size: Dimension
    unit: int
    strip: Dimension
    operations: Dimension

    @classmethod
    def of(cls, nest: Nest, turns: Dimension) -> Piece:
        """The pieces of a nest."""
        assert nest.tile is not None
        split, strips = nest.tile.split, nest.tile.strips
        assert split is not None
        strip = strips[nest.space.index(split)] if strips else 1
        return cls(turns, split.size, nest.tile.unit, strip, nest.operations)

    def value(self, number: Numbers) -> int:
        """How many iterations are one piece: at least those of a strip."""
        turns = number(self.size) * rates.PIECE / (number(self.operations) or rates.PIECE)
        return max(int(turns) // self.unit, -(-number(self.strip) // self.unit), 1) * self.unit

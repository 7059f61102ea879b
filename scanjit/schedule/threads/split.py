"""Which loop of a nest the threads share, and how much of it is computed at a time; which nests are computed a piece at
a time, and which get a second variant for calls with one row."""

from __future__ import annotations

from typing import NamedTuple

from scanjit.kinds import kind_of
from scanjit.records import replace
from scanjit.schedule.cost import rates
from scanjit.schedule.nests import Nest, NestLoop, Program, Tile, TimeLoop, every_in, nests_of
from scanjit.schedule.tiles import shapes
from scanjit.schedule.tiles.products import reductions_of
from scanjit.target import Target
from scanjit.types import Dimension, Numbers

WIDE = 4
"""If a row has at least this many tiles of columns, threads share the columns."""
FEW_PIECES = 24
"""If there are more pieces than this, it does not matter that one thread computes one piece more than another."""


def with_split(nest: Nest, tile: Tile) -> Tile:
    """The tile of a nest, with what threads share of it."""
    split, unit = _split_of(nest, tile)
    tile = replace(tile, split=split, unit=unit)
    return replace(tile, own=tile.rows, rest=True) if _leaves_rest(tile) else tile


def _split_of(nest: Nest, tile: Tile) -> tuple[NestLoop | None, int]:
    """The loop that threads share, and how many of its iterations stay together. The loop is None if one thread
    computes the nest.

    Threads share the columns of a product, not its rows: each thread then keeps its part of the right operand in its
    own cache. If there are few columns, they share the rows.
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
    width = width_of_pieces(nest, tile)
    if tile.rows is not None:
        wide = lane.size >= WIDE * width if isinstance(lane.size, int) else nest.few != "columns"
        return (lane, width) if wide else (tile.rows, tile.row_block)
    if first is not lane and first.size != 1:
        return first, 1
    return lane, width


def width_of_pieces(nest: Nest, tile: Tile) -> int:
    """How many columns stay together where threads share columns."""
    single = tile.left and tile.rows is not None and isinstance(nest.space[-1].size, int)
    alone = single or (tile.strips if nest.time is not None else not reductions_of(nest))
    return tile.lanes * (1 if alone else tile.vectors)


def _leaves_rest(tile: Tile) -> bool:
    """Whether the threads share the rows of the last tile of columns.

    Of 3 tiles, one of two threads would compute 2 and the other 1; so each computes 1, and half the rows of the third.
    Of 25 tiles, one more does not matter.
    """
    if tile.split is None or tile.rows is None or tile.rows is tile.split or tile.horizontal or tile.left:
        return False
    size = tile.split.size
    pieces = -(-size // tile.unit) if isinstance(size, int) else 0
    return pieces % 2 == 1 and 1 < pieces <= FEW_PIECES


def in_pieces(nest: Nest) -> bool:
    """Whether a nest outside of all loops is computed a piece at a time, so that an interrupt can end a thread between
    two pieces: threads share its outermost loop, and it is not known to be small. (A product checks for interrupts
    itself.)"""
    tile = nest.tile
    outer = tile is not None and tile.split is not None and tile.rows is None and tile.own is None
    return outer and not (isinstance(nest.operations, int) and nest.operations <= rates.PIECE)


class Piece(NamedTuple):
    """How a nest is computed a piece at a time. The value of the dimension `turns` is the length of a piece, in
    iterations of the loop that threads share. This loop has `size` iterations, of which `unit` stay together. A strip
    has `strip` of them. `operations` is the work of the whole nest."""

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
        """How many iterations a piece has: about `rates.PIECE` operations, and at least one strip."""
        turns = number(self.size) * rates.PIECE / (number(self.operations) or rates.PIECE)
        return max(int(turns) // self.unit, -(-number(self.strip) // self.unit), 1) * self.unit


SUMS_OF_ONE_ROW = 4
"""A core that adds so many sums side by side is busy: while it waits for them, it begins with the next ones."""


def find_variants(program: Program) -> Program:
    """The program with a variant for one row of each nest that pays for it (`Program.single`), and with the nests that
    are computed a piece at a time (`Program.pieces`)."""
    steps = set(every_in(loop for loop in every_in(program.suite) if isinstance(loop, TimeLoop)))
    found = {nest: _for_one_row(nest, nest in steps, program.target) for nest in nests_of(program.suite)}
    single = {nest: one for nest, one in found.items() if one is not None}
    pieces = tuple(nest for nest in program.suite if isinstance(nest, Nest) and nest not in single and in_pieces(nest))
    return replace(program, single=single, pieces=pieces)


def _for_one_row(nest: Nest, in_step: bool, target: Target) -> Nest | None:
    """The variant for one row of a nest whose register tile has several rows; None if it has none, or if the variant is
    not worth the time to compile it. Without it, a batch of one would compute the same row several times. It is worth
    it for nests in a step, and for nests that read weights which are packed once for many calls."""
    tile = nest.tile
    lasting = in_step or any(access.panel is not None and access.buffer.fixed for access, _ in nest.accesses)
    if tile is None or tile.rows is None or tile.row_block == 1 or not lasting or isinstance(tile.rows.size, int):
        return None
    if tile.matrices and not all(kind_of(reduction.dtype).integral for reduction in reductions_of(nest)):
        return None  # the sums of one row would have other bits than those of several
    tile = tile if tile.horizontal or tile.lanes == 1 else _with_more_columns(nest, tile, target)
    unit = 1 if tile.split is tile.rows else tile.unit
    return replace(nest, tile=replace(tile, row_block=1, unit=unit, matrices=False, meanwhile=False))


def _with_more_columns(nest: Nest, tile: Tile, target: Target) -> Tile:
    """The tile with as many vectors of columns as the sums of one row need, so that they seldom wait for each other."""
    size, vectors = nest.space[-1].size, SUMS_OF_ONE_ROW // len(reductions_of(nest))
    while vectors > tile.vectors and isinstance(size, int) and size < tile.lanes * vectors:
        vectors //= 2
    if vectors <= tile.vectors:
        return tile
    tile = replace(tile, vectors=vectors, left=int(shapes.left_apart(size, tile.lanes, vectors, target)))
    return replace(tile, unit=width_of_pieces(nest, tile)) if tile.split is nest.space[-1] else tile

"""Nests that get a second variant, for calls with one row, and nests that are computed a piece at a time."""

from dataclasses import replace

from scanjit.schedule.nests import Nest, Program, Tile, TimeLoop
from scanjit.schedule.threads.split import in_pieces, width_of_pieces
from scanjit.schedule.tiles import shapes
from scanjit.schedule.tiles.products import reductions_of
from scanjit.target import Target

SUMS_OF_ONE_ROW = 4
"""A core that adds so many sums side by side is busy: while it waits for them, it begins with the next ones."""


def find_variants(program: Program) -> Program:
    """The program with a variant for one row of each nest that pays for it (`Program.single`), and with the nests that
    are computed a piece at a time (`Program.pieces`)."""
    every = [statement for top in program.suite for statement in top.every()]
    steps = {inner for loop in every if isinstance(loop, TimeLoop) for inner in loop.every()}
    nests = [statement for statement in every if isinstance(statement, Nest)]
    found = {nest: _for_one_row(nest, nest in steps, program.target) for nest in nests}
    single = {nest: one for nest, one in found.items() if one is not None}
    pieces = tuple(nest for nest in program.suite if isinstance(nest, Nest) and nest not in single and in_pieces(nest))
    return replace(program, single=single, pieces=pieces)


def _for_one_row(nest: Nest, in_step: bool, target: Target) -> Nest | None:
    """The variant for one row of a nest whose register tile has several rows; None if it has none, or if the variant is
    not worth the time to compile it. Without it, a batch of one would compute the same row several times. It is worth
    it for nests in a step, and for nests that read weights which are packed once for many calls."""
    tile = nest.tile
    lasting = in_step or any(access.panel is not None and access.buffer.fixed for access, _ in nest.accesses())
    if tile is None or tile.rows is None or tile.row_block == 1 or not lasting or isinstance(tile.rows.size, int):
        return None
    tile = tile if tile.horizontal or tile.lanes == 1 else _with_more_columns(nest, tile, target)
    return replace(nest, tile=replace(tile, row_block=1, unit=1 if tile.split is tile.rows else tile.unit))


def _with_more_columns(nest: Nest, tile: Tile, target: Target) -> Tile:
    """The tile with as many vectors of columns as the sums of one row need, so that they seldom wait for each other."""
    size, vectors = nest.space[-1].size, SUMS_OF_ONE_ROW // len(reductions_of(nest))
    while vectors > tile.vectors and isinstance(size, int) and size < tile.lanes * vectors:
        vectors //= 2
    if vectors <= tile.vectors:
        return tile
    tile = replace(tile, vectors=vectors, left=int(shapes.left_apart(size, tile.lanes, vectors, target)))
    return replace(tile, unit=width_of_pieces(nest, tile)) if tile.split is nest.space[-1] else tile

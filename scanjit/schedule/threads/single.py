"""Nests that get a second variant, for calls with one row, and nests that are computed a piece at a time."""

from dataclasses import replace

from scanjit.schedule.nests import Nest, Program, TimeLoop
from scanjit.schedule.threads.split import in_pieces


def find_variants(program: Program) -> Program:
    """The program with a variant for one row of each nest that pays for it (`Program.single`), and with the nests that
    are computed a piece at a time (`Program.pieces`)."""
    every = [statement for top in program.suite for statement in top.every()]
    steps = {inner for loop in every if isinstance(loop, TimeLoop) for inner in loop.every()}
    single = {
        nest: one for nest in every if isinstance(nest, Nest) and (one := _for_one_row(nest, nest in steps)) is not None
    }
    pieces = tuple(nest for nest in program.suite if isinstance(nest, Nest) and nest not in single and in_pieces(nest))
    return replace(program, single=single, pieces=pieces)


def _for_one_row(nest: Nest, in_step: bool) -> Nest | None:
    """The variant for one row of a nest whose register tile has several rows; None if it has none, or if the variant is
    not worth the time to compile it. Without it, a batch of one would compute the same row several times. It is worth
    it for nests in a step, and for nests that read weights which are packed once for many calls."""
    tile = nest.tile
    lasting = in_step or any(access.panel is not None and access.buffer.fixed for access, _ in nest.accesses())
    if tile is None or tile.rows is None or tile.row_block == 1 or not lasting or isinstance(tile.rows.size, int):
        return None
    return replace(nest, tile=replace(tile, row_block=1, unit=1 if tile.split is tile.rows else tile.unit))

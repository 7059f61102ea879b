"""Loops over time whose rows are one vector each: the form of a short loop for calls in which rows have few elements.

How long a row is, is often not known when a loop is compiled. A loop over vectors and its masks then take longer than
the vector of a short row. In this form each row is one vector, without a loop. Rows that pass from nest to nest, and
from step to step, lie on the stack, and LLVM puts them into registers. One thread runs it: rows of one vector have no
shares.
"""

from __future__ import annotations

from dataclasses import replace

from scanjit import types
from scanjit.records import record
from scanjit.schedule.nests import LINE, Buffer, Nest, Reduce, Tile, TimeLoop
from scanjit.types import Atom, Dimension


@record(eq=True)
class Brief:
    """A loop over time for calls in which certain `sizes` are at least 1, and at most `lanes`."""

    loop: TimeLoop
    sizes: tuple[Dimension, ...]
    lanes: int

    def known(self, buffer: Buffer) -> dict[Atom, int]:
        """What is known of a buffer whose rows have at most as many elements as a vector: that each takes one line of
        memory. Nothing of other buffers."""
        row, most = buffer.row, LINE // buffer.dtype.itemsize
        if row is None or row not in self.sizes or most < self.lanes:
            return {}
        lines = (row + (most - 1)) // most
        atom = types.as_atom(lines)
        return {} if atom is None or buffer.shape[-1] != lines * most else {atom: 1}


def brief(loop: TimeLoop) -> Brief | None:
    """The form of a loop for short rows; None if the lengths of all rows are known, or depend on the step, or if a nest
    has a form that is no loop over vectors."""
    nests = [statement for statement in loop.suite if isinstance(statement, Nest)]
    if len(nests) < len(loop.suite) or loop.own_rows is not None:
        return None
    sizes: dict[Dimension, None] = {}
    lanes = LINE
    for nest in nests:
        tile = nest.tile
        if tile is None or nest.time is not None or nest.sequential or tile.strips or tile.rest:
            return None
        if tile.lanes > 1:
            along = [r.loops[-1] for r in nest.values if isinstance(r, Reduce)] if tile.horizontal else nest.space[-1:]
            sizes |= dict.fromkeys(row.size for row in along if not isinstance(row.size, int))
            lanes = min(lanes, tile.lanes)
    counters = {atom for dim in loop.counters for atom in types.atoms(dim)}
    if not sizes or any(not counters.isdisjoint(types.atoms(size)) for size in sizes):
        return None
    some = tuple(sizes)
    suite = [replace(nest, tile=_tile(nest.tile, some)) for nest in nests if nest.tile is not None]
    return Brief(replace(loop, suite=tuple(suite)), some, lanes)


def _tile(tile: Tile, sizes: tuple[Dimension, ...]) -> Tile:
    alone = replace(tile, split=None, unit=1, own=None)
    if tile.lanes == 1:
        return alone
    return replace(alone, vectors=tile.vectors if tile.horizontal else 1, singles=False, narrow=False, brief=sizes)

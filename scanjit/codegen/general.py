"""Nests that compute each point by itself, as functions of their sizes and steps.

Such a nest copies, fills, or updates. A training function has hundreds of them, which differ only in sizes and steps.
So their function takes these as arguments, and is written and compiled once. It computes rows of points from `begin` to
`end`. If threads share the points of a row, each call gets a part of that row as a row of its own.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from scanjit import types
from scanjit.codegen.source import RowRange, Source
from scanjit.codegen.transposed import crossed
from scanjit.records import replace
from scanjit.schedule.nests import Access, Apply, Buffer, Correspondence, Literal, Load, Nest, NestLoop, Tile
from scanjit.types import Atom, Dimension

SMALL = 1 << 15
"""A nest that threads do not share is general if it has at most this many points: it is then one call."""
FEW = 4
"""If a row fills at most this many vectors, its number of points stays in the code: a loop would take longer."""
_unknown: list[Atom] = []
"""Atoms in the place of the sizes, steps and offsets of general nests. Every such nest uses the first ones, in this
order."""


class General(NamedTuple):
    """A nest with unknown sizes, steps and offsets, and the value of each in the nest that it was made of."""

    nest: Nest
    known: Mapping[Atom, Dimension]

    def called(self, source: Source, nest: Nest) -> Source:
        """The function of the general nest, with the arguments for the nest that it was made of."""
        tile, lane = nest.tile or Tile(), nest.space[-1]
        rows = nest.space[0].size if len(nest.space) > 1 else 1
        if tile.split is not lane:
            return replace(self._named(source, tile), rows=RowRange(rows, None, 0))
        columns, accesses = self.nest.space[-1], [access for access, _ in self.nest.accesses]
        along = {(each.buffer, each.offset): each.buffer.dtype.itemsize for each in accesses if columns in each.strides}
        steps = tuple([along.get(place, 0) for place in source.addresses])
        return replace(self._named(source, tile), rows=RowRange(rows, steps, source.numbers.index(columns.size)))

    def _named(self, source: Source, tile: Tile) -> Source:
        return source.called(Correspondence(MappingProxyType({}), self.known), tile)


def general(nest: Nest) -> General | None:
    """The nest with unknown sizes, steps and offsets. None if it does more than compute each point by itself, or if its
    code depends on their values."""
    tile = nest.tile
    if tile is None or not _shareable(nest, tile) or not _pointwise(nest) or crossed(nest) is not None:
        return None
    known: dict[Atom, Dimension] = {}
    offsets: dict[tuple[Buffer, Dimension, bool], Dimension] = {}

    def unknown(dim: Dimension) -> Dimension:
        if len(known) == len(_unknown):
            _unknown.append(next(types.atoms(types.anonymous_size())))
        atom = _unknown[len(known)]
        known[atom] = dim
        return types.dim_of(atom)

    *outer, lane = nest.space
    rows = {loop: NestLoop(unknown(loop.size)) for loop in outer or [NestLoop(1)]}
    columns, width = lane, tile.lanes * tile.vectors
    whole = tile.unit if tile.split is lane else width  # a piece of a thread may end between the vectors of a turn
    if isinstance(lane.size, int) and lane.size <= FEW * width:
        if tile.split is lane:
            return None
    elif types.remainder(lane.size, whole) == 0:
        columns = NestLoop(unknown(lane.size // whole) * whole)
    elif any(access.buffer.row is not None for access, _ in nest.accesses):
        return None  # a vector that is not full may have room there
    else:
        columns = NestLoop(unknown(lane.size))

    def moved(access: Access) -> Access:
        along = access.strides.get(lane, 0) != 0
        steps = {row: access.strides.get(loop, 0) for loop, row in rows.items() if along or loop in access.strides}
        strides = {row: unknown(step) for row, step in steps.items()} | ({columns: 1} if along else {})
        place = access.buffer, access.offset, along  # (an element for all points stays where a piece begins elsewhere)
        if place not in offsets:
            offsets[place] = unknown(access.offset)
        return replace(access, offset=offsets[place], strides=strides)

    space = (*rows.values(), columns)
    made = nest.rebuilt(moved, {**rows, lane: columns}.__getitem__, space)
    return General(replace(made, tile=replace(tile, split=space[0], unit=1), plan=None, lane=None), known)


def _pointwise(nest: Nest) -> bool:
    """Whether a nest only loads, computes and stores, with the elements of a row side by side."""
    if nest.time is not None or nest.sequential or any(store.indices or store.add for store in nest.stores):
        return False
    for value in nest.values:
        if not isinstance(value, Load | Literal | Apply) or (isinstance(value, Load) and value.when != 1):
            return False
    return all(access.panel is None and access.strides.get(nest.space[-1], 0) in (0, 1) for access, _ in nest.accesses)


def _shareable(nest: Nest, tile: Tile) -> bool:
    """Whether threads share the rows of a nest, or the points of a row; or the nest is small."""
    if not nest.space or tile.lanes == 1 or tile.rows is not None or tile.horizontal or tile.own is not None:
        return False
    if tile.split is None:
        points = types.product(loop.size for loop in nest.space)
        return isinstance(points, int) and points <= SMALL
    return tile.split in (nest.space[0], nest.space[-1]) and not any(loop.parts for loop in nest.space)

"""Loops over time whose rows are one or two vectors each: the variants of a loop for calls in which rows have few
elements, and matrices few rows.

How long a row is, is often not known when a loop is compiled. A loop over vectors and its masks then take longer than
the vectors of a short row, and a register tile of many rows computes rows that do not exist. In these variants each row
is one vector, or two, without a loop, and rows are computed one by one. Rows that pass from nest to nest, and from step
to step, lie on the stack, and LLVM puts them into registers, also if a nest reads or writes a part of a row: a
processor would wait for a vector that reaches over two which were just stored. One thread runs a variant: to share so
few rows takes longer than to compute them.
"""

from collections.abc import Callable, Sequence

from scanjit import types
from scanjit.kinds import kind_of
from scanjit.records import record, replace
from scanjit.schedule.nests import (
    LINE,
    Access,
    Buffer,
    Literal,
    Load,
    Nest,
    NestLoop,
    Reduce,
    Ref,
    Store,
    Tile,
    TimeLoop,
    Value,
    reductions_in,
    with_room,
)
from scanjit.types import Atom, Dimension

LITTLE = 600
"""The nests of a step in the variant for short rows have on average at most about this many operations of vectors: with
more, it may be worth to share them among threads, which meet after each nest."""
LITTLE_KNOWN = 200
"""The same if all sizes are known: each variant is then as fast as the other, but for the threads."""
FEW = 4
"""Rows of known length are few if they are at most this many vectors: more of them are faster in a register tile."""


@record(eq=True)
class HeldRow:
    """A carry of which every step is stored: the `buffer` that holds its last row on the stack, in two slots, and the
    place in memory of the `first` one. It has `size` elements."""

    buffer: Buffer
    first: Ref
    size: Dimension


@record(eq=True)
class Brief:
    """The variant of a loop over time for calls in which each of `sizes` is from 1 to `most`. If there are no such
    sizes, it is for all calls. A row has `vectors` vectors of `lanes` lanes, so `most` is at most their product. `rows`
    are the carries of which every step is stored."""

    loop: TimeLoop
    sizes: tuple[Dimension, ...]
    most: int
    lanes: int
    vectors: int
    rows: tuple[HeldRow, ...]

    def known(self, buffer: Buffer) -> dict[Atom, int]:
        """How many lines of memory each row of a buffer takes, if its rows are short in this variant. Empty for other
        buffers."""
        row, most = buffer.row, LINE // buffer.dtype.itemsize
        if row is None or row not in self.sizes or most < self.lanes:
            return {}
        lines = (row + (most - 1)) // most
        atom = types.as_atom(lines)
        return {} if atom is None or buffer.shape[-1] != lines * most else {atom: -(-self.lanes * self.vectors // most)}

    def condition(self, number: Callable[[Dimension], str]) -> str:
        """Text that says whether a call runs this variant. The last vector of rows with room has elements."""
        full = self.lanes * (self.vectors - 1)
        some = {buffer.row for nest in self.loop.suite for buffer, _, _ in nest.refs()}
        return " and ".join(f"{full if size in some else 0} < {number(size)} <= {self.most}" for size in self.sizes)


def brief(loop: TimeLoop, vectors: int = 1) -> Brief | None:
    """The variant of a loop for rows of so many vectors. None if the lengths of rows depend on the step, or are known
    to be long, or if a nest is no loop over vectors."""
    nests = [statement for statement in loop.suite if isinstance(statement, Nest)]
    if len(nests) < len(loop.suite):
        return None
    sizes: dict[Dimension, None] = {}
    lanes, few = 0, LINE
    for nest in nests:
        tile = nest.tile
        if tile is None or nest.time is not None or nest.sequential or tile.strips:
            return None
        for along in nest.space:
            sizes |= dict.fromkeys(_bounded(along.size))
        if tile.lanes > 1:
            for reduction in nest.values if tile.horizontal else ():
                if isinstance(reduction, Reduce):
                    sizes |= dict.fromkeys(_bounded(reduction.loops[-1].size))
            lanes = min(lanes or tile.lanes, tile.lanes)
        if tile.rows is not None and isinstance(size := nest.space[-1].size, int):
            few = min(few, FEW // max(-(-size // tile.lanes), 1))
    wide = [nest.tile.lanes for nest in nests if nest.tile is not None and nest.tile.lanes > 1]
    if lanes == 0 or (vectors > 1 and (few < LINE or not sizes or min(wide) < max(wide))):
        return None
    buffers = [access.buffer for nest in nests for access, _ in nest.accesses]
    sizes |= dict.fromkeys(b.row for b in buffers if b.row is not None and not isinstance(b.row, int))
    counters = set(types.atoms(*loop.counters))
    if any(not counters.isdisjoint(types.atoms(size)) for size in sizes):
        return None
    some = tuple(sizes)
    suite = [replace(nest, tile=_tile(nest, nest.tile, some, vectors)) for nest in nests if nest.tile is not None]
    rows: list[HeldRow] = []
    for buffer in dict.fromkeys(store.access.buffer for nest in nests for store in nest.stores):
        if LINE // buffer.dtype.itemsize >= lanes and buffer.row is None and not kind_of(buffer.dtype).is_mask:
            found = _Stacked(loop, suite, buffer).held(some)
            if found is not None:
                suite, row = found
                rows.append(row)
    little = (LITTLE if sizes else LITTLE_KNOWN) * len(suite)
    fewest = max(lanes * (vectors - 1), 1)
    most = next(
        (most for most in range(min(lanes * vectors, few), fewest, -1) if _work(suite, some, most) <= little), 0
    )
    if most == 0:
        return None
    suite = [_in_whole_vectors(nest, some, max(wide), vectors) for nest in suite]
    return Brief(replace(loop, suite=tuple(suite)), some, most, lanes, vectors, tuple(rows))


def known(loop: TimeLoop) -> Brief | None:
    """The variant of a loop that one thread runs, in which numbers and short rows of known length that every step
    stores pass to the next step in registers, and nests read and write parts of such rows there. None if there is
    nothing of this."""
    suite = [statement for statement in loop.suite if isinstance(statement, Nest) and statement.time is None]
    if len(suite) < len(loop.suite):
        return None
    changed = [replace(nest, tile=_tile_of_parts(nest, nest.tile or Tile())) for nest in suite]
    lanes = min((nest.tile.lanes for nest in changed if nest.tile is not None and nest.tile.lanes > 1), default=1)
    sizes = (1, *{size for nest in changed if nest.space and isinstance(size := nest.space[-1].size, int)})
    short = tuple(size for size in sizes if 0 < size <= 2 * lanes)
    rows: list[HeldRow] = []
    for buffer in dict.fromkeys(store.access.buffer for nest in suite for store in nest.stores):
        if not kind_of(buffer.dtype).is_mask and (found := _Stacked(loop, changed, buffer).held(short)) is not None:
            changed, row = found
            rows.append(row)
    if not rows and all(new.tile == old.tile or old.tile is None for new, old in zip(changed, suite, strict=True)):
        return None
    return Brief(replace(loop, suite=tuple(changed)), (), max(short), lanes, 1, tuple(rows))


def _tile_of_parts(nest: Nest, tile: Tile) -> Tile:
    """The tile with which a nest loads or stores a whole row of one or two vectors, if it reads or stores a part of
    such a row. For other nests, the tile as it is."""
    elementwise = not nest.sequential and not tile.horizontal and tile.rows is None
    if not elementwise or tile.lanes == 1 or len(nest.space) != 1 or reductions_in(nest.values):
        return tile
    lane, vectors = nest.space[0], dict[Dimension, int]()
    loads = [value.access for value in nest.values if isinstance(value, Load)]
    for access in (*loads, *(store.access for store in nest.stores if not store.indices)):
        row = access.buffer.row
        if isinstance(row, int) and isinstance(lane.size, int) and dict(access.strides) == {lane: 1}:
            room = types.as_int(access.buffer.shape[-1])
            first = types.remainder(access.offset, room)
            if lane.size > row - (first if isinstance(first, int) else 0):
                return tile  # the nest goes through several rows as if they were one
            part = row != lane.size or first != 0
            if part and room in (tile.lanes, 2 * tile.lanes):
                vectors[row] = room // tile.lanes
    if len(set(vectors.values())) != 1:
        return tile
    wide = max(vectors.values())
    return replace(tile, brief=(lane.size, *vectors), wide=wide, vectors=wide, left=0, narrow=False)


def _bounded(size: Dimension) -> list[Dimension]:
    """The sizes that must be short for a loop of this `size` to be short. This is the size itself. If the loop goes
    through several rows as if they were one, it is each factor of the size. If the size is known, there are none."""
    if isinstance(size, int):
        return []
    if any(len(factors) > 1 for factors, _ in types.terms(size)):
        return [types.dim_of(atom) for atom in types.atoms(size)]
    return [size]


def _work(suite: Sequence[Nest], sizes: tuple[Dimension, ...], most: int) -> int:
    """About how many operations of vectors a step has if `sizes` are `most`, as far as their number is known."""
    known, total = {atom: most for atom in map(types.as_atom, sizes) if atom is not None}, 0
    for nest in suite:
        operations, tile = types.substitute(nest.operations, known), nest.tile
        along = nest.space[-1].size if nest.space else 1
        points = max(along, 1) if isinstance(along, int) else most
        lanes = 1 if tile is None else min(tile.lanes, points)
        total += operations // lanes if isinstance(operations, int) else 0
    return total


def _tile(nest: Nest, tile: Tile, sizes: tuple[Dimension, ...], vectors: int) -> Tile:
    alone = replace(tile, split=None, unit=1, own=None, each=1, rest=False)
    size = nest.space[-1].size if nest.space else 1
    if tile.lanes == 1:
        return alone
    alone = replace(alone, brief=sizes, wide=vectors)
    if tile.horizontal:
        return alone
    if size in sizes:
        alone = replace(alone, vectors=vectors, left=0, narrow=False)
    elif tile.rows is None or tile.rows.size not in sizes or not types.not_negative(tile.lanes * tile.vectors - size):
        return alone
    return replace(alone, rows=None, row_block=1, group=1, matrices=False, meanwhile=False)


def _in_whole_vectors(nest: Nest, sizes: tuple[Dimension, ...], lanes: int, vectors: int) -> Nest:
    """A nest that computes a few elements of rows, or copies one element or a literal into rows: with vectors of so
    many lanes, which all hold the one element. What is stored is then all of a row's vector (see `memory`), for which
    the next load does not wait. Another nest stays as it is."""
    outer, last, tile = nest.space[:-1], nest.space[-1] if nest.space else NestLoop(1), nest.tile or Tile()
    if outer or nest.sequential or not all(_is_in_row(store, last, sizes, lanes) for store in nest.stores):
        return nest
    single = last.size != 0 and types.not_negative(1 - last.size)  # in this variant, its size is 1
    if single and all(isinstance(value, Literal | Load) for value in nest.values):
        one, stores = NestLoop(1), {store.access for store in nest.stores}
        nest = nest.rebuilt(lambda a: replace(a, strides={one: 1} if a in stores else {}), space=[one])
        return replace(nest, tile=Tile(lanes=lanes, vectors=vectors, brief=(1, *sizes), wide=vectors))
    known = isinstance(last.size, int) and 1 < last.size <= lanes
    if not known or tile.lanes == 1 or tile.horizontal:
        return nest
    return replace(nest, tile=replace(tile, lanes=lanes, vectors=vectors, brief=(last.size, *sizes), wide=vectors))


def _is_in_row(store: Store, last: NestLoop, sizes: tuple[Dimension, ...], lanes: int) -> bool:
    """Whether a store writes neighbours in a row with room."""
    access, plain = store.access, not store.indices and not store.add
    apart = access.panel is None and access.strides in ({}, {last: 1})
    return plain and apart and access.buffer.row in sizes and LINE // access.buffer.dtype.itemsize >= lanes


class _Stacked:
    """A search for a carry of which every step is stored in a buffer."""

    def __init__(self, loop: TimeLoop, suite: Sequence[Nest], buffer: Buffer) -> None:
        self.suite, self.buffer = suite, buffer
        (self.step,), (self.row,) = types.atoms(loop.step), types.atoms(loop.row)
        self.counted = {self.row: loop.total - 1 - loop.step if loop.reverse else loop.step}
        self.start = loop.start

    def held(self, sizes: tuple[Dimension, ...]) -> tuple[list[Nest], HeldRow] | None:
        """The nests, which now read from the stack what the step before stored; and the row on the stack. Several nests
        may store parts of that row. None if the buffer is no such carry."""
        stores = [(nest, store) for nest in self.suite for store in nest.stores if store.access.buffer is self.buffer]
        if not self.buffer.shape or any(store.indices or store.add for _, store in stores):
            return None
        parts: list[tuple[int, Dimension]] = []
        for nest, store in stores:
            found = _part(store.access, nest, stores[0][1].access.offset)
            if found is None:
                return None
            parts.append(found)
        size = parts[0][1] if len(parts) == 1 else self.buffer.shape[-1]
        least = min(first for first, _ in parts)
        if size not in sizes or not all(_reaches(size, first - least + length) for first, length in parts):
            return None
        own = stores[0][1].access.offset + least
        before = self._moved(own, -1)
        apart = self._moved(own, 0) - before
        if not types.not_negative(apart - size) and not types.not_negative(-apart - size):
            return None
        kept = with_room(self.buffer.dtype, (2, size), "kept").buffer
        room, step = kept.shape[-1], types.dim_of(self.step)
        values: dict[Value, Value] = {}
        for each in self.suite:
            for load in each.values:
                if isinstance(load, Load) and (first := self._first(load, before, size)) is not None:
                    place = replace(load.access, buffer=kept, offset=room * (step % 2) + first)
                    values[load] = replace(load, access=place)
        if not values:
            return None
        suite = [each.rebuilt(values=values) for each in self.suite]
        slot = room * ((step + 1) % 2) - own
        for i, nest in enumerate(suite):
            also = [
                replace(store, access=Access(kept, slot + store.access.offset, store.access.strides))
                for store in nest.stores
                if store.access.buffer is self.buffer
            ]
            if also:
                suite[i] = replace(nest, stores=(*nest.stores, *also))
        offset = types.substitute(before, {self.step: self.start})
        return suite, HeldRow(kept, Ref(self.buffer, offset, (size,), (1,)), size)

    def _first(self, load: Load, before: Dimension, size: Dimension) -> int | None:
        """The number of the first element that a load reads of the row that the step before stored. None if it reads
        anything else."""
        access = load.access
        if access.buffer is not self.buffer or load.when != 1 or load.widens or access.panel is not None:
            return None
        first = self._moved(access.offset, 0) - before
        along = [(loop.size, stride) for loop, stride in access.strides.items()]
        if not isinstance(first, int) or first < 0 or len(along) > 1 or any(stride != 1 for _, stride in along):
            return None
        length = along[0][0] if along else 1
        return first if types.not_negative(size - first - length) else None

    def _moved(self, offset: Dimension, steps: int) -> Dimension:
        """An offset as a function of the step, so many steps later."""
        counted = types.substitute(offset, self.counted)
        return types.substitute(counted, {self.step: types.dim_of(self.step) + steps})


def _part(access: Access, nest: Nest, other: Dimension) -> tuple[int, Dimension] | None:
    """The part of a row that a nest stores: how far its first element lies behind the one at offset `other`, and its
    length. None if the nest stores anything but a part of one row."""
    first, strides = access.offset - other, dict(access.strides)
    if access.panel is not None or not isinstance(first, int):
        return None
    if not nest.space:
        return first, 1
    return (first, nest.space[0].size) if strides == {nest.space[0]: 1} and len(nest.space) == 1 else None


def _reaches(size: Dimension, end: Dimension) -> bool:
    """Whether a row of `size` elements certainly has `end` of them. It has at least one."""
    longer = {atom: types.dim_of(atom) + 1 for atom in types.atoms(size)} if types.as_atom(size) is not None else {}
    return types.not_negative(types.substitute(size - end, longer))

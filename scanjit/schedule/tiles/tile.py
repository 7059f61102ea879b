"""The shape of a nest: adjacent loops merged, the axis of the lanes, the register tile, packed operands."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace as changed

from scanjit import types
from scanjit.schedule.lower import maps
from scanjit.schedule.lower.region import Region
from scanjit.schedule.nests.program import (
    Access,
    Apply,
    Blocks,
    Buffer,
    Joined,
    Load,
    Loop,
    Machine,
    Nest,
    Pack,
    Position,
    Reduce,
    Ref,
    Register,
    Statement,
    Store,
    Tile,
    Value,
    counter,
    leaves_of,
    walk_values,
)
from scanjit.schedule.threads.parallel import choose_split, leaves_rest
from scanjit.schedule.tiles import lanes, shapes, strips
from scanjit.schedule.tiles.linear import linear
from scanjit.schedule.tiles.products import Depth, factors, is_packed, packable, reductions_of
from scanjit.types import Dimension

GROUP_BYTES = 256 * 1024
"""How much of right operands the tiles of a group read: a part of the second-level cache."""
MANY_ROWS = 64
"""Of so many rows, those beyond the last that a register tile computes do not count."""


def in_forms(region: Region, nest: Nest, shaped: Callable[[Nest], list[Statement]]) -> list[Statement]:
    """The statements of a nest, `shaped`; where lanes are to run along different loops for different sizes, those of
    each form in a block that runs once, or not at all."""
    merged = merge_loops(nest)
    forms = lanes.forms(merged, region.context.machine) if region.parent is None else []
    if not forms:
        return shaped(nest)
    text = " or ".join(str(form.lane.size) for form in forms)
    region.context.notes.append(f"nest {nest.label}: lanes along {text}, whichever fills vectors")
    result: list[Statement] = []
    for form in forms:
        first, rows = counter("first"), counter("rows")
        made = shaped(changed(merged, lane=form.lane))
        packs = [pack for pack in made if isinstance(pack, Pack) and pack.target.fixed]
        inside = [statement for statement in made if statement not in packs]
        sometimes = set(leaves_of(inside))  # others must not rely on what is packed there
        region.packed = [pack for pack in region.packed if pack not in sometimes]
        result += [*packs, Blocks(form.when, 1, first, rows, inside)]
    return result


def shape_nest(region: Region, nest: Nest) -> list[Statement]:
    """The nest, ready for code; with the packs of its operands before it (out of the region's loop if possible)."""
    if not nest.stores and not nest.finals:
        return []
    nest = lanes.lanes_last(merge_loops(nest), region.context.machine)
    tile = choose_tile(nest, region.context.machine, region.parent is None)
    split, unit = choose_split(nest, tile)
    tile = changed(tile, split=split, unit=unit)
    nest.tile = changed(tile, own=tile.rows, rest=True) if leaves_rest(tile) else tile
    packs, nest = pack_operands(region, nest)
    region.context.notes.append(f"nest {nest.label}: {_described(nest)}")
    if region.parent is None:
        _mark_fixed(nest)
    return [*packs, nest]


def _mark_fixed(nest: Nest) -> None:
    """Note which buffers hold the same in all calls, because they are made of such alone."""
    accesses = list(nest.accesses())
    read = [access.buffer for access, written in accesses if not written]
    if read and all(buffer.fixed for buffer in read):
        for access, written in accesses:
            access.buffer.fixed = access.buffer.fixed or written


def _described(nest: Nest) -> str:
    """A nest in words, for `explain`."""
    tile = nest.tile or Tile()
    values = walk_values(nest.roots)
    reductions = reductions_of(nest)
    loops = " x ".join(str(loop.size) for loop in nest.space) or "one point"
    ops = sum(isinstance(value, Apply) for value in values)
    stored = len(nest.stores) + len(nest.finals)
    text = f"{ops} elementwise ops, {len(reductions)} reductions, {stored} stores over {loops}; "
    if nest.time is not None:
        text += f"{nest.time.size} steps {strips.described(nest, tile)}; "
    if tile.horizontal:
        tiles = f", tiles of {tile.row_block} rows x {tile.vectors} columns" if tile.rows is not None else ""
        return text + f"{tile.lanes} lanes along the reductions{tiles}"
    tiles = f", tiles of {tile.row_block} rows x {tile.vectors} vectors" if tile.rows is not None else ""
    return text + f"{tile.lanes} lanes{tiles}"


# ---- merging loops -------------------------------------------------------------------------------------------------


def merge_loops(nest: Nest) -> Nest:
    """Merge adjacent loops that every access steps through as one; drop loops of one iteration."""
    met = [*_all_loops(nest), *(loop for strides in _stride_maps(nest) for loop in strides)]
    nest = _rename(nest, {loop: None for loop in met if loop.size == 1})
    while True:
        strides = _stride_maps(nest)
        pair = next((p for p in _adjacent(nest) if all(_steps_as_one(s, *p) for s in strides)), None)
        if pair is None:
            return nest
        outer, inner = pair
        one = Loop(outer.size * inner.size)
        nest = _rename(nest, {outer: one, inner: one}, keep=inner)


def _all_loops(nest: Nest) -> list[Loop]:
    reduced = [loop for v in walk_values(nest.roots) if isinstance(v, Reduce) for loop in v.loops]
    return [*nest.space, *dict.fromkeys(reduced)]


def _adjacent(nest: Nest) -> list[tuple[Loop, Loop]]:
    """Pairs of loops, one directly inside the other, wherever they occur."""
    groups = [tuple(nest.space)] + [v.loops for v in walk_values(nest.roots) if isinstance(v, Reduce)]
    pairs = dict.fromkeys(pair for group in groups for pair in itertools.pairwise(group))
    firsts, seconds = [a for a, _ in pairs], [b for _, b in pairs]
    return [(a, b) for a, b in pairs if firsts.count(a) == 1 and seconds.count(b) == 1]


def _stride_maps(nest: Nest) -> list[dict[Loop, Dimension]]:
    values = walk_values(nest.roots)
    maps = [dict(access.strides) for access, _ in nest.accesses()]
    return maps + [dict(value.strides) for value in values if isinstance(value, Position)]


def _steps_as_one(strides: dict[Loop, Dimension], outer: Loop, inner: Loop) -> bool:
    return strides.get(outer, 0) == strides.get(inner, 0) * inner.size


def _rename(nest: Nest, names: dict[Loop, Loop | None], keep: Loop | None = None) -> Nest:
    """Loops renamed (to None: dropped); of loops that become one, the stride of `keep` counts."""

    def access(old: Access) -> Access:
        strides: dict[Loop, Dimension] = {}
        for loop, stride in old.strides.items():
            new = names.get(loop, loop)
            if new is not None and (loop not in names or names[loop] is None or loop is keep):
                strides[new] = stride
        return changed(old, strides=strides)

    def loops(loop: Loop) -> Loop:
        return names.get(loop, loop) or loop

    space = [new for loop in nest.space if (new := names.get(loop, loop)) is not None]
    if nest.lane is not None:
        nest = changed(nest, lane=loops(nest.lane))
    return rebuild_nest(nest, access, loops, list(dict.fromkeys(space)))


def rebuild_nest(
    nest: Nest,
    access: Callable[[Access], Access],
    loops: Callable[[Loop], Loop] = lambda loop: loop,
    space: list[Loop] | None = None,
    replace: dict[Value, Value] | None = None,
) -> Nest:
    """The nest with accesses, loops and values changed."""
    get = maps.substitute(nest.roots, replace or {}, access, loops)

    def store(old: Store) -> Store:
        indices = tuple(changed(index, value=get(index.value)) for index in old.indices)
        return Store(access(old.access), get(old.value), indices, old.add, old.code)

    return changed(
        nest,
        space=nest.space if space is None else space,
        stores=[store(s) for s in nest.stores],
        finals=[store(s) for s in nest.finals],
        registers=[r for r in map(get, nest.registers) if isinstance(r, Register)],
        updates=list(map(get, nest.updates)),
        carried=list(map(access, nest.carried)),
    )


# ---- lanes and register tiles --------------------------------------------------------------------------------------


def choose_tile(nest: Nest, machine: Machine, joins: bool = False) -> Tile:
    """How the nest is vectorised: see `Tile`; whether rows may be of several loops, `joins` says."""
    values, reductions = walk_values(nest.roots), reductions_of(nest)
    widest = max((v.dtype.itemsize for v in values), default=8)
    lanes = max(1, machine.vector_bytes // widest)
    if nest.sequential:
        return Tile(lanes=_fit(lanes, nest.space[-1].size) if nest.space and _lanes_free(nest) else 1)
    if reductions and _horizontal(nest, reductions):
        positional = any(r.op.name in ("argmax", "argmin") for r in reductions)
        return Tile(lanes=1 if positional else lanes, horizontal=True)
    if not nest.space:
        return Tile(lanes=lanes if linear(nest) is not None else 1)
    if reductions and nest.time is None and _thin(nest, reductions, lanes):
        lanes = min(_fit(lanes, reduction.loops[-1].size) for reduction in reductions)
        rows = _row_loop(nest, reductions)
        block, columns = _thin_blocks(nest, len(reductions), rows, machine)
        return Tile(lanes, columns, rows, block, horizontal=True)
    lanes = _fit(lanes, nest.space[-1].size)
    if nest.time is not None:
        choice = strips.choose(nest, lanes)
        return Tile(lanes, choice.vectors, strips=choice.lengths)
    rows = (_joined(nest, reductions) if joins else None) or _row_loop(nest, reductions)
    block, vectors = shapes.shape(len(reductions), rows, machine)
    vectors = vectors if lanes > 1 else 1  # a tail is masked, and scalars have no masks
    while vectors > 1 and isinstance(size := nest.space[-1].size, int) and size <= lanes * vectors // 2:
        vectors //= 2
    singles = rows is not None and vectors > 1 and _uneven(nest.space[-1].size, lanes, vectors)
    group = 1 if rows is None else _group(nest, reductions, rows, lanes * vectors)
    return Tile(lanes, vectors, rows, block, singles=singles, group=group)


def _group(nest: Nest, reductions: Sequence[Reduce], rows: Loop, width: int) -> Dimension:
    """How many tiles of columns are computed for some rows before the next rows.

    As many as read right operands that stay near: results are then written, and sums that go on read, in long pieces of
    rows, where processors foresee which memory comes next. With the next rows of one tile that is far away each time.
    """
    lane, values, over = (
        nest.space[-1],
        walk_values(nest.roots),
        set(rows.parts if isinstance(rows, Joined) else (rows,)),
    )
    again = any(isinstance(v, Apply) and lane in (found := depends(v)) and not over & found for v in values)
    if again or (isinstance(lane.size, int) and lane.size <= width):
        return 1  # (what depends on the column alone is not to be computed for each tile)
    rights = {load for r in reductions for load in factors(r) or () if lane in load.access.strides}
    terms = types.product(loop.size for loop in reductions[0].loops)
    nbytes = terms * (width * sum(load.dtype.itemsize for load in rights))
    return types.maximum(GROUP_BYTES // types.maximum(nbytes, 1), 1)


def _uneven(size: Dimension, lanes: int, vectors: int) -> bool:
    """Whether tiles of so many vectors compute much that is not there, or cannot be shared by two threads evenly."""
    if not isinstance(size, int):
        return False
    tiles, singles = -(-size // (lanes * vectors)), -(-size // lanes)
    return -(-tiles // 2) * vectors > 1.05 * -(-singles // 2)


def _fit(lanes: int, size: Dimension) -> int:
    """No more lanes than a known size fills."""
    while isinstance(size, int) and lanes > 1 and lanes // 2 >= size:
        lanes //= 2
    return lanes


def _lanes_free(nest: Nest) -> bool:
    """Whether the lanes of the last loop never meet in one element: no computed index depends on it, the place does."""
    lane, inside = nest.space[-1], [index.value for store in nest.stores for index in store.indices]
    return all(lane not in depends(value) for value in inside) and all(lane in s.access.strides for s in nest.stores)


def depends(value: Value) -> set[Loop]:
    """The loops that a value depends on (those of reductions inside it excluded)."""
    if isinstance(value, Position):
        return set(value.strides)
    found: set[Loop] = set()
    for part in walk_values([value]):
        if isinstance(part, Load) or hasattr(part, "access"):
            found |= set(part.access.strides)
        elif isinstance(part, Position):
            found |= set(part.strides)
    for part in walk_values([value]):
        if isinstance(part, Reduce):
            found -= set(part.loops)
    return found


def _horizontal(nest: Nest, reductions: Sequence[Reduce]) -> bool:
    """Whether lanes should run along the reductions: their loads are contiguous there, and not along the space."""
    if not nest.space:
        return True
    lane = nest.space[-1]
    along_space = along_reduction = 0
    for reduction in reductions:
        for load in walk_values([reduction.body]):
            if isinstance(load, Load):
                across = load.access.strides.get(lane, 0)
                packable = factors(reduction) is not None and (
                    _row_loop(nest, [reduction]) is not None or load.access.buffer.fixed
                )
                along_space += across not in (0, 1) and not packable
                along_reduction += load.access.strides.get(reduction.loops[-1], 0) not in (0, 1)
    return along_space > along_reduction or (along_space > 0 and along_space == along_reduction and lane.size == 1)


def _thin(nest: Nest, reductions: Sequence[Reduce], lanes: int) -> bool:
    """Whether the last loop of the space does not fill a vector, as it is the case for the gradient of small filters,
    and lanes may run along longer sums of products: what these read is contiguous there."""
    size = nest.space[-1].size
    if not isinstance(size, int) or not 1 < size < lanes:
        return False
    for reduction in reductions:
        loads, along = factors(reduction), reduction.loops[-1]
        if loads is None or (isinstance(along.size, int) and along.size <= size):
            return False
        if any(load.access.strides.get(along, 0) not in (0, 1) for load in loads):
            return False
    return True


def _joined(nest: Nest, reductions: Sequence[Reduce]) -> Joined | None:
    """All loops but that of the lanes as one, where the last of them alone may not fill register tiles."""
    loops, lane = nest.space[:-1], nest.space[-1]
    if len(loops) < 2 or not reductions or not all(packable(r, lane) or is_packed(r, lane) for r in reductions):
        return None
    size = loops[-1].size
    return None if isinstance(size, int) and size >= MANY_ROWS else Joined(loops)


def _row_loop(nest: Nest, reductions: Sequence[Reduce]) -> Loop | None:
    """The loop whose iterations share loads: the operand that lanes run along does not depend on it."""
    for loop in reversed(nest.space[:-1]):
        for reduction in reductions:
            loads = factors(reduction)
            if loads and any(
                nest.space[-1] in load.access.strides and loop not in load.access.strides for load in loads
            ):
                return loop
    return None


def _thin_blocks(nest: Nest, reductions: int, rows: Loop | None, machine: Machine) -> tuple[int, int]:
    """(rows, columns) of the register tile where lanes run along reductions. Accumulators take most registers: each
    vector of one operand then meets many of the other."""
    size, many = nest.space[-1].size, machine.registers >= 32
    assert isinstance(size, int)
    least, most = (3, 5) if many else (2, 3)
    columns = min(range(min(most, size), min(least, size) - 1, -1), key=lambda n: -(-size // n) * n) if size else 1
    block = 1 if rows is None else max(1, (24 if many else 8) // (columns * reductions))
    return min(block, max(rows.size, 1)) if rows is not None and isinstance(rows.size, int) else block, columns


# ---- packing -------------------------------------------------------------------------------------------------------


def pack_operands(region: Region, nest: Nest) -> tuple[list[Statement], Nest]:
    """Packs for the right operands of products, interleaved for those that share a left operand."""
    tile = nest.tile
    if tile is None or tile.horizontal or not nest.space:
        return [], nest
    groups: dict[object, list[tuple[Load, Depth]]] = {}
    for reduction in reductions_of(nest):
        if (found := packable(reduction, nest.space[-1])) is not None:
            left, right, depth = found
            place = left.access.buffer, left.access.offset, frozenset(left.access.strides.items())
            groups.setdefault((depth.loops, depth.against, len(depth.sizes), place), []).append((right, depth))
    statements: list[Statement] = []
    new: dict[Access, Access] = {}
    for members in groups.values():
        pack, accesses = _pack(nest, members)
        holder = _holder(region, pack)
        if holder is region and not _worth(region, tile, members[0][0], nest.space[-1]):
            continue
        made = region.packed if holder is region else holder.held
        same = next((other for other in made if _equal(pack, other)), None)
        if same is not None:
            new |= {old: changed(access, buffer=same.target) for old, access in accesses.items()}
            continue
        new |= accesses
        where = "before it" if holder is region else "once, before the loop"
        region.context.notes.append(f"nest {nest.label}: {len(members)} right operands are packed {where}")
        holder.buffers.add(pack.target)
        made.append(pack)
        if holder is region:
            statements.append(pack)
    return statements, rebuild_nest(nest, lambda access: new.get(access, access))


def _pack(nest: Nest, members: Sequence[tuple[Load, Depth]]) -> tuple[Pack, dict[Access, Access]]:
    tile, lane = nest.tile, nest.space[-1]
    assert tile is not None
    size, width, group = members[0][1].size, tile.lanes, len(members)
    blocks = (lane.size + (width - 1)) // width
    fixed = all(load.access.buffer.fixed for load, _ in members)
    target = Buffer(members[0][0].dtype, (blocks, size, group, width), "temporary", "panels", fixed=fixed)
    sources = []
    accesses = {}
    for g, (load, depth) in enumerate(members):
        old, first = load.access, load.access.offset - depth.start(depth.steps[-1])
        sources.append(Ref(old.buffer, first, (*depth.sizes, lane.size), (*depth.steps, old.strides[lane])))
        apart = group * width
        strides = {lane: size * group, **depth.strides(apart)}
        accesses[old] = Access(target, g * width + depth.start(apart), strides, panel=lane)
    return Pack(sources, target, width), accesses


def _holder(region: Region, pack: Pack) -> Region:
    """The outermost region in which the sources of a pack are there already."""
    while region.parent is not None and all(region.can_hold(source) for source in pack.sources):
        region = region.parent
    return region


def _equal(a: Pack, b: Pack) -> bool:
    """Whether two packs hold the same."""
    return (a.width, len(a.sources)) == (b.width, len(b.sources)) and all(
        x.buffer is y.buffer and x.offset == y.offset and x.shape == y.shape and x.strides == y.strides
        for x, y in zip(a.sources, b.sources, strict=True)
    )


def _worth(region: Region, tile: Tile, right: Load, lane: Loop) -> bool:
    """Whether an operand is worth packing that nobody packs once for many steps: rows enough read it. For one row, only
    if it is packed once for many calls."""
    if tile.rows is None:
        return right.access.buffer.fixed
    many = isinstance(tile.rows.size, int) and tile.rows.size >= 16
    return region.parent is None or many or right.access.strides[lane] != 1

"""Right operands of products, copied into panels of full vectors: which of them, and before which loop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace as changed

from scanjit.schedule.lower.region import Region
from scanjit.schedule.nests import Access, Buffer, Load, Nest, NestLoop, Pack, Ref, Statement, Tile
from scanjit.schedule.tiles.products import Depth, packable, reductions_of


def pack_operands(region: Region, nest: Nest) -> tuple[list[Statement], Nest]:
    """The packs that a nest needs before it, and the nest that reads them. Operands of products with the same left
    operand lie in one panel, a vector of each in turn. Packs that can be made before a loop are left to its region."""
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
    return statements, nest.rebuilt(lambda access: new.get(access, access))


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
    """The region that makes a pack: the outermost one in which its sources are complete."""
    while region.parent is not None and all(region.can_hold(source) for source in pack.sources):
        region = region.parent
    return region


def _equal(a: Pack, b: Pack) -> bool:
    """Whether two packs hold the same."""
    return (a.width, len(a.sources)) == (b.width, len(b.sources)) and all(
        x.buffer is y.buffer and x.offset == y.offset and x.shape == y.shape and x.strides == y.strides
        for x, y in zip(a.sources, b.sources, strict=True)
    )


def _worth(region: Region, tile: Tile, right: Load, lane: NestLoop) -> bool:
    """Whether packing pays for an operand that is packed in every step or call: enough rows read it. For one row, it
    pays only if it is done once for many calls."""
    if tile.rows is None:
        return right.access.buffer.fixed
    many = isinstance(tile.rows.size, int) and tile.rows.size >= 16
    return region.parent is None or many or right.access.strides[lane] != 1

"""Blocks of time: a scan together with the maps over time before and after it, a stretch of steps at a time.

What a map over time computes for a scan (the input projection of an LSTM, say) is read one row a step and by nobody
else. Done in blocks, it needs memory for one block only, and is still in the cache when the scan reads it. So is what
a scan stores only for maps over time after it, or for sums over time (the gradients of weights).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from dataclasses import replace as changed

from scanjit import types
from scanjit.schedule.fuse.groups import Group
from scanjit.schedule.fuse.order import Order
from scanjit.schedule.lower import maps
from scanjit.schedule.lower.region import Block, Region, Single
from scanjit.schedule.nests import (
    Access,
    Blocks,
    Buffer,
    Load,
    Nest,
    NestLoop,
    Pack,
    Reduce,
    Ref,
    Statement,
    Store,
    counter,
    row_major,
)
from scanjit.schedule.tiles.apply import tile_nest
from scanjit.schedule.time import sums
from scanjit.schedule.time.stretch import Stretch
from scanjit.types import Dimension

LEAST_TURNS = 4
"""A block has so many times as many steps as the lag of a carry whose last values are copied from block to block."""


@dataclass(eq=False)
class Chain:
    """A scan, the groups before and after it that go with it block by block, and the buffers that hold one block.

    Of the groups after it, those in `sums` sum over time; with the sums, each with its loop over time. `rings` are the
    scan's carries with a lag of which a block holds its own steps and those before it; and what keeps the last values
    from block to block.
    """

    scan: Block
    before: list[Group] = field(default_factory=list)
    after: list[Group] = field(default_factory=list)
    sums: dict[Group, dict[Reduce, NestLoop]] = field(default_factory=dict)
    shrunk: set[Buffer] = field(default_factory=set)
    rings: dict[int, Buffer] = field(default_factory=dict)

    @property
    def others(self) -> list[Group]:
        """The groups that go with the scan."""
        return [*self.before, *self.after, *self.sums]


def chains(region: Region, groups: list[Group], nests: dict[Group, Nest]) -> dict[Group, Chain]:
    """The chains of a region, by their scan's group and by the groups that they take along."""
    found: dict[Group, Chain] = {}
    for at, group in enumerate(groups):
        if can_be_cut(group) and not _straight(group):
            chain = Search(region, groups, nests, at, set(found)).chain()
            if chain.shrunk or chain.sums or chain.rings:
                found |= dict.fromkeys((group, *chain.others), chain)
    return found


def can_be_cut(group: Group) -> bool:
    """Whether a group is a scan that can be run a stretch of steps at a time."""
    scan = group.members[0]
    if not isinstance(scan, Block) or scan.scan is None:
        return False
    return not scan.plan.layout.until


def _straight(group: Group) -> bool:
    """Whether all steps of a scan are written one after the other."""
    scan = group.members[0]
    return isinstance(scan, Block) and scan.plan.node.params["unroll"] is True


class Search:
    """Which groups can go with a scan. Those that are `taken` go with another one."""

    def __init__(
        self, region: Region, groups: list[Group], nests: dict[Group, Nest], at: int, taken: AbstractSet[Group]
    ) -> None:
        self.region, self.groups, self.nests, self.at, self.taken = region, groups, nests, at, taken
        scan = groups[at].members[0]
        assert isinstance(scan, Block)
        self.scan, self.plan = scan, scan.plan
        self.uses = {group: set(_buffers(region, group, nests)) for group in groups}
        self.writes = {group: {b for b, written in self.uses[group] if written} for group in groups}
        self.reads = {group: {b for b, written in self.uses[group] if not written} for group in groups}
        self.order = Order.of(region.items)
        home = {item: group for group in groups for item in group.members}
        self.needs = {g: {home[need] for item in g.members for need in item.needs} - {g} for g in groups}

    def chain(self) -> Chain:
        """The largest chain around the scan."""
        scan = self.groups[self.at]
        after, found, results = self._after(scan)
        later = {*after, *found}
        before: list[Group] = []
        shrunk: set[Buffer] = set()
        for group in reversed(self.groups[: self.at]):
            if group in self.taken:
                continue
            own, users = self.writes[group], {g for g in self.groups if group in self.needs[g]}
            with_scan = users <= {scan, *before, *later} and not users <= later
            private = own and with_scan and all(self._private(b, group, users) for b in own)
            if private and self.steps_with_time(group, own) and all(self._read_by_rows(b, found) for b in own):
                before.insert(0, group)
                shrunk |= own
        return Chain(self.scan, before, after, found, shrunk | results, self._kept(self._rings(found)))

    def _kept(self, rings: AbstractSet[Buffer]) -> dict[int, Buffer]:
        """Memory for the last values of carries with a lag, from block to block; they begin there."""
        kept: dict[int, Buffer] = {}
        for i, carry in enumerate(self.plan.carries):
            buffer = carry.store.buffer
            if buffer in rings and not any(self.plan.carries[k].store.buffer is buffer for k in kept):
                kept[i] = Buffer(buffer.dtype, (carry.reach, *buffer.shape[1:]), "temporary", "kept")
                self.region.buffers.add(kept[i])
                self._begin(buffer, self.plan.first(i).offset, kept[i])
        return kept

    def _rings(self, found: Mapping[Group, dict[Reduce, NestLoop]]) -> set[Buffer]:
        """The memory of carries with a lag that nobody else reads but sums over time that go with the scan."""
        if self.scan.nest is None or self.plan.node.params["checkpoint"] is not None:
            return set()
        scan, own = self.groups[self.at], {carry.store.buffer for carry in self.plan.carries if carry.lag is not None}
        readers = {b: [g for g in self.groups if g is not scan and b in self.reads[g]] for b in own}
        return {
            buffer
            for buffer, groups in readers.items()
            if buffer.kind == "temporary" and buffer in self.region.buffers
            if all(g in found and sums.covers(found[g], self.nests[g], {buffer}) for g in groups)
        }

    def _begin(self, buffer: Buffer, offset: Dimension, kept: Buffer) -> None:
        """Put what is there before the first step where it is kept."""

        def moved(access: Access) -> Access:
            return changed(access, buffer=kept, offset=access.offset - offset) if access.buffer is buffer else access

        for group, nest in self.nests.items():
            if any(access.buffer is buffer for access, written in nest.accesses() if written):
                self.nests[group] = nest.rebuilt(moved)

    def _after(self, scan: Group) -> tuple[list[Group], dict[Group, dict[Reduce, NestLoop]], set[Buffer]]:
        """The groups after the scan that read, row by row, what nobody else does; those that sum what it made over time
        (all of them, for the order of the terms is to be the same whoever else reads it); and the buffers of the
        former kind."""
        known = {scan} | set(self.groups[: self.at])
        members: list[Group] = []
        found: dict[Group, dict[Reduce, NestLoop]] = {}
        for group in self.groups[self.at + 1 :]:
            read = self.writes[scan] & self.reads[group]
            if group in self.taken or not read or not self.needs[group] <= known:
                continue
            if any(self.order.ties([self.scan], item) for item in group.members):
                continue
            if self.steps_with_time(group, read):
                members.append(group)
            elif group in self.nests:
                over_time = sums.timed(self.nests[group], self.plan.length, read, self.region.context.target)
                found |= {group: over_time} if over_time is not None else {}
        while True:
            readers = {*members, *found}
            results = {b for b in self.writes[scan] if self._private(b, scan, readers) and self._by_rows(b)}
            kept = [g for g in members if self.reads[g] & results]
            if kept == members:
                return members, found, results
            members = kept

    def _private(self, buffer: Buffer, writer: Group, readers: set[Group]) -> bool:
        """Whether a buffer is a temporary of this region that only one group writes and only these groups read."""
        if buffer.kind != "temporary" or buffer not in self.region.buffers:
            return False
        if any(g is not writer and buffer in self.writes[g] for g in self.groups):
            return False
        return all(g is writer or g in readers or buffer not in self.reads[g] for g in self.groups)

    def steps_with_time(self, group: Group, buffers: set[Buffer]) -> bool:
        """Whether a group is a nest whose first loop is time, and goes through these buffers row by row."""
        nest = self.nests.get(group)
        if nest is None or not nest.space or nest.space[0].size != self.plan.length or nest.sequential:
            return False
        through = [a for a, _ in nest.accesses() if a.buffer in buffers]
        return all(a.buffer.shape and a.strides.get(nest.space[0], 0) == row_major(a.buffer.shape)[0] for a in through)

    def _read_by_rows(self, buffer: Buffer, found: Mapping[Group, dict[Reduce, NestLoop]]) -> bool:
        """Whether all that reads a buffer goes through it row by row: the scan, maps over time, and sums over time."""
        for group in self.groups:
            if group in found and buffer in self.reads[group]:
                if not sums.covers(found[group], self.nests[group], {buffer}):
                    return False
            elif group is not self.groups[self.at] and buffer in self.reads[group]:
                if not self.steps_with_time(group, {buffer}):
                    return False
        return self._by_rows(buffer)

    def _by_rows(self, buffer: Buffer) -> bool:
        """Whether the scan goes through a buffer row by row, a row a step."""
        return bool(buffer.shape) and buffer.shape[0] == self.plan.length and self.steps_by_rows(buffer)

    def steps_by_rows(self, buffer: Buffer) -> bool:
        """Whether all that the scan does with a buffer moves by one row from step to step."""
        step = row_major(buffer.shape)[0]
        if self.scan.nest is not None:
            time, begin = self.scan.nest.time, {r.init.access for r in self.scan.nest.registers}  # type: ignore[attr-defined]
            accesses = [a for a, _ in self.scan.nest.accesses() if a.buffer is buffer and a not in begin]
            return all(a.strides.get(time, 0) == step for a in accesses)  # type: ignore[arg-type]
        row = types.as_atom(self.plan.row)
        offsets = [o for s in self.scan.statements for b, o, _ in s.all_refs() if b is buffer]
        return row is not None and all(o - types.substitute(o, {row: 0}) == self.plan.row * step for o in offsets)

    def first_offsets(self, group: Group, buffer: Buffer) -> list[Dimension]:
        """Where the scan, or a nest, begins to go through a buffer row by row."""
        nest = self.scan.nest if group is self.groups[self.at] else self.nests[group]
        if nest is not None:
            begin = {register.init.access for register in nest.registers}  # type: ignore[attr-defined]
            return [a.offset for a, _ in nest.accesses() if a.buffer is buffer and a not in begin]
        row = types.as_atom(self.plan.row)
        assert row is not None
        return [types.substitute(o, {row: 0}) for s in self.scan.statements for b, o, _ in s.all_refs() if b is buffer]


def _buffers(region: Region, group: Group, nests: dict[Group, Nest]) -> Iterator[tuple[Buffer, bool]]:
    if group in nests:
        yield from ((access.buffer, written) for access, written in nests[group].accesses())
        return
    block = group.members[0]
    if isinstance(block, Single):
        yield from ((buffer, written) for buffer, _, written in block.statement.all_refs())
        return
    assert isinstance(block, Block)
    for statement in block.statements if block.nest is None else [block.nest]:
        yield from ((buffer, written) for buffer, _, written in statement.all_refs())


# ---- writing a chain as statements ---------------------------------------------------------------------------------


def blocked(region: Region, chain: Chain, nests: dict[Group, Nest]) -> list[Statement]:
    """The statements of a chain: what is made once before, then the loop over blocks of time, then what is left."""
    plan = chain.scan.plan
    first, rows = counter("first"), counter("rows")
    rings = {i: plan.carries[i] for i in chain.rings}
    short = {*chain.shrunk, *(carry.store.buffer for carry in rings.values())}
    made = Written(region, nests, {*types.atoms(first), *types.atoms(rows)}, short)
    stretch = Stretch.of(plan, first, rows, short)
    for group in chain.before:
        made.map(group, stretch)
    for i, kept in chain.rings.items():
        made.copy(Ref.whole(kept), stretch.first(plan, i))
    made.scan(chain.scan, stretch)
    for i, kept in chain.rings.items():
        made.copy(stretch.last(plan, i), Ref.whole(kept))
    for group in chain.after:
        made.map(group, stretch)
    for group, found in chain.sums.items():
        made.sum(group, found, stretch, plan.reverse)
    width = sum((types.product(b.shape[1:]) * b.dtype.itemsize for b in short), start=0)
    size = types.maximum(region.context.target.near_bytes // types.maximum(width, 1), 1)
    for depth in made.depths:
        size = types.maximum(size, (sums.DEPTH - 1) // types.maximum(depth, 1) + 1)
    for carry in rings.values():
        size = types.maximum(size, carry.reach * LEAST_TURNS)
    size = types.minimum(plan.length, size)
    for buffer in chain.shrunk:
        buffer.shape = (size, *buffer.shape[1:])
    for carry in rings.values():
        carry.store.buffer.shape = (size + carry.reach, *carry.store.buffer.shape[1:])
    made.hold({atom: size for atom in types.atoms(rows)})
    if short:
        names = ", ".join(sorted({b.name for b in short}))
        region.context.notes.append(f"{chain.scan.label}: in blocks of time, with memory for one block of {names}")
    return [*made.first, Blocks(plan.length, types.maximum(size, 1), first, rows, made.body), *made.last]


class Written:
    """The statements of blocks of time, while they are written: `body` for a block, those made once before the `first`
    block, and those after the `last`. `counters` are the atoms that change from block to block; of the buffers
    `shrunk`, memory holds one block."""

    def __init__(
        self,
        region: Region,
        nests: Mapping[Group, Nest],
        counters: AbstractSet[types.Atom],
        shrunk: Collection[Buffer],
    ) -> None:
        self.region, self.nests, self.counters, self.shrunk = region, nests, counters, shrunk
        region.counters |= counters  # what depends on the block is not made before the loop around
        self.first: list[Statement] = []
        self.body: list[Statement] = []
        self.last: list[Statement] = []
        self.depths: list[Dimension] = []
        self.panels: list[Buffer] = []

    def map(self, group: Group, stretch: Stretch) -> None:
        """Write the part of a map over time."""
        self.nest(stretch.nest(self.nests[group], self.nests[group].space[0]))

    def nest(self, nest: Nest) -> None:
        """Write a nest of a block."""
        for statement in tile_nest(self.region, nest):
            if not isinstance(statement, Pack):
                self.body.append(statement)
            elif self._is_fixed(statement):
                self.first.append(statement)
            else:
                self.body.append(statement)
                self.panels.append(statement.target)

    def copy(self, source: Ref, target: Ref) -> None:
        """Write that what lies at one place is copied to another."""
        space = self.region.space(source.shape)
        at = maps.identity(space)
        value = Load(source.buffer.dtype, maps.place(source, at))
        self.nest(Nest(list(space), [Store(maps.place(target, at), value)], "kept"))

    def hold(self, most: Mapping[types.Atom, Dimension]) -> None:
        """Make what is packed in each block large enough, for counters that are no more than these."""
        for buffer in self.panels:
            buffer.shape = tuple(types.substitute(dim, most) for dim in buffer.shape)

    def scan(self, scan: Block, stretch: Stretch) -> None:
        """Write steps of a scan, of which the packs are made before."""
        if scan.nest is None:
            self.first += scan.statements[:-1]
        self.again(scan, stretch)

    def again(self, scan: Block, stretch: Stretch) -> None:
        """Write steps of a scan that has been written before."""
        self.body += stretch.scan(self.region, scan)

    def sum(self, group: Group, found: dict[Reduce, NestLoop], stretch: Stretch, reverse: bool) -> None:
        """Write the part of sums over time, in the order of a scan."""
        made = sums.apart(self.region, self.nests[group], found)
        if made.zeros is not None:
            self.first += tile_nest(self.region, made.zeros)
        self.nest(made.block(stretch, reverse))
        if made.finish is not None:
            self.last += tile_nest(self.region, made.finish)
        if made.depth is not None:
            self.depths.append(made.depth)

    def _is_fixed(self, pack: Pack) -> bool:
        """Whether a pack is the same in all blocks."""
        used = {atom for source in pack.sources for d in (source.offset, *source.shape) for atom in types.atoms(d)}
        return used.isdisjoint(self.counters) and not any(s.buffer in self.shrunk for s in pack.sources)

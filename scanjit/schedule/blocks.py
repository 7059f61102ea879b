"""Blocks of time: a scan together with the maps over time before and after it, a stretch of steps at a time.

What a map over time computes for a scan (the input projection of an LSTM, say) is read one row a step and by nobody
else. Done in blocks, it needs memory for one block only, and is still in the cache when the scan reads it. So is what
a scan stores only for maps over time after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from dataclasses import replace as changed

from scanjit import types
from scanjit.schedule import tile
from scanjit.schedule.fuse import Group
from scanjit.schedule.program import (
    Access,
    Blocks,
    Buffer,
    Loop,
    Nest,
    Pack,
    Ref,
    Statement,
    TimeLoop,
    counter,
    row_major,
    statement_refs,
)
from scanjit.schedule.region import Block, Region
from scanjit.types import Dimension

BLOCK_BYTES = 256 * 1024
"""How much a block keeps in memory, about: what fits the second-level cache beside weights."""


@dataclass(eq=False)
class Chain:
    """A scan, the groups before and after it that go with it block by block, and the buffers that hold one block."""

    scan: Block
    before: list[Group] = field(default_factory=list)
    after: list[Group] = field(default_factory=list)
    shrunk: set[Buffer] = field(default_factory=set)


def chains(region: Region, groups: list[Group], nests: dict[Group, Nest]) -> dict[Group, Chain]:
    """The chains of a region, by their scan's group and by the groups that they take along."""
    found: dict[Group, Chain] = {}
    for at, group in enumerate(groups):
        scan = group.members[0]
        if isinstance(scan, Block) and not scan.plan.layout.until and scan.plan.node.params["unroll"] is not True:
            chain = _Search(region, groups, nests, at).chain()
            if chain.shrunk and not any(g in found for g in (*chain.before, *chain.after)):
                found |= dict.fromkeys((group, *chain.before, *chain.after), chain)
    return found


class _Search:
    """Which groups can go with a scan."""

    def __init__(self, region: Region, groups: list[Group], nests: dict[Group, Nest], at: int) -> None:
        self.region, self.groups, self.nests, self.at = region, groups, nests, at
        scan = groups[at].members[0]
        assert isinstance(scan, Block)
        self.scan, self.plan = scan, scan.plan
        self.uses = {group: set(_buffers(region, group, nests)) for group in groups}
        self.writes = {group: {b for b, written in self.uses[group] if written} for group in groups}
        self.reads = {group: {b for b, written in self.uses[group] if not written} for group in groups}
        home = {item: group for group in groups for item in group.members}
        self.needs = {g: {home[need] for item in g.members for need in item.needs} - {g} for g in groups}

    def chain(self) -> Chain:
        """The largest chain around the scan."""
        scan = self.groups[self.at]
        before: list[Group] = []
        shrunk: set[Buffer] = set()
        for group in reversed(self.groups[: self.at]):
            own, users = self.writes[group], {g for g in self.groups if group in self.needs[g]}
            private = own and users <= {scan, *before} and all(self._private(b, group, users) for b in own)
            if private and self._steps_with_time(group, own) and all(self._read_by_rows(b, before) for b in own):
                before.insert(0, group)
                shrunk |= own
        after, results = self._after(scan)
        return Chain(self.scan, before, after, shrunk | results)

    def _after(self, scan: Group) -> tuple[list[Group], set[Buffer]]:
        """The groups after the scan that read what nobody else does, row by row; and those buffers."""
        known = {scan} | set(self.groups[: self.at])
        members = []
        for group in self.groups[self.at + 1 :]:
            read = self.writes[scan] & self.reads[group]
            if read and self.needs[group] <= known and self._steps_with_time(group, read):
                members.append(group)
        while True:
            results = {b for b in self.writes[scan] if self._private(b, scan, set(members)) and self._by_rows(b)}
            kept = [g for g in members if self.reads[g] & results]
            if len(kept) == len(members):
                return members, results
            members = kept

    def _private(self, buffer: Buffer, writer: Group, readers: set[Group]) -> bool:
        """Whether a buffer is a temporary of this region that only one group writes and only these groups read."""
        if buffer.kind != "temporary" or buffer not in self.region.buffers:
            return False
        if any(g is not writer and buffer in self.writes[g] for g in self.groups):
            return False
        return all(g in readers or buffer not in self.reads[g] for g in self.groups)

    def _steps_with_time(self, group: Group, buffers: set[Buffer]) -> bool:
        """Whether a group is a nest whose first loop is time, and goes through these buffers row by row."""
        nest = self.nests.get(group)
        if nest is None or not nest.space or nest.space[0].size is not self.plan.length or nest.sequential:
            return False
        through = [a for a, _ in nest.accesses() if a.buffer in buffers]
        return all(a.strides.get(nest.space[0], 0) == row_major(a.buffer.shape)[0] for a in through)

    def _read_by_rows(self, buffer: Buffer, before: list[Group]) -> bool:
        nested = all(self._steps_with_time(g, {buffer}) for g in before if buffer in self.reads[g])
        return nested and self._by_rows(buffer)

    def _by_rows(self, buffer: Buffer) -> bool:
        """Whether the scan goes through a buffer row by row, a row a step."""
        if not buffer.shape or buffer.shape[0] is not self.plan.length:
            return False
        step = row_major(buffer.shape)[0]
        if self.scan.nest is not None:
            time = self.scan.nest.time
            accesses = [a for a, _ in self.scan.nest.accesses() if a.buffer is buffer]
            return all(a.strides.get(time, 0) == step for a in accesses)  # type: ignore[arg-type]
        row = types.as_atom(self.plan.row)
        offsets = [o for s in self.scan.statements for b, o, _ in _refs(s) if b is buffer]
        return row is not None and all(o - types.substitute(o, {row: 0}) == self.plan.row * step for o in offsets)


def _buffers(region: Region, group: Group, nests: dict[Group, Nest]) -> Iterator[tuple[Buffer, bool]]:
    if group in nests:
        yield from ((access.buffer, written) for access, written in nests[group].accesses())
        return
    block = group.members[0]
    assert isinstance(block, Block)
    for statement in block.statements if block.nest is None else [block.nest]:
        yield from ((buffer, written) for buffer, _, written in _refs(statement))


def _refs(statement: Statement) -> Iterator[tuple[Buffer, Dimension, bool]]:
    if isinstance(statement, TimeLoop | Blocks):
        for inner in statement.body:
            yield from _refs(inner)
    else:
        yield from statement_refs(statement)


# ---- writing a chain as statements ---------------------------------------------------------------------------------


def blocked(region: Region, chain: Chain, nests: dict[Group, Nest]) -> list[Statement]:
    """The statements of a chain: packs, then the loop over blocks of time."""
    plan = chain.scan.plan
    first, rows = counter("first"), counter("rows")
    base = plan.length - first - rows if plan.reverse else first
    packs: list[Statement] = []
    body: list[Statement] = []

    def add(statements: list[Statement]) -> None:
        for statement in statements:
            (packs if isinstance(statement, Pack) else body).append(statement)

    for group in chain.before:
        add(tile.shape_nest(region, _stretch(nests[group], nests[group].space[0], rows, base, chain)))
    add(_scan_stretch(region, chain, first, rows, base))
    for group in chain.after:
        add(tile.shape_nest(region, _stretch(nests[group], nests[group].space[0], rows, base, chain)))
    width = sum((types.product(b.shape[1:]) * b.dtype.itemsize for b in chain.shrunk), start=0)
    size = types.minimum(plan.length, types.maximum(BLOCK_BYTES // types.maximum(width, 1), 1))
    for buffer in chain.shrunk:
        buffer.shape = (size, *buffer.shape[1:])
    names = ", ".join(sorted({b.name for b in chain.shrunk}))
    region.context.notes.append(f"{chain.scan.label}: in blocks of time, with memory for one block of {names}")
    return [*packs, Blocks(plan.length, types.maximum(size, 1), first, rows, body)]


def _stretch(nest: Nest, time: Loop, rows: Dimension, base: Dimension, chain: Chain) -> Nest:
    """A nest over some rows of time only, from `base` on."""
    short = Loop(rows)
    space = [short if loop is time else loop for loop in nest.space]
    loops: Callable[[Loop], Loop] = lambda loop: short if loop is time else loop
    changed_nest = tile.rebuild_nest(nest, lambda a: _moved(a, time, short, base, chain), loops, space)
    return changed(changed_nest, time=short) if nest.time is time else changed_nest


def _moved(access: Access, time: Loop, short: Loop, base: Dimension, chain: Chain) -> Access:
    stride = access.strides.get(time)
    if stride is None:
        return access
    strides = {short if loop is time else loop: s for loop, s in access.strides.items()}
    offset = access.offset if access.buffer in chain.shrunk else access.offset + base * stride
    return changed(access, offset=offset, strides=strides)


def _scan_stretch(region: Region, chain: Chain, first: Dimension, rows: Dimension, base: Dimension) -> list[Statement]:
    """The scan over the steps of one block."""
    scan, plan = chain.scan, chain.scan.plan
    if scan.nest is None:
        *packs, loop = scan.statements
        assert isinstance(loop, TimeLoop)
        return [*packs, changed(loop, length=rows, start=first, body=_in_block(loop.body, plan.row, base, chain))]
    starts = {}
    for register, carry in zip(scan.nest.registers, plan.carries, strict=True):
        if carry.trajectory:  # it begins where the block before it ended
            access = register.init.access  # type: ignore[attr-defined]
            moved = first * carry.store.strides[0]
            starts[access] = changed(access, offset=access.offset + (-moved if plan.reverse else moved))
    nest = tile.rebuild_nest(scan.nest, lambda access: starts.get(access, access))
    assert nest.time is not None
    return tile.shape_nest(region, _stretch(nest, nest.time, rows, base, chain))


def _in_block(body: list[Statement], row: Dimension, base: Dimension, chain: Chain) -> list[Statement]:
    """Statements of a loop over time, with rows of shrunk buffers counted from the start of the block."""
    atom = types.as_atom(row)
    assert atom is not None

    def offset(buffer: Buffer, old: Dimension) -> Dimension:
        return types.substitute(old, {atom: row - base}) if buffer in chain.shrunk else old

    result: list[Statement] = []
    for statement in body:
        if isinstance(statement, Nest):
            result.append(tile.rebuild_nest(statement, lambda a: changed(a, offset=offset(a.buffer, a.offset))))
        elif isinstance(statement, Pack):
            sources = [Ref(s.buffer, offset(s.buffer, s.offset), s.shape, s.strides) for s in statement.sources]
            result.append(changed(statement, sources=sources))
        else:
            result.append(changed(statement, body=_in_block(statement.body, row, base, chain)))
    return result

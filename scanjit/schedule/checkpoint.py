"""Checkpoints: of a loop that a gradient reads, only every k-th carry is kept, and the steps between are made again for
the gradient, a stretch of k steps at a time. What the gradient reads is in memory for one stretch only.

Both loops run in blocks of time. A block of the gradient is a block of the forward loop, run once more from the carries
before it (but for the last one, which is there still), and then its own steps. The nests are those that run without
checkpoints: so are the results, to the last bit.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from dataclasses import replace as changed

import numpy as np

from scanjit import types
from scanjit.schedule import build, sums, tile
from scanjit.schedule.blocks import Chain, Search, Written, can_be_cut
from scanjit.schedule.fuse import Group
from scanjit.schedule.linear import linear
from scanjit.schedule.program import (
    Access,
    Blocks,
    Buffer,
    Load,
    Nest,
    Ref,
    Statement,
    Store,
    counter,
    row_major,
)
from scanjit.schedule.region import Block, Item, Region, Task
from scanjit.schedule.stretch import Stretch
from scanjit.types import Dimension


@dataclass
class Pair:
    """A loop, the loop of its gradient, the steps between checkpoints, the buffers that are in memory for one stretch,
    and by carry of the first loop: the carries before each stretch, and after the last."""

    forward: Chain
    backward: Chain
    size: Dimension
    shrunk: set[Buffer] = field(default_factory=set)
    kept: dict[int, Buffer] = field(default_factory=dict)


def pairs(
    region: Region, groups: list[Group], nests: dict[Group, Nest], chained: Mapping[Group, Chain]
) -> dict[Group, Pair]:
    """The pairs of a region, by the groups of both loops. Nests that begin or end a carry that is kept are changed."""
    found: dict[Group, Pair] = {}
    reasons: dict[Group, str] = {}
    for at, group in enumerate(groups):
        wanted = _wanted(group)
        if wanted is None or group in found:
            continue
        reasons[group] = "no loop beside it goes back over its steps and reads what it stores"
        for earlier in range(at - 1, -1, -1):
            source = groups[earlier]
            if source not in found and _wanted(source) == wanted and _is_gradient(source, group):
                search = _Pairing(region, groups, nests, {**chained, **_members(found)}, earlier, at)
                pair = search.pair(_size(source, wanted))
                if pair is not None:
                    found |= {source: pair, group: pair}
                    break
                reasons[source] = search.refused or "what the gradient reads of it is needed by something else too"
                reasons.pop(group)
                break
    for group, text in reasons.items():
        if group not in found:
            label = f"{_block(group).label}: checkpoint={_wanted(group)!r}"
            region.context.notes.append(f"{label} is not done, all is stored: {text}")
    return found | _members(found)


def _members(found: Mapping[Group, Pair]) -> dict[Group, Pair]:
    """The pairs by the groups that their loops take along."""
    return {group: pair for pair in found.values() for chain in (pair.forward, pair.backward) for group in chain.others}


def _block(group: Group) -> Block:
    block = group.members[0]
    assert isinstance(block, Block)
    return block


def _wanted(group: Group) -> int | str | None:
    """The checkpoints that a scan asks for, if any."""
    block = group.members[0]
    if not isinstance(block, Block) or block.scan is None:
        return None
    checkpoint = block.plan.node.params["checkpoint"]
    return None if checkpoint == "all" else checkpoint


def _is_gradient(source: Group, group: Group) -> bool:
    """Whether a loop may be that of the gradient of another: it goes back over the same steps, and reads it, or what
    is made of it by no other loop."""
    first, second = _block(source), _block(group)
    if first.plan.reverse == second.plan.reverse or first.plan.length != second.plan.length:
        return False
    seen: set[Item] = set()
    stack: list[Item] = [second]
    while stack:
        needs = stack.pop().needs.keys() - seen
        seen |= needs
        stack += [item for item in needs if isinstance(item, Task)]
    return first in seen


def _size(source: Group, wanted: int | str) -> Dimension:
    length = _block(source).plan.length
    return types.maximum(types.square_root(length), 1) if wanted == "sqrt" else wanted


class _Pairing:
    """Two loops, and what is to be known to make them a pair."""

    def __init__(
        self,
        region: Region,
        groups: list[Group],
        nests: dict[Group, Nest],
        taken: Mapping[Group, Chain | Pair],
        first: int,
        second: int,
    ) -> None:
        self.region, self.groups, self.nests = region, groups, nests
        self.first, self.second = first, second
        self.source, self.reader = groups[first], groups[second]
        self.forward = Search(region, groups, nests, first, frozenset())
        self.backward = Search(region, groups, nests, second, frozenset())
        found = [taken.get(group) for group in (self.source, self.reader)]
        self.chains = [
            chain if isinstance(chain, Chain) else Chain(_block(group))
            for chain, group in zip(found, (self.source, self.reader), strict=True)
        ]
        self.members = {*self.chains[0].others, *self.chains[1].others}
        self.parts = self._parts(taken)
        self.plan = self.forward.plan
        self.refused = ""

    def pair(self, size: Dimension) -> Pair | None:
        """The pair, if that saves any memory; sets `refused` where it cannot be."""
        if not can_be_cut(self.source) or not can_be_cut(self.reader):
            self.refused = "the loop may end early"
            return None
        if any(search.scan.nest and linear(search.scan.nest) for search in (self.forward, self.backward)):
            self.refused = "it is linear in numbers, of which several steps are done at a time"
            return None
        chained = {b for chain in self.chains for b in chain.shrunk}
        stores = {carry.store.buffer: i for i, carry in enumerate(self.plan.carries)}
        shrunk = self._settled(stores, chained)
        lost = [b for b, i in stores.items() if not self.plan.carries[i].trajectory and not self._is_kept(b, i)]
        if lost or not shrunk & self.forward.writes[self.source]:
            self.refused = "a carry is read by another loop" if lost else ""
            return None
        kept = {i: b for b, i in stores.items() if b in shrunk or not self.plan.carries[i].trajectory}
        stacks = {i: self._stack(buffer, size) for i, buffer in kept.items()}
        pair = Pair(*self._chains(), size, shrunk | chained, stacks)
        self._redirect(pair, kept)
        return pair

    # ---- maps over time that go along --------------------------------------------------------------------------------

    def _parts(self, taken: Container[Group]) -> dict[Group, str]:
        """Maps over time that may go along, stretch by stretch, and when they are done: with the steps of the first
        loop and whenever these are made again ("before"), after its steps ("after"), or with those of the second loop,
        before or after these ("between", "last")."""
        found: dict[Group, str] = {}
        for at, group in enumerate(self.groups):
            if group in taken or group in (self.source, self.reader):
                continue
            search, scan = (self.forward, self.source) if at < self.first else (self.backward, self.reader)
            waits = any(search.order.blocks(scan.members, item) for item in group.members)
            if not waits and search.steps_with_time(group, search.writes[group]):
                found[group] = "before" if at < self.first else "between" if at < self.second else "last"
        return found

    def _settled(self, stores: Mapping[Buffer, int], chained: AbstractSet[Buffer]) -> set[Buffer]:
        """The buffers of which one stretch is enough memory; what cannot go along with them is dropped from `parts`."""
        while True:
            self.going = self.members | self.parts.keys()
            makers = [self.source, *(group for group, when in self.parts.items() if when in ("before", "between"))]
            made = {b for group in makers for b in self.forward.writes[group]} - chained
            shrunk = {b for b in made if self._is_ours(b, stores)}
            moved = {group: when for group in self.parts if (when := self._when(group, shrunk)) != self.parts[group]}
            if not moved:
                return shrunk
            self.parts = {g: when for g, other in self.parts.items() if (when := moved.get(g, other)) is not None}

    def _when(self, group: Group, shrunk: AbstractSet[Buffer]) -> str | None:
        """When a part is done, if it can go along with what is in memory for these stretches."""
        when, reads, writes = self.parts[group], self.forward.reads[group], self.forward.writes[group]
        since = self.first if when == "before" else self.second
        if when in ("before", "between") and (reads | writes) & shrunk and self._asked_after(group, since):
            return when
        only_reads = bool(reads & shrunk) and not writes & shrunk
        ready = {*self.groups[: self.first], self.source}
        ready |= {g for g, other in self.parts.items() if other in ("before", "after")}
        needed = self.forward.needs[group]
        if when in ("between", "after") and only_reads and needed <= ready:
            return "after"
        return "last" if when == "last" and only_reads and needed <= {*self.groups[: self.second + 1]} else None

    def _asked_after(self, group: Group, at: int) -> bool:
        """Whether all that needs a part, and does not go along itself, comes after the group at this position."""
        users = {g for g in self.groups if group in self.forward.needs[g]} - self.going - {self.source, self.reader}
        return users <= {*self.groups[at + 1 :]}

    def _chains(self) -> tuple[Chain, Chain]:
        """The loops with all that goes along."""
        first, second = self.chains
        asked = {self.source, *first.others, *(group for group, when in self.parts.items() if when == "after")}
        for group in reversed(self.groups[: self.first]):
            if self.parts.get(group) == "before":
                if any(group in self.forward.needs[g] for g in asked) or not self._asked_after(group, self.second):
                    asked.add(group)
                else:  # the first loop does without it
                    self.parts[group] = "between"
        at = {group: i for i, group in enumerate(self.groups)}

        def parts(own: Sequence[Group], when: str) -> list[Group]:
            return sorted([*own, *(g for g, other in self.parts.items() if other == when)], key=at.__getitem__)

        return (
            changed(first, before=parts(first.before, "before"), after=parts(first.after, "after")),
            changed(second, before=parts(second.before, "between"), after=parts(second.after, "last")),
        )

    # ---- what may be in memory for a stretch only -------------------------------------------------------------------

    def _is_ours(self, buffer: Buffer, stores: Mapping[Buffer, int]) -> bool:
        """Whether only the two loops and what goes with them use a buffer, row by row."""
        if buffer.kind != "temporary" or buffer not in self.region.buffers:
            return False
        carry = stores.get(buffer)
        if carry is None and buffer.shape[:1] != (self.plan.length,):
            return False
        if carry is not None and not self.plan.carries[carry].trajectory:
            return False
        for group in self.groups:
            if buffer not in self.forward.reads[group] | self.forward.writes[group]:
                continue
            if not self._by_rows(group, buffer) and (carry is None or not self._begins_or_ends(group, buffer, carry)):
                return False
        return True

    def _by_rows(self, group: Group, buffer: Buffer) -> bool:
        """Whether a group belongs to the pair and goes through a buffer row by row."""
        if group in (self.source, self.reader):
            search = self.forward if group is self.source else self.backward
            return search.steps_by_rows(buffer)
        if group not in self.going:
            return False
        found = next((chain.sums[group] for chain in self.chains if group in chain.sums), None)
        if found is not None:
            return sums.covers(found, self.nests[group], {buffer})
        return self.forward.steps_with_time(group, {buffer})

    def _is_kept(self, buffer: Buffer, carry: int) -> bool:
        """Whether all that others than its loop do with a carry is to begin it and to read it after the last step."""
        users = [g for g in self.groups if buffer in self.forward.reads[g] | self.forward.writes[g]]
        return all(g is self.source or self._begins_or_ends(g, buffer, carry) for g in users)

    def _begins_or_ends(self, group: Group, buffer: Buffer, carry: int) -> bool:
        """Whether a nest only writes a carry before the first step, or reads it after the last one."""
        if group not in self.nests or group in self.going:
            return False
        accesses = [(a, written) for a, written in self.nests[group].accesses() if a.buffer is buffer]
        return all(self._place(access, written, carry) is not None for access, written in accesses)

    def _place(self, access: Access, written: bool, carry: int) -> Dimension | None:
        """The position in a row of an access to a carry from outside; None where it is not to that row alone."""
        plan, shape = self.plan, access.buffer.shape
        row = plan.first(carry) if written else plan.final(carry, plan.length)
        inside = access.offset - row.offset
        steps = {step for step, size in zip(row_major(shape)[1:], shape[1:], strict=True) if size != 1}
        if not steps.issuperset(access.strides.values()):
            return None
        least = int(np.prod([size if isinstance(size, int) else 1 for size in shape[1:]]))
        fits = isinstance(inside, int) and 0 <= inside < (1 if written else max(least, 1))
        return inside if fits else None

    # ---- what is kept ------------------------------------------------------------------------------------------------

    def _stack(self, buffer: Buffer, size: Dimension) -> Buffer:
        """Memory for a carry before each stretch, and after the last."""
        count = (self.plan.length + (size - 1)) // size
        stack = Buffer(buffer.dtype, (count + 1, *buffer.shape[1:]), "temporary", "kept")
        self.region.buffers.add(stack)
        return stack

    def _redirect(self, pair: Pair, kept: Mapping[int, Buffer]) -> None:
        """Carries begin and end where they are kept."""
        carries = {buffer: i for i, buffer in kept.items()}
        for group, nest in self.nests.items():
            if group in self.going or not any(a.buffer in carries for a, _ in nest.accesses()):
                continue
            writes = {store.access for store in (*nest.stores, *nest.finals)}

            def moved(access: Access, writes: set[Access] = writes) -> Access:
                carry = carries.get(access.buffer)
                if carry is None:
                    return access
                inside = self._place(access, access in writes, carry)
                if inside is None:
                    return access
                stack = pair.kept[carry]
                row = Ref.whole(stack).row(0 if access in writes else stack.shape[0] - 1)
                return changed(access, buffer=stack, offset=row.offset + inside)

            self.nests[group] = tile.rebuild_nest(nest, moved)


# ---- writing a pair as statements ----------------------------------------------------------------------------------


def forward(region: Region, pair: Pair, nests: dict[Group, Nest]) -> list[Statement]:
    """The statements of the first loop, which keeps its carries before each stretch."""
    plan = pair.forward.scan.plan
    first, rows = counter("first"), counter("rows")
    stretch = Stretch.of(plan, first, rows, pair.shrunk)
    made = Written(region, pair.forward, nests, {*types.atoms(first), *types.atoms(rows)})
    made.maps(pair.forward.before, stretch)
    _restore(made, pair, stretch, first // pair.size)
    made.scan(stretch)
    for i, stack in pair.kept.items():
        _copy(made, stretch.last(plan, i), Ref.whole(stack).row(first // pair.size + 1))
    made.maps(pair.forward.after, stretch)
    made.sums(stretch)
    made.hold(rows, types.minimum(pair.size, plan.length))
    return [*made.first, Blocks(plan.length, pair.size, first, rows, made.body), *made.last]


def backward(region: Region, pair: Pair, nests: dict[Group, Nest]) -> list[Statement]:
    """The statements of the loop of the gradient, with the steps of the first loop that are made again; and the buffers
    get their size, which nothing asks for any more."""
    plan, own = pair.forward.scan.plan, pair.backward.scan.plan
    first, rows = counter("first"), counter("rows")
    counters = {*types.atoms(first), *types.atoms(rows)}
    last = (plan.length + (pair.size - 1)) // pair.size * pair.size - pair.size
    again = Stretch.of(plan, first, rows, pair.shrunk, rows * types.minimum(last - first, 1))
    remade = Written(region, pair.forward, nests, counters)
    remade.maps(pair.forward.before, again)
    _restore(remade, pair, again, first // pair.size)
    remade.body += again.scan(region, pair.forward.scan)
    made = Written(region, pair.backward, nests, counters)
    made.block(Stretch.of(own, own.length - first - rows, rows, pair.shrunk))
    for written in (remade, made):
        written.hold(rows, types.minimum(pair.size, plan.length))
    _shrink(region, pair)
    body = [*remade.body, *made.body]
    blocks = Blocks(plan.length, pair.size, first, rows, body, backwards=True)
    return [*remade.first, *made.first, blocks, *made.last]


def _restore(made: Written, pair: Pair, stretch: Stretch, block: Dimension) -> None:
    """Put the carries where the steps of a stretch begin."""
    for i, stack in pair.kept.items():
        _copy(made, Ref.whole(stack).row(block), stretch.first(pair.forward.scan.plan, i))


def _copy(made: Written, source: Ref, target: Ref) -> None:
    space = made.region.space(source.shape)
    at = build.identity(space)
    value = Load(source.buffer.dtype, build.place(source, at))
    made.nest(Nest(list(space), [Store(build.place(target, at), value)], "kept"))


def _shrink(region: Region, pair: Pair) -> None:
    length = pair.forward.scan.plan.length
    size = types.minimum(pair.size, length)
    for buffer in pair.shrunk:
        more = buffer.shape[0] - length  # a trajectory holds the carries before the first step too
        buffer.shape = (size + more, *buffer.shape[1:])
    names = ", ".join(sorted({buffer.name for buffer in pair.shrunk}))
    text = f"stretches of {pair.size} steps are made again for the gradient, from the carries before them"
    region.context.notes.append(f"{pair.forward.scan.label}: {text}; with memory for one stretch of {names}")

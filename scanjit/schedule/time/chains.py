"""Chains: a scan with the groups that go along with it, stretch by stretch."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from dataclasses import replace as changed

from scanjit.schedule.fuse.groups import Group
from scanjit.schedule.lower.region import Compound
from scanjit.schedule.nests import Access, Buffer, Nest
from scanjit.schedule.time.flow import Flow, can_be_cut, the_scan
from scanjit.schedule.time.rows import is_rowwise, scan_is_rowwise
from scanjit.schedule.time.summed import SumLoops
from scanjit.schedule.time.sums import only_sums, sums_over_time
from scanjit.target import Target


@dataclass(frozen=True, eq=False)
class Chain:
    """A scan and what goes along with it.

    Parameters
    ----------
    scan : the scan.
    before, after : the rowwise nests that make what the scan reads, and that read what it makes.
    sums : nests with sums over time of what the scan makes.
    short : the buffers that nobody else uses: memory for one stretch is enough.
    rings : carries with a lag, such as `h[t - 3]`, that nobody else reads. Their memory holds a stretch and the steps
        before it. The buffer given here keeps the last values (of 3 steps, here) from stretch to stretch.
    """

    scan: Compound
    before: tuple[Group, ...] = ()
    after: tuple[Group, ...] = ()
    sums: Mapping[Group, SumLoops] = field(default_factory=dict)
    short: AbstractSet[Buffer] = frozenset()
    rings: Mapping[int, Buffer] = field(default_factory=dict)

    @property
    def others(self) -> list[Group]:
        """The groups that go along with the scan."""
        return [*self.before, *self.after, *self.sums]


def find_chains(flow: Flow, target: Target) -> tuple[dict[Group, Chain], dict[Group, Nest]]:
    """The chains of a region, by their scan's group and by those that go along; and the nests that change for them."""
    found: dict[Group, Chain] = {}
    new: dict[Group, Nest] = {}
    for group in flow.groups:
        if can_be_cut(group) and the_scan(group).plan.node.params["unroll"] is not True:
            chain = _Search(flow, group, found.keys(), target).chain()
            if chain.short or chain.sums or chain.rings:
                found |= dict.fromkeys((group, *chain.others), chain)
                nests = _begun(flow.nests, chain)
                new |= nests
                flow = flow.with_nests(nests)
    return found, new


def _begun(nests: Mapping[Group, Nest], chain: Chain) -> dict[Group, Nest]:
    """The nests that write what is there before the first step of carries that are rings: they write it where the last
    values are kept."""
    plan = chain.scan.plan
    begin = {plan.carries[i].store.buffer: (plan.first(i).offset, last) for i, last in chain.rings.items()}

    def moved(access: Access) -> Access:
        if access.buffer not in begin:
            return access
        offset, last = begin[access.buffer]
        return changed(access, buffer=last, offset=access.offset - offset)

    return {
        group: nest.rebuilt(moved)
        for group, nest in nests.items()
        if any(written and access.buffer in begin for access, written in nest.accesses())
    }


@dataclass(frozen=True)
class _Search:
    """The search for what can go along with a scan. Those that are `taken` go with another one."""

    flow: Flow
    at: Group
    taken: AbstractSet[Group]
    target: Target

    @property
    def scan(self) -> Compound:
        return the_scan(self.at)

    def chain(self) -> Chain:
        """The largest chain around the scan."""
        flow = self.flow
        after, found, results = self._after()
        later = {*after, *found}
        before: list[Group] = []
        short = set(results)
        for group in reversed(flow.groups[: flow.at[self.at]]):
            if group in self.taken:
                continue
            own, users = flow.writes[group], flow.users[group]
            with_scan = users <= {self.at, *before, *later} and not users <= later
            private = own and with_scan and all(flow.is_private(b, group, users) for b in own)
            if private and self._is_rowwise(group, own) and all(self._read_by_rows(b, found) for b in own):
                before.insert(0, group)
                short |= own
        return Chain(self.scan, tuple(before), tuple(after), found, short, self._rings(found))

    def _after(self) -> tuple[list[Group], dict[Group, SumLoops], set[Buffer]]:
        """The rowwise nests after the scan that read what nobody else does; the nests that sum what it made over time
        (all of them, for the order of the terms is to be the same whoever else reads it); and the buffers that the
        former read."""
        flow, position = self.flow, self.flow.at[self.at]
        known = {*flow.groups[: position + 1]}
        members: list[Group] = []
        found: dict[Group, SumLoops] = {}
        for group in flow.groups[position + 1 :]:
            read = flow.writes[self.at] & flow.reads[group]
            if group in self.taken or not read or not flow.needs[group] <= known:
                continue
            if any(flow.order.ties([self.scan], item) for item in group.members):
                continue
            if self._is_rowwise(group, read):
                members.append(group)
            elif group in flow.nests:
                sums = sums_over_time(flow.nests[group], self.scan.plan.length, read, self.target)
                found |= {group: sums} if sums is not None else {}
        while True:
            readers = {*members, *found}
            results = {b for b in flow.writes[self.at] if flow.is_private(b, self.at, readers) and self._by_rows(b)}
            left = [group for group in members if flow.reads[group] & results]
            if left == members:
                return members, found, results
            members = left

    def _is_rowwise(self, group: Group, buffers: AbstractSet[Buffer]) -> bool:
        return is_rowwise(self.flow.nests.get(group), self.scan.plan.length, buffers)

    def _read_by_rows(self, buffer: Buffer, found: Mapping[Group, SumLoops]) -> bool:
        """Whether all that reads a buffer goes through it row by row: the scan, rowwise nests, and sums over time."""
        for group in self.flow.groups:
            if group is not self.at and buffer in self.flow.reads[group]:
                if group in found and not only_sums(found[group], self.flow.nests[group], {buffer}):
                    return False
                if group not in found and not self._is_rowwise(group, {buffer}):
                    return False
        return self._by_rows(buffer)

    def _by_rows(self, buffer: Buffer) -> bool:
        """Whether the scan goes through a buffer row by row, from the first row to the last or back."""
        return bool(buffer.shape) and buffer.shape[0] == self.scan.plan.length and scan_is_rowwise(self.scan, buffer)

    def _rings(self, found: Mapping[Group, SumLoops]) -> dict[int, Buffer]:
        """The carries that are rings, each with memory for its last values; of those that share a buffer, the first."""
        plan, flow = self.scan.plan, self.flow
        if self.scan.nest is None or plan.node.params["checkpoint"] is not None:
            return {}
        rings: dict[Buffer, int] = {}
        lags = {carry.store.buffer for carry in plan.carries if carry.lag is not None}
        for i, carry in enumerate(plan.carries):
            buffer = carry.store.buffer
            readers = [group for group in flow.groups if group is not self.at and buffer in flow.reads[group]]
            alone = all(g in found and only_sums(found[g], flow.nests[g], {buffer}) for g in readers)
            if buffer in lags & flow.temporaries and alone:
                rings.setdefault(buffer, i)
        return {
            i: Buffer(buffer.dtype, (plan.carries[i].reach, *buffer.shape[1:]), "temporary", "kept")
            for buffer, i in rings.items()
        }

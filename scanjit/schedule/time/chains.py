"""Chains: a scan with the statements that go along with it, stretch by stretch."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from dataclasses import replace as changed

from scanjit.schedule.nests import Access, Buffer, Nest, Statement
from scanjit.schedule.nests.plan import Plan
from scanjit.schedule.time.flow import Flow, can_be_cut, plan_of, scans_of
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

    scan: Statement
    before: tuple[Statement, ...] = ()
    after: tuple[Statement, ...] = ()
    sums: Mapping[Statement, SumLoops] = field(default_factory=dict)
    short: AbstractSet[Buffer] = frozenset()
    rings: Mapping[int, Buffer] = field(default_factory=dict)

    @property
    def plan(self) -> Plan:
        """The plan of the scan."""
        return plan_of(self.scan)

    @property
    def others(self) -> list[Statement]:
        """The statements that go along with the scan."""
        return [*self.before, *self.after, *self.sums]


def find_chains(flow: Flow, target: Target) -> tuple[dict[Statement, Chain], dict[Statement, Nest]]:
    """The chains of a suite, by each statement in them; and the nests that change for them."""
    found: dict[Statement, Chain] = {}
    new: dict[Statement, Nest] = {}
    for scan in scans_of(flow.statements):
        if can_be_cut(scan) and plan_of(scan).node.params["unroll"] is not True:
            chain = _Search(flow, scan, found.keys(), target).chain()
            if chain.short or chain.sums or chain.rings:
                found |= dict.fromkeys((scan, *chain.others), chain)
                if chain.rings:
                    nests = _begun(flow, chain)
                    new |= nests
                    flow = flow.with_nests(nests)
    return found, new


def _begun(flow: Flow, chain: Chain) -> dict[Statement, Nest]:
    """The nests that write the initial values of rings. They write them into the buffers of last values instead."""
    plan = chain.plan
    begin = {plan.carries[i].store.buffer: (plan.first(i).offset, last) for i, last in chain.rings.items()}

    def moved(access: Access) -> Access:
        if access.buffer not in begin:
            return access
        offset, last = begin[access.buffer]
        return changed(access, buffer=last, offset=access.offset - offset)

    return {
        statement: nest.rebuilt(moved)
        for statement, nest in flow.nests.items()
        if not flow.writes[statement].isdisjoint(begin)
    }


@dataclass(frozen=True)
class _Search:
    """The search for what can go along with a scan. Those that are `taken` go with another one."""

    flow: Flow
    scan: Statement
    taken: AbstractSet[Statement]
    target: Target

    @property
    def plan(self) -> Plan:
        return plan_of(self.scan)

    def chain(self) -> Chain:
        """The largest chain around the scan."""
        flow = self.flow
        after, found, results = self._after()
        later = {*after, *found}
        before: list[Statement] = []
        short = set(results)
        for statement in reversed(flow.statements[: flow.at[self.scan]]):
            if statement in self.taken:
                continue
            own, users = flow.writes[statement], flow.users[statement]
            with_scan = users <= {self.scan, *before, *later} and not users <= later
            private = own and with_scan and all(flow.is_private(b, statement, users) for b in own)
            if private and self._is_rowwise(statement, own) and all(self._read_by_rows(b, found) for b in own):
                before.insert(0, statement)
                short |= own
        return Chain(self.scan, tuple(before), tuple(after), found, short, self._rings(found))

    def _after(self) -> tuple[list[Statement], dict[Statement, SumLoops], set[Buffer]]:
        """The rowwise nests after the scan that may go along; the nests that sum its results over time; and the results
        that only these read. All nests with such sums go along, so that the order of their terms does not depend on who
        else reads the results."""
        flow, position = self.flow, self.flow.at[self.scan]
        known = {*flow.statements[: position + 1]}
        members: list[Statement] = []
        found: dict[Statement, SumLoops] = {}
        for statement in flow.statements[position + 1 :]:
            read = flow.writes[self.scan] & flow.reads[statement]
            if statement in self.taken or not read or not flow.needs[statement] <= known:
                continue
            if flow.order.ties(flow.order.around[self.scan], flow.order.around[statement]):
                continue
            if self._is_rowwise(statement, read):
                members.append(statement)
            elif statement in flow.nests:
                sums = sums_over_time(flow.nests[statement], self.plan.length, read, self.target)
                found |= {statement: sums} if sums is not None else {}
        while True:
            readers = {*members, *found}
            results = {b for b in flow.writes[self.scan] if flow.is_private(b, self.scan, readers) and self._by_rows(b)}
            left = [s for s in members if flow.reads[s] & results]
            if left == members:
                return members, found, results
            members = left

    def _is_rowwise(self, statement: Statement, buffers: AbstractSet[Buffer]) -> bool:
        return is_rowwise(self.flow.nests.get(statement), self.plan.length, buffers)

    def _read_by_rows(self, buffer: Buffer, found: Mapping[Statement, SumLoops]) -> bool:
        """Whether all that reads a buffer goes through it row by row: the scan, rowwise nests, and sums over time."""
        for statement in self.flow.using[buffer]:
            if statement is not self.scan and buffer in self.flow.reads[statement]:
                if statement in found and not only_sums(found[statement], self.flow.nests[statement], {buffer}):
                    return False
                if statement not in found and not self._is_rowwise(statement, {buffer}):
                    return False
        return self._by_rows(buffer)

    def _by_rows(self, buffer: Buffer) -> bool:
        """Whether the scan goes through a buffer row by row, from the first row to the last or back."""
        return bool(buffer.shape) and buffer.shape[0] == self.plan.length and scan_is_rowwise(self.scan, buffer)

    def _rings(self, found: Mapping[Statement, SumLoops]) -> dict[int, Buffer]:
        """The carries that are rings, each with memory for its last values; of those that share a buffer, the first."""
        plan, flow = self.plan, self.flow
        if not isinstance(self.scan, Nest) or plan.node.params["checkpoint"] is not None:
            return {}
        rings: dict[Buffer, int] = {}
        lags = {carry.store.buffer for carry in plan.carries if carry.lag is not None}
        for i, carry in enumerate(plan.carries):
            buffer = carry.store.buffer
            readers = [s for s in flow.using[buffer] if s is not self.scan and buffer in flow.reads[s]]
            alone = all(g in found and only_sums(found[g], flow.nests[g], {buffer}) for g in readers)
            if buffer in lags & flow.temporaries and alone:
                rings.setdefault(buffer, i)
        return {
            i: Buffer(buffer.dtype, (plan.carries[i].reach, *buffer.shape[1:]), "temporary", "last", row=buffer.row)
            for buffer, i in rings.items()
        }

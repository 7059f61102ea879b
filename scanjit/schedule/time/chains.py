"""Chains: a scan with the statements that go along with it, stretch by stretch."""

from collections.abc import Mapping, Set as AbstractSet
from dataclasses import field
from functools import cached_property

from scanjit.ops.scan import checkpoints
from scanjit.records import record, replace as changed
from scanjit.schedule.nests import Access, Buffer, Nest, Statement
from scanjit.schedule.nests.plan import CarryMemory, Plan
from scanjit.schedule.time.flow import Flow, can_be_cut, plan_of
from scanjit.schedule.time.rows import is_rowwise, scan_is_rowwise
from scanjit.schedule.time.sums import SumLoops, only_sums, summed, sums_over_time
from scanjit.target import Target


@record
class Chain:
    """A scan, and the statements that go along with it.

    Parameters
    ----------
    scan : the scan.
    before, after : the rowwise nests in front of the scan, which make what it or the sums read, and those behind it,
        which read what it makes.
    sums : nests with sums over time of results of the scan.
    short : the buffers that nobody else uses: memory for one stretch is enough.
    rings : the carries that are stored at every step and that nobody else reads, by number. Their memory holds a
        stretch and the steps before it (3 steps for a carry that is read as `h[t - 3]`). Each maps to the buffer that
        keeps the values of these steps from stretch to stretch.
    alone : whether no other loop needs the scan, and it needs no other.
    """

    scan: Statement
    before: tuple[Statement, ...] = ()
    after: tuple[Statement, ...] = ()
    sums: Mapping[Statement, SumLoops] = field(default_factory=dict)
    short: AbstractSet[Buffer] = frozenset()
    rings: Mapping[int, Buffer] = field(default_factory=dict)
    alone: bool = False

    @property
    def plan(self) -> Plan:
        """The plan of the scan."""
        return plan_of(self.scan)

    @property
    def others(self) -> list[Statement]:
        """The statements that go along with the scan."""
        return [*self.before, *self.after, *self.sums]


def find_chains(flow: Flow, target: Target) -> tuple[dict[Statement, Chain], dict[Statement, Nest]]:
    """The chains of a suite, each under every statement in it; and new forms of nests that begin rings."""
    found: dict[Statement, Chain] = {}
    new: dict[Statement, Nest] = {}
    for scan in flow.scans:
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
    """The nests that write the initial values of rings, now into the buffers of last values."""
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


@record(eq=True)
class _Search:
    """The search for statements that can go along with a scan. Statements in `taken` go with another one."""

    flow: Flow
    scan: Statement
    taken: AbstractSet[Statement]
    target: Target

    @property
    def plan(self) -> Plan:
        return plan_of(self.scan)

    @cached_property
    def _is_alone(self) -> bool:
        return self.flow.is_alone(self.scan)

    def chain(self) -> Chain:
        """The largest chain around the scan."""
        flow = self.flow
        after, found, results, rings = self._after()
        later = {*after, *found}
        before: list[Statement] = []
        short = set(results)
        for statement in reversed([*flow.statements[: flow.at[self.scan]], *self._aside]):
            if statement in self.taken:
                continue
            own, users, members = flow.writes[statement], flow.users[statement], {self.scan, *before, *later}
            private = own and users <= members and all(flow.is_private(b, statement, users) for b in own)
            if private and self._is_rowwise(statement, own) and all(self._read_by_rows(b, found) for b in own):
                before.insert(0, statement)
                short |= own
            elif self._is_between(statement, members, later, found) or (
                statement in self._aside and not users.isdisjoint(members)
            ):
                before.insert(0, statement)
        return Chain(self.scan, tuple(before), tuple(after), found, short, rings, self._is_alone)

    @cached_property
    def _aside(self) -> list[Statement]:
        """The rowwise nests that stand behind the scan but do not need it, so that they may run before it. The gradient
        of weights has one: it computes `h = o * tanh(c)` again from the stored `o` and `c`."""
        flow, position = self.flow, self.flow.at[self.scan]
        there, found = {*flow.statements[: position + 1]}, list[Statement]()
        for statement in flow.statements[position + 1 :]:
            own = flow.writes[statement]
            if statement in self.taken or self.scan in flow.below[statement] or not flow.needs[statement] <= there:
                continue
            alone = all(s is statement or b not in flow.writes[s] for b in own for s in flow.using[b])
            if alone and all(self._by_rows(b, statement) for b in own):
                found.append(statement)
                there.add(statement)
        return found

    def _after(self) -> tuple[list[Statement], dict[Statement, SumLoops], set[Buffer], dict[int, Buffer]]:
        """Four things: the rowwise nests after the scan that may go along; the nests that sum over time what the scan
        and these nests make; the results of the scan that only these read; and the rings that only these read. All
        nests with such sums go along, so that the order of terms does not depend on who else reads the results."""
        flow, position = self.flow, self.flow.at[self.scan]
        before = {*flow.statements[: position + 1], *self._aside}
        members, found = self._candidates(before)
        while True:
            readers = {*members, *found}
            made = {b: s for s in (self.scan, *members) for b in flow.writes[s]}
            results = {b for b, s in made.items() if flow.is_private(b, s, readers) and self._by_rows(b, s)}
            rings = self._rings(readers if self._is_alone else found.keys())
            kept = results.union(self.plan.carries[i].store.buffer for i in rings)
            left: list[Statement] = []
            for statement in members:
                if flow.reads[statement] & kept and flow.needs[statement] <= before.union(left):
                    left.append(statement)
            sums: dict[Statement, SumLoops] = {}
            for statement, loops in found.items():
                if flow.needs[statement] <= before.union(left, sums):
                    sums[statement] = loops
            if (left, sums) == (members, found):
                return members, found, results, rings
            members, found = left, sums

    def _is_between(
        self,
        statement: Statement,
        members: AbstractSet[Statement],
        later: AbstractSet[Statement],
        found: Mapping[Statement, SumLoops],
    ) -> bool:
        """Whether a nest stands between another loop and this scan: row by row, it makes rows for the scan from rows of
        the loop. Everything else that reads these rows, such as the gradient, must need the scan too. The nest keeps
        its memory and goes along with the scan, so that the two loops may be a wave."""
        flow, own, users = self.flow, self.flow.writes[statement], self.flow.users[statement]
        if not own or users & members <= later or flow.below[statement].isdisjoint(flow.scans):
            return False
        if flow.checkpointed:
            return False  # what is recomputed belongs to one loop
        after = all(user in members or self.scan in flow.below[user] for user in users)
        alone = all(s is statement or b not in flow.writes[s] for b in own for s in flow.using[b])
        mine = [user for user in users & members if user not in found]
        return (
            after
            and alone
            and self._is_rowwise(statement, own)
            and all(self._by_rows(b, user) for user in mine for b in own & flow.reads[user])
            and all(
                only_sums(found[user], flow.nests[user], {b})
                for user in users & found.keys()
                for b in own & flow.reads[user]
            )
        )

    def _candidates(self, before: AbstractSet[Statement]) -> tuple[list[Statement], dict[Statement, SumLoops]]:
        """The statements after the scan that need only the scan, the statements in `before`, and each other. Each reads
        results of these row by row, or sums them over time. If the scan is alone, such a sum may also need other sums,
        which are complete after the last stretch."""
        flow, made, known = self.flow, {*self.flow.writes[self.scan]}, {*before}
        aside = {b for s in self._aside for b in flow.writes[s]}
        members: list[Statement] = []
        found: dict[Statement, SumLoops] = {}
        for statement in flow.statements[flow.at[self.scan] + 1 :]:
            read = (made | aside) & flow.reads[statement]
            if (
                statement in self.taken
                or made.isdisjoint(read)
                or not flow.needs[statement] <= (known.union(found) if self._is_alone else before)
            ):
                continue
            if flow.order.ties(flow.order.around[self.scan], flow.order.around[statement]):
                continue
            if self._is_rowwise(statement, read) and flow.needs[statement] <= known:
                members.append(statement)
                known.add(statement)
                made |= flow.writes[statement]
            elif statement in flow.nests:
                sums = sums_over_time(flow.nests[statement], self.plan.length, read, self.target, self._is_alone)
                totals = {b for other in found for b in flow.writes[other]}  # complete only after the last stretch
                if sums is not None and totals.isdisjoint(summed(sums)):
                    found[statement] = sums
        return members, found

    def _is_rowwise(self, statement: Statement, buffers: AbstractSet[Buffer]) -> bool:
        return is_rowwise(self.flow.nests.get(statement), self.plan.length, buffers)

    def _read_by_rows(self, buffer: Buffer, found: Mapping[Statement, SumLoops]) -> bool:
        """Whether every reader of a buffer goes through it row by row: the scan, rowwise nests, and sums over time."""
        for statement in self.flow.using[buffer]:
            if statement is not self.scan and buffer in self.flow.reads[statement]:
                if statement in found and not only_sums(found[statement], self.flow.nests[statement], {buffer}):
                    return False
                if statement not in found and not self._is_rowwise(statement, {buffer}):
                    return False
        return self._by_rows(buffer, self.scan)

    def _by_rows(self, buffer: Buffer, user: Statement) -> bool:
        """Whether the scan or a nest goes through a buffer row by row, and the buffer has one row for each step."""
        if not buffer.shape or buffer.shape[0] != self.plan.length:
            return False
        return scan_is_rowwise(user, buffer) if user is self.scan else self._is_rowwise(user, {buffer})

    def _rings(self, readers: AbstractSet[Statement]) -> dict[int, Buffer]:
        """The carries that are rings if `readers` are the only others to read them, each with new memory for its last
        values. Of carries that share a buffer, only the first counts."""
        plan, flow = self.plan, self.flow
        if checkpoints(plan.node) is not None and not self._is_alone:
            return {}
        rings: dict[Buffer, int] = {}
        for i, carry in enumerate(plan.carries):
            buffer = carry.store.buffer
            stored = carry.trajectory and (self._is_alone if carry.lag is None else isinstance(self.scan, Nest))
            whole = carry.store.shape[:1] == buffer.shape[:1]  # a part may follow the rows of another carry
            if stored and whole and buffer in flow.temporaries and self._is_ring(buffer, readers):
                rings.setdefault(buffer, i)
        return {i: self._last(plan.carries[i]) for i in rings.values()}

    def _is_ring(self, buffer: Buffer, readers: AbstractSet[Statement]) -> bool:
        """Whether nests write the initial values of a trajectory, and after that only the scan and `readers` use it."""
        flow = self.flow
        begin = [s for s in flow.using[buffer] if s is not self.scan and s not in readers]
        ends = all(buffer not in flow.writes[s] for s in readers)
        return ends and all(s in flow.nests and buffer not in flow.reads[s] for s in begin)

    def _last(self, carry: CarryMemory) -> Buffer:
        """Memory for the last values of a ring."""
        buffer = carry.store.buffer
        shape = buffer.shape[1:] if carry.lag is None else (carry.reach, *buffer.shape[1:])
        return Buffer(buffer.dtype, shape, "temporary", "last", row=buffer.row)

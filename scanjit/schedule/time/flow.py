"""Which statement of a suite reads and writes which buffers, and which other statements it needs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set as AbstractSet
from dataclasses import field
from functools import cached_property

from scanjit.ops.scan import checkpoints
from scanjit.records import record, replace as changed
from scanjit.schedule.fuse.order import LoopOrder
from scanjit.schedule.nests import Buffer, Nest, Statement, TimeLoop
from scanjit.schedule.nests.plan import Plan

Scan = Nest | TimeLoop
"""A statement with a plan: it has all steps of a scan."""


@record
class Flow:
    """The statements of a suite, in order, and how data flows between them.

    Parameters
    ----------
    statements : the statements.
    temporaries : the buffers that neither the caller nor a statement outside of the suite sees.
    nests : the nests that are no scans, each with its present form. The form differs from the nest if it begins or
        reads a carry that has moved.
    reads, writes : the buffers that each statement reads and writes.
    needs : the statements that must come before each statement.
    """

    statements: Sequence[Statement]
    temporaries: AbstractSet[Buffer]
    nests: Mapping[Statement, Nest] = field(default_factory=dict)
    reads: Mapping[Statement, AbstractSet[Buffer]] = field(default_factory=dict)
    writes: Mapping[Statement, AbstractSet[Buffer]] = field(default_factory=dict)
    needs: Mapping[Statement, AbstractSet[Statement]] = field(default_factory=dict)

    @classmethod
    def of(cls, suite: Sequence[Statement], temporaries: AbstractSet[Buffer]) -> Flow:
        """The flow in a suite. A statement needs every earlier statement that writes a buffer which it reads. It also
        needs the last one that wrote to a buffer which it writes: an array is copied before some of its elements are
        set."""
        nests: dict[Statement, Nest] = {s: s for s in suite if isinstance(s, Nest) and s.plan is None}
        flow = cls(suite, temporaries, nests)._with_uses({s: s for s in suite})
        writers: dict[Buffer, list[Statement]] = {}
        needs: dict[Statement, set[Statement]] = {}
        for statement in suite:
            made = [writer for buffer in flow.reads[statement] for writer in writers.get(buffer, ())]
            needs[statement] = {*made, *(writers[b][-1] for b in flow.writes[statement] if b in writers)}
            for buffer in flow.writes[statement]:
                writers.setdefault(buffer, []).append(statement)
        return changed(flow, needs=needs)

    def with_nests(self, nests: Mapping[Statement, Nest]) -> Flow:
        """The flow with new forms of some nests."""
        return changed(self, nests={**self.nests, **nests})._with_uses(nests)

    def _with_uses(self, made: Mapping[Statement, Statement]) -> Flow:
        reads = {s: {buffer for buffer, written in now.touched if not written} for s, now in made.items()}
        writes = {s: now.written_buffers for s, now in made.items()}
        return changed(self, reads={**self.reads, **reads}, writes={**self.writes, **writes})

    @cached_property
    def order(self) -> LoopOrder[Statement]:
        """The loops over time that statements need and feed."""
        return LoopOrder.of(self.needs, lambda statement: isinstance(statement, TimeLoop))

    @cached_property
    def scans(self) -> Mapping[Statement, None]:
        """The scans among the statements, in order."""
        return dict.fromkeys(scans_of(self.statements))

    @cached_property
    def checkpointed(self) -> bool:
        """Whether a scan has checkpoints."""
        return any(checkpoints(plan_of(scan).node) is not None for scan in self.scans)

    @cached_property
    def at(self) -> Mapping[Statement, int]:
        """The position of each statement."""
        return {statement: i for i, statement in enumerate(self.statements)}

    @cached_property
    def users(self) -> Mapping[Statement, AbstractSet[Statement]]:
        """For each statement, the statements that need it directly."""
        users: dict[Statement, set[Statement]] = {s: set() for s in self.statements}
        for statement in self.statements:
            for need in self.needs[statement]:
                users[need].add(statement)
        return users

    @cached_property
    def below(self) -> Mapping[Statement, AbstractSet[Statement]]:
        """For each statement, the statements that it needs, directly or through others."""
        below: dict[Statement, set[Statement]] = {}
        for statement in self.statements:
            below[statement] = set(self.needs[statement]).union(*(below[need] for need in self.needs[statement]))
        return below

    @cached_property
    def using(self) -> Mapping[Buffer, list[Statement]]:
        """For each buffer, the statements that read or write it, in order."""
        using: dict[Buffer, list[Statement]] = {}
        for statement in self.statements:
            for buffer in self.reads[statement] | self.writes[statement]:
                using.setdefault(buffer, []).append(statement)
        return using

    def is_alone(self, scan: Statement) -> bool:
        """Whether no other loop needs a scan, and it needs no other. Checkpoints do not apply to such a scan, so its
        results may depend on the length of stretches; those of any other scan may not, to the last bit."""
        tied = (s for s in self.statements if scan in self.below[s] or s in self.below[scan])
        return all(statement in self.nests for statement in tied)

    def is_private(self, buffer: Buffer, writer: Statement, readers: AbstractSet[Statement]) -> bool:
        """Whether a buffer is a temporary that only `writer` writes, and only it and `readers` read."""
        return buffer in self.temporaries and all(
            s is writer or (s in readers and buffer not in self.writes[s]) for s in self.using[buffer]
        )


def scans_of(statements: Iterable[Statement]) -> list[Scan]:
    """The statements that have all steps of a scan."""
    return [s for s in statements if isinstance(s, Nest | TimeLoop) and s.plan is not None]


def plan_of(scan: Statement) -> Plan:
    """The plan of a scan."""
    assert isinstance(scan, Nest | TimeLoop)
    assert scan.plan is not None
    return scan.plan


def can_be_cut(scan: Statement) -> bool:
    """Whether a scan can run a stretch of steps at a time: it has several steps, and does not end early."""
    plan = plan_of(scan)
    return not plan.roles.until and plan.length != 1

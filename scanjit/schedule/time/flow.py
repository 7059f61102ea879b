"""Which group of a region reads and writes which buffers, and which groups it needs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from dataclasses import replace as changed
from functools import cached_property

from scanjit.schedule.fuse.groups import Group
from scanjit.schedule.fuse.order import Order
from scanjit.schedule.lower.region import Compound, Item, Region, Single
from scanjit.schedule.nests import Buffer, Nest, Statement


@dataclass(frozen=True, eq=False)
class Flow:
    """The groups of a region, in order, and how data flows between them.

    Parameters
    ----------
    groups : those that become nests are the keys of `nests`; the others are scans, ifelses and single statements.
    reads, writes : the buffers that a group reads and writes.
    needs : the groups that have to come before a group.
    temporaries : the buffers of the region that no caller sees.
    items : what the groups consist of.
    """

    groups: Sequence[Group] = ()
    nests: Mapping[Group, Nest] = field(default_factory=dict)
    reads: Mapping[Group, AbstractSet[Buffer]] = field(default_factory=dict)
    writes: Mapping[Group, AbstractSet[Buffer]] = field(default_factory=dict)
    needs: Mapping[Group, AbstractSet[Group]] = field(default_factory=dict)
    temporaries: AbstractSet[Buffer] = frozenset()
    items: Sequence[Item] = ()

    @classmethod
    def of(cls, region: Region, groups: Sequence[Group], nests: Mapping[Group, Nest]) -> Flow:
        """The flow in a region."""
        home = {item: group for group in groups for item in group.members}
        needs = {g: {home[need] for item in g.members for need in item.needs} - {g} for g in groups}
        temporaries = {buffer for buffer in region.buffers if buffer.kind == "temporary"}
        return cls(groups, nests, {}, {}, needs, temporaries, region.items)._with_uses(groups)

    def with_nests(self, nests: Mapping[Group, Nest]) -> Flow:
        """The flow with some nests replaced."""
        return changed(self, nests={**self.nests, **nests})._with_uses(nests)

    def _with_uses(self, groups: Iterable[Group]) -> Flow:
        uses = {group: set(self._uses(group)) for group in groups}
        reads = {group: {buffer for buffer, written in found if not written} for group, found in uses.items()}
        writes = {group: {buffer for buffer, written in found if written} for group, found in uses.items()}
        return changed(self, reads={**self.reads, **reads}, writes={**self.writes, **writes})

    def _uses(self, group: Group) -> Iterator[tuple[Buffer, bool]]:
        """Each buffer that a group reads (False) or writes (True)."""
        for statement in statements_of(group, self.nests):
            yield from ((buffer, written) for buffer, _, written in statement.all_refs())

    @cached_property
    def order(self) -> Order:
        """The loops over time that items need and feed."""
        return Order.of(self.items)

    @cached_property
    def at(self) -> Mapping[Group, int]:
        """The number of each group."""
        return {group: i for i, group in enumerate(self.groups)}

    @cached_property
    def users(self) -> Mapping[Group, AbstractSet[Group]]:
        """The groups that need a group."""
        users: dict[Group, set[Group]] = {group: set() for group in self.groups}
        for group in self.groups:
            for need in self.needs[group]:
                users[need].add(group)
        return users

    @cached_property
    def below(self) -> Mapping[Group, AbstractSet[Group]]:
        """The groups that a group needs, directly or through others."""
        below: dict[Group, set[Group]] = {}
        for group in self.groups:
            below[group] = set(self.needs[group]).union(*(below[need] for need in self.needs[group]))
        return below

    def using(self, buffer: Buffer) -> list[Group]:
        """The groups that read or write a buffer."""
        return [group for group in self.groups if buffer in self.reads[group] or buffer in self.writes[group]]

    def is_private(self, buffer: Buffer, writer: Group, readers: AbstractSet[Group]) -> bool:
        """Whether a buffer is a temporary that only `writer` writes, and only it and `readers` read."""
        return buffer in self.temporaries and all(
            group is writer or (group in readers and buffer not in self.writes[group]) for group in self.using(buffer)
        )


def scan_of(group: Group) -> Compound | None:
    """The scan that a group is, if it is one."""
    member = group.members[0]
    return member if isinstance(member, Compound) and member.scan is not None else None


def the_scan(group: Group) -> Compound:
    """The scan of a group that is certainly one."""
    scan = scan_of(group)
    assert scan is not None
    return scan


def can_be_cut(group: Group) -> bool:
    """Whether a group is a scan that can run a stretch of steps at a time: one that does not end early."""
    scan = scan_of(group)
    return scan is not None and not scan.plan.layout.until


def statements_of(group: Group, nests: Mapping[Group, Nest]) -> Sequence[Statement]:
    """What a group does."""
    if group in nests:
        return [nests[group]]
    member = group.members[0]
    if isinstance(member, Single):
        return [member.statement]
    assert isinstance(member, Compound)
    return member.statements if member.nest is None else [member.nest]

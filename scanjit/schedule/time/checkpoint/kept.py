"""Carries that are kept before each stretch of steps: how others begin them, and read them after the last step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace as changed

import numpy as np

from scanjit import errors
from scanjit.schedule.fuse.groups import Group
from scanjit.schedule.nests import Access, Buffer, Fetch, Index, Nest, Ref, row_major, walk_values
from scanjit.schedule.nests.plan import Plan
from scanjit.types import Dimension


class Ends:
    """What the groups of a region do with carries, but for those that are `going` along with their loops, or are to
    stay as they are."""

    def __init__(
        self,
        groups: list[Group],
        nests: dict[Group, Nest],
        reads: Mapping[Group, AbstractSet[Buffer]],
        writes: Mapping[Group, AbstractSet[Buffer]],
        going: set[Group],
    ) -> None:
        self.groups, self.nests, self.reads, self.writes, self.going = groups, nests, reads, writes, going

    def is_kept(self, loop: Group, buffer: Buffer, plan: Plan, carry: int) -> bool:
        """Whether all that others than its loop do with a carry is to begin it and to read it after the last step."""
        users = [g for g in self.groups if buffer in self.reads[g] | self.writes[g]]
        return all(g is loop or self.begins_or_ends(g, buffer, plan, carry) for g in users)

    def begins_or_ends(self, group: Group, buffer: Buffer, plan: Plan, carry: int) -> bool:
        """Whether a nest only writes a carry before the first step, or reads it after the last one."""
        if group not in self.nests or group in self.going:
            return False
        nest = self.nests[group]
        accesses = [(a, written) for a, written in nest.accesses() if a.buffer is buffer]
        if any(access.buffer is buffer for access, _ in indexed(nest)):
            return False
        return all(_place(access, written, plan, carry) is not None for access, written in accesses)

    def redirect(self, plan: Plan, stacks: Mapping[int, Buffer], turned: bool) -> None:
        """Carries of a loop begin and end where they are kept: in the first and the last row, or the other way round
        if it is `turned`."""
        carries = {plan.carries[i].store.buffer: i for i in stacks}
        for group, nest in self.nests.items():
            if group in self.going or not any(a.buffer in carries for a, _ in nest.accesses()):
                continue
            for access, written in nest.accesses():
                carry = carries.get(access.buffer)
                if carry is not None and _place(access, written, plan, carry) is None:
                    raise errors.InternalError(
                        "a carry that is kept before each stretch is used elsewhere too", got=nest.label
                    )
            writes = {store.access for store in (*nest.stores, *nest.finals)}
            self.nests[group] = nest.rebuilt(_moved(plan, stacks, carries, writes, turned))


def indexed(nest: Nest) -> Iterator[tuple[Access, tuple[Index, ...]]]:
    """The accesses of a nest at computed positions, with these."""
    yield from ((v.access, v.indices) for v in walk_values(nest.roots) if isinstance(v, Fetch))
    yield from ((store.access, store.indices) for store in nest.stores if store.indices)


def _moved(
    plan: Plan, stacks: Mapping[int, Buffer], carries: Mapping[Buffer, int], writes: AbstractSet[Access], turned: bool
) -> Callable[[Access], Access]:
    def moved(access: Access) -> Access:
        carry = carries.get(access.buffer)
        if carry is None:
            return access
        inside = _place(access, access in writes, plan, carry)
        if inside is None:
            return access
        stack = stacks[carry]
        row = Ref.whole(stack).row(0 if (access in writes) != turned else stack.shape[0] - 1)
        return changed(access, buffer=stack, offset=row.offset + inside)

    return moved


def _place(access: Access, written: bool, plan: Plan, carry: int) -> Dimension | None:
    """The position in a row of an access to a carry from outside; None where it is not to that row alone."""
    shape = access.buffer.shape
    row = plan.first(carry) if written else plan.final(carry, plan.length)
    inside = access.offset - row.offset
    steps = {step for step, size in zip(row_major(shape)[1:], shape[1:], strict=True) if size != 1}
    if not steps.issuperset(by for loop, by in access.strides.items() if loop.size != 1):
        return None
    least = int(np.prod([size if isinstance(size, int) else 1 for size in shape[1:]]))
    fits = isinstance(inside, int) and 0 <= inside < (1 if written else max(least, 1))
    return inside if fits else None

"""Carries saved before each stretch, and after the last one: who begins them, and who reads them at the end.

With 6 steps in stretches of 2, `saved` has 4 rows: the carry before steps 0, 2 and 4, and after step 5. A nest that
writes the initial value writes it into the first row of `saved`. A nest that reads the last value reads the last row.
For a loop that goes against the root, first and last change places.
"""

from collections.abc import Mapping

import numpy as np

from scanjit import errors
from scanjit.schedule.nests import Access, Buffer, Nest, Ref, Statement, row_major
from scanjit.schedule.nests.plan import Plan
from scanjit.schedule.time.checkpoint.candidate import Candidate
from scanjit.schedule.time.flow import plan_of
from scanjit.schedule.time.rows import computed
from scanjit.types import Dimension

Saved = Mapping[int, Buffer]
"""The saved carries of a loop, by number, each with its memory."""


def saved_carries(candidate: Candidate, loop: Statement) -> list[int]:
    """The carries of a loop that are saved before each stretch."""
    carries = list(enumerate(plan_of(loop).carries))
    short = [i for i, carry in carries if carry.trajectory and carry.store.buffer in candidate.short]
    if not short and not candidate.is_recomputed(loop):
        return []
    return sorted([*short, *(i for i, carry in carries if not carry.trajectory)])


def can_be_saved(candidate: Candidate, loop: Statement, i: int) -> bool:
    """Whether a carry of a loop can be saved: others only write its initial value and read its last value, and they are
    nests of this suite, as only those can be changed."""
    plan = plan_of(loop)
    carry = plan.carries[i]
    others = [s for s in candidate.flow.using[carry.store.buffer] if s is not loop]
    nests = [candidate.outside(s) for s in others]
    here = carry.store.buffer in candidate.flow.temporaries
    return carry.trajectory or (here and all(nest is not None and begins_or_ends(nest, plan, i) for nest in nests))


def begins_or_ends(nest: Nest, plan: Plan, i: int) -> bool:
    """Whether a nest only writes a carry before the first step, or reads it after the last one."""
    buffer = plan.carries[i].store.buffer
    if any(access.buffer is buffer for access, _ in computed(nest)):
        return False
    accesses = [(access, written) for access, written in nest.accesses if access.buffer is buffer]
    return all(_place(access, written, plan, i) is not None for access, written in accesses)


def redirected(nest: Nest, plan: Plan, saved: Saved, backwards: bool) -> Nest:
    """The nest, which now begins or ends carries in the memory where they are saved. `backwards` says that their loop
    goes against the root."""
    carries = {plan.carries[i].store.buffer: i for i in saved}
    if not any(access.buffer in carries for access, _ in nest.accesses):
        return nest
    writes = {store.access for store in (*nest.stores, *nest.finals)}

    def moved(access: Access) -> Access:
        carry = carries.get(access.buffer)
        if carry is None:
            return access
        inside = _place(access, access in writes, plan, carry)
        if inside is None:
            raise errors.InternalError(
                "a carry that is saved before each stretch is used elsewhere too", got=nest.label
            )
        memory = saved[carry]
        row = Ref.whole(memory).row(0 if (access in writes) != backwards else memory.shape[0] - 1)
        return Access(memory, row.offset + inside, access.strides, access.panel)

    return nest.rebuilt(moved)


def _place(access: Access, written: bool, plan: Plan, i: int) -> Dimension | None:
    """The position within its row of an access to a carry from outside of the loop. None if it touches any other row
    than that of the initial value (if `written`) or the last value."""
    shape = access.buffer.shape
    row = plan.first(i) if written else plan.final(i, plan.length)
    inside = access.offset - row.offset
    steps = {step for step, size in zip(row_major(shape)[1:], shape[1:], strict=True) if size != 1}
    if not steps.issuperset(by for loop, by in access.strides.items() if loop.size != 1):
        return None
    least = int(np.prod([size if isinstance(size, int) else 1 for size in shape[1:]]))
    fits = isinstance(inside, int) and 0 <= inside < (1 if written else max(least, 1))
    return inside if fits else None

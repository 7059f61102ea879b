"""The buffers for which memory for one stretch is enough: only the family uses them, row by row.

In `h[t+1] = tanh(p[t] + h[t] @ w)` and its gradient, p and h are short. If the program also returns h, only p is.
"""

from collections.abc import Set as AbstractSet

from scanjit import types
from scanjit.records import replace as changed
from scanjit.schedule.nests import Buffer, Nest, NestLoop, Statement, nests_of
from scanjit.schedule.time.checkpoint.candidate import Candidate, Refusal, Window
from scanjit.schedule.time.checkpoint.saved import begins_or_ends
from scanjit.schedule.time.flow import plan_of
from scanjit.schedule.time.rows import computed, first_offsets, is_rowwise, lies_in, row_step, scan_is_rowwise
from scanjit.schedule.time.sums import only_sums
from scanjit.types import Dimension


def with_short_buffers(candidate: Candidate) -> Candidate | Refusal:
    """Find the short buffers. Rowwise nests that read and write none of them are dropped."""
    flow, members = candidate.flow, candidate.members
    made = set[Buffer]().union(*(flow.writes[s] for s in members)) - candidate.full - candidate.private.keys()
    found = {buffer: window for buffer in made if (window := _window(candidate, buffer)) is not None}
    short = {**candidate.private, **found}
    spoiled = {b for g in members if _spoils(candidate, g, short.keys()) for b in flow.writes[g] & found.keys()}
    idle = {s for s in candidate.rowwise if not (flow.reads[s] | flow.writes[s]) & short.keys()}
    if spoiled or idle:
        return Refusal("", changed(candidate, full=candidate.full | spoiled, free=candidate.free - idle))
    return changed(candidate, short=short)


def _spoils(candidate: Candidate, statement: Statement, short: AbstractSet[Buffer]) -> bool:
    """Whether a statement, when it is recomputed, would overwrite results of others."""
    flow = candidate.flow
    return statement not in candidate.loops and any(
        buffer in flow.writes[other]
        for buffer in flow.writes[statement] - short
        for other in flow.statements
        if other is not statement
    )


def _window(candidate: Candidate, buffer: Buffer) -> Window | None:
    """The steps that the rows of a buffer are for. None if others than the family use it, or not row by row. Others may
    write the initial value of a carry and read its last value."""
    if buffer not in candidate.flow.temporaries or not buffer.shape:
        return None
    loop, carry = candidate.carries.get(buffer, (None, 0))
    same = (window for window in candidate.windows.values() if window.length == buffer.shape[0])
    window = candidate.windows[loop] if loop is not None else next(same, None)
    if window is None:
        return None
    for statement in candidate.flow.using[buffer]:
        if not goes_by_rows(candidate, statement, buffer, window):
            nest = candidate.outside(statement)
            if loop is None or nest is None or not begins_or_ends(nest, plan_of(loop), carry):
                return None
    return window


def goes_by_rows(candidate: Candidate, statement: Statement, buffer: Buffer, window: Window) -> bool:
    """Whether a statement belongs to the family and goes row by row through a buffer whose rows are for the steps of
    `window`."""
    if statement not in candidate.members or not buffer.shape:
        return False
    if buffer in candidate.flow.writes[statement] and candidate.carries.get(buffer, (statement, 0))[0] is not statement:
        return False  # it begins the carry of a loop of one step
    own = candidate.windows[statement]
    return (
        _is_rowwise(candidate, statement, buffer)
        and _in_one_row(candidate, statement, buffer)
        and (own == window or _is_aligned(candidate, statement, buffer, own, window))
    )


def _is_rowwise(candidate: Candidate, statement: Statement, buffer: Buffer) -> bool:
    """Whether a statement moves by one row of a buffer from step to step."""
    if statement in candidate.loops:
        return scan_is_rowwise(statement, buffer)
    nest = candidate.flow.nests[statement]
    if statement in candidate.sums:
        return only_sums(candidate.sums[statement], nest, {buffer})
    return any(is_rowwise(nest, plan_of(loop).length, {buffer}) for loop in candidate.loops)


def _nests(candidate: Candidate, statement: Statement) -> list[Nest]:
    """The nests of a statement, also those inside a loop over time."""
    return nests_of([candidate.flow.nests.get(statement, statement)])


def _in_one_row(candidate: Candidate, statement: Statement, buffer: Buffer) -> bool:
    """Whether all computed indices into a buffer stay within one row: they do in `h[t, i[j]]`, but not in `h[i[t],
    j]`."""
    step = row_step(buffer)
    found = (i for nest in _nests(candidate, statement) for access, i in computed(nest) if access.buffer is buffer)
    return all(lies_in(0, (index.size - 1) * index.stride, step) for indices in found for index in indices)


def _is_aligned(candidate: Candidate, statement: Statement, buffer: Buffer, own: Window, window: Window) -> bool:
    """Whether a statement that goes over fewer steps than a buffer has rows reads just the rows of its steps. The
    gradient over the last 4 of 6 steps must read row 2 at its first step. (Of a carry, it may read the row before or
    after the step.)"""
    step = row_step(buffer)
    shift, most = (own.first_row - window.first_row) * step, 2 if buffer in candidate.carries else 1
    offsets = first_offsets(candidate.flow.nests.get(statement, statement), buffer)
    spans = _spans(candidate, statement, buffer)
    return spans is not None and all(
        lies_in(offset - shift + low, offset - shift + high, step * most) for offset in offsets for low, high in spans
    )


def _spans(candidate: Candidate, statement: Statement, buffer: Buffer) -> list[tuple[Dimension, Dimension]] | None:
    """How far each access to a buffer goes down and up inside a step. None if it is not certain in which direction a
    loop moves it."""
    found: list[tuple[Dimension, Dimension]] = []
    for nest in _nests(candidate, statement):
        times: set[NestLoop | None] = {nest.time}
        if statement not in candidate.loops:
            times = {*candidate.sums[statement].values()} if statement in candidate.sums else {nest.space[0]}
        for access, _ in nest.accesses:
            if access.buffer is buffer:
                steps = [(loop, by) for loop, by in access.strides.items() if loop not in times]
                if not all(types.not_negative(by) or types.not_negative(-1 * by) for _, by in steps):
                    return None
                ends = [(types.not_negative(by), (loop.size - 1) * by) for loop, by in steps]
                down, up = (sum((end for rises, end in ends if rises == way), start=0) for way in (False, True))
                found.append((down, up))
    return found

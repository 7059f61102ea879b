"""Which phase does which statement.

The two layers of a stack and their gradients are four loops. The layers go forward together, in phase 1, as no other
loop comes between them; their gradients go back together, in phase 2. A nest that makes a short buffer belongs to the
phase that first reads the buffer. Any other nest belongs to the first phase in which all of its operands are in memory.
"""

from collections.abc import Mapping

from scanjit.records import replace as changed
from scanjit.schedule.nests import Statement
from scanjit.schedule.time.checkpoint.candidate import Candidate, Phase, Refusal
from scanjit.schedule.time.checkpoint.related import depend
from scanjit.schedule.time.checkpoint.short import goes_by_rows
from scanjit.schedule.time.flow import scans_of


def with_phases(candidate: Candidate) -> Candidate | Refusal:
    """Find the phase that first does each statement. A rowwise nest that no phase can do is dropped."""
    phases = _phases(candidate)
    done = {s: i for i, phase in enumerate(phases) for loop in phase.loops
            for s in (loop, *candidate.taken[loop].others)}  # fmt: skip
    first = dict(done)
    makers = [s for s in candidate.rowwise if candidate.flow.writes[s] & candidate.short.keys()]
    for statement in candidate.rowwise:
        at = _earliest(candidate, phases, statement, first)
        if at is not None and statement not in makers:
            at = next((p for p in range(at, len(phases)) if _can_be_done(candidate, phases, statement, p, done)), None)
            done |= {statement: at} if at is not None else {}
        if at is None:
            return candidate.without(statement)
        first[statement] = at
    for statement in reversed(makers):
        at = min((done[user] for user in candidate.flow.users[statement] if user in candidate.members), default=None)
        if at is None or not _can_be_done(candidate, phases, statement, at, done):
            return candidate.without(statement)
        done[statement] = at
    own = [tuple(s for s in candidate.flow.statements if done.get(s) == i) for i in range(len(phases))]
    return changed(
        candidate, phases=tuple(changed(p, own=statements) for p, statements in zip(phases, own, strict=True))
    )


def _phases(candidate: Candidate) -> list[Phase]:
    """The loops, in phases: loops that can go through the stretches together share one."""
    found: list[Phase] = []
    for loop in candidate.loops:
        backwards = candidate.backwards(loop)
        joins = found and found[-1].backwards == backwards and loop not in candidate.separate
        if joins and _joins(candidate, found[-1], loop):
            found[-1] = Phase(backwards, (*found[-1].loops, loop))
        else:
            found.append(Phase(backwards, (loop,)))
    return found


def _joins(candidate: Candidate, phase: Phase, loop: Statement) -> bool:
    """Whether a loop can go through the stretches together with those of a phase. It cannot if it reads something that
    needs all rows of the phase, such as a sum over time, which is complete after the last stretch. Nor can it if the
    phase would have to wait for a loop that it does not need."""
    flow, earlier = candidate.flow, {*phase.loops}
    between = flow.statements[flow.at[phase.loops[0]] : flow.at[loop]]
    if any(flow.below[s] & earlier and s not in candidate.members for s in between):
        return False
    before = earlier.union(*(flow.below[s] for s in earlier))
    more = flow.below[loop] - before - {loop}
    return all(depend(flow, a, b) for a in scans_of(more) for b in scans_of(before))


def _earliest(
    candidate: Candidate, phases: list[Phase], statement: Statement, first: Mapping[Statement, int]
) -> int | None:
    """The first phase at whose end all operands of a rowwise nest are in memory."""
    at, needs = candidate.flow.at, candidate.flow.needs[statement]
    least = max((first[need] for need in needs if need in candidate.members), default=0)
    others = max((at[need] for need in needs if need not in candidate.members), default=-1)
    return next((p for p in range(least, len(phases)) if at[phases[p].at] > others), None)


def _can_be_done(
    candidate: Candidate, phases: list[Phase], statement: Statement, p: int, done: Mapping[Statement, int]
) -> bool:
    """Whether phase number `p` can do a rowwise nest: no statement that needs the nest comes before the phase, and no
    loop of the phase would have to wait for a loop that it does not need."""
    flow, phase = candidate.flow, phases[p]
    for user in flow.users[statement]:
        if done.get(user, p) < p if user in candidate.members else flow.at[user] < flow.at[phase.at]:
            return False
    around = flow.order.around
    return not any(flow.order.blocks(around[loop], around[statement]) for loop in phase.loops)


def in_step(candidate: Candidate) -> Candidate | Refusal:
    """Check that the statements of a phase read each other's results row by row. If one reads more than the same row, a
    rowwise nest is dropped, or the later of two loops gets a phase of its own."""
    for phase in candidate.phases:
        for statement in phase.own:
            for maker in phase.own:
                if maker is statement or _are_in_step(candidate, statement, maker):
                    continue
                if statement in candidate.rowwise or maker in candidate.rowwise:
                    return candidate.without(statement if statement in candidate.rowwise else maker)
                later = max(candidate.home[statement], candidate.home[maker], key=candidate.flow.at.__getitem__)
                return Refusal("", changed(candidate, separate=candidate.separate | {later}))
    return candidate


def _are_in_step(candidate: Candidate, statement: Statement, maker: Statement) -> bool:
    """Whether a statement reads the results of another one row by row, or both belong to the same chain."""
    flow = candidate.flow
    if statement in candidate.home and maker in candidate.home and candidate.home[statement] is candidate.home[maker]:
        return True
    shared = (flow.reads[statement] | flow.writes[statement]) & flow.writes[maker] - candidate.short.keys()
    window = candidate.windows[maker]
    return all(goes_by_rows(candidate, each, buffer, window) for buffer in shared for each in (statement, maker))

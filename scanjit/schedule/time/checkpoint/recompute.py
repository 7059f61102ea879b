"""What each phase has to recompute, and whether that is too much.

Let phase 1 make h, and phase 2 the gradient, which reads h. Phase 2 begins with the last stretch. Its rows of h are
still in memory, because phase 1 ended there. Phase 2 recomputes all other rows. A phase 3 that goes forward and reads h
begins with the first stretch, where phase 2 ended: it finds these rows in memory, too, and recomputes all others.
"""

from scanjit.records import replace as changed
from scanjit.schedule.nests import Statement
from scanjit.schedule.time.checkpoint.candidate import Candidate, Phase, Refusal, reads_of
from scanjit.schedule.time.checkpoint.related import depend
from scanjit.schedule.time.checkpoint.saved import can_be_saved, saved_carries
from scanjit.walks import top_down

MOST_RECOMPUTED = 4
"""The steps of a loop are recomputed in at most this many phases."""


def with_recomputation(candidate: Candidate) -> Candidate | Refusal:
    """Find the statements that each phase recomputes. If that is too much, or cannot be done, some buffers stay
    full."""
    phases: list[Phase] = []
    for phase in candidate.phases:
        needed = _needed(candidate, phase, len(phases))
        there = {g: _is_there(candidate, phases, phase, g) for g in candidate.flow.statements if g in needed}
        phases.append(changed(phase, recomputed=there))
    made = changed(candidate, phases=tuple(phases))
    return _read_too_early(made) or _recomputed_too_often(made) or _lost(made) or made


def _needed(candidate: Candidate, phase: Phase, number: int) -> set[Statement]:
    """The statements of earlier phases that make short buffers which a phase reads, directly or through other such
    statements."""
    flow, earlier = candidate.flow, [g for g, p in candidate.done.items() if p < number]

    def makers(statement: Statement) -> list[Statement]:
        read = flow.reads[statement] & candidate.short.keys()
        return [g for g in earlier if flow.writes[g] & read]

    return set(top_down(phase.own, makers)).intersection(earlier)


def _is_there(candidate: Candidate, before: list[Phase], phase: Phase, statement: Statement) -> bool:
    """Whether the results of a statement are still in memory for the stretch where a phase begins, because the last
    phase that computed them ended there."""
    last = next(p for p in reversed(before) if statement in p.recomputed or statement in p.own)
    return last.backwards != phase.backwards


def _read_too_early(candidate: Candidate) -> Refusal | None:
    """Refuse a short buffer that a later phase reads in the same direction, with no gradient between the two. For an
    example, take two loops: the second begins with the last value of the first, and also reads all of its other values.
    To store these is cheaper than to recompute them."""
    flow, phases = candidate.flow, candidate.phases
    for p, phase in enumerate(phases):
        against = [loop for earlier in phases[:p] if earlier.backwards != phase.backwards for loop in earlier.loops]
        for statement in phase.own:
            for buffer in flow.reads[statement] & candidate.short.keys() - candidate.private.keys():
                for maker in phase.recomputed:
                    same_way = phases[candidate.done[maker]].backwards == phase.backwards
                    between = any(maker in flow.below[loop] and loop in flow.below[statement] for loop in against)
                    if buffer in flow.writes[maker] and same_way and not between:
                        return candidate.with_full({buffer})
    return None


def _recomputed_too_often(candidate: Candidate) -> Refusal | None:
    """Refuse to recompute a loop too often. Its buffers that several phases read stay full; if there are none, all
    buffers that it stores."""
    reads = candidate.flow.reads
    for loop in candidate.loops:
        if sum(loop in phase.recomputed for phase in candidate.phases) > MOST_RECOMPUTED:
            stored = candidate.stored(loop) & candidate.short.keys()
            readers = {b: sum(any(b in reads[g] for g in phase.own) for phase in candidate.phases) for b in stored}
            often = {buffer for buffer, count in readers.items() if count > 1}
            return candidate.with_full(often or stored, "its steps would be recomputed too often")
    return None


def _lost(candidate: Candidate) -> Refusal | None:
    """Refuse short buffers for the results of a loop with a carry that cannot be saved."""
    for loop in candidate.loops:
        if not all(can_be_saved(candidate, loop, i) for i in saved_carries(candidate, loop)):
            if stored := candidate.stored(loop) & candidate.short.keys():
                return candidate.with_full(stored, "a carry is read by another loop")
    return None


def without_idle_loops(candidate: Candidate) -> Candidate | Refusal:
    """Drop the loops that have nothing to do with the others."""
    idle = {loop for loop in candidate.loops if _is_idle(candidate, loop)}
    busy = tuple(loop for loop in candidate.loops if loop not in idle)
    return Refusal("", changed(candidate, loops=busy)) if idle else candidate


def _is_idle(candidate: Candidate, loop: Statement) -> bool:
    """Whether a loop reads no short buffer of another one, and no other needs it to be recomputed."""
    flow = candidate.flow
    beside = [s for s in candidate.rowwise if depend(flow, s, loop)]
    reads = reads_of(flow, candidate.chains, loop).union(*(flow.reads[s] for s in beside))
    others = reads & candidate.short.keys() - candidate.private.keys() - flow.writes[loop]
    return not others and not candidate.is_recomputed(loop)

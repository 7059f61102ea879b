"""The families of a suite: which loops share their stretches, and which carries are saved."""

from collections.abc import Callable, Iterator, Mapping, Sequence

from scanjit import ir, types
from scanjit.ir import Node
from scanjit.ops.scan import SCAN, checkpoints, steps_between
from scanjit.records import record, replace as changed
from scanjit.schedule.lower.region import name_of
from scanjit.schedule.nests import Buffer, Nest, Statement
from scanjit.schedule.time.chains import Chain
from scanjit.schedule.time.checkpoint.candidate import Candidate, Phase, Refusal
from scanjit.schedule.time.checkpoint.phases import in_step, with_phases
from scanjit.schedule.time.checkpoint.recompute import with_recomputation, without_idle_loops
from scanjit.schedule.time.checkpoint.related import is_linear, reached, related
from scanjit.schedule.time.checkpoint.saved import Saved, redirected, saved_carries
from scanjit.schedule.time.checkpoint.short import with_short_buffers
from scanjit.schedule.time.flow import Flow, can_be_cut, plan_of

Wanted = int | str

STEPS: Sequence[Callable[[Candidate], Candidate | Refusal]] = (
    with_short_buffers,  # for which buffers one stretch is enough
    with_phases,  # which phase does each statement, now that it is known who makes short buffers
    in_step,
    with_recomputation,  # what else each phase computes, for the short buffers that it reads
    without_idle_loops,
)
"""The steps that a candidate goes through, in order. After a refusal, the narrower candidate begins anew."""


@record
class Family:
    """Loops that share their stretches, with memory for their short buffers and saved carries.

    Parameters
    ----------
    loops : a candidate that no step refused.
    short : the buffers that have memory for one stretch, each with the new buffer that replaces it.
    saved : for each loop that needs it, the carries that are saved before each stretch.
    """

    loops: Candidate
    short: Mapping[Buffer, Buffer]
    saved: Mapping[Statement, Saved]

    def phase_at(self, statement: Statement) -> Phase | None:
        """The phase whose statements stand in the place of a statement; None if there is none."""
        return next((phase for phase in self.loops.phases if phase.at is statement), None)

    @property
    def notes(self) -> list[str]:
        """What was done, for `explain`."""
        names = ", ".join(sorted({buffer.name for buffer in self.short}))
        text = (
            f"stretches of {self.loops.size} steps are recomputed for the gradient, from the carries saved before them"
        )
        text += f"; with memory for one stretch of {names}"
        return [f"{name_of(plan_of(loop).node)}: {text}" for loop in self.loops.loops if self.loops.is_recomputed(loop)]


def find_families(
    flow: Flow, chains: Mapping[Statement, Chain]
) -> tuple[dict[Statement, Family], dict[Statement, Nest], list[str]]:
    """The families of a suite, each under every statement in it; new forms of nests that begin or end a saved carry;
    and notes for `explain`."""
    wanted: dict[Statement, Wanted] = {scan: size for scan in flow.scans if (size := _wanted(scan)) is not None}
    found: dict[Statement, Family] = {}
    nests: dict[Statement, Nest] = {}
    reasons: dict[Statement, str] = {}
    for root in wanted:
        if root not in found:
            others = [s for s in wanted if s not in found and wanted[s] == wanted[root]]
            free = frozenset(s for s in flow.nests if s not in found and s not in chains)
            loops = related(flow, chains, root, others)
            made = _settled(Candidate(flow, chains, steps_between(wanted[root], plan_of(root).length), loops, free))
            if isinstance(made, Candidate):
                family = _with_memory(made)
                found |= dict.fromkeys(made.members, family)
                nests |= _redirected(family, {**flow.nests, **nests})
            elif made.reason or wanted.keys().isdisjoint(reached(flow, root)):  # otherwise it is a gradient itself
                reasons[root] = made.reason or "no loop beside it goes over its steps and reads what it stores"
    notes = [
        f"{name_of(plan_of(statement).node)}: checkpoint={asked!r} is not done, all is stored: {text}"
        for statement, text in reasons.items()
        if statement not in found and (asked := checkpoints(plan_of(statement).node))
    ]
    return found, nests, notes


def _settled(candidate: Candidate) -> Candidate | Refusal:
    """The first candidate that no step refuses: this one, or a narrower one. It must save some memory."""
    root, alone, reason = candidate.loops[0], len(candidate.loops) == 1, ""
    if not can_be_cut(root):
        steps = "how many steps the gradient goes back over is known only when all are stored"
        return Refusal(f"it may end early, and {steps}")
    if is_linear(root):
        return Refusal("it is linear in numbers, of which several steps are done at a time")
    while len(candidate.loops) > 1 and candidate.loops[0] is root:
        made: Candidate | Refusal = candidate
        for step in STEPS:
            made = step(made) if isinstance(made, Candidate) else made
        if isinstance(made, Candidate):
            if any(made.stored(loop) & made.short.keys() for loop in made.loops):
                return made
            break
        assert made.instead is not None
        candidate, reason = made.instead, made.reason or reason
    return Refusal("" if alone else reason or "what the gradient reads of it is needed by something else too")


def _with_memory(loops: Candidate) -> Family:
    """A family with new short buffers, and with memory for the carries that are saved: before each stretch, and after
    the last one."""
    short: dict[Buffer, Buffer] = {}
    for buffer, window in loops.short.items():
        more = buffer.shape[0] - window.length  # 1 for a trajectory, which also holds the carry before the first step
        short[buffer] = changed(buffer, shape=(types.minimum(loops.size, window.length) + more, *buffer.shape[1:]))
    rows = (loops.plan.length + (loops.size - 1)) // loops.size + 1
    saved: dict[Statement, Saved] = {}
    for loop in loops.loops:
        carries = {i: plan_of(loop).carries[i].store.buffer for i in saved_carries(loops, loop)}
        if carries:
            saved[loop] = {
                i: Buffer(b.dtype, (rows, *b.shape[1:]), "temporary", "saved", row=b.row) for i, b in carries.items()
            }
    return Family(loops, short, saved)


def _redirected(family: Family, nests: Mapping[Statement, Nest]) -> dict[Statement, Nest]:
    """New forms of the nests outside of a family that begin or end its saved carries."""
    outside = {s: nests[s] for s in nests if family.loops.outside(s) is not None}
    for loop, saved in family.saved.items():
        plan, backwards = plan_of(loop), family.loops.backwards(loop)
        outside = {statement: redirected(nest, plan, saved, backwards) for statement, nest in outside.items()}
    return {statement: nest for statement, nest in outside.items() if nest is not nests[statement]}


def notes_with(notes: Sequence[str], family: Family) -> list[str]:
    """All notes, with those of a family. A note that the checkpoints of a loop inside a step are not done is replaced:
    the loop is recomputed with its step."""
    inside = [name_of(inner) for loop in family.loops.loops for inner in _inner(plan_of(loop).node)]
    result = [*notes, *family.notes]
    for label in inside:
        undone = next((i for i, note in enumerate(result) if note.startswith(f"{label}: checkpoint=")), None)
        if undone is not None:
            result[undone] = f"{label}: recomputed for the gradient, with the step of the loop around it"
    return result


def _wanted(scan: Statement) -> Wanted | None:
    """The checkpoints that a scan asks for. If only a scan inside its step asks for some: 1, as each step is
    recomputed. If the scan has an `until` and its gradient is not truncated: None."""
    node = plan_of(scan).node
    if node.params["checkpoint"] is None and any(checkpoints(inner) for inner in _inner(node)):
        return 1
    return None if node.params["until"] and node.params["truncate"] < 0 else checkpoints(node)


def _inner(scan: Node) -> Iterator[Node]:
    """The scans in the step of a scan."""
    for node in ir.walk(scan.params["body"].outputs):
        if node.op is SCAN:
            yield node
            yield from _inner(node)

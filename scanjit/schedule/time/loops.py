"""Loops over time, cut into loops over stretches: first those inside other loops, then those around them."""

from collections import Counter
from collections.abc import Sequence, Set as AbstractSet

from scanjit.schedule.nests import Buffer, Nest, Program, Statement, TimeLoop
from scanjit.schedule.time.bands import filled_with_steps
from scanjit.schedule.time.blocks import blocked
from scanjit.schedule.time.chains import find_chains
from scanjit.schedule.time.checkpoint.families import find_families, notes_with
from scanjit.schedule.time.checkpoint.stretches import write_phase
from scanjit.schedule.time.flow import Flow, scans_of
from scanjit.schedule.time.sums import sums_of_gradients
from scanjit.target import Target


def in_stretches(program: Program) -> Program:
    """The program whose scans run a stretch of steps at a time, where that saves memory. The statements that go along
    with a scan then stay in the cache, and a scan with checkpoints is recomputed for its gradient."""
    notes: list[str] = []
    suite = _cut(program.suite, frozenset(), program.target, notes)
    filled = (filled_with_steps(s, program.target) if isinstance(s, Nest) else [s] for s in suite)
    return program.with_suite([statement for some in filled for statement in some], notes)


def _cut(suite: Sequence[Statement], outside: AbstractSet[Buffer], target: Target, notes: list[str]) -> list[Statement]:
    """These statements, with scans in stretches. Buffers that are used `outside` stay as they are."""
    touched = [{buffer for buffer, _ in s.touched} for s in suite]
    often = Counter(buffer for some in touched for buffer in some)
    made: list[Statement] = []
    for statement, used in zip(suite, touched, strict=True):
        around = {buffer for buffer, _, _ in statement.refs()} | {buffer for buffer in used if often[buffer] > 1}
        inside = [_cut(inner, outside | around, target, notes) for inner in statement.suites]
        if isinstance(statement, TimeLoop):
            notes.append(f"{statement.title}: a loop over time of {len(statement.suite)} statements")
        made.append(statement.with_suites(*inside))
    if not scans_of(made):
        return made
    temporaries = {buffer for buffer in often if buffer.kind == "temporary"} - outside
    return _in_order(Flow.of(made, temporaries), target, notes)


def _in_order(flow: Flow, target: Target, notes: list[str]) -> list[Statement]:
    """The statements of a suite, with each chain in the place of its scan, and each phase of a family in the place of
    its last loop."""
    chains, new = find_chains(flow, target)
    flow = flow.with_nests(new)
    flow = flow.with_nests(sums_of_gradients(flow, chains.keys(), target))
    families, new, reasons = find_families(flow, chains)
    nests = {**flow.nests, **new}
    notes += reasons
    result: list[Statement] = []
    for statement in flow.statements:
        if (family := families.get(statement)) is not None:
            phase = family.phase_at(statement)
            if phase is not None:
                result += write_phase(family, phase, nests)
                if phase is family.loops.phases[-1]:
                    notes[:] = notes_with(notes, family)
        elif (chain := chains.get(statement)) is None:
            result.append(nests.get(statement, statement))
        elif statement is chain.scan:
            statements, about = blocked(chain, nests, target)
            result += statements
            notes += about
    return result

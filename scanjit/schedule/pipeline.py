"""What is done to a graph until it is a finished program, in order. No other file knows this order.

1. `lower`: the graph, the steps of its loops and the branches of its conditions become regions of tasks.
2. `fuse`: in all regions, tasks that can be computed together become nests.
3. `REGION_PASSES`: nests become statements, cut into blocks of time and tiles; regions inside others come first.
4. `PROGRAM_PASSES`: the statements of the outermost region are a `Program`, of which the rest is decided last.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from scanjit.ir import Node
from scanjit.schedule.fuse.groups import Fused, Group, fuse
from scanjit.schedule.lower.program import Lowered, lower
from scanjit.schedule.lower.region import Compound, Region, Single
from scanjit.schedule.memory.lifetimes import find_lifetimes
from scanjit.schedule.memory.once import find_once
from scanjit.schedule.nests import Nest, Program, Statement
from scanjit.schedule.nests import verify as verifier
from scanjit.schedule.threads.beside import side_by_side
from scanjit.schedule.threads.forms import find_forms
from scanjit.schedule.threads.rows import own_rows
from scanjit.schedule.tiles.apply import with_tiles
from scanjit.schedule.tiles.pack import with_packs
from scanjit.schedule.time.blocks import blocked
from scanjit.schedule.time.chains import Chain, find_chains
from scanjit.schedule.time.checkpoint.families import Family, find_families, notes_with
from scanjit.schedule.time.checkpoint.stretches import write_phase
from scanjit.schedule.time.deep import cut_long_sums
from scanjit.schedule.time.flow import Flow
from scanjit.target import Target


@dataclass(frozen=True, eq=False)
class Progress:
    """A region on its way to statements. Each pass returns a new one, in which more is known."""

    region: Region
    flow: Flow = field(default_factory=Flow)
    nests: dict[Group, Nest] = field(default_factory=dict)
    chains: dict[Group, Chain] = field(default_factory=dict)
    families: dict[Group, Family] = field(default_factory=dict)
    statements: list[Statement] = field(default_factory=list)


def blocks_of_time(known: Progress) -> Progress:
    """Which nests and sums over time go along with a scan, a stretch of steps at a time."""
    found, changed = find_chains(known.flow, known.region.context.target)
    return replace(known, chains=found, flow=known.flow.with_nests(changed), nests={**known.nests, **changed})


def checkpoints(known: Progress) -> Progress:
    """Which loops compute steps again for a gradient, instead of storing all of them."""
    families, changed, notes = find_families(known.flow, known.chains)
    known.region.context.notes += notes
    return replace(known, families=families, nests={**known.nests, **changed})


def written(known: Progress) -> Progress:
    """The statements: what goes with a scan where that stands."""
    nests, context = known.nests, known.region.context
    result: list[Statement] = []
    for group in known.flow.groups:
        first = group.members[0]
        if (family := known.families.get(group)) is not None:
            phase = family.phase_at(group)
            if phase is not None:
                result += write_phase(family, phase, nests)
                if phase is family.loops.phases[-1]:
                    context.notes = notes_with(context.notes, family)
        elif (chain := known.chains.get(group)) is not None:
            if first is chain.scan:
                made, notes = blocked(chain, nests, context.target)
                result += made
                context.notes += notes
        elif isinstance(first, Single):
            result.append(first.statement)
        elif isinstance(first, Compound):
            result += first.statements if first.nest is None else [first.nest]
        else:
            result += [nests[group]] if nests[group].stores else []
    return replace(known, statements=result)


REGION_PASSES: tuple[tuple[str, Callable[[Progress], Progress]], ...] = (
    ("blocks", blocks_of_time),  # of whole nests, so after tasks are fused
    ("checkpoints", checkpoints),  # after the blocks, for what goes with a loop in any case comes along
    ("statements", written),  # last: what goes with a scan stands where that stood
)
"""The names and the passes that make statements of the tasks of a region."""


def statements(fused: Fused) -> list[Statement]:
    """The statements of a region; those of the regions inside it are made first."""
    for item, bodies in fused.inside.items():
        if item.frame is not None:
            _fill(fused.region, item, item.frame, bodies)
    known = Progress(fused.region, Flow.of(fused.region, fused.groups, fused.nests), fused.nests)
    for _, function in REGION_PASSES:
        known = function(known)
    return known.statements


def _fill(region: Region, item: Compound, frame: Statement, inside: Sequence[Fused]) -> None:
    """Put statements into a loop over time or an `If`."""
    bodies = list(map(statements, inside))
    if item.scan is not None:
        region.context.notes.append(f"{item.label}: a loop over time of {len(bodies[0])} statements")
    item.statements = [frame.with_bodies(*bodies)]


PROGRAM_PASSES: tuple[tuple[str, Callable[[Program], Program]], ...] = (
    ("long_sums", cut_long_sums),  # while a nest is whole: stretches of steps are not cut again
    ("tiles", with_tiles),  # of what is left of each nest: a block of time may be all there is of a loop
    ("packs", with_packs),  # after tiles: panels are as wide as the vectors that read them
    ("once", find_once),  # while every statement stands by itself: of loops side by side, each may run once
    ("beside", side_by_side),  # before rows: a loop that has threads of its own need not share rows with others
    ("rows", own_rows),
    ("forms", find_forms),  # after rows: a form for one row is that of the tile that threads share
    ("lifetimes", find_lifetimes),  # last: they are positions among the statements, and depend on both of these
)
"""The names and the passes that decide, for a program with all its statements, how threads and calls share it."""


def schedule(leaves: Sequence[Node], outputs: Sequence[Node], target: Target) -> Program:
    """The program that computes `outputs` from `leaves` (inputs, and values that an earlier program computed)."""
    lowered = lower(leaves, outputs, target)
    fused = fuse(lowered.region)
    if verifier.VERIFY:
        verifier.verify(_program(lowered, _untiled(fused)), "fuse")
    program = _program(lowered, statements(fused))
    for name, function in (("the region passes", lambda made: made), *PROGRAM_PASSES):
        program = function(program)
        if verifier.VERIFY:
            verifier.verify(program, name)
    return program


def fused_program(leaves: Sequence[Node], outputs: Sequence[Node], target: Target) -> Program:
    """The program as it is once tasks are fused: its nests have no tiles, and no loop is cut into blocks of time. It is
    there to be looked at, not to be run."""
    lowered = lower(leaves, outputs, target)
    return _program(lowered, _untiled(fuse(lowered.region)))


def _program(lowered: Lowered, body: list[Statement]) -> Program:
    context = lowered.region.context
    return Program(lowered.inputs, lowered.outputs, body, context.codes, context.target, context.notes)


def _untiled(fused: Fused) -> list[Statement]:
    """The statements of a region as they are before any pass over them."""
    result: list[Statement] = []
    for group in fused.groups:
        first = group.members[0]
        if group in fused.nests:
            result += [fused.nests[group]] if fused.nests[group].stores else []
        elif isinstance(first, Single):
            result.append(first.statement)
        elif isinstance(first, Compound) and first.nest is not None:
            result.append(first.nest)
        elif isinstance(first, Compound) and first.frame is not None:
            result.append(first.frame.with_bodies(*map(_untiled, fused.inside[first])))
    return result

"""All that happens to a graph until it is a finished program, in order. No other file knows this order.

1. `lower`: the graph, the steps of its loops and the branches of its conditions become regions of tasks.
2. `fuse`: tasks that can be computed together become nests, and all of them a `Program`.
3. `PASSES`: each takes a program and returns a new one.
"""

from collections.abc import Callable, Collection, Sequence

from scanjit.ir import Node
from scanjit.schedule.fuse.groups import fuse
from scanjit.schedule.lower.program import lower
from scanjit.schedule.memory.lifetimes import find_lifetimes
from scanjit.schedule.memory.once import find_once
from scanjit.schedule.nests import Program, verify as verifier
from scanjit.schedule.threads.beside import side_by_side
from scanjit.schedule.threads.rows import own_rows
from scanjit.schedule.threads.split import find_variants
from scanjit.schedule.tiles.apply import with_tiles
from scanjit.schedule.tiles.lefts import with_lefts
from scanjit.schedule.tiles.matrices import in_matrices
from scanjit.schedule.tiles.pack import with_packs
from scanjit.schedule.time.bands import in_bands
from scanjit.schedule.time.long_sums import cut_long_sums
from scanjit.schedule.time.loops import in_stretches
from scanjit.schedule.time.slots import in_slots
from scanjit.target import Target

PASSES: tuple[tuple[str, Callable[[Program], Program]], ...] = (
    ("bands", in_bands),  # first: what is in a band may then be cut into stretches of time
    ("stretches", in_stretches),  # before long sums: a sum that is cut along with a scan is not cut again
    ("long_sums", cut_long_sums),
    ("tiles", with_tiles),  # after stretches: the loops of a nest may now go over one block of time only
    ("lefts", with_lefts),  # after tiles: copies are for the rows of a register tile
    ("packs", with_packs),  # after tiles: panels are as wide as the vectors that read them
    ("matrices", in_matrices),  # after packs: registers hold panels
    ("once", find_once),  # before loops stand side by side: a statement that runs once is in no such group
    ("beside", side_by_side),  # before rows: a loop that has threads of its own need not share rows with others
    ("slots", in_slots),  # after beside: which loops run in turns
    ("rows", own_rows),
    ("variants", find_variants),  # after rows: the variant for one row has the loops of its nest, its own rows included
    ("lifetimes", find_lifetimes),  # last: they are positions among the statements, which no pass may move after this
)
"""The passes that turn a program of fused tasks into a finished program, in order, each with its name."""


def schedule(
    origins: Sequence[Node], outputs: Sequence[Node], target: Target, changing: Collection[Node] = ()
) -> Program:
    """The finished program that computes `outputs` from `origins` on a target. Origins are inputs, and values that an
    earlier program computed. The shared variables `changing` have another value in every call."""
    program = fused_program(origins, outputs, target, changing)
    if verifier.VERIFY:
        verifier.verify(program, "fuse")
    for name, function in PASSES:
        before, program = program, function(program)
        if verifier.VERIFY:
            verifier.verify(program, name, before)
    return program


def fused_program(
    origins: Sequence[Node], outputs: Sequence[Node], target: Target, changing: Collection[Node] = ()
) -> Program:
    """The program of fused tasks, before all `PASSES`: its nests have no tiles, and no loop is cut into blocks of time.
    It cannot be run."""
    made = lower(origins, outputs, target, changing)
    first = [statement for _, statement in made.context.first.values()]
    suite = (*first, *fuse(made.region, target))
    codes, notes = tuple(made.context.codes), tuple(made.context.notes)
    return Program(tuple(made.inputs), tuple(made.outputs), suite, codes, target, notes)

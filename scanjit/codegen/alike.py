"""Which statements are alike for the functions that run them: the loops of both directions of a layer, of the layers of
a stack, of the members of an ensemble. Their function is written once, and each calls it with a table of its own."""

from collections.abc import Iterable, Mapping, Sequence

from scanjit import types
from scanjit.codegen.common import Common, StatementPlace
from scanjit.records import replace
from scanjit.schedule.nests import Lifetime, Likeness, Nest, Statement, every_in
from scanjit.types import Atom


def likeness_of(
    statements: Sequence[Statement],
    common: Common,
    given: Mapping[Atom, str],
    at: StatementPlace,
    facts: tuple[object, ...],
) -> Likeness | None:
    """Some statements, and all else that decides the text of the function that runs them: the variables of the `given`
    counters, where they stand, and other `facts`. None for statements for which more than their function is written:
    those that run once or a piece at a time, those whose time is taken, and loops of which a variable outside says how
    many steps were made."""
    program = common.program
    apart = {*program.once, *program.pieces, *common.done}
    every = list(every_in(statements))
    if common.timed is not None or common.local or not apart.isdisjoint(every):
        return None
    singles = [program.single.get(each) for each in every if isinstance(each, Nest)]
    found = Likeness(*statements, *(single for single in singles if single is not None))
    buffers = found.buffers
    if not common.private.keys().isdisjoint(buffers):
        return None
    found.add(replace(at, depth=0), facts, tuple(single is not None for single in singles))
    found.add(*((types.dim_of(atom), name) for atom, name in given.items()))
    found.add(*((each.shape, each.kind, each.fixed, each in program.lasting, program.uses[each]) for each in buffers))
    found.add(_moments(program.lives[each] for each in buffers if each in program.lives))
    return found


def _moments(lives: Iterable[Lifetime]) -> tuple[tuple[int, int], ...]:
    """When some temporaries are in use, so far as it decides which of them are never in use at one time: as seen from
    the first moment at which one of them is not in use any more, and only up to the last at which one is begun."""
    some = list(lives)
    begin, end = min((life.last for life in some), default=0), max((life.first for life in some), default=0)
    if end <= begin:
        return ()
    return tuple([(max(life.first - begin, 0), min(life.last, end) - begin) for life in some])

"""Rules about where loops and counters are known: the loops of a nest, and the counters of loops over statements."""

from collections.abc import Iterable, Iterator, Sequence, Set as AbstractSet

from scanjit import types
from scanjit.schedule.nests.loops import NestLoop
from scanjit.schedule.nests.nest import nests_of
from scanjit.schedule.nests.program import Program
from scanjit.schedule.nests.statement import Statement, every_in
from scanjit.schedule.nests.steps import TimeLoop
from scanjit.schedule.nests.values import Reduce, Value
from scanjit.schedule.nests.verify.problem import Problem
from scanjit.types import Atom, Dimension


def loops_in_scope(program: Program) -> Iterator[Problem]:
    """A value uses only the loops of its nest and those of the reductions around it; a store only those of its nest."""
    for nest in nests_of(program.suite):
        known = {part for loop in nest.loops for part in (loop, *loop.parts)}
        for store in (*nest.stores, *nest.finals):
            if not known.issuperset(store.access.strides):
                yield nest, "a store uses a loop that is not the nest's"
        needed = _needed(nest.values)
        for root in nest.roots:
            if not known.issuperset(needed[root]):
                yield nest, "a value uses a loop that is neither the nest's nor that of a reduction around it"


def _needed(values: Sequence[Value]) -> dict[Value, AbstractSet[NestLoop]]:
    """For each value, the loops around it whose counters it needs. Operands come first."""
    needed: dict[Value, AbstractSet[NestLoop]] = {}
    for value in values:
        found = {loop for loop in value.own_loops if loop.size != 1}  # a loop of a single turn need not be written
        if isinstance(value, Reduce):
            found.update(needed[value.term], needed[value.guard] if value.guard is not None else ())
            found.difference_update(value.loops)
            found.update(needed[value.init] if value.init is not None else ())
        else:
            found.update(*(needed[operand] for operand in value.operands))
        needed[value] = found
    return needed


def counters_in_scope(program: Program) -> Iterator[Problem]:
    """A statement depends on a counter only inside the loop that counts it, and on the number of steps that ran also
    after the loop. The size of a buffer never changes while the program runs."""
    every = list(every_in(program.suite))
    ran = _counters(statement.ran for statement in every if isinstance(statement, TimeLoop))
    yield from _outside(program.suite, set())
    for statement in every:
        for buffer, _, _ in statement.refs():
            if not _counters(buffer.shape) <= ran:
                yield statement, f"the size of buffer {buffer.name!r} changes while the program runs"


def _outside(suite: Sequence[Statement], known: AbstractSet[Atom]) -> Iterator[Problem]:
    for statement in suite:
        unknown = _counters(statement.dims) - known
        if unknown:
            names = ", ".join(sorted(atom.name for atom in unknown))
            yield statement, f"it depends on {names}, which no loop around it counts"
        for inner in statement.suites:
            yield from _outside(inner, known | _counters(statement.counters))
        if isinstance(statement, TimeLoop):
            known = known | _counters([statement.ran])


def _counters(dims: Iterable[Dimension]) -> set[Atom]:
    return {atom for dim in dims for atom in types.atoms(dim) if atom.kind == "counter"}

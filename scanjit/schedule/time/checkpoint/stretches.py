"""The statements of a family: for each phase a loop over stretches."""

from collections.abc import Iterator, Mapping
from functools import cache

from scanjit import types
from scanjit.records import replace
from scanjit.schedule.nests import Buffer, Nest, Ref, Statement
from scanjit.schedule.time.checkpoint.candidate import Phase
from scanjit.schedule.time.checkpoint.families import Family
from scanjit.schedule.time.flow import plan_of
from scanjit.schedule.time.parts import StretchStatements, copy, loop
from scanjit.schedule.time.stretch import Short, Stretch
from scanjit.types import Dimension


def write_phase(family: Family, phase: Phase, nests: Mapping[Statement, Nest]) -> list[Statement]:
    """The statements of a phase."""
    return _PhaseWriter(family, phase, nests).statements()


class _PhaseWriter:
    def __init__(self, family: Family, phase: Phase, nests: Mapping[Statement, Nest]) -> None:
        self.family, self.loops, self.phase, self.nests = family, family.loops, phase, nests
        self.first, self.rows = types.counter("first"), types.counter("rows")
        self.rows_of = cache(lambda window: window.rows_of(self.first, self.rows))

    def statements(self) -> list[Statement]:
        """The statements of the phase: those that run once before, the loop over stretches, and those that run after
        it."""
        parts = [self._recomputed(statement, there) for statement, there in self.phase.recomputed.items()]
        # sums come last, because they need a complete stretch of their operands
        parts += map(self._own, sorted(self.phase.own, key=lambda statement: statement in self.loops.sums))
        plan, size = self.loops.plan, self.loops.size
        # the phases share saved carries, one for each stretch, and what the last stretch leaves in memory
        return loop(parts, (self.first, self.rows), plan.length, size, self.phase.backwards, fixed=True)

    def _recomputed(self, statement: Statement, there: bool) -> StretchStatements:
        """The part that recomputes a statement. If its results for the first stretch are still in memory (`there`), it
        does nothing in that stretch."""
        total, size, first = self.loops.plan.length, self.loops.size, self.first
        last = (total + (size - 1)) // size * size - size
        passed = last - first if self.phase.backwards else first
        stretch = self._stretch(statement, types.minimum(passed, 1) if there else 1)
        if statement in self.nests:
            return StretchStatements(inside=(stretch.rowwise(self.nests[statement]),))
        return StretchStatements(inside=(*self._restored(statement, stretch), stretch.scan(statement)))

    def _own(self, statement: Statement) -> StretchStatements:
        stretch = self._stretch(statement)
        if statement in self.loops.sums:
            reverse = plan_of(self.loops.home[statement]).reverse
            return StretchStatements.sums(self.nests[statement], self.loops.sums[statement], stretch, reverse)
        if statement in self.nests:
            return StretchStatements(inside=(stretch.rowwise(self.nests[statement]),))
        plan, saved = plan_of(statement), self.family.saved.get(statement, {})
        after = [copy(stretch.after(plan, i), self._row(statement, to, after=True)) for i, to in saved.items()]
        return StretchStatements(inside=(*self._restored(statement, stretch), stretch.scan(statement), *after))

    def _restored(self, loop: Statement, stretch: Stretch) -> Iterator[Nest]:
        """Copies of saved carries to the places where the steps of a stretch begin."""
        for i, memory in self.family.saved.get(loop, {}).items():
            target = stretch.before(plan_of(loop), i)  # the last band of points may be smaller than the memory
            yield copy(replace(self._row(loop, memory, after=False), shape=target.shape), target)

    def _row(self, loop: Statement, memory: Buffer, after: bool) -> Ref:
        """The row of `saved` that holds a carry before or after the stretch."""
        number = self.first // self.loops.size
        return Ref.whole(memory).row(number + 1 if after != self.loops.backwards(loop) else number)

    def _stretch(self, statement: Statement, done: Dimension = 1) -> Stretch:
        """The stretch of a statement; an empty one if `done` is 0."""
        loops, window = self.loops, self.loops.windows[statement]
        base, rows = self.rows_of(window)
        short = {old: Short(new, self.rows_of(loops.short[old])[0]) for old, new in self.family.short.items()}
        reverse = statement in loops.home and plan_of(loops.home[statement]).reverse
        start = window.length - base - rows if reverse else base
        return Stretch(start, base, rows, short, rows * done)

"""The statements of a family: for each phase a loop over stretches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache

from scanjit import types
from scanjit.schedule.fuse.groups import Group
from scanjit.schedule.nests import Buffer, Nest, Ref, Statement, counter
from scanjit.schedule.time.checkpoint.candidate import Phase
from scanjit.schedule.time.checkpoint.families import Family
from scanjit.schedule.time.flow import the_scan
from scanjit.schedule.time.parts import Parts, copy, loop
from scanjit.schedule.time.stretch import Short, Stretch
from scanjit.types import Dimension


def write_phase(family: Family, phase: Phase, nests: Mapping[Group, Nest]) -> list[Statement]:
    """The statements of a phase."""
    return _PhaseWriter(family, phase, nests).statements()


class _PhaseWriter:
    def __init__(self, family: Family, phase: Phase, nests: Mapping[Group, Nest]) -> None:
        self.family, self.loops, self.phase, self.nests = family, family.loops, phase, nests
        self.first, self.rows = counter("first"), counter("rows")
        self.rows_of = cache(lambda window: window.rows_of(self.first, self.rows))

    def statements(self) -> list[Statement]:
        """What is made once before, the loop over stretches, then what is left."""
        parts = [self._recomputed(group, there) for group, there in self.phase.recomputed.items()]
        # sums come last: they need a stretch of what they sum
        parts += map(self._own, sorted(self.phase.own, key=lambda group: group in self.loops.sums))
        return loop(parts, (self.first, self.rows), self.loops.plan.length, self.loops.size, self.phase.backwards)

    def _recomputed(self, group: Group, there: bool) -> Parts:
        """What a group makes, again; if it is still there for the first stretch, nothing is done then."""
        total, size, first = self.loops.plan.length, self.loops.size, self.first
        last = (total + (size - 1)) // size * size - size
        passed = last - first if self.phase.backwards else first
        stretch = self._stretch(group, types.minimum(passed, 1) if there else 1)
        if group in self.nests:
            return Parts(inside=(stretch.rowwise(self.nests[group]),))
        return Parts(inside=(*self._restored(group, stretch), stretch.scan(the_scan(group))))

    def _own(self, group: Group) -> Parts:
        stretch = self._stretch(group)
        if group in self.loops.sums:
            reverse = the_scan(self.loops.home[group]).plan.reverse
            return Parts.sums(self.nests[group], self.loops.sums[group], stretch, reverse)
        if group in self.nests:
            return Parts(inside=(stretch.rowwise(self.nests[group]),))
        scan, saved = the_scan(group), self.family.saved.get(group, {})
        after = [copy(stretch.after(scan.plan, i), self._row(group, to, after=True)) for i, to in saved.items()]
        return Parts(inside=(*self._restored(group, stretch), stretch.scan(scan), *after))

    def _restored(self, loop: Group, stretch: Stretch) -> Iterator[Nest]:
        """Copies of saved carries to where the steps of a stretch begin."""
        for i, memory in self.family.saved.get(loop, {}).items():
            yield copy(self._row(loop, memory, after=False), stretch.before(the_scan(loop).plan, i))

    def _row(self, loop: Group, memory: Buffer, after: bool) -> Ref:
        """Where a carry is saved before the stretch, or after it."""
        number = self.first // self.loops.size
        return Ref.whole(memory).row(number + 1 if after != self.loops.backwards(loop) else number)

    def _stretch(self, group: Group, done: Dimension = 1) -> Stretch:
        """The part of a group; nothing of it where `done` is 0."""
        loops, window = self.loops, self.loops.windows[group]
        base, rows = self.rows_of(window)
        short = {old: Short(new, self.rows_of(loops.short[old])[0]) for old, new in self.family.short.items()}
        reverse = group in loops.home and the_scan(loops.home[group]).plan.reverse
        start = window.length - base - rows if reverse else base
        return Stretch(start, base, rows, short, rows * done)

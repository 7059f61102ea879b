"""The statements of a loop over stretches, while they are written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import replace as changed

from scanjit import types
from scanjit.schedule.lower import maps
from scanjit.schedule.lower.region import Compound, Region
from scanjit.schedule.nests import Blocks, Buffer, Load, Nest, Pack, Ref, Statement, Store, counter
from scanjit.schedule.tiles.apply import tile_nest
from scanjit.schedule.time.stretch import Stretch
from scanjit.schedule.time.summed import SumLoops, taken_apart
from scanjit.types import Dimension


@dataclass(frozen=True)
class Parts:
    """Statements `before` the loop over stretches, `inside` it, and `after` it."""

    before: tuple[Statement, ...] = ()
    inside: tuple[Statement, ...] = ()
    after: tuple[Statement, ...] = ()

    def __add__(self, other: Parts) -> Parts:
        return Parts(self.before + other.before, self.inside + other.inside, self.after + other.after)


class Writer:
    """Writes the parts of a loop over stretches: `rows` steps from step `first` on. One is in the `short` buffers."""

    def __init__(self, region: Region, short: Iterable[Buffer] = ()) -> None:
        self.first, self.rows, self.short = counter("first"), counter("rows"), frozenset(short)
        self.counters = [*types.atoms(self.first), *types.atoms(self.rows)]
        self.region = region.inside(self.counters)

    def nest(self, nest: Nest) -> Parts:
        """A nest, after the packs of its operands; those that are the same in all stretches come before the loop."""
        made = tile_nest(self.region, nest)
        before = [statement for statement in made if isinstance(statement, Pack) and self._is_fixed(statement)]
        return Parts(tuple(before), tuple(statement for statement in made if statement not in before))

    def _is_fixed(self, pack: Pack) -> bool:
        """Whether a pack is the same in all stretches."""
        used = {atom for source in pack.sources for d in (source.offset, *source.shape) for atom in types.atoms(d)}
        return used.isdisjoint(self.counters) and not any(source.buffer in self.short for source in pack.sources)

    def rowwise(self, nest: Nest, stretch: Stretch) -> Parts:
        """The part of a nest whose first loop is time."""
        return self.nest(stretch.nest(nest, nest.space[0]))

    def copy(self, source: Ref, target: Ref) -> Parts:
        """Copies what lies at one place to another."""
        space = self.region.space(source.shape)
        at = maps.identity(space)
        value = Load(source.buffer.dtype, maps.place(source, at))
        return self.nest(Nest(list(space), [Store(maps.place(target, at), value)], "kept"))

    def scan(self, scan: Compound, stretch: Stretch, first_time: bool = True) -> Parts:
        """Steps of a scan; the first time, with what is packed for it before all steps."""
        packs = scan.statements[:-1] if first_time and scan.nest is None else ()
        return Parts(tuple(packs), tuple(stretch.scan(self.region, scan)))

    def sums(self, nest: Nest, found: SumLoops, stretch: Stretch, reverse: bool = False) -> Parts:
        """The part of sums over time, in the order of a scan."""
        summed = taken_apart(nest, found)
        parts = Parts(tuple(tile_nest(self.region, summed.zeros))) if summed.zeros is not None else Parts()
        parts += self.nest(summed.cut(stretch, reverse))
        finish = tile_nest(self.region, summed.finish) if summed.finish is not None else ()
        return parts + Parts(after=tuple(finish))

    def loop(
        self, parts: Sequence[Parts], total: Dimension, size: Dimension, backwards: bool = False
    ) -> list[Statement]:
        """The loop over stretches of `size` of `total` steps, with what comes before and after it."""
        whole = sum(parts, start=Parts())
        most = dict(zip(self.counters, (total, types.minimum(size, total)), strict=True))
        inside = _with_room(whole.inside, most)
        blocks = Blocks(total, types.maximum(size, 1), self.first, self.rows, inside, backwards)
        return [*whole.before, blocks, *whole.after]


def _with_room(body: Sequence[Statement], most: Mapping[types.Atom, Dimension]) -> list[Statement]:
    """Statements whose panels have room for the longest stretch: counters are no more than `most`."""
    packs = [statement.target for statement in body if isinstance(statement, Pack)]
    shapes = {panels: tuple(types.substitute(dim, most) for dim in panels.shape) for panels in packs}
    room = {panels: changed(panels, shape=shape) for panels, shape in shapes.items() if shape != panels.shape}
    if not room:
        return list(body)
    return [statement.rebased(lambda buffer, offset: (room.get(buffer, buffer), offset)) for statement in body]

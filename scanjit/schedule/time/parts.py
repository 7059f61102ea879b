"""The loop over stretches, and the statements that belong to it."""

from __future__ import annotations

from collections.abc import Iterable

from scanjit import types
from scanjit.records import record
from scanjit.schedule.lower import maps
from scanjit.schedule.nests import Blocks, Load, Nest, NestLoop, Ref, Statement, Store
from scanjit.schedule.time.stretch import Stretch
from scanjit.schedule.time.sums import SumLoops, taken_apart
from scanjit.types import Dimension


@record(eq=True)
class StretchStatements:
    """Statements to put `before` the loop over stretches, `inside` it, and `after` it."""

    before: tuple[Statement, ...] = ()
    inside: tuple[Statement, ...] = ()
    after: tuple[Statement, ...] = ()

    @classmethod
    def sums(cls, nest: Nest, found: SumLoops, stretch: Stretch, reverse: bool = False) -> StretchStatements:
        """The statements of a nest with sums over time. `reverse` says that the scan makes the terms from the last row
        to the first."""
        summed = taken_apart(nest, found)
        before, after = ((made,) if made is not None else () for made in (summed.zeros, summed.finish))
        return cls(before, (summed.cut(stretch, reverse),), after)


def loop(
    parts: Iterable[StretchStatements],
    counters: tuple[Dimension, Dimension],
    total: Dimension,
    size: Dimension,
    backwards: bool = False,
    fixed: bool = False,
) -> list[Statement]:
    """The loop over stretches of `size` of `total` steps, with the statements before and after it. `counters` are the
    first step of a stretch, and how many steps it has."""
    found = list(parts)
    inside = tuple(s for part in found for s in part.inside)
    return [
        *(s for part in found for s in part.before),
        Blocks(total, types.maximum(size, 1), *counters, inside, backwards, fixed=fixed),
        *(s for part in found for s in part.after),
    ]


def copy(source: Ref, target: Ref) -> Nest:
    """A nest that copies what lies at one place to another."""
    space = tuple(map(NestLoop, source.shape))
    at = maps.identity(space)
    value = Load(source.buffer.dtype, maps.place(source, at))
    return Nest(space, (Store(maps.place(target, at), value),), "copy")

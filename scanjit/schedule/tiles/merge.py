"""Merged loops: those over the rows and columns of `x * 2` become one loop, as there is no gap between rows."""

import itertools
from collections.abc import Sequence

from scanjit.records import replace as changed
from scanjit.schedule.nests import Access, Nest, NestLoop, Position, reductions_in
from scanjit.types import Dimension

Strides = dict[NestLoop, Dimension]


def merge_loops(nest: Nest) -> Nest:
    """The nest in which one loop stands for two neighbours, wherever all accesses go through these in equal steps.
    Loops of one iteration are dropped."""
    groups, strides = _groups(nest), _strides(nest)
    names: dict[NestLoop, NestLoop | None] = {
        loop: None for loops in (*groups, *strides) for loop in loops if loop.size == 1
    }
    fastest: dict[NestLoop, NestLoop] = {}
    """Maps a new loop to that of the loops in it whose stride it has."""
    groups = [tuple(loop for loop in group if loop not in names) for group in groups]
    while pairs := _pairs(groups, strides):
        outer, inner = pairs[0]
        one = NestLoop(outer.size * inner.size)
        fastest[one] = fastest.get(inner, inner)
        names |= {loop: one for loop, new in names.items() if new in pairs[0]} | {outer: one, inner: one}
        groups = [tuple(one if loop is inner else loop for loop in group if loop is not outer) for group in groups]
        strides = [_merged(steps, outer, inner, one) for steps in strides]

    def access(old: Access) -> Access:
        if names.keys().isdisjoint(old.strides):
            return old
        kept = {loop: stride for loop, stride in old.strides.items() if loop not in names or loop in fastest.values()}
        return changed(old, strides={names.get(loop) or loop: stride for loop, stride in kept.items()})

    return nest.rebuilt(access, lambda loop: names.get(loop) or loop, groups[0]) if names else nest


def _groups(nest: Nest) -> list[tuple[NestLoop, ...]]:
    """The loops of the space, and the loops of each reduction."""
    return [nest.space, *dict.fromkeys(value.loops for value in reductions_in(nest.values))]


def _strides(nest: Nest) -> list[Strides]:
    """The strides of all accesses and positions, equal ones once."""
    maps = [access.strides for access, _ in nest.accesses]
    maps += [value.strides for value in nest.values if isinstance(value, Position)]
    return [dict(items) for items in dict.fromkeys(tuple(strides.items()) for strides in maps)]


def _pairs(groups: Sequence[tuple[NestLoop, ...]], strides: Sequence[Strides]) -> list[tuple[NestLoop, NestLoop]]:
    """Pairs of loops that can be merged: wherever one of them occurs, the second is directly inside the first, and all
    accesses go through both in equal steps."""
    pairs = dict.fromkeys(pair for group in groups for pair in itertools.pairwise(group))
    firsts, seconds = [a for a, _ in pairs], [b for _, b in pairs]
    alone = [(a, b) for a, b in pairs if firsts.count(a) == 1 and seconds.count(b) == 1]
    return [(a, b) for a, b in alone if all(steps.get(a, 0) == steps.get(b, 0) * b.size for steps in strides)]


def _merged(strides: Strides, outer: NestLoop, inner: NestLoop, one: NestLoop) -> Strides:
    """Strides in which `one` stands for two loops: it has the stride of the inner one."""
    return {one if loop is inner else loop: stride for loop, stride in strides.items() if loop is not outer}

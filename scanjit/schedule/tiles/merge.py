"""Loops of a nest, merged: those over the rows and columns of `x * 2` become one, as no gap lies between rows."""

from __future__ import annotations

import itertools
from dataclasses import replace as changed

from scanjit.schedule.nests import Access, Nest, NestLoop, Position, Reduce
from scanjit.types import Dimension


def merge_loops(nest: Nest) -> Nest:
    """The nest in which one loop stands for two neighbours wherever all accesses go through these in equal steps. Loops
    of one iteration are dropped."""
    met = [*_all_loops(nest), *(loop for strides in _stride_maps(nest) for loop in strides)]
    nest = _rename(nest, {loop: None for loop in met if loop.size == 1})
    while True:
        strides = _stride_maps(nest)
        pair = next((p for p in _adjacent(nest) if all(_steps_as_one(s, *p) for s in strides)), None)
        if pair is None:
            return nest
        outer, inner = pair
        one = NestLoop(outer.size * inner.size)
        nest = _rename(nest, {outer: one, inner: one}, keep=inner)


def _all_loops(nest: Nest) -> list[NestLoop]:
    reduced = [loop for v in nest.values if isinstance(v, Reduce) for loop in v.loops]
    return [*nest.space, *dict.fromkeys(reduced)]


def _adjacent(nest: Nest) -> list[tuple[NestLoop, NestLoop]]:
    """Pairs of loops of which the second is directly inside the first, wherever either occurs."""
    groups = [tuple(nest.space)] + [v.loops for v in nest.values if isinstance(v, Reduce)]
    pairs = dict.fromkeys(pair for group in groups for pair in itertools.pairwise(group))
    firsts, seconds = [a for a, _ in pairs], [b for _, b in pairs]
    return [(a, b) for a, b in pairs if firsts.count(a) == 1 and seconds.count(b) == 1]


def _stride_maps(nest: Nest) -> list[dict[NestLoop, Dimension]]:
    values = nest.values
    maps = [dict(access.strides) for access, _ in nest.accesses()]
    return maps + [dict(value.strides) for value in values if isinstance(value, Position)]


def _steps_as_one(strides: dict[NestLoop, Dimension], outer: NestLoop, inner: NestLoop) -> bool:
    return strides.get(outer, 0) == strides.get(inner, 0) * inner.size


def _rename(nest: Nest, names: dict[NestLoop, NestLoop | None], keep: NestLoop | None = None) -> Nest:
    """The nest with other loops: `names` maps a loop to a new one, or to None to drop it. Where two become one, the new
    one has the stride of `keep`."""

    def access(old: Access) -> Access:
        strides: dict[NestLoop, Dimension] = {}
        for loop, stride in old.strides.items():
            new = names.get(loop, loop)
            if new is not None and (loop not in names or names[loop] is None or loop is keep):
                strides[new] = stride
        return changed(old, strides=strides)

    def loops(loop: NestLoop) -> NestLoop:
        return names.get(loop, loop) or loop

    space = [new for loop in nest.space if (new := names.get(loop, loop)) is not None]
    if nest.lane is not None:
        nest = changed(nest, lane=loops(nest.lane))
    return nest.rebuilt(access, loops, list(dict.fromkeys(space)))

"""Which loop of a nest lanes run along: the last one; or, of a convolution, perhaps the one over its filters.

With lanes along the places of filters, a vector of windows is read at every term: near ends not a full one, with a
stride one element at a time, and how many places there are may not be known. Filters can be packed instead; then every
term is a full vector of them, and results are written with a stride.
"""

from __future__ import annotations

import math
from dataclasses import replace as changed
from typing import NamedTuple

from scanjit import types
from scanjit.schedule.nests import Load, Nest, NestLoop, Reduce, walk_values
from scanjit.schedule.tiles.products import factors, is_packed, packable, reductions_of
from scanjit.schedule.tiles.shapes import USUAL, shape
from scanjit.target import Target
from scanjit.types import Dimension

ROWS, VECTORS = 4, 4
"""About how many rows, and how many vectors, of a register tile share a load."""
TERMS = 256
"""How many terms a sum has, where that is not known."""
PRODUCT, LOAD, ACROSS, STORE = 0.5, 0.5, 1.0, 1.0
"""What a vector takes, in cycles: products, a load, one across two lines of the cache, a store."""
ELEMENT, APART = 1.0, 2.0
"""What an element of a vector takes that does not lie together: read, and written."""
ADD_UP = 8.0
"""What it takes to add up the lanes of a vector."""
CLEARLY = 1.1
"""So many times less another loop than the last one has to take."""
PARTS = 256
"""Parts of a vector are counted in so many."""


class Form(NamedTuple):
    """The loop that lanes run along in the calls in which a number is 1 (else it is 0)."""

    lane: NestLoop
    when: Dimension


def lanes_last(nest: Nest, target: Target) -> Nest:
    """The nest with the loop that lanes are to run along as its last."""
    lane = nest.lane or _best(nest, _candidates(nest), target)
    if lane is None or lane is nest.space[-1]:
        return nest
    return changed(nest, space=[*(loop for loop in nest.space if loop is not lane), lane])


def forms(nest: Nest, target: Target) -> list[Form]:
    """The loops that lanes may run along: several, where the best depends on a size that is not known."""
    candidates = _candidates(nest)
    if len(candidates) < 2:
        return []
    last, lanes = nest.space[-1], _lanes(nest, target)
    rest = _best(nest, [loop for loop in candidates if loop is not last], target)
    if rest is None or isinstance(last.size, int):
        return []
    full, other = _cost(nest, last, target, 1.0), _cost(nest, rest, target)
    if not full < other < full * lanes:
        return []
    least, width = math.ceil(full / other * PARTS), lanes * _vectors(nest, target)
    whole = (last.size + (width - 1)) // width * width
    filled = types.minimum(types.maximum(last.size * PARTS - whole * least + 1, 0), 1)
    return [Form(last, filled), Form(rest, 1 - filled)]


def _candidates(nest: Nest) -> list[NestLoop]:
    """The loops that lanes could run along: the last one; and, of a convolution, those over what can be packed."""
    reductions = reductions_of(nest)
    if nest.sequential or nest.time is not None or not nest.space or not reductions:
        return nest.space[-1:]
    last = nest.space[-1]
    if any(factors(r) is None or is_packed(r, last) for r in reductions):
        return [last]
    others = [loop for loop in nest.space[:-1] if all(packable(r, loop) for r in reductions)]
    if all(packable(r, last) for r in reductions):  # what changes is not to be packed in place of what does not
        fixed = _all_fixed(reductions, last)
        others = [loop for loop in others if not fixed and _all_fixed(reductions, loop)]
    return [last, *others]


def _best(nest: Nest, loops: list[NestLoop], target: Target) -> NestLoop | None:
    return loops[0] if len(loops) == 1 else min(loops, key=lambda loop: _cost(nest, loop, target), default=None)


def _all_fixed(reductions: list[Reduce], lane: NestLoop) -> bool:
    """Whether all right operands are the same in all calls."""
    return all(found[1].access.buffer.fixed for r in reductions if (found := packable(r, lane)) is not None)


def _lanes(nest: Nest, target: Target) -> int:
    return target.lanes(max(value.dtype.itemsize for value in walk_values(nest.roots)))


def _cost(nest: Nest, lane: NestLoop, target: Target, filled: float | None = None) -> float:
    """About how many cycles an element of the result takes with lanes along a loop, of which this part is used."""
    reductions, lanes = reductions_of(nest), _lanes(nest, target)
    filled = _filled(lane.size, lanes, _vectors(nest, target)) if filled is None else filled
    inside = {load for reduction in reductions for load in factors(reduction) or ()}
    around = [v.access for v in walk_values(nest.roots) if isinstance(v, Load) and v not in inside]
    around += [store.access for store in nest.stores]
    vector = sum(STORE if access.strides.get(lane, 0) in (0, 1) else APART * lanes for access in around)
    rows = types.product(loop.size for loop in nest.space if loop is not lane)
    upright = vector / (lanes * filled)
    across = 0.0
    for reduction in reductions:
        terms = types.product(loop.size for loop in reduction.loops)
        count = terms if isinstance(terms, int) else TERMS
        upright += count * _term(reduction, lane, lanes) / (lanes * filled)
        upright += count * _packing(reduction, lane) / (max(rows, 1) if isinstance(rows, int) else USUAL[-1])
        across += count * (PRODUCT + LOAD / ROWS + LOAD / VECTORS) / lanes + ADD_UP
    last = {reduction.loops[-1] for reduction in reductions}
    beside = all(load.access.strides.get(loop, 0) in (0, 1) for load in inside for loop in last)
    if lane is not nest.space[-1]:
        return CLEARLY * upright
    return min(upright, across + len(around)) if beside else upright


def _term(reduction: Reduce, lane: NestLoop, lanes: int) -> float:
    """What a vector of products takes."""
    if packable(reduction, lane) is not None:
        return PRODUCT + LOAD / ROWS + LOAD / VECTORS
    loads = [load for load in factors(reduction) or () if lane in load.access.strides]
    read = sum(ACROSS if load.access.strides[lane] == 1 else ELEMENT * lanes for load in loads)
    return PRODUCT + read / ROWS + LOAD / VECTORS


def _packing(reduction: Reduce, lane: NestLoop) -> float:
    """What it takes to pack an element of the right operand in every call."""
    found = packable(reduction, lane)
    return 0.0 if found is None or found[1].access.buffer.fixed else ELEMENT


def _filled(size: Dimension, lanes: int, vectors: int) -> float:
    """The part of the lanes that is used: of whole tiles, where the size is not known."""
    sizes, width = ((max(size, 1),), lanes) if isinstance(size, int) else (USUAL, lanes * vectors)
    return sum(n / (-(-n // width) * width) for n in sizes) / len(sizes)


def _vectors(nest: Nest, target: Target) -> int:
    return shape(len(reductions_of(nest)), nest.space[0], target)[1]

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
from scanjit.schedule.nests import Nest, NestLoop, Reduce
from scanjit.schedule.tiles.estimates import lane_cost, lanes_of, vectors_of
from scanjit.schedule.tiles.products import factors, is_packed, packable, reductions_of
from scanjit.target import Target
from scanjit.types import Dimension

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
    last, lanes = nest.space[-1], lanes_of(nest, target)
    rest = _best(nest, [loop for loop in candidates if loop is not last], target)
    if rest is None or isinstance(last.size, int):
        return []
    full, other = lane_cost(nest, last, target, 1.0), lane_cost(nest, rest, target)
    if not full < other < full * lanes:
        return []
    least, width = math.ceil(full / other * PARTS), lanes * vectors_of(nest, target)
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
    return loops[0] if len(loops) == 1 else min(loops, key=lambda loop: lane_cost(nest, loop, target), default=None)


def _all_fixed(reductions: list[Reduce], lane: NestLoop) -> bool:
    """Whether all right operands are the same in all calls."""
    return all(found[1].access.buffer.fixed for r in reductions if (found := packable(r, lane)) is not None)

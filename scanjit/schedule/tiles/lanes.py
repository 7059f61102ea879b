"""The loop of a nest that lanes run along. It is the last one; for a convolution, it may be the one over its filters.

Take a convolution of 16 filters. With lanes along places, each product reads the inputs of 16 neighbouring places. That
is one load if the filter moves by 1, but 16 loads if it moves by 2, and the last vector of a row is partly empty. With
lanes along filters, each product reads a number of all 16 filters. These can be packed, so that it is always one full
vector; but results are then stored one number at a time.
"""

import math
from typing import NamedTuple

from scanjit import types
from scanjit.records import replace as changed
from scanjit.schedule.nests import Nest, NestLoop, Reduce
from scanjit.schedule.tiles.estimates import lane_cost, lanes_of, vectors_of
from scanjit.schedule.tiles.products import factors, is_packed, packable, reductions_of
from scanjit.target import Target
from scanjit.types import Dimension

PARTS = 256
"""The filled part of vectors is counted in this many parts."""


class Variant(NamedTuple):
    """A variant of a nest. `when` is 1 in calls that run it, 0 in others."""

    nest: Nest
    when: Dimension


def lanes_last(nest: Nest, target: Target) -> Nest:
    """The nest with the loop that lanes run along as its last."""
    lane = nest.lane or _best(nest, _candidates(nest), target)
    if lane is None or lane is nest.time or lane is nest.space[-1]:
        return nest
    return changed(nest, space=(*(loop for loop in nest.space if loop is not lane), lane))


def variants(nest: Nest, target: Target, notes: list[str]) -> list[Variant]:
    """The nest with lanes along one loop or another, if the best one depends on a size that is not known now. The list
    is empty if there is nothing to decide in a call."""
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
    notes.append(f"nest {nest.label}: lanes along {last.size} or {rest.size}, whichever fills vectors")
    return [Variant(changed(nest, lane=last), filled), Variant(changed(nest, lane=rest), 1 - filled)]


def _candidates(nest: Nest) -> list[NestLoop]:
    """The loops that lanes could run along: the last one; and for a convolution, those along which an operand can be
    packed."""
    reductions = reductions_of(nest)
    if nest.sequential or nest.time is not None or not nest.space or not reductions:
        return list(nest.space[-1:])
    last = nest.space[-1]
    if any(factors(r) is None or is_packed(r, last) for r in reductions):
        return [last]
    others = [loop for loop in nest.space[:-1] if all(packable(r, loop) for r in reductions)]
    if all(packable(r, last) for r in reductions):  # another loop only to pack once what is else packed in every call
        fixed = _all_fixed(reductions, last)
        others = [loop for loop in others if not fixed and _all_fixed(reductions, loop)]
    return [last, *others]


def _best(nest: Nest, loops: list[NestLoop], target: Target) -> NestLoop | None:
    return loops[0] if len(loops) == 1 else min(loops, key=lambda loop: lane_cost(nest, loop, target), default=None)


def _all_fixed(reductions: list[Reduce], lane: NestLoop) -> bool:
    """Whether all right operands for lanes along a loop are the same in all calls."""
    return all(found.right.access.buffer.fixed for r in reductions if (found := packable(r, lane)) is not None)

"""Costs of a nest in forms that are compared: with lanes along one loop or another, and with time in one place or
another. All estimates are in starts (see `scanjit.schedule.cost.rates`)."""

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from scanjit import types
from scanjit.kinds import kind_of
from scanjit.schedule.cost import rates
from scanjit.schedule.nests import (
    Access,
    Apply,
    Buffer,
    Fetch,
    Linear,
    Load,
    Nest,
    NestLoop,
    Reduce,
    Register,
    Search,
    Value,
    in_one_lane,
    walk_values,
)
from scanjit.schedule.tiles.across import LEAST_LANES, TURNED, across
from scanjit.schedule.tiles.along import horizontal, thin
from scanjit.schedule.tiles.linear import linear
from scanjit.schedule.tiles.products import factors, packable, reductions_of
from scanjit.schedule.tiles.shapes import USUAL, shape
from scanjit.target import Target
from scanjit.types import Dimension
from scanjit.walks import bottom_up

ROWS, VECTORS = 4, 4
"""About how many rows share a load in a register tile, and about how many vectors."""
TERMS = 256
"""How many terms a sum counts with if their number is not known."""
CLEARLY = 1.1
"""Lanes run along another loop than the last one only if that takes this many times less."""
MANY = 16
"""Points count as at most this many vectors. A space of unknown size counts as so many; more are never in flight."""
MOST_ACROSS = 4
"""At most so many rows that lie across are read or written where they are: what is turned stays in the first cache."""
MOST_TOGETHER = 8
"""At most this many vectors go through time together, with their carries in registers: all vectors of a short row."""
MOST_CARRIED = 12
"""So many carries of vectors fit into 16 registers, with what a step needs besides."""
MOST_SIDE_BY_SIDE = 4
"""At most this many vectors are computed side by side in a nest without time, or in a step of a strip."""
MOST_STEPS = 2
"""In strips, a vector goes through at most so many steps before the next one does. With four, the rows of several steps
fall into one set of the first cache where they lie a power of two apart."""
MOST_WORK = 160.0
"""The code of a step is written once for each vector that goes through time. The operations of all together are at most
this."""
MOST_BESIDE = 512.0
"""The same for vectors whose carries are in memory, and for nests without time."""
SEEN = 100.0
"""A processor looks this many operations ahead for vectors that do not wait for each other."""
SEEN_STEPS = 200.0
"""The same for vectors of steps, which wait for one operation of those before them."""

LONG_ROW = 6
"""A row is long if it fills at least so many vectors: the rest of its steps are done one by one."""
WIDE_ELEMENT = 8
"""Rows of smaller elements are turned however long they are: a vector has many rows, whose steps do not wait."""

# ---- lanes ----------------------------------------------------------------------------------------------------------


def lane_cost(nest: Nest, lane: NestLoop, target: Target, filled: float | None = None) -> float:
    """The cost of one element of the result, with lanes along `lane`. `filled` is the part of the lanes that is
    used."""
    reductions, lanes = reductions_of(nest), lanes_of(nest, target)
    filled = _filled(lane.size, lanes, vectors_of(nest, target)) if filled is None else filled
    operands = {load for reduction in reductions for load in factors(reduction) or ()}
    around = [value.access for value in nest.values if isinstance(value, Load) and value not in operands]
    around += [store.access for store in nest.stores]
    moves = (rates.MOVE if a.strides.get(lane, 0) in (0, 1) else rates.MOVE_ELEMENT * lanes for a in around)
    rows = types.product(loop.size for loop in nest.space if loop is not lane)
    upright = sum(moves) / (lanes * filled)
    across = 0.0
    for reduction in reductions:
        terms = types.product(loop.size for loop in reduction.loops)
        count = terms if isinstance(terms, int) else TERMS
        upright += count * _term(reduction, lane, lanes) / (lanes * filled)
        upright += count * _packing(reduction, lane) / (max(rows, 1) if isinstance(rows, int) else USUAL[-1])
        across += count * _shared_loads(rates.LOAD) / lanes + rates.ADD_LANES
    if lane is not nest.space[-1]:
        return CLEARLY * upright
    if horizontal(nest, reductions) or thin(nest, reductions, lanes):
        return across + rates.LOAD_ELEMENT * len(around)
    return upright


def lanes_of(nest: Nest, target: Target) -> int:
    """How many elements a vector of a nest has: as many as fit of the widest type in it. An index that one lane
    computes for all does not count, nor does how far an access has moved along an axis that begins again."""
    shared = [*nest.space[:-1], *([nest.time] if nest.time is not None else [])]
    fetched = [value.indices for value in nest.values if isinstance(value, Fetch)]
    indices = [index for part in (*fetched, *(store.indices for store in nest.stores)) for index in part]
    alone = {index.value for index in indices if in_one_lane(index.value, shared)}
    alone |= {index.turn for index in indices if index.turn is not None}
    values: Iterable[Value] = nest.values
    if alone:
        roots = [root for root in nest.roots if root not in alone]
        values = bottom_up(roots, lambda value: [part for part in value.operands if part not in alone])
    return target.lanes(max((value.dtype.itemsize for value in values), default=8))


def vectors_of(nest: Nest, target: Target) -> int:
    """About how many vectors a register tile has."""
    return shape(len(reductions_of(nest)), nest.space[0], target)[1]


def _shared_loads(load: float) -> float:
    """The cost of a vector of products: a multiply-add, and its share of the loads of a register tile. `load` is the
    cost of loading the operand that rows share."""
    return rates.PRODUCT + load / ROWS + rates.LOAD / VECTORS


def _term(reduction: Reduce, lane: NestLoop, lanes: int) -> float:
    """The cost of a vector of products with lanes along a loop. A packed operand is loaded in one instruction."""
    if packable(reduction, lane) is not None:
        return _shared_loads(rates.LOAD)
    strides = [load.access.strides[lane] for load in factors(reduction) or () if lane in load.access.strides]
    return _shared_loads(sum(rates.LOAD_ACROSS if step == 1 else rates.LOAD_ELEMENT * lanes for step in strides))


def _packing(reduction: Reduce, lane: NestLoop) -> float:
    """The cost of packing one element of the right operand, if it is packed in every call."""
    found = packable(reduction, lane)
    return 0.0 if found is None or found.right.access.buffer.fixed else rates.LOAD_ELEMENT


def _filled(size: Dimension, lanes: int, vectors: int) -> float:
    """The part of the lanes that is used. If the size is not known: the mean over usual sizes, in whole tiles."""
    sizes, width = ((max(size, 1),), lanes) if isinstance(size, int) else (USUAL, lanes * vectors)
    return sum(n / (-(-n // width) * width) for n in sizes) / len(sizes)


# ---- steps ----------------------------------------------------------------------------------------------------------


class StepCosts(NamedTuple):
    """The cost of a step of one vector: with time `inside` all loops, where `vectors` vectors go through time together
    with their carries in registers; and with time around `strips` of points, where the carries are in memory."""

    vectors: int
    inside: float
    strips: float


def step_costs(nest: Nest, lanes: int, vectors: int | None = None) -> StepCosts:
    """The cost of a step of a nest with time, whose points fill `vectors` vectors. It is the larger of two times: that
    in which the vector units are busy, and that in which operations wait for each other. The second counts if few
    vectors are computed side by side."""
    vectors = _vectors(nest, lanes) if vectors is None else vectors
    work, chain = _work(nest), _chain(nest)
    together, moves = _together(nest, lanes, work), rates.MOVE * len(nest.registers)
    turned = len(across(nest)) if lanes >= LEAST_LANES else 0
    rows = _rows(nest) - turned if vectors > together else 0
    inside = max(work, rates.LATENCY * chain / together) + rates.NEXT_ROW * rows + TURNED * turned
    strips = max(work + moves, rates.LATENCY * (chain + moves) / min(vectors, MANY))
    strips += rates.LOOP * len(nest.space) / min(vectors, MANY) + rates.MOVE_ELEMENT * lanes * turned
    return StepCosts(together, inside, strips)


def takes_less_across(nest: Nest) -> bool:
    """Whether a nest with time takes less time if it reads and writes rows that lie across where they are, without
    copies. It does not if steps wait for each other longer than they take: with copies it goes in strips, in which
    more vectors are computed side by side."""
    return len(across(nest)) <= MOST_ACROSS and rates.LATENCY * _chain(nest) <= max(_work(nest), TURNED)


def long_rows(nest: Nest, lanes: int) -> Dimension:
    """1 in calls in which a nest with time takes less time row by row, as many steps at a time as a vector has lanes,
    than in vectors of rows that are turned; else 0. Its steps must be linear, and its rows must lie across and be
    long."""
    turned = across(nest)
    if nest.time is None or lanes == 1 or not turned or nest.reach is not None or _apart(nest):
        return 0
    if any(access.buffer.dtype.itemsize < WIDE_ELEMENT for access in turned):
        return 0
    steps = linear(nest, True)
    if not steps or sum(_composing(step, lanes) for step in steps) >= TURNED * len(turned):
        return 0
    return types.minimum(nest.time.size // (LONG_ROW * lanes), 1)


def places(nest: Nest) -> set[tuple[Buffer, Dimension]]:
    """Where a step of a vector reads and writes: an offset of a buffer for each row."""
    lane = nest.space[-1]
    return {(access.buffer, access.offset) for access, _ in nest.accesses if access.strides.get(lane, 0) != 0}


def computes_longer_than_fetches(nest: Nest) -> bool:
    """Whether the operations of a step take longer than to move what it reads and writes from and to the second
    cache."""
    return _work(nest) > rates.NEAR_MOVE * len(places(nest))


def side_by_side(nest: Nest, lanes: int) -> int:
    """How many vectors are computed side by side in a nest without time, or in a step of a strip. They are several if
    operations wait for each other longer than they take, but no more than a known row fills."""
    longest = _longest(nest, [value for value in nest.values if not value.operands])
    if rates.LATENCY * max(longest.values(), default=0.0) <= max(_work(nest), SEEN):
        return 1
    return most_side_by_side(nest, lanes)


def most_side_by_side(nest: Nest, lanes: int) -> int:
    """How many vectors may be computed side by side: no more than a known row fills. In a loop that may end early, so
    many go through time together, until the last of them ends: a processor does not foresee which step that is."""
    size, work, vectors = nest.space[-1].size, _work(nest), MOST_SIDE_BY_SIDE
    while vectors > 1 and (vectors * work > MOST_BESIDE or (isinstance(size, int) and size < lanes * vectors)):
        vectors //= 2
    return vectors


def steps_together(nest: Nest, vectors: int) -> int:
    """How many steps of a strip each point goes through before the next point does. Its carries stay in registers
    between them."""
    time, steps = nest.time, MOST_STEPS
    known = time.size if time is not None and isinstance(time.size, int) else steps
    while steps > 1 and (steps * vectors * _work(nest) > MOST_WORK or steps > known):
        steps //= 2
    return steps


def fewest_vectors(nest: Nest, lanes: int) -> int:
    """The least number of vectors of points for which strips are faster."""
    costs = ((vectors, step_costs(nest, lanes, vectors)) for vectors in range(1, MANY))
    return next((vectors for vectors, cost in costs if cost.strips < cost.inside), MANY)


def takes_less_in_narrow_vectors(nest: Nest) -> bool:
    """Whether a step of the points that are left after whole vectors takes less time in two or three vectors of fewer
    lanes than in one whose other lanes are masked, where masks are slow."""
    lane = nest.space[-1]
    moving = [access for access, _ in nest.accesses if access.strides.get(lane, 0) != 0]
    masked = {(access.buffer, access.offset) for access in moving if not _has_room(access, lane)}
    return _work(nest) < rates.MASKED * len(masked)


def may_scatter_few(nest: Nest) -> bool:
    """Whether a nest may store few elements of a row, which lie apart in memory: with a mask, that takes as long as for
    a vector of them."""
    lane = nest.space[-1]
    return not isinstance(lane.size, int) and any(store.access.strides.get(lane, 0) != 1 for store in nest.stores)


def reads_neighbours(nest: Nest, lanes: int) -> bool:
    """Whether a point reads several neighbours in a row that steps store, as in `h[1:] - h[:-1]`, and the row may be
    longer than a vector. A vector of such neighbours is made of two vectors that the step before has just stored, and
    waits for both. If vectors are as wide as a line of the cache, it also lies in two lines."""
    lane, first = nest.space[-1], dict[object, Dimension]()
    stored = {store.access.buffer for store in nest.stores}
    if isinstance(lane.size, int) and lane.size <= lanes:
        return False
    for access, written in nest.accesses:
        others = {loop: step for loop, step in access.strides.items() if loop is not lane}
        if written or access.buffer not in stored or access.strides.get(lane) != 1:
            continue
        apart = first.setdefault((access.buffer, *others.items()), access.offset) - access.offset
        if isinstance(apart, int) and apart % lanes != 0:
            return True
    return False


def _has_room(access: Access, lane: NestLoop) -> bool:
    """Whether a row has room behind its elements for all lanes of its last vector."""
    row = access.buffer.row
    if row is None or row == 0 or lane.size != row:
        return False
    return types.remainder(access.offset, access.buffer.shape[-1]) == 0


def waits_less_step_by_step(nest: Nest, steps: Sequence[Linear], lanes: int) -> bool:
    """Whether linear steps take less time one by one than as many at a time as a vector has lanes. One by one, the next
    value of a sum or a maximum takes one operation; to compose the steps of a vector takes several. Carries that read
    each other are composed one after the other, and meanwhile a processor does not see as far ahead as the next vector
    of steps. One by one, each of them reads what another one was a step before, and waits for nothing else."""
    updates = dict(zip(nest.registers, nest.updates, strict=True))
    waits = [
        _latency(step.register) * _longest(nest, [step.register]).get(updates[step.register], 0.0) for step in steps
    ]
    work = sum(_cost(value) for value in nest.values if _varies(value)) + len(nest.stores)
    composed = work + sum(_composing(step, lanes) for step in steps) + lanes * _apart(nest)
    ahead = max(SEEN_STEPS / max(composed, 1.0), 1.0)
    return bool(steps) and lanes * max(work, *waits) < max(composed, _in_turn(steps, lanes) / ahead)


def _latency(register: Register) -> float:
    """For how many times as long as an operation takes the next one waits for its result."""
    return rates.LATENCY if kind_of(register.dtype).floating else rates.LATENCY_OF_INTEGERS


def _varies(value: Value) -> bool:
    """Whether a value is not a load that is the same in all steps."""
    return not isinstance(value, Load) or any(access.strides for access in value.accesses)


def _apart(nest: Nest) -> float:
    """The cost of the accesses of a step that are made one by one, because those of the next step do not lie beside
    them. (Some vectors are shuffled, see `codegen.memory`.)"""
    near = {True: (0, 1, -1, 2), False: (0, 1, -1, 2, 4)}
    apart = [
        access
        for access, written in nest.accesses
        if any(loop is nest.time and step not in near[written] for loop, step in access.strides.items())
    ]
    return rates.MOVE_ELEMENT * len(apart)


def _in_turn(steps: Sequence[Linear], lanes: int) -> float:
    """How long the last carry of a vector of steps waits, if each waits for those that it reads."""
    ready: dict[Value, float] = {}
    for step in steps:
        parts = (part for part in (step.factor, step.term, step.low, step.high) if part is not None)
        before = max((ready[part] for part in walk_values(list(parts)) if part in ready), default=0.0)
        ready[step.register] = before + 2 * rates.LATENCY * _turns(step, lanes)
    return max(ready.values(), default=0.0)


def _turns(step: Linear, lanes: int) -> float:
    """How many operations that wait for each other compose a carry's steps of a vector. Each turn moves lanes and
    multiplies and adds; for a bound, it then compares and chooses."""
    if step.forgets or step.unread:
        return 1.0
    bounds = (step.low is not None) + (step.high is not None)
    return math.log2(lanes) * (2 + 2 * (bounds > 0)) + 2 + bounds


def _composing(step: Linear, lanes: int) -> float:
    """The cost to compose a carry's steps of a vector by doubling (see `codegen.linear`), and to take its last lane to
    the next vector."""
    ends = 3 * rates.SLIDE
    if step.forgets:
        return ends
    bounds = (step.low is not None) + (step.high is not None)
    if step.unread:
        return bounds * rates.BOUND
    moved = (step.factor is not None) + (step.term is not None)
    turn = moved * (rates.SLIDE + 1) + bounds * (rates.SLIDE + rates.BOUND + (moved > 0)) + max(bounds - 1, 0)
    return math.log2(lanes) * turn + moved + bounds * rates.BOUND + ends


def _vectors(nest: Nest, lanes: int) -> int:
    """About how many vectors the points fill, as far as it is known. Points of short rows count as if they filled
    vectors together: their loads reach into the next row, and wait for what is stored there."""
    points = math.prod(loop.size if isinstance(loop.size, int) else MANY * lanes for loop in nest.space)
    return max((points + lanes // 2) // lanes, 1)


def _rows(nest: Nest) -> int:
    """How many accesses go to another row at each step. Accesses to carries do not count."""
    moving = [access for access, _ in nest.accesses if nest.time in access.strides]
    return len(moving) - sum(nest.time in access.strides for access in nest.carried)


def _together(nest: Nest, lanes: int, work: float) -> int:
    """How many vectors may go through time together with their carries in registers: those of a known short row, else
    one."""
    size = nest.space[-1].size if nest.space else 1
    few = size // lanes if isinstance(size, int) and size and size % lanes == 0 else 1
    fits = few <= MOST_SIDE_BY_SIDE or (few <= MOST_TOGETHER and few * len(nest.registers) <= MOST_CARRIED)
    return few if fits and few * work <= MOST_WORK else 1


def _work(nest: Nest) -> float:
    """How long the operations of a step take, one after another."""
    return sum(map(_cost, nest.values))


def _chain(nest: Nest) -> float:
    """How long a carry waits in a step for the carry before it."""
    longest = _longest(nest, nest.registers)
    return max((longest.get(update, 0.0) for update in nest.updates), default=0.0)


def _longest(nest: Nest, starts: Sequence[Value]) -> dict[Value, float]:
    """For each value that depends on one of `starts`, the longest chain of operations between them that wait for each
    other."""
    longest = dict.fromkeys(starts, 0.0)
    for value in nest.values:
        found = [longest[part] for part in value.operands if part in longest]
        if found and value not in longest:
            longest[value] = max(found) + (1 + _cost(value)) / 2
    return longest


def _cost(value: Value) -> float:
    return float(value.cost if isinstance(value, Apply | Search) else len(value.accesses))

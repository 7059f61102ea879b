"""How long the stretches of a chain are, and the statements that run them."""

from collections.abc import Mapping

from scanjit import types
from scanjit.records import replace as changed
from scanjit.schedule.lower.region import name_of
from scanjit.schedule.nests import Buffer, Nest, Ref, Statement
from scanjit.schedule.time.bands import filled_with_steps
from scanjit.schedule.time.chains import Chain
from scanjit.schedule.time.parts import StretchStatements, copy, loop
from scanjit.schedule.time.stretch import Short, Stretch
from scanjit.schedule.time.sums import DEPTH, depth as depth_of
from scanjit.target import Target
from scanjit.types import Dimension

LEAST_TURNS = 4
"""A stretch has at least this many times as many steps as the lag of a ring, whose last values are copied at the start
and the end of a stretch."""


LEAST_PIECE = 256
"""A stretch reads at least this many bytes of each series of an argument whose steps lie side by side. Short pieces are
read slowly, and each takes one more line of the cache than it fills."""
MOST_CACHES = 4
"""For such arguments, short buffers may have this many times `near_bytes`."""


def blocked(chain: Chain, nests: Mapping[Statement, Nest], target: Target) -> tuple[list[Statement], list[str]]:
    """The statements of a chain: those that run once before, the loop over stretches, and those that run after it. And
    notes for `explain`."""
    plan, size = chain.plan, _size(chain, nests, target)
    more = {plan.carries[i].store.buffer: plan.carries[i].reach for i in chain.rings}
    short = {b: changed(b, shape=(size + more.get(b, 0), *b.shape[1:])) for b in _short(chain)}
    first, rows = types.counter("first"), types.counter("rows")
    base = plan.length - first - rows if plan.reverse else first
    stretch = Stretch(first, base, rows, {old: Short(new, base) for old, new in short.items()}, rows)
    scan = [stretch.scan(chain.scan)]
    if chain.alone and isinstance(scan[0], Nest):  # vectors of steps give other bits than single ones
        scan = filled_with_steps(scan[0], target)
    inside = (
        *(stretch.rowwise(nests[s]) for s in chain.before),
        *(copy(_last(last, to := stretch.before(plan, i)), to) for i, last in chain.rings.items()),
        *scan,
        *(copy(end := stretch.after(plan, i), _last(last, end)) for i, last in chain.rings.items()),
        *(stretch.rowwise(nests[s]) for s in chain.after),
    )
    sums = [
        StretchStatements.sums(nests[statement], found, stretch, plan.reverse)
        for statement, found in chain.sums.items()
    ]
    names = ", ".join(sorted({buffer.name for buffer in short}))
    notes = [f"{name_of(plan.node)}: in blocks of time, with memory for one block of {names}"] if short else []
    return loop([StretchStatements(inside=inside), *sums], (first, rows), plan.length, size), notes


def _last(buffer: Buffer, like: Ref) -> Ref:
    """The last values of a ring, for as many points as `like` has."""
    return changed(Ref.whole(buffer), shape=like.shape)


def _short(chain: Chain) -> list[Buffer]:
    """The buffers that hold one stretch. Those of rings also hold the steps before it."""
    return [*chain.short, *(chain.plan.carries[i].store.buffer for i in chain.rings)]


def _size(chain: Chain, nests: Mapping[Statement, Nest], target: Target) -> Dimension:
    """How many steps a stretch has: as many as read and write about `near_bytes` in short buffers, or half as many
    bytes as a matrix has that comes from memory in each stretch."""
    plan, near_bytes = chain.plan, target.near_bytes
    step = sum((types.product(buffer.shape[1:]) * buffer.dtype.itemsize for buffer in _short(chain)), start=0)
    size = types.maximum(near_bytes // types.maximum(step, 1), 1)
    if itemsize := max((_series(nests[statement]) for statement in chain.before), default=0):
        longer = MOST_CACHES * near_bytes // types.maximum(step, 1)
        size = types.maximum(size, types.minimum(longer, LEAST_PIECE // itemsize))
    if matrix := max((_matrix(nests[statement], target) for statement in (*chain.before, *chain.after)), default=0):
        size = types.maximum(size, matrix // 2 // types.maximum(step, 1))
    for found in chain.sums.values():
        if (depth := depth_of(found)) is not None:
            size = types.maximum(size, (DEPTH - 1) // types.maximum(depth, 1) + 1)
    for i in chain.rings:
        size = types.maximum(size, plan.carries[i].reach * LEAST_TURNS)
    return types.minimum(plan.length, size)


def _series(nest: Nest) -> int:
    """The bytes of an element of a series whose steps lie side by side and that a nest over time reads; 0 if it reads
    none."""
    time = nest.space[0]
    read = [access for access, written in nest.accesses if not written and access.strides.get(time) in (1, -1)]
    return max((access.buffer.dtype.itemsize for access in read if len(access.strides) > 1), default=0)


def _matrix(nest: Nest, target: Target) -> int:
    """The bytes of the largest operand that a nest over time reads anew in each stretch, if two of them fill the
    third-level cache; 0 if there is none, or if its size is not known."""
    time = nest.space[0]
    read = [access for access, written in nest.accesses if not written and time not in access.strides]
    sizes = [types.product(loop.size for loop in a.strides) * a.buffer.dtype.itemsize for a in read]
    return max((size for size in sizes if isinstance(size, int) and 2 * size >= target.far_bytes), default=0)

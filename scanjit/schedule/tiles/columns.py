"""Reductions down the columns of an array that fits in no cache, such as the mean of each feature of many samples.

One register tile of columns reads a few lines of every row, and the next tile reads the rows once more, after all
other rows. Processors fetch ahead what is read in one direction, within a page of memory: they foresee nothing here.
So the columns go in strips. All columns of a strip add a few terms, which is a long piece of a few rows; then the next
terms. The sums lie in memory meanwhile. Every column still adds its terms in the same order; only in the columns that
are left after the last whole tile, the order is another one.

A reduction whose terms need the result of another one, as those of `logsumexp` need the largest term, comes after it:
the rows of a strip are read once for each such turn.
"""

from collections.abc import Sequence

from scanjit import types
from scanjit.kinds import kind_of
from scanjit.ops.extremes import ArgReduction
from scanjit.ops.stretch import SUM
from scanjit.records import replace
from scanjit.schedule.nests import SCRATCH_BYTES, Load, Nest, Reduce, Tile, reductions_in, walk_values
from scanjit.schedule.tiles.products import factors
from scanjit.signatures import DType
from scanjit.target import Target
from scanjit.types import Dimension

TERMS = 8
"""So many terms are added to the sums of a strip at a time: processors read about as many rows side by side."""
LEAST_TERMS = 4 * TERMS
"""Sums of fewer terms do not go in strips: they would be loaded and stored for few terms."""
LEAST_BYTES = 1024
"""A strip reads at least this many bytes of a row."""


LONG_ROW = 2048
"""Rows of at least so many bytes are foreseen, unless they come from memory."""


def in_strips(nest: Nest, reductions: Sequence[Reduce], tile: Tile, target: Target) -> Tile:
    """The tile with strips of columns, in calls for which they are faster; as it is if there are none."""
    width = tile.lanes * tile.vectors
    terms = {reduction.loops for reduction in reductions}
    if len(terms) != 1 or not all(_can_wait(reduction, reductions) for reduction in reductions):
        return tile
    lane, ((loop, *others),) = nest.space[-1], terms
    read = [v for v in walk_values([r.term for r in reductions]) if isinstance(v, Load)]
    rows = [load.access for load in read if {lane, loop} <= load.access.strides.keys()]
    itemsize = max((access.buffer.dtype.itemsize for access in rows), default=0)
    columns = SCRATCH_BYTES // sum(map(nbytes, reductions)) // width * width
    if others or columns * itemsize < LEAST_BYTES:
        return tile
    total = types.product(each.size for each in (loop, *nest.space)) * itemsize
    many = _all_of(total // (target.level2_bytes + 1), loop.size // LEAST_TERMS, lane.size // (width + 1))
    foreseen = _all_of(lane.size * itemsize // LONG_ROW) * (1 - _all_of(total // (target.far_bytes + 1)))
    strips = (*(1 for _ in nest.space[1:]), columns)
    return tile if many == 0 else replace(tile, strips=strips, many=many, ahead=1 - foreseen)


def _all_of(*numbers: Dimension) -> Dimension:
    """1 if all numbers are positive, else 0."""
    return types.product(types.minimum(number, 1) for number in numbers)


def nbytes(reduction: Reduce) -> int:
    """How many bytes a reduction needs for each column of a strip."""
    return sum(dtype.itemsize for dtype in kept(reduction))


def kept(reduction: Reduce) -> list[DType]:
    """What is kept of a reduction for each column of a strip, its result last. A sum of floats is kept twice: that of a
    chunk of terms, and that of all chunks before. Where a position is looked for, so is the best element."""
    if isinstance(reduction.op, ArgReduction):
        return [reduction.term.dtype, reduction.dtype]
    return [reduction.dtype] * (2 if in_chunks(reduction) else 1)


def in_chunks(reduction: Reduce) -> bool:
    """Whether a reduction is a sum of the sums of chunks, which keeps rounding errors small."""
    return reduction.op is SUM and kind_of(reduction.dtype).floating


def turns(reductions: Sequence[Reduce]) -> list[list[Reduce]]:
    """Reductions in the order in which they are computed: those of each list need results of lists before it alone."""
    found, left = list[list[Reduce]](), list(reductions)
    while left:
        found.append([each for each in left if not set(needed(each)) & set(left)])
        left = [each for each in left if each not in found[-1]]
    return found


def needed(reduction: Reduce) -> list[Reduce]:
    """The reductions whose results the terms of a reduction need."""
    return reductions_in(walk_values([reduction.term]))


def _can_wait(reduction: Reduce, reductions: Sequence[Reduce]) -> bool:
    """Whether a reduction can be kept in memory between two terms. It has no first value and no guard, needs no others
    than `reductions`, and reads no operand that is packed once for all calls."""
    plain = reduction.init is None and reduction.guard is None
    if any(load.access.buffer.fixed for load in factors(reduction) or ()):
        return False
    return plain and all(dtype.itemsize > 1 for dtype in kept(reduction)) and set(needed(reduction)) <= set(reductions)

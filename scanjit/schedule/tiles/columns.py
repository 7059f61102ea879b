"""Sums down the columns of an array that fits in no cache, such as the mean of each feature of many samples.

One register tile of columns reads a few lines of every row, and the next tile reads the rows once more, after all
other rows. Processors fetch ahead what is read in one direction, within a page of memory: they foresee nothing here.
So the columns go in strips. All columns of a strip add a few terms, which is a long piece of a few rows; then the next
terms. The sums lie in memory meanwhile. Every column still adds its terms in the same order, but for those
that are left behind the last whole tile.
"""

from collections.abc import Sequence

from scanjit import types
from scanjit.kinds import kind_of
from scanjit.ops import Reduction
from scanjit.ops.stretch import SUM
from scanjit.schedule.nests import SCRATCH_BYTES, Load, Nest, Reduce, Tile, reductions_in, walk_values
from scanjit.schedule.tiles.products import factors
from scanjit.target import Target
from scanjit.types import Dimension

TERMS = 8
"""So many terms are added to the sums of a strip at a time: processors read about as many rows side by side."""
LEAST_TERMS = 4 * TERMS
"""Sums of fewer terms do not go in strips: they would be loaded and stored for few terms."""
LEAST_BYTES = 1024
"""A strip reads at least this many bytes of a row."""


def strip_of_columns(nest: Nest, reductions: Sequence[Reduce], tile: Tile, target: Target) -> tuple[int, Dimension]:
    """How many columns a strip has, and a number that is 1 in calls that go in strips, 0 in others. Both are 0 if no
    call does."""
    width = tile.lanes * tile.vectors
    terms = {reduction.loops for reduction in reductions}
    if len(terms) != 1 or not all(map(_can_wait, reductions)):
        return 0, 0
    lane, ((loop, *others),) = nest.space[-1], terms
    read = [v for v in walk_values([r.term for r in reductions]) if isinstance(v, Load)]
    rows = [load.access for load in read if {lane, loop} <= load.access.strides.keys()]
    itemsize = max((access.buffer.dtype.itemsize for access in rows), default=0)
    columns = SCRATCH_BYTES // sum(map(nbytes, reductions)) // width * width
    if others or columns * itemsize < LEAST_BYTES:
        return 0, 0
    far = types.product(each.size for each in (loop, *nest.space)) * itemsize // (target.level2_bytes + 1)
    many = [far, loop.size // LEAST_TERMS, lane.size // (width + 1)]
    return columns, types.product(types.minimum(number, 1) for number in many)


def nbytes(reduction: Reduce) -> int:
    """How many bytes a reduction needs for each column of a strip. A float is kept twice: the sum of a chunk of terms,
    and that of all chunks before."""
    return reduction.dtype.itemsize * (2 if in_chunks(reduction) else 1)


def in_chunks(reduction: Reduce) -> bool:
    """Whether a reduction is a sum of the sums of chunks, which keeps rounding errors small."""
    return reduction.op is SUM and kind_of(reduction.dtype).floating


def _can_wait(reduction: Reduce) -> bool:
    """Whether a reduction can be kept in memory between two terms. It finds no position, has no first value and no
    guard, needs no other reduction, and reads no operand that is packed once for all calls."""
    plain = isinstance(reduction.op, Reduction) and reduction.init is None and reduction.guard is None
    if any(load.access.buffer.fixed for load in factors(reduction) or ()):
        return False
    return plain and reduction.dtype.itemsize > 1 and not reductions_in(walk_values([reduction.term]))

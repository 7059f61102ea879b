"""Sorting rows."""

from __future__ import annotations

from scanjit import types
from scanjit.records import record
from scanjit.schedule.nests.array_job import BANDS, ArrayJob
from scanjit.schedule.nests.buffers import Ref
from scanjit.types import Dimension

ACROSS = 1024
"""Rows of at most so many elements are sorted side by side: their words stay in a near cache, and fit on the stack."""
ALONG = 512
"""Single rows of at most so many elements are sorted by a network, and need no memory for that."""
MOST_PACKED = 2**32
"""From so many elements on, a place does not fit beside a key of 32 bits in one word."""


@record
class Order(ArrayJob):
    """Sort the rows of `values` into `result`: their elements, or their places (int64). Both lie alike, without gaps:
    each row in consecutive elements, or (not `rows_apart`) the first elements of all rows, then the second ones...
    With `ranks`, a vector of int64, only those entries of a sorted row are found. `spare` has memory for long rows."""

    values: Ref
    result: Ref
    spare: Ref
    finds_places: bool
    rows_apart: bool
    ranks: Ref | None = None

    @property
    def title(self) -> str:
        """What users call it."""
        return ("arg" if self.finds_places else "") + ("sort" if self.ranks is None else "ranked")

    @property
    def dtype(self) -> str:
        """The type of what is compared."""
        return str(self.values.buffer.dtype)

    @property
    def step(self) -> Dimension:
        """From an element of a row to the next one."""
        return 1 if self.rows_apart else types.product(self.values.shape[:-1])

    @property
    def block(self) -> int:
        """So many rows stay together."""
        return block_of(self.values.shape[-1])

    @property
    def blocks(self) -> Dimension:
        """How many blocks of rows there are."""
        return blocks_of(self.values.shape)

    @property
    def bands(self) -> Dimension:
        """How many bands there are."""
        return bands_of(self.values.shape)

    @property
    def operations(self) -> Dimension:
        """About 30 for each element."""
        return 30 * types.product(self.values.shape)

    @property
    def pieces(self) -> Dimension:
        """Its bands."""
        return self.bands


def block_of(length: Dimension) -> int:
    """How many rows of such a length stay together: a vector of short ones."""
    return 16 if not isinstance(length, int) or length <= ACROSS else 1


def blocks_of(shape: tuple[Dimension, ...]) -> Dimension:
    """How many blocks there are of the rows of a shape."""
    block = block_of(shape[-1])
    return (types.product(shape[:-1]) + (block - 1)) // block


def bands_of(shape: tuple[Dimension, ...]) -> Dimension:
    """How many bands there are of the rows of a shape."""
    return types.maximum(types.minimum(blocks_of(shape), BANDS), 1)

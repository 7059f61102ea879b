"""Sorting rows."""

from scanjit import types
from scanjit.records import record
from scanjit.schedule.nests.array_job import BANDS, ArrayJob
from scanjit.schedule.nests.buffers import Ref
from scanjit.types import Dimension

ACROSS = 1024
"""Rows of at most this many elements may be sorted side by side: their words stay in a near cache, and fit on the
stack."""
ALONG = 256
"""A single row of at most this many elements is sorted by a network, without memory of its own."""
SORTED = 64
"""A single row of at most this many elements is sorted by a network, even if only some entries are wanted."""
TOGETHER = 8
"""So many rows whose elements lie apart are copied together at most, so that each lies in consecutive elements."""
MOST_PACKED = 2**32
"""A row of this many elements has places that do not fit into one word beside a key of 32 bits."""


@record
class Order(ArrayJob):
    """Sort the rows of `values` into `result`: their elements, or (`finds_places`) the places of these as int64.

    Both arrays lie alike, without gaps. If `rows_apart`, each row lies in consecutive elements; else the first elements
    of all rows come first, then the second elements, and so on. With `ranks`, a vector of int64, only these entries of
    each sorted row are found; if `ranks` has more axes, the first ones are those of `values`, and rows have a vector
    each. If the `whole` row is wanted, these entries are where they are in the sorted row, the smaller elements before
    them and the larger ones behind. With `flipped`, each row is sorted as if it were written backwards, which matters
    for places and for equal elements. `spare` is memory for sorting long rows.
    """

    values: Ref
    result: Ref
    spare: Ref
    finds_places: bool
    rows_apart: bool
    ranks: Ref | None = None
    flipped: bool = False
    whole: bool = False

    @property
    def title(self) -> str:
        """The name of the op."""
        name = "sort" if self.ranks is None else "partition" if self.whole else "ranked"
        return ("arg" if self.finds_places else "") + name

    @property
    def dtype(self) -> str:
        """The type of the numbers that are compared."""
        return str(self.values.buffer.dtype)

    @property
    def step(self) -> Dimension:
        """How far it is from an element of a row to the next one."""
        return 1 if self.rows_apart else types.product(self.values.shape[:-1])

    @property
    def together(self) -> Dimension:
        """How many rows there is memory for in each band, if their elements lie apart."""
        return types.minimum(types.product(self.values.shape[:-1]), TOGETHER)

    @property
    def block(self) -> int:
        """How many rows stay together."""
        return block_of(self.values.shape[-1])

    @property
    def blocks(self) -> Dimension:
        """How many blocks of rows there are."""
        return blocks_of(self.values.shape)

    @property
    def operations(self) -> Dimension:
        """About 70 for each element. This is right for rows of about 32 elements."""
        return 70 * types.product(self.values.shape)

    @property
    def pieces(self) -> Dimension:
        """How many bands there are."""
        return bands_of(self.values.shape)


def block_of(length: Dimension) -> int:
    """How many rows of this length stay together: a vector of them, if they are short or their length is not known."""
    return 16 if not isinstance(length, int) or length <= ACROSS else 1


def blocks_of(shape: tuple[Dimension, ...]) -> Dimension:
    """How many blocks there are of the rows of a shape."""
    block = block_of(shape[-1])
    return (types.product(shape[:-1]) + (block - 1)) // block


def bands_of(shape: tuple[Dimension, ...]) -> Dimension:
    """How many bands there are of the rows of a shape."""
    return types.maximum(types.minimum(blocks_of(shape), BANDS), 1)

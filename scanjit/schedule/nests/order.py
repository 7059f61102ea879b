"""Sorting rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from scanjit import types
from scanjit.records import record
from scanjit.schedule.nests.buffers import Rebase, Ref
from scanjit.schedule.nests.statement import Job, Reference, Traffic
from scanjit.types import Dimension

ACROSS = 1024
"""Rows of at most so many elements are sorted side by side: their words stay in a near cache, and fit on the stack."""
ALONG = 512
"""Single rows of at most so many elements are sorted by a network, and need no memory for that."""
MOST_PACKED = 2**32
"""From so many elements on, a place does not fit beside a key of 32 bits in one word."""
BANDS = 16
"""Rows are sorted in at most so many bands, which threads share. Each has memory of its own to work in."""


@record
class Order(Job):
    """Sort the rows of `values` into `result`: their elements, or their places (int64). Both lie alike, without gaps:
    each row in consecutive elements, or (not `rows_apart`) the first elements of all rows, then the second ones...
    `spare` has memory for long rows."""

    values: Ref
    result: Ref
    spare: Ref
    finds_places: bool
    rows_apart: bool

    @property
    def places(self) -> tuple[Ref, ...]:
        """The rows, what becomes of them, and the memory to work in."""
        return self.values, self.result, self.spare

    @property
    def title(self) -> str:
        """What users call it."""
        return "argsort" if self.finds_places else "sort"

    def refs(self) -> Iterator[Reference]:
        """Its places."""
        for ref in self.places:
            yield ref.buffer, ref.offset, ref is not self.values

    def rebased(self, place: Rebase) -> Order:
        """The same rows at another place."""
        values, result, spare = (ref.rebased(place) for ref in self.places)
        return replace(self, values=values, result=result, spare=spare)

    @property
    def dtype(self) -> str:
        """The type of what is compared."""
        return str(self.values.buffer.dtype)

    @property
    def dims(self) -> tuple[Dimension, ...]:
        """Where its arrays lie, their shapes, and how they are shared."""
        places = (dim for ref in self.places for dim in (ref.offset, *ref.shape))
        return (*places, self.step, self.bands, self.blocks)

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

    def traffic(self, shared: bool = False) -> tuple[Traffic, ...]:
        """All of its arrays; rows do not matter."""
        sized = [types.product(ref.shape) * ref.buffer.dtype.itemsize for ref in self.places]
        return tuple(Traffic(((nbytes,),), nbytes) for nbytes in sized)


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

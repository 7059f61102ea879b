"""Memory: buffers, and tensors that lie in them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

from scanjit import types
from scanjit.records import record, replace
from scanjit.signatures import Array, DType
from scanjit.types import Dimension


@record(frozen=False)
class Buffer:
    """Memory for one tensor. `kind` is "input" (given by the caller), "output" (given to the caller), "constant" or
    "temporary". A temporary one becomes an output once its contents turn out to be a result.

    A `fixed` buffer holds the same numbers in all calls, until a shared variable gets another value. If `row` is given,
    each row of the last axis has `row` elements, and behind these room up to a full vector: loads and stores of the row
    need no mask.
    """

    dtype: DType
    shape: tuple[Dimension, ...]
    kind: str
    name: str = ""
    data: Array | None = None
    fixed: bool = False
    row: Dimension | None = None

    @cached_property
    def nbytes(self) -> Dimension:
        """The size in bytes."""
        return types.product(self.shape) * self.dtype.itemsize


LINE = 64
"""The bytes of the widest vector."""
SCRATCH_BYTES = 8192
"""How many bytes of memory of its own a thread has while it computes a nest."""


def with_room(dtype: DType, shape: tuple[Dimension, ...], name: str) -> Ref:
    """A new temporary tensor, with room for full vectors at the end of each row (see `Buffer.row`)."""
    *outer, size = shape
    most = LINE // dtype.itemsize
    while isinstance(size, int) and most // 2 >= max(size, 1):
        most //= 2
    room = (size + (most - 1)) // most * most
    buffer = Buffer(dtype, (*outer, room), "temporary", name, row=size)
    return Ref(buffer, 0, shape, row_major(buffer.shape))


Rebase = Callable[[Buffer, Dimension], tuple[Buffer, Dimension]]
"""Maps a buffer and an offset in it to the buffer and the offset where this element lies now."""


@record
class Ref:
    """A tensor that lies in a buffer. `offset` and `strides` count elements."""

    buffer: Buffer
    offset: Dimension
    shape: tuple[Dimension, ...]
    strides: tuple[Dimension, ...]

    @classmethod
    def whole(cls, buffer: Buffer) -> Ref:
        """All of a buffer, in row-major order."""
        return cls(buffer, 0, buffer.shape, row_major(buffer.shape))

    @property
    def contiguous(self) -> bool:
        """Whether it certainly lies in row-major order without gaps."""
        wanted = row_major(self.shape)
        return all(d == 1 or s == w for d, s, w in zip(self.shape, self.strides, wanted, strict=True))

    def row(self, index: Dimension) -> Ref:
        """The entry at `index` of the first axis."""
        return Ref(self.buffer, self.offset + index * self.strides[0], self.shape[1:], self.strides[1:])

    def rebased(self, place: Rebase) -> Ref:
        """The same tensor at another place, which a function of the old buffer and offset gives."""
        buffer, offset = place(self.buffer, self.offset)
        return replace(self, buffer=buffer, offset=offset)

    def window(self, axis: int, start: Dimension, length: Dimension) -> Ref:
        """The tensor of `length` entries of an axis, from entry `start` on."""
        shape = (*self.shape[:axis], length, *self.shape[axis + 1 :])
        return Ref(self.buffer, self.offset + start * self.strides[axis], shape, self.strides)


def row_major(shape: tuple[Dimension, ...]) -> tuple[Dimension, ...]:
    """The strides of a tensor in row-major order."""
    strides: list[Dimension] = []
    step: Dimension = 1
    for dim in reversed(shape):
        strides.append(step)
        step = dim * step
    return tuple(reversed(strides))

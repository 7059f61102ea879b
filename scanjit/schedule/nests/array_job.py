"""Jobs on whole arrays: what all of them have in common, calls of guests, and the places of what is true in rows."""

from abc import ABC
from collections.abc import Iterator
from typing import ClassVar

from scanjit import records, types
from scanjit.ops.guest import Guest
from scanjit.records import record
from scanjit.schedule.nests.buffers import Ref
from scanjit.schedule.nests.statement import Job, Reference, Traffic
from scanjit.types import Dimension

BANDS = 16
"""Threads share rows in at most this many bands, if each band needs memory of its own to work in."""


class ArrayJob(Job, ABC):
    """A job on whole arrays.

    Its arrays are its fields of type `Ref`, and the members of its fields that are tuples of `Ref`. It writes the
    arrays in the fields that `writes` names, and reads all others. Its places, sizes and bytes follow from these
    arrays.
    """

    writes: ClassVar[tuple[str, ...]] = ("result", "spare")

    @property
    def arrays(self) -> tuple[tuple[Ref, bool], ...]:
        """Each array, and whether the job writes it."""
        fields = records.parts(self).items()
        some = [(part if isinstance(part, tuple) else (part,), name in self.writes) for name, part in fields]
        return tuple((ref, written) for refs, written in some for ref in refs if isinstance(ref, Ref))

    def refs(self) -> Iterator[Reference]:
        """The place of each array."""
        for ref, written in self.arrays:
            yield ref.buffer, ref.offset, written

    @property
    def dims(self) -> tuple[Dimension, ...]:
        """The offsets, shapes and strides of its arrays."""
        return tuple(dim for ref, _ in self.arrays for dim in (ref.offset, *ref.shape, *ref.strides))

    @property
    def dtype(self) -> str:
        """The type of the first array that it writes."""
        return next(str(ref.buffer.dtype) for ref, written in self.arrays if written)

    def traffic(self, shared: bool = False) -> tuple[Traffic, ...]:
        """All bytes of its arrays, whether `shared` or not."""
        sized = [types.product(ref.shape) * ref.buffer.dtype.itemsize for ref, _ in self.arrays]
        return tuple(Traffic(((nbytes,),), nbytes) for nbytes in sized)


@record
class GuestCall(ArrayJob):
    """A call of a function that a user compiled. `arguments` and `results` lie without gaps. If the call fails, it
    reports `code`."""

    guest: Guest
    arguments: tuple[Ref, ...]
    results: tuple[Ref, ...]
    code: int
    writes: ClassVar[tuple[str, ...]] = ("results",)

    @property
    def title(self) -> str:
        """The name of the function."""
        return self.guest.name

    @property
    def repeatable(self) -> bool:
        """No: it may report an error."""
        return False

    @property
    def operations(self) -> Dimension:
        """A guess: 10 for each element of its arguments and results."""
        return 10 * sum((types.product(ref.shape) for ref, _ in self.arrays), start=0)


@record
class WhereTrue(ArrayJob):
    """Store the places of what is true in each row, in order, and then -1. Both arrays lie without gaps."""

    truths: Ref
    result: Ref

    @property
    def title(self) -> str:
        """The name of its op."""
        return "where_true"

    @property
    def operations(self) -> Dimension:
        """About one operation for each element."""
        return types.product(self.truths.shape)

    @property
    def pieces(self) -> Dimension:
        """Rows are independent."""
        return types.product(self.truths.shape[:-1])

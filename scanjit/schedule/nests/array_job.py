"""Jobs on whole arrays, such as sorting rows."""

from __future__ import annotations

from abc import ABC
from collections.abc import Iterator
from typing import ClassVar

from scanjit import records, types
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

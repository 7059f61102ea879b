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
"""Rows are computed in at most so many bands, which threads share, where each band has memory of its own to work in."""


class ArrayJob(Job, ABC):
    """A job on whole arrays: each is a field, or one of several in a field; those in the fields `writes` are written.
    From its arrays follows what it touches, depends on and computes in."""

    writes: ClassVar[tuple[str, ...]] = ("result", "spare")

    @property
    def arrays(self) -> tuple[tuple[Ref, bool], ...]:
        """Each array that it touches, and whether it writes it."""
        fields = records.parts(self).items()
        some = [(part if isinstance(part, tuple) else (part,), name in self.writes) for name, part in fields]
        return tuple((ref, written) for refs, written in some for ref in refs if isinstance(ref, Ref))

    def refs(self) -> Iterator[Reference]:
        """Its arrays."""
        for ref, written in self.arrays:
            yield ref.buffer, ref.offset, written

    @property
    def dims(self) -> tuple[Dimension, ...]:
        """Where its arrays lie, and their shapes."""
        return tuple(dim for ref, _ in self.arrays for dim in (ref.offset, *ref.shape, *ref.strides))

    @property
    def dtype(self) -> str:
        """The type of the first array that it writes."""
        return next(str(ref.buffer.dtype) for ref, written in self.arrays if written)

    def traffic(self, shared: bool = False) -> tuple[Traffic, ...]:
        """All of its arrays; rows do not matter."""
        sized = [types.product(ref.shape) * ref.buffer.dtype.itemsize for ref, _ in self.arrays]
        return tuple(Traffic(((nbytes,),), nbytes) for nbytes in sized)

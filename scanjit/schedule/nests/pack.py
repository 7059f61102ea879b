"""Right operands of products, copied into panels."""

from __future__ import annotations

from collections.abc import Iterator

from scanjit import types
from scanjit.records import record
from scanjit.schedule.nests.buffers import Buffer, Ref
from scanjit.schedule.nests.statement import Job, Reference, Traffic
from scanjit.types import Dimension


@record
class Pack(Job):
    """Copy right operands `source[k, n]` (one Ref a group) into panels `[n block][k][group][lane]`, padded by zeros; k
    may be several axes."""

    sources: tuple[Ref, ...]
    target: Buffer
    width: int
    label: str = "pack"

    @property
    def title(self) -> str:
        """Its label."""
        return self.label

    def refs(self) -> Iterator[Reference]:
        """Its sources, then its target."""
        for ref in self.sources:
            yield ref.buffer, ref.offset, False
        yield self.target, 0, True

    @property
    def dtype(self) -> str:
        """The type of what it copies."""
        return str(self.target.dtype)

    @property
    def dims(self) -> tuple[Dimension, ...]:
        """Offsets, and shapes of its buffers."""
        return tuple(dim for buffer, offset, _ in self.refs() for dim in (offset, *buffer.shape))

    @property
    def operations(self) -> Dimension:
        """One an element."""
        return types.product(self.target.shape)

    def traffic(self, shared: bool = False) -> tuple[Traffic, ...]:
        """All that is read and all that is written, which is as much; rows do not matter."""
        nbytes = self.target.nbytes
        return (Traffic(((nbytes,),), nbytes),) * 2

    @property
    def pieces(self) -> Dimension:
        """Its panels."""
        return types.maximum(-(-self.sources[0].shape[-1] // self.width), 1)

"""Right operands of products, copied into panels."""

from collections.abc import Iterator

from scanjit import types
from scanjit.records import record
from scanjit.schedule.nests.buffers import Buffer, Ref
from scanjit.schedule.nests.statement import Job, Reference, Traffic
from scanjit.types import Dimension


@record
class Pack(Job):
    """Copy right operands `source[k, n]`, one `Ref` for each of the products that share a left operand, into panels `[n
    block][k][operand][lane]`, padded with zeros. k may be several axes. Of a batch of products, axes that go from one
    matrix to the next come before these in both."""

    sources: tuple[Ref, ...]
    target: Buffer
    width: int
    title: str = "pack"

    def refs(self) -> Iterator[Reference]:
        """The places of its sources, then its target."""
        for ref in self.sources:
            yield ref.buffer, ref.offset, False
        yield self.target, 0, True

    @property
    def dtype(self) -> str:
        """The type of the elements that it copies."""
        return str(self.target.dtype)

    @property
    def dims(self) -> tuple[Dimension, ...]:
        """The offsets and the shapes of its buffers."""
        return tuple(dim for buffer, offset, _ in self.refs() for dim in (offset, *buffer.shape))

    @property
    def operations(self) -> Dimension:
        """One for each element of the target."""
        return types.product(self.target.shape)

    def traffic(self, shared: bool = False) -> tuple[Traffic, ...]:
        """The bytes of the target: once for what is read, once for what is written. `shared` makes no difference."""
        nbytes = self.target.nbytes
        return (Traffic(((nbytes,),), nbytes),) * 2

    @property
    def pieces(self) -> Dimension:
        """How many panels there are."""
        return types.maximum(types.product(self.batch) * -(-self.sources[0].shape[-1] // self.width), 1)

    @property
    def batch(self) -> tuple[Dimension, ...]:
        """The sizes of the axes that go from one matrix to the next."""
        return self.sources[0].shape[: len(self.target.shape) - 4]

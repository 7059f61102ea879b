"""Finding the order of rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from scanjit import types
from scanjit.records import record
from scanjit.schedule.nests.buffers import Rebase, Ref
from scanjit.schedule.nests.statement import Job, Reference, Traffic
from scanjit.types import Dimension


@record
class Order(Job):
    """Put the order of each row of `values` into `order`, with the help of the memory `spare`. None has gaps."""

    values: Ref
    order: Ref
    spare: Ref

    @property
    def places(self) -> tuple[Ref, ...]:
        """The rows, their order, and the memory to work in."""
        return self.values, self.order, self.spare

    @property
    def title(self) -> str:
        """What users call it."""
        return "argsort"

    def refs(self) -> Iterator[Reference]:
        """Its places."""
        for ref in self.places:
            yield ref.buffer, ref.offset, ref is not self.values

    def rebased(self, place: Rebase) -> Order:
        """The same rows at another place."""
        values, order, spare = (ref.rebased(place) for ref in self.places)
        return replace(self, values=values, order=order, spare=spare)

    @property
    def dtype(self) -> str:
        """The type of what is compared."""
        return str(self.values.buffer.dtype)

    @property
    def dims(self) -> tuple[Dimension, ...]:
        """Where its arrays lie, and their shapes."""
        return tuple(dim for ref in self.places for dim in (ref.offset, *ref.shape))

    @property
    def operations(self) -> Dimension:
        """About 50 for each element."""
        return 50 * types.product(self.values.shape)

    def traffic(self, shared: bool = False) -> tuple[Traffic, ...]:
        """All of its arrays; rows do not matter."""
        sized = [types.product(ref.shape) * ref.buffer.dtype.itemsize for ref in self.places]
        return tuple(Traffic(((nbytes,),), nbytes) for nbytes in sized)

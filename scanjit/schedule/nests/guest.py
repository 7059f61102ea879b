"""Calls of guests: functions that users compiled, for whole arrays."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from scanjit import types
from scanjit.ops.guest import Guest
from scanjit.records import record
from scanjit.schedule.nests.buffers import Rebase, Ref
from scanjit.schedule.nests.statement import Job, Reference, Traffic
from scanjit.types import Dimension


@record
class GuestCall(Job):
    """A call of a guest. Its arguments and results lie without gaps; if it fails, it reports `code`."""

    guest: Guest
    arguments: tuple[Ref, ...]
    results: tuple[Ref, ...]
    code: int

    @property
    def places(self) -> tuple[Ref, ...]:
        """The arguments, then the results."""
        return (*self.arguments, *self.results)

    @property
    def title(self) -> str:
        """What the user calls the function."""
        return self.guest.name

    def refs(self) -> Iterator[Reference]:
        """Its places, in order."""
        for number, ref in enumerate(self.places):
            yield ref.buffer, ref.offset, number >= len(self.arguments)

    def rebased(self, place: Rebase) -> GuestCall:
        """The same call with arrays at other places."""
        arguments, results = (tuple(ref.rebased(place) for ref in refs) for refs in (self.arguments, self.results))
        return replace(self, arguments=arguments, results=results)

    @property
    def dtype(self) -> str:
        """The type of its first result."""
        return str(self.results[0].buffer.dtype)

    @property
    def dims(self) -> tuple[Dimension, ...]:
        """Where its arrays lie, and their shapes."""
        return tuple(dim for ref in self.places for dim in (ref.offset, *ref.shape))

    @property
    def repeatable(self) -> bool:
        """No: it may report an error."""
        return False

    @property
    def operations(self) -> Dimension:
        """Nobody knows. We take ten for each element."""
        return 10 * sum((types.product(ref.shape) for ref in self.places), start=0)

    def traffic(self, shared: bool = False) -> tuple[Traffic, ...]:
        """All of its arrays; rows do not matter."""
        sized = [types.product(ref.shape) * ref.buffer.dtype.itemsize for ref in self.places]
        return tuple(Traffic(((nbytes,),), nbytes) for nbytes in sized)

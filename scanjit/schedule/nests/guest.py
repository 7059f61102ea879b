"""Calls of guests: functions that users compiled, for whole arrays."""

from __future__ import annotations

from dataclasses import replace

from scanjit import types
from scanjit.ops.guest import Guest
from scanjit.records import record
from scanjit.schedule.nests.array_job import ArrayJob
from scanjit.schedule.nests.buffers import Rebase, Ref
from scanjit.types import Dimension


@record
class GuestCall(ArrayJob):
    """A call of a guest. Its arguments and results lie without gaps; if it fails, it reports `code`."""

    guest: Guest
    arguments: tuple[Ref, ...]
    results: tuple[Ref, ...]
    code: int

    @property
    def arrays(self) -> tuple[tuple[Ref, bool], ...]:
        """The arguments, then the results."""
        return (*((ref, False) for ref in self.arguments), *((ref, True) for ref in self.results))

    @property
    def title(self) -> str:
        """What the user calls the function."""
        return self.guest.name

    def rebased(self, place: Rebase) -> GuestCall:
        """The same call with arrays at other places."""
        arguments, results = (tuple(ref.rebased(place) for ref in refs) for refs in (self.arguments, self.results))
        return replace(self, arguments=arguments, results=results)

    @property
    def repeatable(self) -> bool:
        """No: it may report an error."""
        return False

    @property
    def operations(self) -> Dimension:
        """Nobody knows. We take ten for each element."""
        return 10 * sum((types.product(ref.shape) for ref, _ in self.arrays), start=0)

"""Calls of guests: functions that users compiled, for whole arrays."""

from __future__ import annotations

from typing import ClassVar

from scanjit import types
from scanjit.ops.guest import Guest
from scanjit.records import record
from scanjit.schedule.nests.array_job import ArrayJob
from scanjit.schedule.nests.buffers import Ref
from scanjit.types import Dimension


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

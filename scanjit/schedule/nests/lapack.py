"""Calls of LAPACK."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from scanjit import types
from scanjit.records import record
from scanjit.schedule.nests.array_job import ArrayJob
from scanjit.schedule.nests.buffers import Ref
from scanjit.types import Dimension


@record
class LapackCall(ArrayJob):
    """A routine of LAPACK, for each matrix of a batch. Its operands and its results lie in the `places`; `written` says
    which of them it writes. `flags` are its options."""

    routine: str
    places: tuple[Ref, ...]
    written: tuple[bool, ...]
    flags: Mapping[str, bool] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """The routine."""
        return self.routine

    @property
    def result(self) -> Ref:
        """The matrices that it writes."""
        return next(ref for ref, written in zip(self.places, self.written, strict=True) if written)

    @property
    def arrays(self) -> tuple[tuple[Ref, bool], ...]:
        """Its matrices."""
        return tuple(zip(self.places, self.written, strict=True))

    @property
    def repeatable(self) -> bool:
        """No: it finds operands where it puts its results."""
        return False

    @property
    def operations(self) -> Dimension:
        """As many an entry of the result as a matrix has rows or columns: each is a sum of about so many products."""
        *_, rows, columns = self.places[0].shape
        return types.product(self.result.shape) * types.minimum(rows, columns)

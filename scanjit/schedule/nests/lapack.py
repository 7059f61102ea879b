"""Calls of LAPACK."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from scanjit import types
from scanjit.records import record
from scanjit.schedule.nests.array_job import ArrayJob
from scanjit.schedule.nests.buffers import Ref
from scanjit.schedule.nests.decomposition import LARGEST, most_beside
from scanjit.types import Dimension

BESIDE = "cholesky", "lu", "triangular_solve"
"""Routines of which small matrices are computed side by side."""


@record
class LapackCall(ArrayJob):
    """A call of a routine of LAPACK for each matrix of a batch. `places` has its operands and its results, `written`
    says of each whether the routine writes there, and `flags` are the options of the routine."""

    routine: str
    places: tuple[Ref, ...]
    written: tuple[bool, ...]
    flags: Mapping[str, bool] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """The name of the routine."""
        return self.routine

    @property
    def result(self) -> Ref:
        """The first of its places that it writes."""
        return next(ref for ref, written in zip(self.places, self.written, strict=True) if written)

    @property
    def sizes_beside(self) -> tuple[Dimension, ...] | None:
        """The sizes that decide in a call whether matrices are computed side by side, without LAPACK: they are if all
        are at most `most_beside`. None if they never are, and for a single matrix."""
        sizes = self.result.shape[-2:] if self.routine == "triangular_solve" else self.result.shape[-1:]
        most = most_beside(self.result.shape[:-2])
        most = most if isinstance(most, int) else LARGEST
        large = any(isinstance(size, int) and size > most for size in sizes)
        return None if self.routine not in BESIDE or len(self.result.shape) == 2 or large else sizes

    @property
    def arrays(self) -> tuple[tuple[Ref, bool], ...]:
        """Each place, and whether the routine writes there."""
        return tuple(zip(self.places, self.written, strict=True))

    @property
    def repeatable(self) -> bool:
        """No: it writes its results over its operands."""
        return False

    @property
    def operations(self) -> Dimension:
        """The entries of the result, times the smaller size of a matrix: each entry is a sum of about that many
        products."""
        *_, rows, columns = self.places[0].shape
        return types.product(self.result.shape) * types.minimum(rows, columns)

"""Decompositions of many small matrices."""

from __future__ import annotations

from scanjit import types
from scanjit.records import record
from scanjit.schedule.nests.array_job import ArrayJob
from scanjit.schedule.nests.buffers import Ref
from scanjit.types import Dimension

LARGEST = 8
"""Matrices of known sizes up to this one are decomposed side by side, one in each lane."""
BLOCK = 16
"""So many matrices stay with one thread: a vector of the narrowest numbers."""


@record
class Decomposition(ArrayJob):
    """Decompose each matrix of `given` into a matrix of `result`, by `routine`: "eigh", "qr" or "svd". The sizes of
    matrices are known, and at most `LARGEST`. Neither place has gaps."""

    routine: str
    given: Ref
    result: Ref

    @property
    def title(self) -> str:
        """What users call it."""
        return self.routine

    @property
    def sizes(self) -> tuple[int, int]:
        """The rows and columns of a matrix."""
        m, n = self.given.shape[-2:]
        assert isinstance(m, int) and isinstance(n, int)
        return m, n

    @property
    def count(self) -> Dimension:
        """How many matrices there are."""
        return types.product(self.given.shape[:-2])

    @property
    def operations(self) -> Dimension:
        """About 10 products of matrices (one for `qr`), a number of which is 2 operations."""
        m, n = self.sizes
        return self.count * m * n * min(m, n) * (4 if self.routine == "qr" else 20)

    @property
    def pieces(self) -> Dimension:
        """Its blocks of matrices."""
        return (self.count + (BLOCK - 1)) // BLOCK

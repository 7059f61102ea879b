"""Decompositions of many small matrices."""

from __future__ import annotations

from scanjit import types
from scanjit.records import record
from scanjit.schedule.nests.array_job import ArrayJob
from scanjit.schedule.nests.buffers import Ref
from scanjit.types import Dimension

LARGEST = 16
"""Matrices of sizes up to this one are decomposed side by side, one in each lane."""
ALONE = 8
"""Those of sizes up to this one are, even if there are fewer than lanes."""
BLOCK = 16
"""How many matrices stay with one thread: as many as the widest vector has lanes of float32."""


@record
class Decomposition(ArrayJob):
    """Decompose each matrix of `given` into a matrix of `result`, by `routine`: "eigh", "qr" or "svd". The sizes of the
    matrices are known, and at most `most_beside`. Both arrays lie without gaps. Without `vectors`, "eigh" and "svd"
    compute the values alone."""

    routine: str
    given: Ref
    result: Ref
    vectors: bool = True

    @property
    def title(self) -> str:
        """The name of the routine."""
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
        """About as many as 10 products of two such matrices take; for `qr`, as 2 products."""
        m, n = self.sizes
        return self.count * m * n * min(m, n) * (4 if self.routine == "qr" else 20)

    @property
    def pieces(self) -> Dimension:
        """How many blocks of matrices there are."""
        return (self.count + (BLOCK - 1)) // BLOCK


def most_beside(batch: tuple[Dimension, ...]) -> Dimension:
    """The largest size of matrices that are computed side by side, if so many are: LAPACK takes less for few."""
    return types.maximum(types.minimum(LARGEST // 4 * types.product(batch), LARGEST), ALONE)

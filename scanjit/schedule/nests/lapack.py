"""Jobs on matrices: calls of LAPACK, and decompositions of many small matrices."""

from collections.abc import Mapping
from dataclasses import field

from scanjit import types
from scanjit.records import record
from scanjit.schedule.nests.array_job import ArrayJob
from scanjit.schedule.nests.buffers import Ref
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

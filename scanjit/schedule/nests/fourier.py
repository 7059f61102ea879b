"""Fourier transforms of rows."""

from __future__ import annotations

from typing import ClassVar

from scanjit import types
from scanjit.records import record
from scanjit.schedule.nests.array_job import BANDS, ArrayJob
from scanjit.schedule.nests.buffers import Ref
from scanjit.types import Dimension


@record
class Fourier(ArrayJob):
    """Transform each row of pairs of `given` into `result`. None has gaps. `spare` is memory to work in: as many rows
    of `length` pairs if that is known, else some for each band of rows. `table` has the powers of roots of unity (see
    `scanjit.ops.passes`). Where `half`, `length` pairs of real numbers are transformed to a half spectrum, or back, by
    the sign."""

    given: Ref
    result: Ref
    spare: Ref
    table: Ref
    sign: int
    length: Dimension
    half: bool = False

    @property
    def title(self) -> str:
        """What users call it."""
        return ("ifft", "irfft", "fft", "rfft")[2 * (self.sign < 0) + self.half]

    @property
    def rows(self) -> Dimension:
        """How many rows there are."""
        return types.product(self.result.shape[: -1 if self.half and self.sign > 0 else -2])

    @property
    def operations(self) -> Dimension:
        """As for rows of about 1,000 numbers: 50 for each number, which is a pair."""
        return 25 * types.product(self.result.shape)

    @property
    def pieces(self) -> Dimension:
        """Its rows, or the bands of them."""
        rows = self.rows if isinstance(self.length, int) else types.minimum(self.rows, BANDS)
        return types.maximum(rows, 1)


@record
class RootsOfUnity(ArrayJob):
    """Fill the table of `Fourier` for rows of a length that is found when a function is called."""

    table: Ref
    length: Dimension
    writes: ClassVar[tuple[str, ...]] = ("table",)

    @property
    def title(self) -> str:
        """What it makes."""
        return "roots"

    @property
    def operations(self) -> Dimension:
        """About 30 for a sine or cosine."""
        return 30 * types.product(self.table.shape)

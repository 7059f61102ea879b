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
    """Write the Fourier transform of each row of `given` to `result`.

    A row has `length` pairs: the real and the imaginary part of each number. With `half`, a row of twice as many real
    numbers becomes the first half of its spectrum, or such a half becomes the row again. `sign` is that of the
    exponent: -1 for the transform, 1 for its inverse. `spare` is memory to work in, for each row if `length` is known,
    else for each band of rows. `table` has powers of roots of unity (see `scanjit.ops.passes`). All arrays lie without
    gaps.
    """

    given: Ref
    result: Ref
    spare: Ref
    table: Ref
    sign: int
    length: Dimension
    half: bool = False

    @property
    def title(self) -> str:
        """The name of NumPy's function."""
        return ("ifft", "irfft", "fft", "rfft")[2 * (self.sign < 0) + self.half]

    @property
    def rows(self) -> Dimension:
        """How many rows there are."""
        return types.product(self.result.shape[: -1 if self.half and self.sign > 0 else -2])

    @property
    def operations(self) -> Dimension:
        """About 50 for each pair of the result. This is right for rows of about 1,000 pairs."""
        return 25 * types.product(self.result.shape)

    @property
    def pieces(self) -> Dimension:
        """How many rows there are if `length` is known, else how many bands of rows."""
        rows = self.rows if isinstance(self.length, int) else types.minimum(self.rows, BANDS)
        return types.maximum(rows, 1)


@record
class RootsOfUnity(ArrayJob):
    """Fill the table of a `Fourier` whose `length` is not known before the call."""

    table: Ref
    length: Dimension
    writes: ClassVar[tuple[str, ...]] = ("table",)

    @property
    def title(self) -> str:
        """Always "roots"."""
        return "roots"

    @property
    def operations(self) -> Dimension:
        """About 30 for each number of the table, which is a sine or a cosine."""
        return 30 * types.product(self.table.shape)

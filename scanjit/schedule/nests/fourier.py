"""Fourier transforms of rows."""

from typing import ClassVar, Literal

from scanjit import types
from scanjit.ops.passes import known_length, length_of_pairs
from scanjit.records import record
from scanjit.schedule.nests.array_job import BANDS, ArrayJob
from scanjit.schedule.nests.buffers import Ref
from scanjit.types import Dimension

Form = Literal["pairs", "reals", "half"]
MOST_LANES = 16
"""The most rows that are transformed side by side."""
MOST_ACROSS = 4096
"""The most numbers of rows that are transformed side by side: a vector of such rows stays in the second-level cache. It
lies in `spare` twice, which is 1 MB with vectors of 64 bytes."""
ALONE_BYTES = (1024, 24576)
"""Rows with more bytes of pairs than the first number and at most the second take less time alone, if their length is
found when a function runs and fills vectors: as a matrix whose columns are side by side, a row stays in the first-level
cache."""


@record
class Fourier(ArrayJob):
    """Write the Fourier transform of each row of `given` to `result`.

    A row has `length` numbers. The rows of `given` and of `result` are pairs, the real and the imaginary part of each
    number; or reals, numbers without an imaginary part; or half, the pairs of the first half of the spectrum of reals.
    `sign` is that of the exponent: -1 for the transform, 1 for its inverse. `spare` is memory to work in, for each
    block of rows if `length` is known, else for each band of blocks. `table` has powers of roots of unity (see
    `scanjit.ops.passes`). All arrays lie without gaps.
    """

    given: Ref
    result: Ref
    spare: Ref
    table: Ref
    sign: int
    length: Dimension
    given_form: Form = "pairs"
    result_form: Form = "pairs"

    @property
    def title(self) -> str:
        """The name of NumPy's function."""
        half = "half" in (self.given_form, self.result_form)
        return ("ifft", "irfft", "fft", "rfft")[2 * (self.sign < 0) + half]

    @property
    def real(self) -> bool:
        """Whether the numbers of the rows are real."""
        return "reals" in (self.given_form, self.result_form)

    @property
    def known(self) -> int | None:
        """The length, if the passes for it are known when code is made."""
        return known_length(self.length, self.real)

    @property
    def rows(self) -> Dimension:
        """How many rows there are."""
        return types.product(self.result.shape[: -1 if self.result_form == "reals" else -2])

    @property
    def block(self) -> Dimension:
        """How many rows stay together."""
        return block_of(self.length, self.real)

    @property
    def blocks(self) -> Dimension:
        """How many blocks of rows there are."""
        return blocks_of(self.rows, self.length, self.real)

    @property
    def operations(self) -> Dimension:
        """About 80 for each pair of the result, which is right for rows of about 100 pairs; six times as many if the
        transform is known to be a convolution."""
        convolved = isinstance(self.length, int) and self.known is None
        return (240 if convolved else 40) * types.product(self.result.shape)

    @property
    def pieces(self) -> Dimension:
        """How many parts threads share."""
        return parts_of(self.rows, self.length, self.real)


def most_across(length: Dimension, real: bool) -> int:
    """The most numbers of a row that is transformed beside others. Single rows of a known length take about as long if
    they begin with a pass of radix 4 or 8, which stores whole vectors. Convolutions are of single rows."""
    known = known_length(length, real)
    if known is None and isinstance(length, int):
        return 0
    if known is None or (length_of_pairs(known) if real else known) % 4:
        return MOST_ACROSS
    return 100 if real else 32


def block_of(length: Dimension, real: bool) -> Dimension:
    """How many rows of this length stay together: at most a vector of them, fewer if rows are long."""
    most = most_across(length, real)
    if isinstance(length, int):
        return MOST_LANES if length <= most else 1
    return types.maximum(types.minimum(MOST_LANES * most // types.maximum(length, 1), MOST_LANES), 1)


def blocks_of(rows: Dimension, length: Dimension, real: bool) -> Dimension:
    """How many blocks there are of rows of a length."""
    block = block_of(length, real)
    return (rows + (block - 1)) // block


def parts_of(rows: Dimension, length: Dimension, real: bool) -> Dimension:
    """How many parts of the rows have memory of their own to work in: the blocks if the length is known, else bands."""
    blocks = blocks_of(rows, length, real)
    return types.maximum(types.minimum(blocks, BANDS) if known_length(length, real) is None else blocks, 1)


def work_of(rows: Dimension, length: Dimension, real: bool) -> Dimension:
    """How many pairs a block of rows works with: two vectors for each number of rows side by side; for a single row of
    an unknown length, four rows of a convolution, or vectors of 3 columns of 16."""
    most, known = most_across(length, real), known_length(length, real)
    if known is None:
        several = types.minimum(rows // 2, 1)
        return types.maximum(2 * MOST_LANES * several * types.minimum(length, most), 12 * length + 300)
    if known <= most:
        return 2 * MOST_LANES * known
    if real:
        return 2 * known if known % 2 else known // 2
    return known


@record
class RootsOfUnity(ArrayJob):
    """Fill the table of a `Fourier` whose `length` is not known before the call."""

    table: Ref
    length: Dimension
    real: bool
    writes: ClassVar[tuple[str, ...]] = ("table",)

    @property
    def title(self) -> str:
        """Always "roots"."""
        return "roots"

    @property
    def operations(self) -> Dimension:
        """About 30 for each number of the table, which is a sine or a cosine."""
        return 30 * types.product(self.table.shape)

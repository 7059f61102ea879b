"""The passes of a Fourier transform: the factors of a length, and the powers of roots of unity that each pass needs.

Before a pass, `done` is the product of the factors of all passes before it. The powers of the pass are `exp(2 pi i j s
/ (radix done))` for j from 1 to radix - 1: for each j, the real parts for all s below `done`, then the imaginary parts.
The first pass needs none. If the radix of a pass is not written out, the powers of the root of that order follow: all
real parts, then all imaginary parts. For a length that is known only when the function runs, the first pass has powers
too, which are ones, and those of the root follow for each odd radix.
"""

import math
from typing import NamedTuple

import numpy as np

from scanjit.signatures import Array, DType
from scanjit.types import Dimension

WRITTEN_OUT = (8, 4, 2, 3, 5, 7)
"""Factors whose transforms are written out. Larger ones would need more numbers at once than there are registers."""
FOUND = (8, 4, 2, 3, 5)
"""The factors that are written out for a length that is known only when the function runs."""

LARGEST_FACTOR = 64
"""A transform of a length with a larger prime factor is a convolution, whose length has small factors (Bluestein)."""

Number = int | str
"""A number that is known, or its name in generated code."""


def is_written_out(radix: Number) -> bool:
    """Whether the code of a pass has no loop over its radix."""
    return radix == 1 or radix in WRITTEN_OUT


def factors(n: int) -> list[int]:
    """The factors of a length, in the order of the passes."""
    found: list[int] = []
    for radix in WRITTEN_OUT:
        while n % radix == 0:
            found.append(radix)
            n //= radix
    if 8 in found and 2 in found:
        found[found.index(8)] = 4
        found[found.index(2)] = 4
        found.sort(key=lambda radix: (radix not in (8, 4), -radix if radix in (8, 4) else 0))
    radix = 11
    while n > 1:
        radix = n if radix * radix > n else radix
        while n % radix == 0:
            found.append(radix)
            n //= radix
        radix += 2
    return found or [1]


class Pass(NamedTuple):
    """A pass over a row: its factor, the shape (radix, left, done) of the row before it (`scanjit.codegen.fourier`),
    and where its powers begin in the table."""

    radix: int
    left: int
    done: int
    offset: int


def passes(n: int) -> list[Pass]:
    """The passes for rows of n numbers, in order."""
    found, done, offset = list[Pass](), 1, 0
    for radix in factors(n):
        found.append(Pass(radix, n // radix // done, done, offset))
        offset += (0 if done == 1 else 2 * (radix - 1) * done) + (0 if is_written_out(radix) else 2 * radix)
        done *= radix
    return found


def known_length(length: Dimension, real: bool) -> int | None:
    """The length of a row, if it is known and no factor is a large prime: then its passes are known. Else None."""
    if not isinstance(length, int) or max(factors(length_of_pairs(length) if real else length)) > LARGEST_FACTOR:
        return None
    return length


def length_of_pairs(n: int) -> int:
    """The length of the complex transform that n real numbers take. Neighbours are the real and the imaginary parts if
    their number is even."""
    return n if n % 2 else n // 2


def table_of(n: int, dtype: DType, half: bool = False) -> Array:
    """The table for rows of n numbers. With `half`, the powers of the root of order 2n, from 0 to n, lie behind it: all
    real parts, then all imaginary parts."""
    pieces = [np.zeros(0)]
    for radix, _, done, _ in passes(n):
        if done > 1:
            angles = np.outer(np.arange(1, radix), np.arange(done)) % (radix * done) * (2 * math.pi / (radix * done))
            pieces.append(np.stack([np.cos(angles), np.sin(angles)], axis=1).ravel())
        if not is_written_out(radix):
            angles = np.arange(radix) * (2 * math.pi / radix)
            pieces += [np.cos(angles), np.sin(angles)]
    if half:
        angles = np.arange(n + 1) * (math.pi / n)
        pieces += [np.cos(angles), np.sin(angles)]
    return np.concatenate(pieces).astype(dtype)


def table_size(n: Dimension) -> Dimension:
    """The most numbers that the table has for a length that is known only when the function runs: four for each number
    of a row, of a convolution whose length is below 3 n, and 2 n for the chirp. A table for n real numbers has the
    powers of the root of order n in front of the table for half as many pairs, if n is even. A vector of zeros is
    behind all."""
    return 14 * n + 18

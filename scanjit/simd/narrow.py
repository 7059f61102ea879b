"""Numbers of 8 and 16 bits that share a lane of 32 bits, and sums of their products.

A bfloat16 is the upper half of a float32. Two of them fit into an int32: the first in its lower half, the second in its
upper half. Processors with AVX512-BF16 add the products of two such pairs to a float32 in one instruction. As Intel
defines it, that is two fused multiply-adds, of the second numbers first. Other processors compute the same with float32
here. So results are equal on all of them, but for numbers below 2**-126, which the instruction takes for zero.
Arm's `bfmlalt` and `bfmlalb` are these two. (Its `bfdot` and `bfmmla` round otherwise.)

Four integers of 8 bits fit into an int32 too. Processors with VNNI (Arm's: with I8MM) add the four products of two such
quads, one without a sign and one with, to an int32. These sums are exact, and wrap as all integers do.
"""

from scanjit.kinds import KINDS

from .arith import maximum, minimum
from .halves import rounded_bits
from .lanes import Lanes, fma, rint

F32, I32 = KINDS["f32"], KINDS["i32"]
_UPPER = -0x10000
"""The bits of the upper half of an int32."""


def round_bf16(x: Lanes) -> Lanes:
    """The nearest bfloat16, ties to even, as a float32."""
    return rounded_bits(x).bitcast(F32)


def pair_bf16(first: Lanes, second: Lanes) -> Lanes:
    """Two numbers, each rounded to bfloat16, in an int32."""
    return ((rounded_bits(first) >> 16) & 0xFFFF) | rounded_bits(second)


def round_i8(x: Lanes) -> Lanes:
    """The nearest integer from -128 to 127, ties to even, as a float."""
    return minimum(maximum(rint(x), x.splat(-128.0)), x.splat(127.0))


def quad_i8(*numbers: Lanes) -> Lanes:
    """Four numbers, each rounded to an integer from -128 to 127, in an int32; a NaN counts as 0."""
    first, *rest = [(round_i8(x).cast(I32) & 0xFF) << (8 * k) for k, x in enumerate(numbers)]
    for x in rest:
        first = first | x
    return first


def quad_u8(*numbers: Lanes) -> Lanes:
    """As `quad_i8`, with 128 added to each integer, which flips its first bit."""
    return quad_i8(*numbers) ^ -0x7F7F7F80


def dot_bf16(total: Lanes, left: Lanes, right: Lanes) -> Lanes:
    """`total`, plus the sum of the products of two pairs of bfloat16."""
    found = total.dot_pairs(left, right)
    if found is not None:
        return found
    (a, b), (c, d) = pair_of(left), pair_of(right)
    return fma(a, c, fma(b, d, total))


def dot_apart(total: Lanes, first: Lanes, second: Lanes, right: Lanes) -> Lanes:
    """`dot_bf16` with the left numbers as two float32: the same sum."""
    c, d = pair_of(right)
    return fma(first, c, fma(second, d, total))


def dot_i8(total: Lanes, left: Lanes, right: Lanes) -> Lanes:
    """`total`, plus the sum of the products of four integers: uint8 on the left, int8 on the right."""
    found = total.dot_quads(left, right)
    if found is not None:
        return found
    for k in range(0, 32, 8):
        total = total + ((left >> k) & 0xFF) * ((right << (24 - k)) >> 24)
    return total


def pair_of(x: Lanes) -> tuple[Lanes, Lanes]:
    """The first and the second numbers of pairs of bfloat16, as float32."""
    return (x << 16).bitcast(F32), (x & _UPPER).bitcast(F32)

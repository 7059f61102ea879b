"""Numbers rounded to bfloat16, and products of pairs of them.

A bfloat16 is the upper half of a float32. Two of them fit into an int32: the first in its lower half, the second in its
upper half. Processors with AVX512-BF16 add the products of two such pairs to a float32 in one instruction. As Intel
defines it, that is two fused multiply-adds, of the second numbers first. Other processors compute the same with float32
here. So results are equal on all of them, but for numbers below 2**-126, which the instruction takes for zero.
"""

from scanjit.kinds import KINDS

from .lanes import Lanes, bits, fma, select

F32 = KINDS["f32"]
_UPPER = -0x10000
"""The bits of the upper half of an int32."""


def round_bf16(x: Lanes) -> Lanes:
    """The nearest bfloat16, ties to even, as a float32."""
    return _rounded(x).bitcast(F32)


def pair_bf16(first: Lanes, second: Lanes) -> Lanes:
    """Two numbers, each rounded to bfloat16, in an int32."""
    return ((_rounded(first) >> 16) & 0xFFFF) | _rounded(second)


def dot_bf16(total: Lanes, left: Lanes, right: Lanes) -> Lanes:
    """`total`, plus the sum of the products of two pairs of bfloat16."""
    found = total.dot_pairs(left, right)
    if found is not None:
        return found
    (a, b), (c, d) = _pair(left), _pair(right)
    return fma(a, c, fma(b, d, total))


def _rounded(x: Lanes) -> Lanes:
    """The bits of a float32, rounded so that the lower half is zero. A NaN stays one."""
    given = bits(x)
    nearest = given + (((given >> 16) & 1) + 0x7FFF)
    return select(x == x, nearest, given | 0x400000) & _UPPER


def _pair(x: Lanes) -> tuple[Lanes, Lanes]:
    return (x << 16).bitcast(F32), (x & _UPPER).bitcast(F32)

"""Conversions between floats of 16 bits and other numbers: to the nearest number, ties to even.

Lanes of halves hold bits, as they lie in memory. A number that becomes a bfloat16 becomes a float32 first, as in
`ml_dtypes`; a float64 becomes a float16 directly, as in NumPy. All of this is integer code, with the same bits as the
instructions that some processors have for float16.
"""

from typing import TypeVar, cast

from scanjit.kinds import KINDS, Kind

from .lanes import Lanes, bits, select

I16, I32, F16, F32, F64 = (KINDS[name] for name in ("i16", "i32", "f16", "f32", "f64"))
L = TypeVar("L", bound=Lanes)
_INFINITY = 0x7F800000
"""The bits of the float32."""


def converted(x: L, kind: Kind) -> L:
    """Lanes converted to another kind, where at least one of the two kinds is a half."""
    return cast(L, _widened(x).cast(kind) if x.kind.is_half else _rounded(x, kind))


def _widened(x: Lanes) -> Lanes:
    given = x.bitcast(I16).cast(I32)
    return _of_float16(given) if x.kind is F16 else (given << 16).bitcast(F32)


def _rounded(x: Lanes, kind: Kind) -> Lanes:
    if x.kind is not F32:
        return (_rounded_to_odd(x) if kind is F16 and x.kind is F64 else x.cast(F32)).cast(kind)
    half = _to_float16(x) if kind is F16 else rounded_bits(x) >> 16
    return half.cast(I16).bitcast(kind)


def without_payload(x: L) -> L:
    """The float32s, and for a NaN the one of its sign that a float16 without payload becomes."""
    return cast(L, select(x == x, x, (bits(x) & -0x80000000 | 0x7FC00000).bitcast(F32)))


def rounded_bits(x: Lanes) -> Lanes:
    """The bits of a float32, rounded to bfloat16: the lower half is zero. A NaN stays one."""
    given = bits(x)
    nearest = given + (((given >> 16) & 1) + 0x7FFF)
    return select(x == x, nearest, given | 0x400000) & -0x10000


def _of_float16(half: Lanes) -> Lanes:
    """The float32 of a float16 whose bits are given. The exponent of a float16 counts from 15, that of a float32 from
    127."""
    magnitude = (half & 0x7FFF) << 13
    finite = magnitude < 0x7C00 << 13
    found = bits(select(finite, magnitude, magnitude | _INFINITY).bitcast(F32) * 2.0 ** (127 - 15))
    return (found | ((half & 0x8000) << 16)).bitcast(F32)


def _to_float16(x: Lanes) -> Lanes:
    """The bits of the nearest float16, in the lower half. A NaN becomes a NaN without its payload."""
    given = bits(x)
    magnitude = given & 0x7FFFFFFF
    nearest = ((magnitude + (((magnitude >> 13) & 1) + 0xFFF)) >> 13) - ((127 - 15) << 10)
    small = bits(magnitude.bitcast(F32) + 0.5) - 0x3F000000  # the last bit of a half's sum is 2**-24
    found = select(magnitude < (127 - 14) << 23, small, select(nearest < 0x7C00, nearest, 0x7C00))
    return select(x == x, found, 0x7E00) | ((given >> 16) & 0x8000)


def _rounded_to_odd(x: Lanes) -> Lanes:
    """A float64 as a float32, rounded towards zero, with its last bit set if that is not exact. Rounded again, to fewer
    bits, this gives the same as `x` rounded once."""
    near = x.cast(F32)
    back, found = near.cast(F64), bits(near)
    towards_zero = select(back.unary("abs") > x.unary("abs"), found - 1, found)
    return select((back == x) | (x != x), found, towards_zero | 1).bitcast(F32)

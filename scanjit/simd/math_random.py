"""Random numbers from counters, as `scanjit.ops.random` defines them, over vectors of int64.

A word of 32 bits is the lower half of a lane of 64 bits. The upper half may hold anything: it is masked before a word
is multiplied. LLVM makes one instruction of mask and product if the CPU multiplies 32 by 32 bits. Words have no sign in
a round, and are hidden at its end. Else LLVM would look for what is known of their bits through several rounds, for
each instruction, and take twice as long. There is no fma here:
it rounds once, and would give other numbers than the reference.
"""

from collections.abc import Sequence

import numpy as np

from scanjit.kinds import KINDS, Kind
from scanjit.ops.random import (
    INCREMENTS,
    LN2,
    LOG_TAIL,
    MANTISSA,
    MULTIPLIERS,
    ROUNDS,
    SHUFFLES,
    SINE,
    SQRT_HALF,
)

from .lanes import Lanes, bits, select, sqrt

WORD = 0xFFFFFFFF
I32, I64, F32, F64 = KINDS["i32"], KINDS["i64"], KINDS["f32"], KINDS["f64"]
U64 = Kind("u64", "u", 64, np.dtype("uint64"), "i64")
"""Integers without a sign, of which a shift to the right needs no look at the sign."""
Words = tuple[Lanes, Lanes, Lanes, Lanes]


def philox(key: Lanes, block: Lanes, index: Lanes) -> Words:
    """The four words of a key and a counter, whose halves are the index and the block; upper halves are not clear."""
    c0, c2, k0 = index.bitcast(U64), block.bitcast(U64), key.bitcast(U64)
    c1, c3, k1 = c0 >> 32, c2 >> 32, k0 >> 32
    for _ in range(ROUNDS):
        p0, p1 = (c0 & WORD) * MULTIPLIERS[0], (c2 & WORD) * MULTIPLIERS[1]
        c0, c1, c2, c3 = ((p1 >> 32) ^ c1 ^ k0).hidden(), p1, ((p0 >> 32) ^ c3 ^ k1).hidden(), p0
        k0, k1 = k0 + INCREMENTS[0], k1 + INCREMENTS[1]
    return c0.bitcast(I64), c1.bitcast(I64), c2.bitcast(I64), c3.bitcast(I64)


def random_bits(key: Lanes, block: Lanes, index: Lanes) -> Lanes:
    """64 bits: the first two words."""
    low, high, _, _ = philox(key, block, index)
    return (low & WORD) | (high << 32)


def _upper(word: Lanes, dropped: int, kind: Kind) -> Lanes:
    """A word without its lowest bits, as floats. Through int32, for which every CPU has the conversion."""
    return ((word & WORD) >> dropped).cast(I32).cast(kind)


def _unit(w0: Lanes, w1: Lanes) -> Lanes:
    """53 bits as a float64, at least 0 and below 1; every step is exact."""
    return (_upper(w1, 5, F64) * 2.0**26 + _upper(w0, 6, F64)) * 2.0**-53


def random_uniform_f32(key: Lanes, block: Lanes, index: Lanes) -> Lanes:
    """24 bits as a float32, at least 0 and below 1."""
    return _upper(philox(key, block, index)[0], 8, F32) * 2.0**-24


def random_uniform_f64(key: Lanes, block: Lanes, index: Lanes) -> Lanes:
    """53 bits as a float64, at least 0 and below 1."""
    return _unit(*philox(key, block, index)[:2])


def random_normal_f32(key: Lanes, block: Lanes, index: Lanes) -> Lanes:
    """A standard normal float32."""
    w0, w1, _, _ = philox(key, block, index)
    return _normal((_upper(w0, 1, F32) + 0.5) * 2.0**-31, w1.cast(I32).cast(F32) * 2.0**-32)


def random_normal_f64(key: Lanes, block: Lanes, index: Lanes) -> Lanes:
    """A standard normal float64."""
    w0, w1, w2, w3 = philox(key, block, index)
    angle = w3.cast(I32).cast(F64) * 2.0**-32 + _upper(w2, 11, F64) * 2.0**-53
    return _normal(1.0 - _unit(w0, w1), angle)


def _normal(length: Lanes, angle: Lanes) -> Lanes:
    return sqrt(_log(length) * -2.0) * (angle * _horner(angle * angle, SINE[length.kind.dtype.name]))


def _horner(x: Lanes, coefficients: Sequence[float]) -> Lanes:
    result = x.splat(coefficients[0])
    for coefficient in coefficients[1:]:
        result = result * x + coefficient
    return result


def _log(x: Lanes) -> Lanes:
    name = x.kind.dtype.name
    whole = bits(x)
    power = (whole - SQRT_HALF[name]) >> MANTISSA[name]
    f = (whole - (power << MANTISSA[name])).bitcast(x.kind) - 1.0
    s = f / (f + 2.0)
    z = s * s
    square = f * f * 0.5
    rest = f - (square - s * (square + z * _horner(z, LOG_TAIL[name])))
    return power.cast(I32).cast(x.kind) * LN2[name] + rest


def random_shuffle(key: Lanes, block: Lanes, index: Lanes, size: Lanes) -> Lanes:
    """Where a permutation of 0 ... size - 1 takes an index: a loop with four rounds in each turn."""
    one = index.splat(1)

    def rounds(position: Lanes, turn: Lanes) -> tuple[Lanes, Lanes]:
        for word in philox(key, block, (turn << 32) | WORD):
            partner = (((word & WORD) * size) >> 32 & WORD) - position
            partner = select(partner < 0, partner + size, partner)
            decider = select(partner > position, partner, position) & WORD
            moves = (philox(key, block, (turn << 32) | decider)[0] & 1) != 0
            position = select(moves, partner, position)
            turn = turn + one
        return position, turn

    return index.repeat((index, one), lambda _, turn: turn <= SHUFFLES, rounds)[0]

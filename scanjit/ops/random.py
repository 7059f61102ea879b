"""Random numbers as functions of counters: Philox 4x32-10, and the distributions made of its words.

Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011. A draw has no state: each element
is a function of a key (64 bits), a block and the element's index (64 bits each), all int64 operands. So draws are
elementwise ops like others. An element keeps its value when the op is fused, split, batched, unrolled or computed
again.

Integers and uniform numbers are exact. Normal numbers are made by additions, multiplications, divisions and square
roots alone, each rounded once and in this order, so that they too are the same bits on every machine and in every mode.
`scanjit.simd.math_random` is the same over vectors.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from scanjit.ops.promotion import Elementwise
from scanjit.signatures import Array, DType, Parameter, Samples

Arrays = tuple[Array, ...]

ROUNDS = 10
MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
INCREMENTS = (0x9E3779B9, 0xBB67AE85)
SHUFFLES = 48
"""The rounds of `random_shuffle`. After these, the place of an element is uniform to one part in 2**48."""

# fmt: off
SQRT_HALF = {"float32": 0x3F3504F3, "float64": 0x3FE6A09E667F3BCD}  # the bits of sqrt(1/2)
MANTISSA = {"float32": 23, "float64": 52}
LN2 = {"float32": 0.6931471824645996, "float64": 0.6931471805599453}
# log(1 + f) = f - (f*f/2 - s*(f*f/2 + z*(this polynomial of z))), s = f/(2 + f), z = s*s; the highest power first
LOG_TAIL = {
    "float32": (0.2987166941165924, 0.39977550506591797, 0.6666677594184875),
    "float64": (
        1.479819860511658591e-01, 1.531383769920937332e-01, 1.818357216161805012e-01, 2.222219843214978396e-01,
        2.857142874366239149e-01, 3.999999999940941908e-01, 6.666666666666735130e-01,
    ),
}
# sin(pi*x) = x*(this polynomial of x*x) for |x| <= 1/2, to 2**-27 and 2**-61
SINE = {
    "float32": (0.07765591144561768, -0.5982903838157654, 2.550077438354492, -5.167710304260254, 3.1415927410125732),
    "float64": (
        7.697826768224191e-07, -2.1903497074626018e-05, 0.0004662998161898394, -0.007370430505916944,
        0.0821458865731029, -0.5992645293189447, 2.5501640398773007, -5.167712780049969, 3.141592653589793,
    ),
}
# fmt: on


# ---- references ------------------------------------------------------------------------------------------------------


def philox(counter: Sequence[ArrayLike], key: Sequence[ArrayLike]) -> Arrays:
    """The four words of Philox 4x32-10, as uint64 below 2**32.

    Parameters
    ----------
    counter : four words
    key : two words

    Examples
    --------
    >>> [hex(int(word)) for word in philox([0, 0, 0, 0], [0, 0])]
    ['0x6627e8d5', '0xe169c58d', '0xbc57ac4c', '0x9b00dbd8']
    """
    word = np.uint64(0xFFFFFFFF)
    half = np.uint64(32)
    c0, c1, c2, c3, k0, k1 = (np.asarray(value, np.uint64) & word for value in (*counter, *key))
    m0, m1 = map(np.uint64, MULTIPLIERS)
    w0, w1 = map(np.uint64, INCREMENTS)
    for _ in range(ROUNDS):
        p0, p1 = c0 * m0, c2 * m1
        c0, c1, c2, c3 = (p1 >> half) ^ c1 ^ k0, p1 & word, (p0 >> half) ^ c3 ^ k1, p0 & word
        k0, k1 = (k0 + w0) & word, (k1 + w1) & word
    return c0, c1, c2, c3


def _words(key: ArrayLike, block: ArrayLike, index: ArrayLike) -> Arrays:
    """Philox of 64-bit integers: the counter's lower half is the index, its upper half the block."""
    whole = [np.asarray(value, np.int64).astype(np.uint64) for value in (index, block, key)]
    half = np.uint64(32)
    i, b, k = ((value, value >> half) for value in whole)
    return philox((*i, *b), k)


def _signed(word: Array) -> Array:
    return word.astype(np.uint32).view(np.int32)


def _bits(key: Array, block: Array, index: Array) -> Array:
    low, high, _, _ = _words(key, block, index)
    return (low | (high << np.uint64(32))).astype(np.int64)


def _uniform(key: Array, block: Array, index: Array, *, dtype: DType) -> Array:
    w0, w1, _, _ = _words(key, block, index)
    if dtype == np.float32:
        return (w0 >> np.uint64(8)).astype(np.float32) * np.float32(2.0**-24)
    return ((w1 >> np.uint64(5)) * 2.0**26 + (w0 >> np.uint64(6))) * 2.0**-53


def _normal(key: Array, block: Array, index: Array, *, dtype: DType) -> Array:
    """Box and Muller's product of a length and a sine. The angle is taken from the half circle where the sine rises:
    it has the same distribution there, and needs no reduction."""
    w0, w1, w2, w3 = _words(key, block, index)
    if dtype == np.float32:
        length = ((w0 >> np.uint64(1)).astype(np.float32) + np.float32(0.5)) * np.float32(2.0**-31)
        angle = _signed(w1).astype(np.float32) * np.float32(2.0**-32)
    else:
        length = 1.0 - ((w1 >> np.uint64(5)) * 2.0**26 + (w0 >> np.uint64(6))) * 2.0**-53
        angle = _signed(w3) * 2.0**-32 + (w2 >> np.uint64(11)) * 2.0**-53
    return np.sqrt(_log(length) * dtype.type(-2)) * _sine(angle)


def _horner(x: Array, coefficients: Sequence[float]) -> Array:
    result = np.full(x.shape, coefficients[0], x.dtype)
    for coefficient in coefficients[1:]:
        result = result * x + x.dtype.type(coefficient)
    return result


def _log(x: Array) -> Array:
    """The logarithm of normal numbers, at most 1."""
    name = x.dtype.name
    half = x.dtype.type(0.5)
    bits = x.view(f"int{8 * x.itemsize}")
    power = (bits - SQRT_HALF[name]) >> MANTISSA[name]  # so that the rest is between sqrt(1/2) and sqrt(2)
    f = (bits - (power << MANTISSA[name])).view(x.dtype) - x.dtype.type(1)
    s = f / (f + x.dtype.type(2))
    z = s * s
    square = f * f * half
    rest = f - (square - s * (square + z * _horner(z, LOG_TAIL[name])))
    return power.astype(x.dtype) * x.dtype.type(LN2[name]) + rest


def _sine(x: Array) -> Array:
    return x * _horner(x * x, SINE[x.dtype.name])


def _shuffle(key: Array, block: Array, index: Array, size: Array) -> Array:
    """Hoang, Morris and Rogaway, "An enciphering scheme based on a card shuffle", CRYPTO 2012: in each round every
    element has a partner, and the two exchange places or stay."""
    word, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    n = size.astype(np.uint64)
    for first in range(0, SHUFFLES, 4):
        sums = _words(key, block, np.int64(((first + 1) << 32) | 0xFFFFFFFF))
        for turn, word_of_sum in enumerate(sums, start=first + 1):
            total = ((word_of_sum * n) >> half).astype(np.int64)
            partner = total - index
            partner = np.where(partner < 0, partner + size, partner)
            decider = np.maximum(index, partner) & np.int64(word)
            moves = (_words(key, block, decider | np.int64(turn << 32))[0] & np.uint64(1)) != 0
            index = np.where(moves, partner, index)
    return index


# ---- ops -------------------------------------------------------------------------------------------------------------


def _keys(rng: np.random.Generator) -> np.int64:
    return np.int64(rng.integers(-(2**63), 2**63 - 1))


def _samples(rng: np.random.Generator, dtype: str) -> Samples:
    for index in (np.arange(7), np.int64(-1), np.zeros((0, 2), np.int64), rng.integers(-(2**63), 2**63 - 1, (2, 3))):
        yield (_keys(rng), _keys(rng), np.asarray(index)), {}
    yield (rng.integers(0, 9, 3), np.int64(0), np.arange(4)[:, None]), {}


def _float_samples(rng: np.random.Generator, dtype: str) -> Samples:
    for arrays, _ in _samples(rng, dtype):
        for name in ("float64", "float32"):
            yield arrays, {"dtype": np.dtype(name)}


def _shuffle_samples(rng: np.random.Generator, dtype: str) -> Samples:
    for size in (0, 1, 2, 9):
        yield (_keys(rng), _keys(rng), np.arange(size), np.int64(size)), {}


_COUNTERS = ((-9, 9),) * 3
"""The ranges from which tests sample a key, a block and an index."""


def _op(name: str, **rest: Parameter) -> Elementwise:
    return Elementwise(name, **{"takes": "i", "dtypes": ("int64",), "domain": _COUNTERS, **rest})


def _of_floats(name: str, **rest: Parameter) -> Elementwise:
    """An op whose parameter `dtype` is the dtype of the result."""
    return _op(
        name,
        lower=lambda *_, dtype: f"{name}_f{8 * dtype.itemsize}({{0}}, {{1}}, {{2}})",
        result=lambda *_, dtype: dtype,
        samples=_float_samples,
        **rest,
    )


RANDOM_BITS = _op(
    "random_bits",
    lower="random_bits({0}, {1}, {2})",
    reference=_bits,
    cost=80,
    samples=_samples,
    doc="64 random bits of a key, a block and an index",
)
RANDOM_UNIFORM = _of_floats(
    "random_uniform",
    reference=_uniform,
    cost=80,
    doc="a uniform number, at least 0 and below 1, of a key, a block and an index",
)
RANDOM_NORMAL = _of_floats(
    "random_normal",
    reference=_normal,
    cost=150,
    doc="a number of the standard normal distribution, of a key, a block and an index",
)
RANDOM_SHUFFLE = _op(
    "random_shuffle",
    lower="random_shuffle({0}, {1}, {2}, {3})",
    reference=_shuffle,
    cost=6000,
    domain=((-9, 9), (-9, 9), (0, 4), (5, 5)),
    samples=_shuffle_samples,
    doc="where a random permutation of 0 ... size - 1 takes an index, by a key, a block, the index and the size",
)

"""Random arrays for `Op.samples`, from which the tests of ops are generated."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from scanjit import types
from scanjit.kinds import kind_of
from scanjit.signatures import Array, Params, Sample

INTS = ("int8", "int16", "int32", "int64", "uint8")
FLOATS = ("float64", "float32")
NUMBERS = (*FLOATS, *INTS)
ANY_DTYPE = tuple(map(str, types.DTYPES))


def sample(rng: np.random.Generator, shape: tuple[int, ...], dtype: str, low: float = -3, high: float = 3) -> Array:
    """Random numbers of a dtype between two bounds (for tests)."""
    kind = kind_of(dtype)
    if kind.is_mask:
        return rng.random(shape) < 0.5
    if kind.integral:
        lowest = max(math.ceil(low), 0) if not kind.signed else math.ceil(low)
        return np.asarray(rng.integers(lowest, max(int(high), lowest) + 1, shape)).astype(dtype)
    return np.asarray(rng.uniform(low, high, shape)).astype(dtype)


def numbered(shape: tuple[int, ...], dtype: str) -> Array:
    """An array whose elements are all different, except for bools (for tests)."""
    return (np.arange(np.prod(shape, dtype=int)).reshape(shape) + 1).astype(dtype)


def sampled(*cases: tuple[tuple[int, ...], Params]) -> Callable[[np.random.Generator, str], list[Sample]]:
    """Samples of an op with one operand, of these shapes and with these parameters."""
    return lambda rng, dtype: [((numbered(shape, dtype),), params) for shape, params in cases]

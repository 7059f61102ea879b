"""Whole numbers divided by numbers that are known: powers of two divide by a shift."""

import numpy as np
import pytest

import scanjit as sj
from scanjit.runtime import host
from scanjit.simd.numpy_lanes import NumpyLanes
from tests.targets import with_vectors

DTYPES = ("int8", "int16", "int32", "int64", "uint8")
DIVISORS = (1, 2, 3, 8, 64, 2**30, 2**62, -1, -4, 0)


@pytest.mark.parametrize("mode", ["emulate", "numba"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_quotients_and_rests_are_those_of_numpy(dtype, mode):
    limits = np.iinfo(dtype)
    ends = [limits.min, limits.min + 1, limits.max, limits.max - 1]
    values = np.array([*ends, *range(max(-70, limits.min), 70)], dtype)
    divisors = [d for d in DIVISORS if limits.min <= d <= limits.max]
    x = sj.vector("x", dtype=dtype)
    by = [np.array(d, dtype) for d in divisors]
    f = sj.function([x], [y for d in by for y in (x // d, x % d)], mode=mode)
    with np.errstate(all="ignore"):
        wanted = [y for d in by for y in (values // d, values % d)]
    np.testing.assert_equal(f(values), wanted)


def test_a_power_of_two_divides_by_a_shift():
    x = sj.vector("x", dtype="int64")
    f = sj.function([x], [x // 8, x % 8], mode="emulate")
    assert "floordiv(" not in f.source and "mod(" not in f.source
    assert "floordiv(" in sj.function([x], x // -8, mode="emulate").source


@pytest.mark.parametrize("mode", ["emulate", "numba"])
def test_vectors_of_long_integers_of_any_size(mode):
    """Those up to 2**50 are divided as floats. Quotients just below a whole number are not rounded up to it."""
    ends = [0, 1, 2, 3, 7, 2**49, 2**50 - 1, 2**50, 2**50 + 1, 2**53 + 1, 2**63 - 1]
    numbers = [*ends, *(-number for number in ends), -(2**63)]
    random = np.random.default_rng(0)
    size = 1 << random.integers(1, 62, (2, 2000))
    x, y = random.integers(-size, size)
    below = x - x % np.where(y == 0, 1, y) - 1
    a = np.concatenate([np.repeat(numbers, len(numbers)), x, below])
    b = np.concatenate([np.tile(numbers, len(numbers)), y, y])
    m, n = sj.vector("m", dtype="int64"), sj.vector("n", dtype="int64")
    f = sj.function([m, n], [m // n, m % n], mode=mode)
    with np.errstate(all="ignore"):
        wanted = [a // b, a % b]
    np.testing.assert_array_equal(f(a, b), wanted)


def test_small_integers_are_not_divided_one_by_one(monkeypatch):
    monkeypatch.setattr(NumpyLanes, "divide", None)
    x, y = sj.vector("x", dtype="int64"), sj.vector("y", dtype="int64")
    with host.using(with_vectors(32)):
        f = sj.function([x, y], [x // y, x % y], mode="emulate")
        np.testing.assert_array_equal(f([7, -7, 5, 0], [2, 2, 0, 3]), [[3, -4, 0, 0], [1, 1, 0, 0]])

"""Whole numbers divided by numbers that are known: powers of two divide by a shift."""

import numpy as np
import pytest

import scanjit as sj

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

"""Indices that cannot be negative are not counted from the end of an axis."""

import numpy as np
import pytest

import scanjit as sj
from scanjit.ir import dim_node

RNG = np.random.default_rng(0)
NUMBERS = RNG.integers(-40, 40, 30)
NEVER = {
    "mod": lambda i: i % 7,
    "and": lambda i: i & 5,
    "and_of_a_xor": lambda i: 6 & (i ^ 3),
    "maximum": lambda i: sj.minimum(sj.maximum(i, 0), 6),
    "where": lambda i: sj.where(i > 3, 4, i & 3),
    "argmax": lambda i: sj.argmax(sj.stack([i, -i, i * i % 5])),
}
PERHAPS = {
    "mod_of_a_negative": lambda i: i % -7,
    "and_of_negatives": lambda i: (i & -8) % -3,
    "where": lambda i: sj.where(i > 3, -2, i & 3),
    "minimum": lambda i: sj.maximum(sj.minimum(i, 4), -7),
    "xor": lambda i: (i & 3) ^ -4,
}


def looked_up(place, mode, dtype="float64"):
    """What a loop finds at some places of a table, in lanes that wait for each other."""
    i, table = sj.vector("i", "int64"), sj.vector("table", dtype)
    ys = sj.scan(lambda i, h: 0.5 * h + table[place(i)], i, sj.zeros((), dtype))
    return sj.function([i, table], [ys, sj.grad((ys * ys).sum(), table)], mode=mode)


@pytest.mark.quick(6)
@pytest.mark.parametrize("places, name", [(NEVER, name) for name in NEVER] + [(PERHAPS, name) for name in PERHAPS])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_what_is_looked_up(places, name, dtype):
    table = RNG.standard_normal(7).astype(dtype)
    wanted, *others = (
        looked_up(places[name], mode, dtype)(NUMBERS, table) for mode in ("reference", "emulate", "numba")
    )
    for found in others:
        for one, right in zip(found, wanted, strict=True):
            np.testing.assert_allclose(
                one, right, rtol=0, atol=(1e-5 if dtype == "float32" else 1e-13) * abs(right).max()
            )


@pytest.mark.parametrize("name", NEVER)
def test_no_place_is_counted_from_the_end(name, capsys):
    i, table = sj.vector("i", "int64"), sj.tensor((7,), "float64", "table")
    found = table[NEVER[name](i)]
    sj.dprint(sj.function([i, table], found, mode="emulate"), stage="rewritten")
    text = capsys.readouterr().out
    assert "gather" in text
    assert "less" not in text


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint8"])
def test_which_numbers_are_below_zero(dtype):
    x = sj.vector("x", dtype)
    for places in (NEVER, PERHAPS):
        for name, place in places.items():
            if name in ("argmax",) or (dtype == "uint8" and places is PERHAPS) or "xor" in name:
                continue
            made = place(x)
            f, right = (sj.function([x], made < 0, mode=mode) for mode in ("emulate", "reference"))
            given = NUMBERS.astype(dtype)
            np.testing.assert_array_equal(f(given), right(given))
            if places is NEVER:
                assert not f(given).any()


@pytest.mark.parametrize("mode", ["reference", "emulate"])
def test_a_difference_of_sizes_may_be_negative(mode):
    i, x = sj.vector("i", "int64"), sj.vector("x", "float64")
    below = dim_node(x.type.shape[0] - 5)
    f = sj.function([i, x], [i % below < 0, sj.maximum(below, i & 0) < 0, sj.minimum(below, 3) < 0], mode=mode)
    found = f(NUMBERS, np.zeros(2))
    np.testing.assert_array_equal(found[0], NUMBERS % -3 < 0)
    assert not found[1].any()
    assert found[2]

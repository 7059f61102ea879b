"""Computed indices that count from either end of an axis: the other end is asked for only where the first is not."""

from typing import Any

import numpy as np
import pytest

import scanjit as sj
from tests.pairs import pairwise

SIZE = 5


def program(size: Any, mode: Any, index: Any) -> Any:
    """Reads, and changes in place, at computed places of one axis and of two."""
    k, x, table = sj.lvector("k"), sj.vector("x", "float64"), sj.tensor((size, 3), "float64", "table")

    def step(k: Any, x: Any, last: Any, table: Any) -> Any:
        at = index(k)
        return k, table[last, 1].inc(x)[at, 0].set(table[at].sum() + x), table[at, 2]

    *_, table_, read = sj.scan(step, [k, x], [0, table, None])
    return sj.function([k, x, table], [table_[-1], read], mode=mode)


INDICES = {
    "as it is": lambda k: k,
    "a choice that looks alike": lambda k: sj.where(k < 0, k + 2, k) - 2,
    "below another number": lambda k: sj.where(k < 1, k + SIZE, k) - SIZE,
    "other numbers": lambda k: sj.where(k < 0, k + SIZE - 1, k),
}


@pairwise(name=INDICES, size=[SIZE, "N"], mode=["emulate", "numba"])
def test_as_the_reference(name: str, size: Any, mode: Any, rng: np.random.Generator) -> None:
    given = rng.integers(-SIZE, SIZE, 60), rng.standard_normal(60), rng.standard_normal((SIZE, 3))
    if name == "other numbers":
        given[0][:] = np.maximum(given[0], 1 - SIZE)
    f, reference = (program(size, each, INDICES[name]) for each in (mode, "reference"))
    for found, wanted in zip(f(*given), reference(*given), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-12)


@pairwise(outside=[SIZE, -SIZE - 1, 2**62, -(2**62), 2**63 - 1, -(2**63)], size=[SIZE, "N"], mode=["emulate", "numba"])
def test_outside_of_both_ends(outside: int, size: Any, mode: Any) -> None:
    f = program(size, mode, INDICES["as it is"])
    k = np.array([0, -1, outside, 2])
    with pytest.raises(sj.OutOfBoundsError, match=f"index {outside} is out of bounds"):
        f(k, np.ones(4), np.ones((SIZE, 3)))


@pytest.mark.parametrize("size", [SIZE, "N"])
def test_the_other_end_is_asked_for_last(size: Any) -> None:
    source = program(size, "emulate", INDICES["as it is"]).source
    assert "less_" not in source
    for before in source.split("report(")[:-1]:
        first = before.split("if any_of(~ok")[-2]
        assert "report(" not in first
        assert first.count(" = ") == 2

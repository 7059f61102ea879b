"""Reductions over the steps of loops whose length is computed in a step: the loop makes them itself."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import scanjit as sj

N, V = sj.ivector("n"), sj.vector("v")


def stacked(k: Any) -> Any:
    return sj.scan(lambda z: z + 1, outputs_info=0.0, n_steps=k)


def ended(k: Any) -> Any:
    return sj.scan(lambda z: (z + 1, sj.until(z > 2)), outputs_info=0.0, n_steps=k)


def wide(k: Any) -> Any:
    return sj.scan(lambda z: z + V, outputs_info=V * 0, n_steps=k)


REDUCTIONS: dict[str, Callable[[Any], Any]] = {
    "sum": lambda k: stacked(k).sum(),
    "mean": lambda k: stacked(k).mean(),
    "variance": lambda k: stacked(k).var(),
    "max": lambda k: stacked(k).max(),
    "min of a formula": lambda k: (stacked(k) * -2 + V[0]).min(),
    "product": lambda k: stacked(k).prod(),
    "any": lambda k: (stacked(k) > 1.5).any() * 1.0,
    "all": lambda k: (stacked(k) > 0.5).all() * 1.0,
    "two of one loop": lambda k: np.exp(stacked(k) * 0.1).sum() + stacked(k).sum(),
    "logsumexp": lambda k: sj.logsumexp(stacked(k)),
    "until": lambda k: ended(k).sum(),
    "all axes": lambda k: wide(k).sum(),
    "rows, then columns": lambda k: wide(k).sum(0).max(),
    "with a vector": lambda k: (wide(k) * V).sum(),
    "one that starts with another": lambda k: sj.scan(lambda z: z * 2, outputs_info=stacked(k).sum(), n_steps=k).sum(),
}
COUNTS, VALUES = np.int32([3, 2, 5, 1]), np.array([2.0, 0.5, 1.0])


def function(mode: str, names: list[str]) -> Any:
    return sj.function([N, V], [sj.map(REDUCTIONS[name], N) + V[0] * 0 for name in names], mode=mode)


@pytest.mark.quick(4)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_emulated(name: str) -> None:
    (got,), (expected,) = (function(mode, [name])(COUNTS, VALUES) for mode in ("emulate", "reference"))
    np.testing.assert_allclose(got, expected)


def test_compiled() -> None:
    names = list(REDUCTIONS)
    got, expected = (function(mode, names)(COUNTS, VALUES) for mode in ("numba", "reference"))
    for name, a, b in zip(names, got, expected, strict=True):
        np.testing.assert_allclose(a, b, err_msg=name)


def test_no_steps() -> None:
    sums = sj.function([N], sj.map(REDUCTIONS["sum"], N), mode="emulate")
    assert sums(np.int32([2, 0])).tolist() == [3.0, 0.0]
    largest = sj.function([N], sj.map(REDUCTIONS["max"], N), mode="emulate")
    with pytest.raises(sj.ScanjitError):
        largest(np.int32([2, 0]))

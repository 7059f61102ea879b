"""A sum or an extremum that becomes one entry of a state: lanes run along its terms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import scanjit as sj

Reduction = Callable[[Any], Any]


def largest_and_total(x: Any) -> Any:
    return sj.max(x) + 2 * sj.sum(x)


def position(x: Any) -> Any:
    return sj.cast(sj.argmax(x), x.dtype)


def sweep(reduction: Reduction, dtype: str, **options: Any) -> Any:
    """A sweep over the entries of a vector, each of which is made of all of them."""
    matrix, x = sj.tensor(("N", "N"), dtype, "matrix"), sj.tensor(("N",), dtype, "x")

    def step(i: Any, x: Any) -> Any:
        return x[i].set(sj.cast(1 - reduction(sj.where(matrix[i] > 0, x, matrix[i])), x.dtype))

    return sj.function([matrix, x], sj.scan(step, sj.arange(x.shape[0]), x)[-1], **options)


@pytest.mark.parametrize("reduction", [sj.sum, sj.max, sj.min, largest_and_total, position])
@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "int8"])
def test_values(reduction: Reduction, dtype: str) -> None:
    f, wanted = sweep(reduction, dtype), sweep(reduction, dtype, mode="reference")
    for n in (1, 3, 8, 9, 40):
        rng = np.random.default_rng(n)
        given = [(2 * rng.normal(size=shape)).astype(dtype) for shape in ((n, n), (n,))]
        if n == 9 and dtype.startswith("float"):
            given[1][4] = np.nan
        np.testing.assert_allclose(f(*given), wanted(*given), rtol=1e-3 if dtype == "float32" else 1e-9)


def test_lanes() -> None:
    for reduction in (sj.sum, sj.max):
        nests = [line for line in sweep(reduction, "float64").explain().splitlines() if "_scatter: " in line]
        assert all("lanes along the reductions" in line for line in nests) and nests

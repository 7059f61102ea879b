"""Sums of products that are zero to the last bit: a multiply-add would give the rounding of one of the products."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import scanjit as sj

ZEROS: dict[str, Callable[[sj.Node, sj.Node], sj.Node]] = {
    "of equal products": lambda x, y: x * y - x * y,
    "in another order": lambda x, y: x * y - y * x,
    "with another sign": lambda x, y: x * y + -y * x,
    "of a value with the product": lambda x, y: sj.maximum(x * y, y * x) - x * y,
    "of a cross product": lambda x, y: sj.cross(x.reshape(-1, 3), x.reshape(-1, 3)),
    "of complex products": lambda x, y: sj.imag((x + 1j * y) * (y + 2j * x) - (y + 2j * x) * (x + 1j * y)),
    "of a number and its conjugate": lambda x, y: sj.imag((x + 1j * y) * sj.conj(x + 1j * y)),
    "of a conjugate and its number": lambda x, y: sj.imag(sj.conj(x + 1j * y) * (x + 1j * y)),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ZEROS)
def test_differences_of_equal_products_are_zero(name: str, dtype: str, rng: np.random.Generator) -> None:
    x, y = (sj.tensor(999, dtype) for _ in range(2))
    given = rng.standard_normal((2, 999)).astype(dtype)
    np.testing.assert_array_equal(sj.function([x, y], ZEROS[name](x, y))(*given), 0)


def test_steps_that_wait_do_the_same(rng: np.random.Generator) -> None:
    x, y = sj.vector("x"), sj.vector("y")
    f = sj.function([x, y], sj.scan(lambda a, b, h: sj.abs(h) * (a * b - b * a) + (h * a - a * h), [x, y], 1.0))
    np.testing.assert_array_equal(f(*rng.standard_normal((2, 999))), 0)

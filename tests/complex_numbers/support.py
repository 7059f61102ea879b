"""Complex arrays for tests, and derivatives by differences in PyTorch's convention."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

DTYPES_AND_MODES = pytest.mark.parametrize(
    "dtype, close, mode",
    [
        ("complex64", 2e-4, "reference"),
        ("complex128", 1e-10, "reference"),
        ("complex64", 2e-4, "emulate"),
        pytest.param("complex128", 1e-10, "emulate", marks=pytest.mark.slow),
    ],
)


def sampled(rng: np.random.Generator, shape: tuple[int, ...], dtype: str = "complex128", size: float = 1.0) -> Any:
    """Complex numbers from a normal distribution."""
    return (size * (rng.normal(size=shape) + 1j * rng.normal(size=shape))).astype(dtype)


def slope(cost: Callable[[np.ndarray], Any], z: np.ndarray, step: float = 1e-6) -> np.ndarray:
    """`dL/dRe + i dL/dIm` of a real cost, from differences."""
    found = np.zeros(z.shape, complex)
    for at in np.ndindex(z.shape):
        for unit in (1, 1j):
            ahead, behind = z.copy(), z.copy()
            ahead[at] += step * unit
            behind[at] -= step * unit
            found[at] += unit * float(cost(ahead) - cost(behind)) / (2 * step)
    return found

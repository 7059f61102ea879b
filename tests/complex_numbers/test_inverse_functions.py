"""Square roots and the inverses of complex sines and tangents: near cuts, near 0, far away; their gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import scanjit as sj
from tests.pairs import pairwise

RNG = np.random.default_rng(0)
NAMES = "sqrt arcsin arccos arctan arcsinh arccosh arctanh".split()
CUTS = [complex(x, y) for x in (3.0, 0.5, 0.0, -0.5, -3.0) for y in (0.0, -0.0)]
CUTS += [complex(y, x) for x in (3.0, 0.5, -0.5, -3.0) for y in (0.0, -0.0)]
POINTS = np.array([*CUTS, 800j, -800j, -1e5 + 1e-3j, 1e-9 - 1e-9j, 1 + 1e-9j, -1 - 1e-9j, 1e150 - 1e150j])
SPREAD = (RNG.normal(size=300) + 1j * RNG.normal(size=300)) * 10.0 ** RNG.uniform(-8, 6, 300)
MODES: list[Any] = ["reference", "emulate"]


@pytest.mark.quick(7)
@pairwise(dtype=["complex64", "complex128"], name=NAMES, mode=MODES)
def test_values(name: str, dtype: str, mode: Any) -> None:
    """Right to the last digits of the number, on the side of a cut that the sign of a zero says."""
    given = np.concatenate([POINTS[:-1] if dtype == "complex64" else POINTS, SPREAD]).astype(dtype)
    z = sj.tensor(("n",), dtype)
    function = getattr(np, name)
    found, expected = sj.function([z], function(z), mode=mode)(given), function(given)
    tolerance = 1e-6 if dtype == "complex64" else 2e-15
    np.testing.assert_allclose(found, expected, rtol=tolerance)


@pytest.mark.parametrize("name", NAMES)
def test_gradients(name: str) -> None:
    """PyTorch's convention: of the real part of w(z), the conjugate of its slope; of the imaginary part, 1j times that.
    Also where the imaginary part of z is exactly 0."""
    z, function = sj.tensor((), "complex128"), getattr(np, name)
    value = function(z)
    f = sj.function([z], [sj.grad(sj.real(value), z), sj.grad(sj.imag(value), z)], mode="reference")
    for at in (0.5 + 0.0j, -0.5 + 0.0j, 4.0 + 0.0j, 0.3 - 2.0j, -3.0 + 0.1j):
        upwards = 1e-6j  # a cut lies below the numbers whose imaginary part is 0.0
        slope = (-3 * function(at) + 4 * function(at + upwards) - function(at + 2 * upwards)) / (2 * upwards)
        real, imaginary = f(at)
        np.testing.assert_allclose(real, np.conj(slope), rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(imaginary, 1j * np.conj(slope), rtol=1e-6, atol=1e-8)


def test_roots_of_infinities() -> None:
    given = np.array([complex(x, y) for x in (1.0, np.inf, -np.inf, np.nan) for y in (np.inf, -np.inf)])
    z = sj.tensor(("n",), "complex128")
    np.testing.assert_array_equal(sj.function([z], np.sqrt(z), mode="reference")(given), np.sqrt(given))

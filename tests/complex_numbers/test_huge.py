"""Complex numbers whose squares are no floats: functions are finite where NumPy's are, and roots are not zero."""

from itertools import product

import numpy as np
import pytest

import scanjit as sj

NAMES = (
    "abs angle square reciprocal sqrt log log2 log10 log1p exp sin cos tan sinh cosh tanh arcsin arccos arctan "
    "arcsinh arccosh arctanh"
).split()
SIZES = {
    "complex128": (0.0, 1e-150, 1.0, 3.0, 1e150, 1e155, 1e300, 1.2e308),
    "complex64": (0.0, 1e-17, 1.0, 3.0, 1e17, 1e19, 1e30, 2.3e38),
}


def numbers(dtype: str) -> np.ndarray:
    parts = sorted({sign * size for size in SIZES[dtype] for sign in (1, -1)})
    return np.array([complex(*pair) for pair in product(parts, parts)], dtype)


@pytest.mark.parametrize("dtype", SIZES)
@pytest.mark.parametrize("name", NAMES)
def test_functions_of_huge_numbers(name: str, dtype: str) -> None:
    given, function = numbers(dtype), getattr(np, name)
    with np.errstate(all="ignore"):
        expected = function(given.astype(np.complex128)) if dtype == "complex64" else function(given)
        rounded = expected.astype(function(given).dtype)
    z = sj.tensor(("n",), dtype)
    found = sj.function([z], getattr(sj, name)(z), mode="reference")(given)
    finite = np.isfinite(rounded)
    assert np.isfinite(found[finite]).all()
    least = 1e-15 if name == "log1p" else np.finfo(dtype).tiny * 8  # NumPy loses small numbers behind 1
    tolerance = 2e-6 if dtype == "complex64" else 1e-13
    np.testing.assert_allclose(found[finite], expected[finite], rtol=tolerance, atol=least)


@pytest.mark.parametrize("dtype", SIZES)
def test_quotients_of_huge_numbers(dtype: str) -> None:
    given = numbers(dtype)
    a, b = np.repeat(given, given.size), np.tile(given, given.size)
    x, y = sj.tensor(("n",), dtype), sj.tensor(("n",), dtype)
    with np.errstate(all="ignore"):
        expected = a / b
    found, finite = sj.function([x, y], x / y, mode="reference")(a, b), np.isfinite(expected)
    np.testing.assert_allclose(found[finite], expected[finite], rtol=1e-5 if dtype == "complex64" else 1e-14)


@pytest.mark.parametrize(("dtype", "least"), [("complex128", 5e-324), ("complex64", 1.4e-45)])
def test_roots_of_the_smallest_numbers(dtype: str, least: float) -> None:
    parts = (0.0, least, -least, 3 * least, -5 * least)
    given = np.array([complex(*pair) for pair in product(parts, parts)], dtype)
    z = sj.tensor(("n",), dtype)
    found = sj.function([z], sj.sqrt(z), mode="reference")(given)
    assert found.dtype == dtype
    np.testing.assert_allclose(abs(found), np.sqrt(abs(given)), rtol=0.3)  # `abs` of these is a multiple of `least`
    np.testing.assert_allclose(np.angle(found), np.angle(given) / 2, atol=0.2)


def test_angles_of_infinite_and_huge_parts() -> None:
    given = np.array([complex(x, y) for x in (np.inf, -np.inf) for y in (0.0, -0.0, 1.0, 1.7e308, -1.7e308)])
    z = sj.tensor(("n",), "complex128")
    found = sj.function([z], sj.arctanh(z), mode="reference")(given)
    np.testing.assert_allclose(found.imag, np.arctanh(given).imag)

"""`expm`, `matrix_power`, `logdet`, `cho_solve`: made of other ops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import scanjit as sj
from tests.linalg.support import MODES, regular, spd

RNG = np.random.default_rng(0)


def by_series(a: np.ndarray) -> np.ndarray:
    """The exponential by its series, after so many halvings that the norm is below 1."""
    count = max(int(np.ceil(np.log2(max(np.abs(a).sum(0).max(), 1e-300)))), 0) if a.size else 0
    term = result = np.eye(len(a), dtype=np.longdouble)
    for k in range(1, 30):
        term = term @ (a.astype(np.longdouble) / 2.0**count) / k
        result = result + term
    for _ in range(count):
        result = result @ result
    return np.asarray(result, "float64")


@pytest.mark.quick(3)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("n", [0, 1, 3, 9])
def test_exponentials(mode: str, n: int) -> None:
    given = RNG.normal(size=(3, n, n)) * np.array([0.1, 1.0, 10.0]).reshape(3, 1, 1)
    for shape in (("B", n, n), ("B", "n", "n")):
        a = sj.tensor(shape)
        f = sj.function([a], sj.expm(a), mode=mode)
        for row, expected in zip(f(given), map(by_series, given), strict=True):
            np.testing.assert_allclose(row, expected, rtol=1e-11, atol=1e-11 * np.abs(expected).max(initial=0))


def test_exponentials_compiled() -> None:
    a = sj.matrix("a")
    f = sj.function([a], sj.expm(a))
    for n in (1, 4, 30):
        value = RNG.normal(size=(n, n))
        np.testing.assert_allclose(f(value), by_series(value), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(f(np.diag([-1e12, 0.0])), np.diag([0.0, 1.0]), atol=1e-3)
    for bad in (np.nan, np.inf, 1e300):
        assert np.isnan(f(np.full((2, 2), bad))).all()
    b = sj.tensor(("n", "n"), dtype="float32")
    small = sj.function([b], sj.expm(b), mode="reference")(value.astype("float32"))
    assert small.dtype == "float32"
    np.testing.assert_allclose(small, by_series(value), rtol=1e-2, atol=1e-2 * np.abs(by_series(value)).max())


POWERS: dict[str, Any] = {
    "expm": (sj.expm, 2.0 * regular(RNG, 2)),
    "matrix_power": (lambda a: sj.matrix_power(a, 5), regular(RNG, 3)),
    "a negative power": (lambda a: sj.matrix_power(a, -2), regular(RNG, 3)),
    "logdet": (sj.logdet, spd(RNG, 3)),
    "cho_solve": (lambda a: sj.cho_solve((sj.cholesky(a), True), a[0]), spd(RNG, 3)),
}


@pytest.mark.parametrize("name", POWERS)
def test_derivatives(name: str) -> None:
    fn, value = POWERS[name]
    sj.check_grad(fn, (value,), order=2, tolerance=1e-5)


@pytest.mark.parametrize("mode", MODES)
def test_in_vmap_and_in_steps(mode: str) -> None:
    x = sj.tensor(("T", 3, 3))
    given = np.stack([spd(RNG, 3) for _ in range(4)])
    for fn, _ in POWERS.values():
        one = sj.tensor((3, 3))
        single = sj.function([one], fn(one), mode="reference")
        expected = np.stack([single(value) for value in given])
        both = sj.function([x], [sj.vmap(fn)(x), sj.map(fn, x)], mode=mode)(given)
        for found in both:
            np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


def test_powers_as_in_numpy() -> None:
    for dtype in ("int64", "int32", "float32", "float64"):
        value = np.array([[1, 2], [0, 3]], dtype)
        a = sj.tensor((2, 2), dtype=dtype)
        for n in (0, 1, 2, 3, 7, -1, -3):
            got = sj.function([a], np.linalg.matrix_power(a, n), mode="reference")(value)
            expected = np.linalg.matrix_power(value, n)
            assert got.dtype == expected.dtype
            np.testing.assert_allclose(got, expected, rtol=1e-6)
    with pytest.raises(sj.ArgumentError, match="exponent of matrix_power"):
        sj.matrix_power(a, 0.5)  # type: ignore[arg-type]
    for call in (sj.expm, sj.logdet, lambda x: sj.matrix_power(x, 2)):
        with pytest.raises(sj.ShapeError, match=r"\(2, 3\)"):
            call(sj.tensor((2, 3)))


def test_logarithms_and_solutions() -> None:
    a, b = sj.tensor(("B", "n", "n")), sj.vector()
    given = np.stack([np.diag([2.0, 3.0]), np.diag([-2.0, 3.0]), np.zeros((2, 2))])
    found = sj.function([a], sj.logdet(a), mode="reference")(given)
    np.testing.assert_allclose(found, [np.log(6), np.nan, -np.inf])
    value, side = spd(RNG, 4), RNG.normal(size=4)
    for lower in (True, False):
        c = sj.cholesky(a[0], upper=not lower)
        x = sj.function([a, b], sj.cho_solve((c, lower), b), mode="reference")(value[None], side)
        np.testing.assert_allclose(x, np.linalg.solve(value, side), rtol=1e-10)


@pytest.mark.parametrize("n", [0, 1, 2, -1])
def test_powers_are_of_square_matrices(n: int) -> None:
    """The power 0 reads no entry, but the shape is checked."""
    with pytest.raises(sj.ShapeError, match="matrix_power"):
        sj.matrix_power(sj.tensor((3, 2)), n)
    a = sj.matrix("a")
    for mode in MODES:
        with pytest.raises(sj.ShapeError, match=r"matrix_power has another shape"):
            sj.function([a], sj.matrix_power(a, n), mode=mode)(np.ones((3, 2)))


@pytest.mark.parametrize("mode", MODES)
def test_singular_matrices_have_an_infinite_condition(mode: Any) -> None:
    a = sj.matrix("a")
    f = sj.function([a], [sj.cond(a, p) for p in (None, 2, -2, 1, -1, np.inf, -np.inf, "fro")], mode=mode)
    for given in (np.zeros((2, 2)), np.array([[1.0, 2.0], [2.0, 4.0]]), np.eye(2), np.array([[1, np.nan], [2, 1]])):
        bad = np.isnan(given).any()  # NumPy 2.4 raises for these, if singular values are asked for
        wanted = [np.nan if bad else np.linalg.cond(given, p) for p in (None, 2, -2, 1, -1, np.inf, -np.inf, "fro")]
        big = [np.where(np.abs(x) > 1e12, np.inf, x) for x in (f(given), wanted)]
        np.testing.assert_allclose(*big, rtol=1e-9, atol=1e-15)

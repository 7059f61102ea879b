"""Solutions, inverses, factors, determinants against NumPy: of small, large, ill-conditioned, singular matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import scanjit as sj
from tests.linalg.support import MODES, everything, in_numpy, regular, spd

TOLERANCE = {"float64": 1e-9, "float32": 1e-3}


def agree(got: Any, expected: Any, dtype: str) -> None:
    """All results, to a tolerance that their condition allows."""
    for g, e in zip(got, expected, strict=True):
        assert g.dtype == dtype and g.shape == np.shape(e)
        np.testing.assert_allclose(g, e, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


@pytest.mark.parametrize(
    "mode, dtype", [(mode, dtype) for mode in MODES for dtype in TOLERANCE] + [("numba", "float64")]
)
def test_any_size(mode: str, dtype: str, rng: np.random.Generator) -> None:
    """One function for all sizes, through LAPACK; a batch of none too."""
    a, b = sj.tensor(("B", "n", "n"), dtype), sj.tensor(("B", "n", "k"), dtype)
    f = sj.function([a, b], everything(a, b), mode=mode)
    for n in (*range(10), 17, 40) if mode != "emulate" else (0, 1, 2, 9):
        for batch in (0, 2) if n in (0, 3) else (2,):
            given = regular(rng, batch, n).astype(dtype), rng.normal(size=(batch, n, 3)).astype(dtype)
            agree(f(*given), in_numpy(*given), dtype)


def test_floats_of_32_bits_compiled(rng: np.random.Generator) -> None:
    a, b = sj.tensor(("n", "n"), "float32"), sj.tensor(("n", "k"), "float32")
    f = sj.function([a, b], [sj.solve(a, b), sj.cholesky(a @ a.T)])
    for n in (1, 2, 9, 40):
        left, right = regular(rng, n).astype("float32"), rng.normal(size=(n, 3)).astype("float32")
        agree(f(left, right), [np.linalg.solve(left, right), np.linalg.cholesky(left @ left.T)], "float32")


@pytest.mark.parametrize("n", (0, 1, 2, 3, 5))
def test_known_sizes(n: int) -> None:
    """Straight-line code; with one right side, many, and none."""
    rng = np.random.default_rng(n)
    for columns in (1, 9, 0) if n < 3 else (1,):
        given = regular(rng, 5, n), rng.normal(size=(5, n, columns))
        a, b = sj.tensor(("B", n, n)), sj.tensor(("B", n, columns))
        agree(sj.function([a, b], everything(a, b), mode="emulate")(*given), in_numpy(*given), "float64")


def test_the_largest_of_known_size() -> None:
    value, side = regular(np.random.default_rng(0), 8), np.random.default_rng(0).normal(size=(8, 4))
    a, b = sj.tensor((8, 8)), sj.tensor((8, 4))
    f = sj.function([a, b], [sj.solve(a, b), sj.cholesky(a @ a.T)], mode="emulate")
    x, factor = f(value, side)
    np.testing.assert_allclose(x, np.linalg.solve(value, side), rtol=1e-11)
    np.testing.assert_allclose(factor, np.linalg.cholesky(value @ value.T), rtol=1e-11, atol=1e-12)


def test_known_sizes_compiled(rng: np.random.Generator) -> None:
    given = regular(rng, 19, 3).astype("float32"), rng.normal(size=(19, 3, 1)).astype("float32")
    a, b = sj.tensor(("B", 3, 3), "float32"), sj.tensor(("B", 3, 1), "float32")
    f = sj.function([a, b], everything(a, b))
    assert "potrf" not in f.source and "trsm" not in f.source
    agree(f(*given), in_numpy(*given), "float32")


@given(st.integers(0, 2**32), st.integers(1, 10), st.integers(1, 3), st.booleans())
@settings(max_examples=15)
def test_random_matrices(seed: int, n: int, k: int, known: bool) -> None:
    """What a solution leaves over is as small as rounding makes it, whatever the matrix."""
    rng = np.random.default_rng(seed)
    left, right = rng.normal(size=(n, n)) * 10.0 ** rng.integers(-3, 4, size=n), rng.normal(size=(n, k))
    a, b = sj.tensor((n, n) if known else ("n", "n")), sj.tensor((n, k))
    x = sj.function([a, b], sj.solve(a, b), mode="emulate")(left, right)
    assert backward_error(left, x, right) < 1e-13


def backward_error(a: np.ndarray, x: np.ndarray, b: np.ndarray) -> float:
    """How far a has to be changed, relatively, for x to be exact."""
    scale = np.linalg.norm(a, axis=(-2, -1)) * np.linalg.norm(x, axis=(-2, -1)) + np.linalg.norm(b, axis=(-2, -1))
    return float(np.max(np.linalg.norm(a @ x - b, axis=(-2, -1)) / scale))


def ill_conditioned(n: int) -> np.ndarray:
    """Permutations (with zeros for first pivots), a condition of 1e8, Hilbert's matrix."""
    rng = np.random.default_rng(n)
    (q, _), (r, _) = (np.linalg.qr(rng.normal(size=(n, n))) for _ in range(2))
    hilbert = 1 / (np.arange(n) + np.arange(n)[:, None] + 1)
    swapped = np.eye(n)[::-1] + 1e-20 * np.eye(n)
    return np.stack([np.eye(n)[::-1], np.eye(n)[rng.permutation(n)], q * np.logspace(0, -8, n) @ r, hilbert, swapped])


@pytest.mark.parametrize("n", [2, 3, 7, 10])
def test_ill_conditioned_matrices(n: int) -> None:
    matrices = ill_conditioned(n)
    sides = np.random.default_rng(0).normal(size=(len(matrices), n, 2))
    a, b = sj.tensor(("B", n, n)), sj.tensor(("B", n, 2))
    outputs = [sj.solve(a, b), sj.det(a), *sj.slogdet(a)]
    x, det, sign, logabsdet = sj.function([a, b], outputs, mode="emulate")(matrices, sides)
    assert backward_error(matrices, x, sides) < 1e-14
    expected = np.linalg.slogdet(matrices)
    np.testing.assert_array_equal(sign, expected.sign)
    np.testing.assert_allclose(logabsdet, expected.logabsdet, rtol=1e-5, atol=1e-12)
    np.testing.assert_allclose(det, np.linalg.det(matrices), rtol=1e-5, atol=1e-30)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("n", [1, 3, 9, None])
def test_matrices_without_an_inverse(n: int | None, mode: str) -> None:
    """NaN for the matrix that is concerned, and for no other; its determinant is 0."""
    size, rng = n or 6, np.random.default_rng(0)
    matrices = spd(rng, 3, size)
    matrices[1, :, size // 2] = 0
    matrices[1, size // 2] = 0
    sides = rng.normal(size=(3, size, 2))
    a, b = sj.tensor(("B", *[n or "n"] * 2)), sj.tensor(("B", n or "n", 2))
    outputs = [*everything(a, b), sj.cholesky(-a)]
    x, inverse, det, sign, logabsdet, factor, lower, unit, none = sj.function([a, b], outputs, mode=mode)(
        matrices, sides
    )
    for found, expected in ((x, np.linalg.solve), (inverse, lambda m, _: np.linalg.inv(m))):
        assert np.isnan(found[1]).all()
        np.testing.assert_allclose(found[::2], expected(matrices[::2], sides[::2]), rtol=1e-10)
    assert det[1] == 0 and sign[1] == 0 and logabsdet[1] == -np.inf
    triangle = np.tril(np.ones((size, size), bool))
    assert np.isnan(factor[1][triangle]).all() and (factor[1][~triangle] == 0).all()
    assert np.isnan(lower[1]).all() and not np.isnan(lower[::2]).any() and not np.isnan(unit).any()
    assert np.isnan(none[:, triangle]).all()


def test_the_same_without_an_inverse_compiled() -> None:
    """LAPACK leaves something else behind than the emulation does."""
    matrices = np.stack([np.ones((10, 10)), 2 * np.eye(10), np.diag(np.arange(10.0))])
    a = sj.tensor(("B", "n", "n"))
    inverse, factor, sign = sj.function([a], [sj.inv(a), sj.cholesky(a), sj.slogdet(a).sign])(matrices)
    assert [np.isnan(m).all() for m in inverse] == [True, False, True]
    assert [np.isnan(np.diagonal(m)).all() for m in factor] == [True, False, True]
    np.testing.assert_array_equal(sign, [0, 1, 0])


def test_vectors_and_batches_as_in_numpy(rng: np.random.Generator) -> None:
    for a, b in (
        ((3, 3), (3,)),
        ((2, 3, 3), (3,)),
        ((2, 3, 3), (3, 2)),
        ((3, 3), (2, 3, 1)),
        ((4, 1, 2, 2), (3, 2, 2)),
    ):
        left, right = regular(rng, *a[:-1]), rng.normal(size=b)
        x, y = sj.tensor(a), sj.tensor(b)
        got = sj.function([x, y], [np.linalg.solve(x, y), sj.solve_triangular(x, y)], mode="emulate")(left, right)
        np.testing.assert_allclose(got[0], np.linalg.solve(left, right), rtol=1e-12, atol=1e-13)
        np.testing.assert_allclose(got[1], np.linalg.solve(np.tril(left), right), rtol=1e-11)


@pytest.mark.parametrize(
    "shape, side", [(("n", 3), ("n", 2)), ((3, "n"), ("m", 2)), ((9, "n"), ("m", 2)), (("m", 9), ("n", 2))]
)
def test_sizes_that_one_axis_alone_says(shape: tuple[Any, ...], side: tuple[Any, ...]) -> None:
    a, b = sj.tensor(shape), sj.tensor(side)
    n = next(size for size in shape if isinstance(size, int))
    given = regular(np.random.default_rng(0), n), np.random.default_rng(0).normal(size=(n, 2))
    agree(sj.function([a, b], everything(a, b), mode="emulate")(*given), in_numpy(*given), "float64")


def test_numpy_functions_on_symbols() -> None:
    x = sj.matrix("x")
    assert np.linalg.inv(x) is sj.inv(x) and np.linalg.det(x) is sj.det(x)
    assert np.linalg.cholesky(x) is sj.cholesky(x)
    assert np.linalg.slogdet(x).logabsdet is sj.slogdet(x)[1]
    assert sj.solve(sj.imatrix(), sj.ivector()).dtype == "float64"
    value = spd(np.random.default_rng(0), 3)
    upper = sj.function([x], sj.cholesky(x, upper=True), mode="reference")(value)
    np.testing.assert_allclose(upper, np.linalg.cholesky(value).T)


def test_wrong_shapes() -> None:
    with pytest.raises(sj.ShapeError, match=r"(?s)matrix of inv.*\(2, 3\).*\(2, 2\)"):
        sj.inv(sj.tensor((2, 3)))
    with pytest.raises(sj.ShapeError, match=r"(?s)solve with matrices \(3, 3\).*\(4,\).*\(3,\)"):
        sj.solve(sj.tensor((3, 3)), sj.tensor((4,)))
    with pytest.raises(sj.ShapeError, match=r"(?s)\(2, 3, 3\).*\(2, 4, 1\)"):
        sj.solve(sj.tensor((2, 3, 3)), sj.tensor((2, 4, 1)))
    with pytest.raises(sj.ShapeError, match="takes matrices"):
        sj.det(sj.vector())
    with pytest.raises(sj.ShapeError, match="a vector or matrices"):
        sj.solve(sj.matrix(), sj.scalar())
    a, b = sj.matrix("a"), sj.vector("b")
    f = sj.function([a, b], sj.solve(a, b), mode="reference")
    with pytest.raises(sj.ShapeError, match=r"(?s)\(2, 3\).*\(2, 2\)"):
        f(np.ones((2, 3)), np.ones(2))
    with pytest.raises(sj.ShapeError, match=r"(?s)\(4, 1\).*\(3, 1\)"):
        f(np.eye(3), np.ones(4))

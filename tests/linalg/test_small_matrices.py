"""`eigh`, `qr`, `svd` of many matrices of small known sizes, which are decomposed side by side in lanes."""

from __future__ import annotations

import itertools
from functools import partial
from typing import Any

import numpy as np
import pytest

import scanjit as sj
from tests.compare import all_close
from tests.linalg.support import MODES, everything, in_numpy, regular
from tests.pairs import pairwise

RNG = np.random.default_rng(3)
TOLERANCE = {"float32": 3e-6, "float64": 3e-15}
"""Of the norm of a matrix."""


def hard_matrices(m: int, n: int) -> np.ndarray:
    """Random, zero, equal values, low rank, graded, huge, tiny, with zeros in places."""
    found = [RNG.normal(size=(m, n)) for _ in range(5)]
    found += [np.zeros((m, n)), np.ones((m, n)), np.eye(m, n), 3 * np.eye(m, n)[::-1], -np.eye(m, n)]
    found += [np.outer(RNG.normal(size=m), RNG.normal(size=n)), found[0] * 1e30, found[1] * 1e-30]
    found += [found[2] * 10.0 ** -np.arange(n), found[3] * 10.0 ** -np.arange(m)[:, None], np.tri(m, n), found[4] // 1]
    found += [np.eye(m, n) + 1e-9 * found[0], np.outer(np.arange(m), np.arange(n)) + 1e-12 * found[1]]
    return np.stack(found)


def of_all(a: Any, symmetric: bool) -> list[Any]:
    outputs = [*sj.qr(a), *sj.svd(a)]
    return [*outputs, *sj.eigh(a)] if symmetric else outputs


@pytest.mark.quick(5)
@pairwise(shape=[(3, 3), (2, 5), (6, 4), (8, 8), (1, 3), (9, 14)], dtype=["float32", "float64"], mode=MODES)
def test_factors(shape: tuple[int, int], dtype: str, mode: Any) -> None:
    given = hard_matrices(*shape).astype(dtype)
    square = shape[0] == shape[1]
    if square:
        given = (given + np.swapaxes(given, -1, -2)) / 2
    a = sj.tensor(("B", *shape), dtype)
    q, r, u, s, v, *rest = sj.function([a], of_all(a, square), mode=mode)(given)
    wide = [x.astype("float64") for x in (given, q, r, u, s, v, *rest)]
    given, q, r, u, s, v, *rest = wide
    norms = np.maximum(abs(given).max((-1, -2)), 1e-300)
    close, count = TOLERANCE[dtype] * max(shape), min(shape)

    def same(x: np.ndarray, y: np.ndarray) -> None:
        assert (abs(x - y).max((-1, -2)) <= close * norms).all()

    def orthonormal(x: np.ndarray) -> None:
        np.testing.assert_allclose(
            np.swapaxes(x, -1, -2) @ x, np.broadcast_to(np.eye(count), (len(x), count, count)), atol=close
        )

    same(q @ r, given)
    orthonormal(q)
    assert (np.tril(r, -1) == 0).all()
    same(r, np.linalg.qr(given).R)
    same((u * s[:, None]) @ v, given)
    orthonormal(u)
    orthonormal(np.swapaxes(v, -1, -2))
    same(s[:, None], np.linalg.svd(given, compute_uv=False)[:, None])
    assert (s >= 0).all() and (np.diff(s) <= 0).all()
    if square:
        w, vectors = rest
        same((vectors * w[:, None]) @ np.swapaxes(vectors, -1, -2), given)
        orthonormal(vectors)
        same(w[:, None], np.linalg.eigvalsh(given)[:, None])
        assert (np.diff(w) >= 0).all()


@pytest.mark.slow
def test_signs_do_not_depend_on_who_computes() -> None:
    """LAPACK where the size is not known, lanes where it is, and the reference interpreter."""
    for n in (2, 3, 5, 8):
        given = RNG.normal(size=(3, n, n))
        known, unknown = sj.tensor(("B", n, n)), sj.tensor(("B", "n", "n"))
        expected = sj.function([known], of_all(known, True), mode="reference")(given)
        modes: list[Any] = ["emulate", "numba"]
        for a, mode in itertools.product((known, unknown), modes):
            all_close(sj.function([a], of_all(a, True), mode=mode)(given), expected, atol=1e-11)


def test_values_far_apart_are_exact() -> None:
    """Values of a graded matrix are right to the last digits, not only beside the largest one."""
    scale = 10.0 ** -np.arange(0, 24, 4)
    turned = np.linalg.qr(RNG.normal(size=(6, 6))).Q
    given = turned * scale  # columns that are orthogonal, of very different lengths
    a = sj.tensor((6, 6))
    np.testing.assert_allclose(sj.function([a], sj.svdvals(a), mode="emulate")(given), scale, rtol=1e-12, atol=1e-13)
    r = sj.function([a], abs(sj.qr(a)[1]), mode="emulate")(given * 1e-180)
    np.testing.assert_allclose(np.diagonal(r), scale * 1e-180, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("mode", MODES)
def test_numbers_that_are_not_finite(mode: Any) -> None:
    given = RNG.normal(size=(5, 3, 3))
    given[1, 0, 2], given[3, 2, 2] = np.nan, -np.inf
    a = sj.tensor(("B", 3, 3))
    for x, y in zip(sj.function([a], of_all(a, True), mode=mode)(given), of_all(given, True), strict=True):
        assert np.isnan(x[[1, 3]]).all()
        np.testing.assert_allclose(x[::2], sj.function([], y[::2], mode="reference")(), atol=1e-12)


def test_large_batches_views_and_threads() -> None:
    """10,007 matrices, read through a transposed view, and by two threads: the same bits as one by one."""
    given = RNG.normal(size=(10_007, 3, 3))
    a = sj.tensor(("B", 3, 3))
    results = []
    for sj.config.threads in (1, 2):
        results.append(sj.function([a], of_all(a, True))(given))
    alone, together = results
    for x, y in zip(alone, together, strict=True):
        assert np.array_equal(x, y)
    few = sj.function([a], of_all(a, True))(given[5:8])
    for x, y in zip(alone, few, strict=True):
        assert np.array_equal(x[5:8], y)
    turned = sj.function([a], sj.svdvals(sj.swapaxes(a[::-1], 1, 2)))(given)
    np.testing.assert_allclose(turned, alone[3][::-1], rtol=1e-11)


def test_pinv_of_small_matrices() -> None:
    for m, n in ((3, 3), (5, 2), (2, 6)):
        given = hard_matrices(m, n)[:12]
        a = sj.tensor(("B", m, n))
        np.testing.assert_allclose(
            sj.function([a], sj.pinv(a), mode="emulate")(given), np.linalg.pinv(given), rtol=1e-9, atol=1e-9
        )


def test_no_call_of_lapack() -> None:
    for n, called in ((4, False), (16, False), (17, True)):
        a = sj.tensor(("B", n, n))
        assert ("syevd" in sj.function([a], list(sj.eigh(a)), mode="emulate").source) == called


SQUARE = {
    "eigh": lambda a: sj.eigh(a)[0],
    "cholesky": sj.cholesky,
    "inv": sj.inv,
    "det": sj.det,
    "slogdet": lambda a: sj.slogdet(a)[1],
    "expm": sj.expm,
    "matrix_power": lambda a: sj.matrix_power(a, 3),
    "solve": lambda a: sj.solve(a, a),
    "solve_triangular": lambda a: sj.solve_triangular(a, a),
}


@pytest.mark.parametrize("name", SQUARE)
def test_matrices_that_are_not_square_when_called(name: str) -> None:
    for a in (sj.matrix("a"), sj.tensor(("B", "m", "n"), "complex128" if name == "det" else "float64")):
        f = sj.function([a], SQUARE[name](a), mode="reference")
        with pytest.raises(sj.ShapeError, match=rf"(?s)the matrix of {name} has another shape.*3, 4\).*3, 3\)"):
            f(np.ones((2, 3, 4)[3 - a.ndim :]))


def test_other_wrong_input() -> None:
    a, b = sj.matrix("a"), sj.vector("b")
    with pytest.raises(sj.ArgumentError, match=r"(?s)whether it is the lower one.*sj\.cholesky\(a\), True"):
        sj.cho_solve(a, b)  # type: ignore[arg-type]
    with pytest.raises(sj.ShapeError, match=r"(?s)the right side of lstsq.*\(4, 1\).*\(3, 1\)"):
        sj.function([a, b], sj.lstsq(a, b)[0], mode="reference")(np.ones((3, 2)), np.ones(4))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(3, 3), (2, 5), (8, 6), (5, 5), (16, 16), (9, 14), (17, 12)])
def test_values_alone(shape: tuple[int, int], dtype: str) -> None:
    """They are the same bits as beside vectors, if lanes compute them. LAPACK has another routine."""
    given = hard_matrices(*shape).astype(dtype)
    a = sj.tensor(("B", *shape), dtype)
    pairs = [(sj.svdvals(a), sj.svd(a).U, sj.svd(a).S)]
    if shape[0] == shape[1]:
        given = given + np.swapaxes(given, -1, -2)
        pairs.append((sj.eigvalsh(a), sj.eigh(a).eigenvectors, sj.eigh(a).eigenvalues))
    given[2, 0, 1] = np.nan
    for alone, vectors, beside in pairs:
        f, g = sj.function([a], alone), sj.function([a], [beside, vectors])
        values, (expected, _) = f(given), g(given)
        assert np.isnan(values[2]).all() and np.isfinite(values[3:]).all()
        if max(shape) <= 16:
            np.testing.assert_array_equal(values, expected)
        else:
            norms = np.nanmax(abs(given), (-1, -2))[:, None]
            assert np.nanmax(abs(values - expected) - TOLERANCE[dtype] * max(shape) * norms) <= 0
        assert "total < 0.0" in g.source and "total < 0.0" not in f.source  # the signs of vectors
        np.testing.assert_allclose(sj.function([a], alone, mode="emulate")(given[:3]), values[:3], rtol=1e-4)


def test_steps_compute_vectors_of_large_matrices() -> None:
    """So that the steps of a loop and those that its gradient runs again compute the same bits."""
    x, start = sj.tensor(("T", 20, 20)), sj.vector("start")
    total = sj.scan(lambda x, s: s * 0.5 + sj.svdvals(x), x, start)[-1].sum()
    assert "gesdd_f64(1" in sj.function([x, start], total).source
    assert "gesdd_f64(0" in sj.function([x], sj.svdvals(x)).source


@pytest.mark.parametrize("mode", ["emulate", "numba"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_batches_whose_matrices_turn_out_to_be_small(dtype: str, mode: Any) -> None:
    """Lanes compute matrices of up to 8 rows, and up to 16 rows of at least 4 matrices: each has the same bits wherever
    it lies in a batch."""
    a, b = sj.tensor(("B", "C", "n", "n"), dtype), sj.tensor(("B", "C", "n", "k"), dtype)
    f = sj.function([a, b], everything(a, b), mode=mode)
    assert "stack(" in f.source
    notes = [note for note in str(f.explain()).splitlines() if "LAPACK" in note]
    assert notes and all(note.endswith("side by side in lanes, without LAPACK") for note in notes)
    assert "side by side" not in str(sj.function([a], sj.cholesky(a[0, 0]), mode=mode).explain())  # a single matrix
    cases = ((2, 9), 3, 2), ((1, 1), 1, 1), ((5, 1), 8, 3), ((1, 17), 5, 9), ((3, 2), 9, 1), ((0, 3), 4, 2)
    cases = *cases, ((3, 5), 16, 2), ((1, 3), 13, 2), ((2, 2), 17, 1)
    for batch, n, k in cases:
        given = regular(RNG, *batch, n).astype(dtype), RNG.normal(size=(*batch, n, k)).astype(dtype)
        found = f(*given)
        all_close(found, in_numpy(*given), *((1e-3, 1e-4) if dtype == "float32" else (1e-9, 1e-10)))
        rows, columns = (1, 1) if max(n, k) <= 8 else (2, 4)
        for x, y in zip(found, f(*(part[-rows:, -columns:] for part in given)), strict=True):
            np.testing.assert_array_equal(x[-rows:, -columns:], y)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_few_matrices_of_more_than_eight_rows(dtype: str) -> None:
    """LAPACK computes them."""
    for count, n in ((1, 9), (3, 13), (3, 12), (4, 16), (1, 8)):
        a = sj.tensor((count, n, n), dtype)
        f = sj.function([a], [*sj.eigh(a), sj.cholesky(a)])
        assert ("syevd" in f.source) == (n > max(8, 4 * count))
        given = regular(RNG, count, n).astype(dtype)
        given = given @ np.swapaxes(given, 1, 2)
        values, vectors, factor = f(given)
        close = partial(np.testing.assert_allclose, rtol=0, atol=(1e-5 if dtype == "float32" else 1e-13) * given.max())
        close(values, np.linalg.eigvalsh(given.astype(float)))
        close((vectors * values[:, None]) @ np.swapaxes(vectors, 1, 2), given)
        close(factor @ np.swapaxes(factor, 1, 2), given)


@pytest.mark.parametrize("mode", MODES)
def test_small_matrices_without_factors_in_batches(mode: Any) -> None:
    """Their results alone are NaN."""
    a = sj.tensor(("B", "n", "n"))
    outputs = [sj.inv(a), sj.cholesky(a), sj.solve_triangular(a, a), sj.det(a)]
    f = sj.function([a], outputs, mode=mode)
    given = np.stack([2 * np.eye(3), np.zeros((3, 3)), np.eye(3), -np.eye(3), np.full((3, 3), np.nan)])
    inverse, factor, solved, det = f(given)
    np.testing.assert_array_equal(np.isnan(inverse).all((1, 2)), [False, True, False, False, True])
    np.testing.assert_array_equal(np.isnan(np.diagonal(factor, 0, 1, 2)).all(1), [False, True, False, True, True])
    np.testing.assert_array_equal(np.triu(factor, 1), np.zeros((5, 3, 3)))
    np.testing.assert_array_equal(np.isnan(solved).all((1, 2)), [False, True, False, False, True])
    np.testing.assert_allclose(det[:4], [8, 0, 1, -1])

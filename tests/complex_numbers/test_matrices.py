"""Determinants and Cholesky factors of complex matrices beside NumPy's and PyTorch's, with derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import scanjit as sj
from scanjit.ir import Node
from tests.compare import all_close
from tests.complex_numbers.support import DTYPES_AND_MODES, sampled, slope


def everything(a: Any, library: Any = sj) -> list[Any]:
    """All functions, in scanjit or `numpy.linalg`."""
    one = (sj if library is sj else np).eye(a.shape[-1], dtype="float32")
    square = a @ np.conj(np.swapaxes(a, -1, -2)) + 0.5 * one
    return [library.det(a), *library.slogdet(a), library.cholesky(square), library.cholesky(square, upper=True)]


@pytest.mark.quick(2)
@DTYPES_AND_MODES
def test_values(mode: str, dtype: str, close: float, rng: np.random.Generator) -> None:
    for shape in ((2, 2), (2, 3, 3), (4, 4), (1, 1), (2, 5, 5), (9, 9)):
        a = sampled(rng, shape, dtype)
        for dims in (shape, (*shape[:-2], "n", "n")):
            x = sj.tensor(dims, dtype)
            found = sj.function([x], everything(x), mode=mode)(a)
            all_close(found, everything(a, np.linalg), close, close)


@pytest.mark.slow
def test_compiled_with_large_and_singular_matrices(rng: np.random.Generator) -> None:
    x = sj.tensor(("b", "n", "n"), "complex128")
    f = sj.function([x], [*everything(x), sj.logdet(x)])
    for n in (3, 40, 300):
        a = sampled(rng, (2, n, n)) / n**0.5
        all_close(f(a)[:5], everything(a, np.linalg), 1e-8, 1e-9)
    a[1, 2] = 0
    det, sign, log, *_ = f(a)
    assert det[1] == 0 and sign[1] == 0 and log[1] == -np.inf and abs(abs(sign[0]) - 1) < 1e-12
    negative = np.array([[[1, 2j], [-2j, 1]]])  # Hermitian, not positive definite
    y = sj.tensor((1, 2, 2), "complex128")
    assert np.isnan(sj.function([y], sj.cholesky(y), mode="reference")(negative)[0, 1, 1])


def costs(a: Any, w: np.ndarray) -> list[Any]:
    """Real costs that depend on all that is computed."""
    sign, log = np.linalg.slogdet(a) if not isinstance(a, Node) else sj.slogdet(a)
    det = (np.linalg if not isinstance(a, Node) else sj).det(a)
    square = a @ np.conj(np.swapaxes(a, -1, -2)) + 0.5 * np.eye(a.shape[-1])
    factor = (np.linalg if not isinstance(a, Node) else sj).cholesky(square)
    return [abs(det) ** 2 + np.real(det * w[0, 0]), log, np.real(sign * w[0, 1]), np.real(factor * w).sum()]


@pytest.mark.parametrize("n", [2, 4])
def test_derivatives(n: int, rng: np.random.Generator) -> None:
    a, w = sampled(rng, (n, n)), sampled(rng, (n, n))
    x = sj.tensor((n, n), "complex128")
    found = sj.function([x], [sj.grad(cost, x) for cost in costs(x, w)], mode="reference")(a)
    for i, slopes in enumerate(found):
        np.testing.assert_allclose(slopes, slope(lambda z, i=i: costs(z, w)[i], a), 1e-5, 1e-6)
    if n == 4:
        sj.check_grad(lambda a: costs(a, w)[:3], a, order=2)
    many = sj.tensor((3, n, n), "complex128")
    each = sj.vmap(lambda a: sj.grad(costs(a, w)[2], a))(many)
    np.testing.assert_allclose(sj.function([many], each, mode="reference")(np.stack([a] * 3))[1], found[2], 1e-9)


def test_beside_torch(rng: np.random.Generator) -> None:
    torch = pytest.importorskip("torch")
    a = sampled(rng, (4, 4))
    z = torch.tensor(a, requires_grad=True)
    sign, log = torch.linalg.slogdet(z)
    cost = log + (sign * (1 + 2j)).real + (torch.linalg.det(z) * (2 - 1j)).real
    square = z @ z.mH + torch.eye(4)
    (cost + (torch.linalg.cholesky(square) * (1 - 3j)).real.sum()).backward()
    x = sj.tensor((4, 4), "complex128")
    sign, log = sj.slogdet(x)
    mine = log + sj.real(sign * (1 + 2j)) + sj.real(sj.det(x) * (2 - 1j))
    mine = mine + sj.real(sj.cholesky(x @ sj.conj(x.T) + np.eye(4)) * (1 - 3j)).sum()
    found = sj.function([x], sj.grad(mine, x), mode="reference")(a)
    np.testing.assert_allclose(found, z.grad.numpy(), 1e-9, 1e-9)


@pytest.mark.quick(1)
@pytest.mark.parametrize("mode", ["reference", "numba"])
def test_powers_and_exponentials(mode: str, rng: np.random.Generator) -> None:
    linalg = pytest.importorskip("scipy.linalg")
    z = sj.tensor(("b", "n", "n"), "complex128")
    f = sj.function([z], [sj.expm(z), sj.matrix_power(z, 3), sj.matrix_power(z, -2)], mode=mode)
    for size in (0.1, 30):
        a = sampled(rng, (2, 3, 3), size=size)
        wanted = [[g(x) for x in a] for g in (linalg.expm, lambda x: x @ x @ x, lambda x: np.linalg.inv(x @ x))]
        for found, other in zip(f(a), np.asarray(wanted), strict=True):
            np.testing.assert_allclose(found, other, 1e-9, 1e-11 * abs(other).max())
    a[1, 0, 0] = np.nan
    assert np.isnan(f(a)[0]).any((1, 2)).tolist() == [False, True]
    weights = np.arange(4.0).reshape(2, 2)
    sj.check_grad(lambda a: sj.real(sj.expm(a) * weights).sum(), sampled(rng, (2, 2), size=0.3), order=2)

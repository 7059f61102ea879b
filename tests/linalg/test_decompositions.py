"""`eigh`, `qr`, `svd`: values as NumPy's, derivatives, batches, sizes, numbers that are not finite."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import scanjit as sj
from scanjit.codegen import lapack_calls
from scanjit.ir import Node
from tests.compare import all_close
from tests.linalg.support import MODES, spd

RNG = np.random.default_rng(0)


def everything(a: Node) -> list[Node]:
    """What does not depend on the signs of vectors."""
    q, r = sj.qr(a)
    u, s, v = sj.svd(a)
    return [q @ r, sj.swapaxes(q, -1, -2) @ q, abs(r), (u * s[..., None, :]) @ v, s, sj.swapaxes(u, -1, -2) @ u]


def in_numpy(a: np.ndarray) -> list[np.ndarray]:
    """The same by NumPy."""
    k = min(a.shape[-2:])
    one = np.broadcast_to(np.eye(k), (*a.shape[:-2], k, k))
    values = np.linalg.svd(a, compute_uv=False)
    return [a, one, abs(np.linalg.qr(a).R), a, values, one]


@pytest.mark.quick(2)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_values(mode: str, dtype: str) -> None:
    tolerance = 1e-4 if dtype == "float32" else 1e-12
    for shape in ((3, 3), (2, 5, 3), (3, 5), (1, 1), (2, 0, 2), (2, 0), (0, 0), (12, 10)):
        given = RNG.normal(size=shape).astype(dtype)
        for dims in (shape, (*shape[:-2], "m", "n")):
            a = sj.tensor(dims, dtype=dtype)
            for found, expected in zip(sj.function([a], everything(a), mode=mode)(given), in_numpy(given), strict=True):
                assert found.dtype == dtype
                np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("mode", MODES)
def test_eigenvalues(mode: str) -> None:
    for shape in ((3, 3), (2, 4, 4), (1, 1), (0, 0), (2, 0, 0), (11, 11)):
        given = RNG.normal(size=shape)
        symmetric = (given + np.swapaxes(given, -1, -2)) / 2
        for dims in (shape, (*shape[:-2], "n", "n")):
            a = sj.tensor(dims)
            w, v = np.linalg.eigh(a)
            found, again = sj.function([a], [w, (v * w[..., None, :]) @ sj.swapaxes(v, -1, -2)], mode=mode)(given)
            np.testing.assert_allclose(found, np.linalg.eigvalsh(symmetric), atol=1e-12)
            np.testing.assert_allclose(again, symmetric, atol=1e-12)


@pytest.mark.parametrize("block", [1, 3])
def test_factors_in_blocks(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lapack_calls, "BLOCK", block)
    a = sj.matrix("a")
    f = sj.function([a], list(sj.qr(a)), mode="emulate")
    for shape in ((7, 7), (7, 4), (4, 7), (3, 3), (1, 5)):
        given = RNG.normal(size=shape)
        all_close(f(given), np.linalg.qr(given), atol=1e-12)


def test_compiled() -> None:
    """More than one block; and what LAPACK leaves behind."""
    a, b = sj.matrix("a"), sj.tensor(("B", "n", "n"))
    f, g = sj.function([a], everything(a)), sj.function([b], list(sj.eigh(b)))
    for shape in ((300, 270), (257, 600), (0, 3), (1, 1), (4, 2)):
        given = RNG.normal(size=shape)
        all_close(f(given), in_numpy(given), atol=1e-9)
    matrices = np.stack([spd(RNG, 6) for _ in range(4)])
    matrices[1, 2, 3] = np.nan
    matrices[2, 5, 5] = np.inf
    values, vectors = g(matrices)
    assert [np.isnan(x).all() for x in values] == [np.isnan(x).all() for x in vectors] == [False, True, True, False]
    np.testing.assert_allclose(values[::3], np.linalg.eigvalsh(matrices[::3]), rtol=1e-12, atol=1e-13)
    for bad in (matrices[1], matrices[2]):
        assert all(np.isnan(x).any() for x in f(bad)[::2])


def test_each_block_looks_whether_to_end() -> None:
    a = sj.matrix("a")
    (kernel,) = [part for part in sj.function([a], list(sj.qr(a))).source.split("\ndef ") if "info = " in part]
    assert kernel.count("    if interrupted(line):") == 4


def signs_left_out(fn: Callable[[Any], Any]) -> Callable[[Any], list[Any]]:
    return lambda a: [abs(x) for x in fn(a)]


TALL, WIDE, SQUARE = RNG.normal(size=(4, 2)), RNG.normal(size=(2, 4)), RNG.normal(size=(3, 3))
DERIVATIVES: dict[str, tuple[Callable[[Any], Any], np.ndarray]] = {
    "eigh": (signs_left_out(sj.eigh), SQUARE),
    "eigvalsh": (sj.eigvalsh, SQUARE),
    **{f"qr {x.shape}": (lambda a: list(sj.qr(a)), x) for x in (TALL, WIDE, SQUARE)},
    **{f"svd {x.shape}": (signs_left_out(sj.svd), x) for x in (TALL, WIDE, SQUARE)},
    "svdvals": (sj.svdvals, TALL),
}


@pytest.mark.quick(3)
@pytest.mark.parametrize("name", DERIVATIVES)
def test_derivatives(name: str) -> None:
    fn, value = DERIVATIVES[name]
    sj.check_grad(fn, (value,), order=2, tolerance=1e-4)


def test_gradients_as_in_torch() -> None:
    torch = pytest.importorskip("torch")
    for ours, theirs, value in (
        (lambda a: (sj.qr(a)[0] ** 3).sum(), lambda a: (torch.linalg.qr(a)[0] ** 3).sum(), TALL),
        (lambda a: (sj.svd(a)[0] ** 4).sum(), lambda a: (torch.linalg.svd(a, False)[0] ** 4).sum(), TALL),
        (lambda a: (sj.eigh(a)[1] ** 4).sum(), lambda a: (torch.linalg.eigh((a + a.T) / 2)[1] ** 4).sum(), SQUARE),
    ):
        a = sj.tensor(value.shape)
        given = torch.tensor(value, requires_grad=True)
        theirs(given).backward()
        found = sj.function([a], sj.grad(ours(a), a), mode="reference")(value)
        np.testing.assert_allclose(found, given.grad.numpy(), rtol=1e-9, atol=1e-11)


def test_gradients_where_values_are_equal() -> None:
    """Finite, and right where the choice of vectors makes no difference."""
    a = sj.tensor((3, 3))
    w, v = sj.eigh(a)
    u, s, vh = sj.svd(a)
    space = v[:, :2] @ v[:, :2].T  # of the two equal values
    weights = RNG.normal(size=(3, 3))
    losses = [(space * weights).sum(), (w**2).sum(), s.sum(), (v**4).sum() + (u**4).sum() + (vh**4).sum()]
    given = np.diag([1.0, 1.0, 3.0])
    f = sj.function([a], [sj.grad(loss, a) for loss in losses], mode="reference")
    projection, squares, total, rest = f(given)
    expected = np.zeros((3, 3))
    expected[:2, 2] = expected[2, :2] = -(weights + weights.T)[:2, 2] / (3.0 - 1.0) / 2
    np.testing.assert_allclose(projection, expected, atol=1e-12)
    np.testing.assert_allclose(squares, 2 * given, atol=1e-12)
    np.testing.assert_allclose(total, np.eye(3), atol=1e-12)
    assert np.isfinite(rest).all()
    assert all(np.isfinite(x).all() for x in f(np.zeros((3, 3))))


@pytest.mark.parametrize("mode", MODES)
def test_in_vmap_and_steps_and_branches(mode: str) -> None:
    given = np.stack([spd(RNG, 3) + np.diag([0.0, 1.0, 3.0]) for _ in range(4)])
    x = sj.tensor(("T", 3, 3))

    def fn(a: Any) -> Any:
        return sj.ifelse(a[0, 0] > 0, lambda: abs(sj.qr(a)[1]) + sj.svd(a)[1] + sj.eigh(a)[0], a)

    one = sj.tensor((3, 3))
    single = sj.function([one], [fn(one), sj.grad(fn(one).sum(), one)], mode="reference")
    expected = [np.stack(parts) for parts in zip(*[single(value) for value in given], strict=True)]
    for looped in (sj.vmap(fn), lambda x: sj.map(fn, x)):
        got = sj.function([x], [looped(x), sj.grad(looped(x).sum(), x)], mode=mode)(given)
        all_close(got, expected, rtol=1e-9, atol=1e-10)


def test_wrong_input() -> None:
    with pytest.raises(sj.ShapeError, match=r"(?s)matrix of eigh.*\(2, 3\)"):
        sj.eigh(sj.tensor((2, 3)))
    for function in (sj.qr, sj.svd, sj.svdvals):
        with pytest.raises(sj.ShapeError, match="takes matrices"):
            function(sj.vector())
    a = sj.matrix("a")
    with pytest.raises(sj.ArgumentError, match="mode of qr"):
        sj.qr(a, "raw")
    with pytest.raises(sj.NotSupportedError, match="full_matrices"):
        sj.svd(a, full_matrices=True)
    assert sj.qr(sj.imatrix()).R.dtype == "float64" and np.linalg.qr(a, "r") is sj.qr(a)[1]
    assert np.linalg.svd(a, full_matrices=False).S is sj.svd(a).S is sj.svd(a, compute_uv=False)

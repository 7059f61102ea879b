"""`eigh`, `qr`, `svd`, `pinv`, `lstsq` of complex matrices beside NumPy's and PyTorch's, with derivatives."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

import scanjit as sj
from scanjit.ir import Node
from tests.compare import all_close
from tests.complex_numbers.support import DTYPES_AND_MODES, sampled, slope


def adjoint(x: Any) -> Any:
    return np.conj(np.swapaxes(x, -1, -2)) if not isinstance(x, Node) else sj.conj(sj.swapaxes(x, -1, -2))


def everything(x: Node) -> list[Node]:
    square = x @ adjoint(x)
    return [*sj.eigh(square), *sj.qr(x), *sj.svd(x), sj.pinv(x), sj.eigvalsh(square), sj.matrix_rank(x)]


def check(a: np.ndarray, found: list[np.ndarray], close: float) -> None:
    """Whether the factors are what they should be."""
    w, v, q, r, u, s, vh, inverse, values, rank = found
    square, scale = a @ adjoint(a), max(1.0, abs(a).max() ** 2)
    k = min(a.shape[-2:])
    one = np.eye(k)
    for product, wanted in (
        ((v * w[..., None, :]) @ adjoint(v), square),
        (adjoint(v) @ v, np.eye(a.shape[-2])),
        (q @ r, a),
        (adjoint(q) @ q, one),
        ((u * s[..., None, :]) @ vh, a),
        (adjoint(u) @ u, one),
        (vh @ adjoint(vh), one),
        (a @ inverse @ a, a),
        (values, np.linalg.eigvalsh(square)),
        (s, np.linalg.svd(a)[1]),
        (abs(r), abs(np.linalg.qr(a)[1])),
    ):
        np.testing.assert_allclose(product, np.broadcast_to(wanted, product.shape), close, close * scale)
    assert not np.tril(r, -1).any() and not np.diagonal(r, axis1=-2, axis2=-1).imag.any()
    assert (rank == np.linalg.matrix_rank(a)).all()
    for rows in (np.swapaxes(v, -1, -2), vh):  # the phases that are chosen
        sums = (rows / (np.arange(rows.shape[-1]) + 2**0.5)).sum(-1)
        np.testing.assert_allclose(sums.imag, 0, atol=close)
        assert (sums.real > -close).all()


@pytest.mark.quick(2)
@DTYPES_AND_MODES
def test_values(mode: str, dtype: str, close: float, rng: np.random.Generator) -> None:
    any_matrix = sj.tensor(("m", "n"), dtype)
    of_any = sj.function([any_matrix], everything(any_matrix), mode=mode)
    shapes = [(3, 3), (2, 4, 2), (2, 5), (1, 1), (9, 9)]
    if mode == "emulate":  # each of them in one of the dtypes
        shapes = shapes[:4] if dtype == "complex64" else shapes[4:]
    for shape in shapes:
        a = sampled(rng, shape, dtype)
        x = sj.tensor(shape, dtype)
        check(a, sj.function([x], everything(x), mode=mode)(a), close)
        if len(shape) == 2:
            check(a, of_any(a), close)
        else:
            x = sj.tensor((*shape[:-2], "m", "n"), dtype)
            check(a, sj.function([x], everything(x), mode=mode)(a), close)
    if dtype == "complex128":
        q, r = sj.function([x], [*sj.qr(x)], mode=mode)(a)
        wanted = np.linalg.qr(a)
        np.testing.assert_allclose(q, wanted.Q, 1e-11, 1e-11)
        np.testing.assert_allclose(r, wanted.R, 1e-11, 1e-11)


@pytest.mark.slow
def test_compiled_large_equal_and_missing_values(rng: np.random.Generator) -> None:
    x = sj.tensor(("b", "m", "n"), "complex128")
    f = sj.function([x], everything(x))
    for shape in ((2, 3, 3), (1, 60, 20), (1, 20, 60), (1, 300, 270)):
        check(a := sampled(rng, shape), f(a), 1e-8)
    q = np.linalg.qr(sampled(rng, (5, 5)))[0]
    equal = np.stack([(q * [3, 3, 3, 1, 1]) @ adjoint(q), np.diag([2.0, 2, 0, 0, 1]) + 0j, np.zeros((5, 5)) + 0j])
    check(equal, f(equal), 1e-9)
    check(equal * 1e-180, f(equal * 1e-180)[:], 1e-9)
    equal[1, 2, 3] = np.inf
    found = f(equal)
    for i, part in enumerate(found[:8]):
        assert np.isnan(np.triu(part[1]) if i == 3 else part[1])[part[1] != 0].all()
        assert not np.isnan(part[::2]).any()
    for m, n in ((0, 3), (3, 0), (0, 0)):
        assert [part.shape for part in f(np.zeros((1, m, n), complex))[2:7]] == [
            (1, m, 0), (1, 0, n), (1, m, 0), (1, 0), (1, 0, n),
        ]  # fmt: skip


def costs(a: Any, w: np.ndarray) -> list[Any]:
    """Real costs of all factors, also of the phases of the vectors; of tall, wide and square matrices."""
    values, vectors = sj.eigh(a @ adjoint(a) + np.diag(np.arange(a.shape[0]) + 0.0))
    (q, r), (u, s, vh) = sj.qr(a), sj.svd(a)

    def weighted(x: Node) -> Node:
        part = w[: x.type.shape[0], : x.type.shape[1]]
        return sj.real(x * part).sum()

    return [
        (values * w[: a.shape[0], 0].real).sum() + weighted(vectors),
        weighted(q),
        weighted(r),
        weighted(u) + weighted(vh) + (s * s * w[0, : s.shape[0]].real).sum(),
        weighted(sj.pinv(a)),
    ]


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(3, 3), (2, 4), pytest.param((4, 2), marks=pytest.mark.slow)], ids=str)
def test_derivatives(shape: tuple[int, int], rng: np.random.Generator) -> None:
    a, w = sampled(rng, shape), sampled(rng, (5, 5))
    x = sj.tensor(shape, "complex128")
    f = sj.function([x], costs(x, w), mode="reference")
    found = sj.function([x], [sj.grad(cost, x) for cost in costs(x, w)], mode="reference")(a)
    for i, slopes in enumerate(found):
        np.testing.assert_allclose(slopes, slope(lambda z, i=i: f(z)[i], a), 2e-5, 1e-6, err_msg=str(i))


@pytest.mark.slow
def test_second_derivatives_and_batches(rng: np.random.Generator) -> None:
    a, w = sampled(rng, (2, 2)), sampled(rng, (5, 5))
    sj.check_grad(lambda a: [costs(a, w)[i] for i in (0, 1, 3)], a, order=2)
    x, many = sj.tensor((2, 2), "complex128"), sj.tensor((3, 2, 2), "complex128")
    one = sj.function([x], [sj.grad(cost, x) for cost in costs(x, w)], mode="reference")
    each = sj.vmap(lambda a: [sj.grad(cost, a) for cost in costs(a, w)])(many)
    given = sampled(rng, (3, 2, 2))
    for i, found in enumerate(sj.function([many], each, mode="emulate")(given)):
        for k in range(3):
            np.testing.assert_allclose(found[k], one(given[k])[i], 1e-8, 1e-10)


def test_compiled_gradients_in_a_loop(rng: np.random.Generator) -> None:
    """A step makes a matrix unitary again, as the polar factor of it."""
    x = sj.tensor((3, 3), "complex128")

    def step(h: Any) -> Any:
        u, _, vh = sj.svd(h + 0.1j * x)
        return u @ vh

    cost = sj.real(sj.scan(step, outputs_info=x, n_steps=4)[-1] * np.arange(9.0).reshape(3, 3)).sum()
    given = sampled(rng, (3, 3))
    wanted, found = (sj.function([x], [cost, sj.grad(cost, x)], mode=mode)(given) for mode in ("reference", "numba"))
    all_close(found, wanted, 1e-9, 1e-10)


def test_least_squares(rng: np.random.Generator) -> None:
    for shape, columns in (((5, 3), 2), ((3, 5), 1), ((4, 4), 3)):
        a, b = sampled(rng, shape), sampled(rng, (shape[0], columns))
        x, y = sj.tensor(shape, "complex128"), sj.tensor(b.shape, "complex128")
        found, residuals, rank, _ = sj.function([x, y], [*sj.lstsq(x, y)], mode="reference")(a, b)
        wanted = np.linalg.lstsq(a, b)
        np.testing.assert_allclose(found, wanted[0], 1e-10, 1e-10)
        np.testing.assert_allclose(residuals, (abs(a @ found - b) ** 2).sum(0), 1e-10, 1e-12)
        assert rank == wanted[2]
        np.testing.assert_allclose(sj.function([x], sj.pinv(x), mode="reference")(a), np.linalg.pinv(a), 1e-10, 1e-11)


def test_beside_torch(rng: np.random.Generator) -> None:
    """PyTorch's gradients are of costs that do not depend on the phases of vectors."""
    torch = pytest.importorskip("torch")
    a, w = sampled(rng, (4, 3)), sampled(rng, (4, 4))
    z, weights = torch.tensor(a, requires_grad=True), torch.tensor(w)

    def cost(a: Any, w: Any, lib: Any, outer: Any, absolute: Any) -> Any:
        eigh, qr, svd = lib.eigh(a @ outer(a)), lib.qr(a), lib.svd(a, full_matrices=False)
        found = (absolute(eigh[1]) ** 2 * absolute(w)).sum() + (eigh[0] * absolute(w)[0]).sum()
        found = found + absolute(qr[0] + w[:, :3]).sum() + (absolute(qr[1]) ** 2 * absolute(w)[:3, :3]).sum()
        found = found + absolute(svd[0] @ svd[2] - w[:, :3]).sum() + (svd[1] * absolute(w)[0, :3]).sum()
        return found + absolute(lib.pinv(a) + w[:3]).sum()

    cost(z, weights, torch.linalg, lambda x: x.mH, torch.abs).backward()
    x = sj.tensor((4, 3), "complex128")
    mine = sj.grad(cost(x, w, sj, adjoint, abs), x)
    np.testing.assert_allclose(sj.function([x], mine, mode="reference")(a), z.grad.numpy(), 1e-8, 1e-9)


@pytest.mark.parametrize("mode", ["reference", "emulate"])
def test_triangles(mode: str, rng: np.random.Generator) -> None:
    scipy = pytest.importorskip("scipy.linalg")
    a, b = sampled(rng, (4, 4)) + 3 * np.eye(4), sampled(rng, (4, 2))
    square = a @ adjoint(a)
    x, y = sj.tensor(("n", "n"), "complex128"), sj.tensor(("n", 2), "complex128")
    flags = [(lower, trans, unit) for lower in (True, False) for trans in (True, False) for unit in (True, False)]
    solved = [sj.solve_triangular(x, y, *flag) for flag in flags]
    factored = [sj.cho_solve((sj.cholesky(x @ adjoint(x), upper=upper), not upper), y) for upper in (False, True)]
    f = sj.function([x, y], [*solved, *factored], mode=mode)
    found = f(a, b)
    for value, (lower, trans, unit) in zip(found, flags, strict=False):
        wanted = scipy.solve_triangular(a, b, lower=lower, trans=int(trans), unit_diagonal=unit)
        np.testing.assert_allclose(value, wanted, 1e-10, 1e-11)
    for value in found[len(flags) :]:
        np.testing.assert_allclose(value, np.linalg.solve(square, b), 1e-9, 1e-10)
    a[2, 2] = 0
    assert np.isnan(f(a, b)[3]).all()
    cost = sum((abs(value) ** 2).sum() for value in solved)
    slopes = sj.function([x, y], sj.grad(cost, [x, y]), mode=mode)(a + 3 * np.eye(4), b)
    g = sj.function([x, y], cost, mode="reference")
    np.testing.assert_allclose(slopes[0], slope(lambda z: g(z, b), a + 3 * np.eye(4)), 1e-5, 1e-6)
    np.testing.assert_allclose(slopes[1], slope(lambda z: g(a + 3 * np.eye(4), z), b), 1e-5, 1e-6)


def test_forward_mode_branches_files_and_errors(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    a, change, w = (sampled(rng, shape) for shape in ((3, 3), (3, 3), (5, 5)))
    x, by, flag = sj.tensor((3, 3), "complex128"), sj.tensor((3, 3), "complex128"), sj.lscalar("flag")
    cost = sum(costs(x, w))
    f = sj.function([x], [cost, sj.grad(cost, x)], mode="reference")
    moved = sj.function([x, by], sj.jvp(cost, x, by), mode="reference")(a, change)
    np.testing.assert_allclose(moved, (f(a)[1].conj() * change).sum().real, 1e-9)
    chosen = sj.function([x, flag], sj.ifelse(flag > 0, cost, sj.real(x).sum()))
    np.testing.assert_allclose(chosen(a, 1), f(a)[0], 1e-9)
    np.testing.assert_allclose(chosen(a, 0), a.real.sum(), 1e-12)
    f.save(tmp_path / "costs.sj")
    sj.export_numpy(f, tmp_path / "exported", name="complex_costs")
    monkeypatch.syspath_prepend(tmp_path / "exported")
    exported = importlib.import_module("complex_costs").complex_costs
    for g in (sj.load(tmp_path / "costs.sj"), exported):
        all_close(g(a), f(a), 1e-9, 1e-10)
    z = sj.tensor(("m", "n"), "complex64")
    with pytest.raises(sj.ShapeError, match="the matrix of eigh has another shape"):
        sj.function([z], [*sj.eigh(z)], mode="reference")(a[:2].astype("complex64"))
    pytest.importorskip("onnx")
    with pytest.raises(sj.NotSupportedError, match="eigh has no equivalent in ONNX"):
        sj.onnx.export(f)

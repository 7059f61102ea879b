"""`pinv`, `lstsq`, `matrix_rank` beside NumPy's and PyTorch's; complete modes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import scanjit as sj
from scanjit.ir import Node
from tests.linalg.support import MODES

RNG = np.random.default_rng(0)


def everything(a: Node, b: Node) -> list[Node]:
    return [np.linalg.pinv(a), *np.linalg.lstsq(a, b), sj.matrix_rank(a)]


def of_rank(rank: int, m: int, n: int) -> np.ndarray:
    return RNG.normal(size=(m, rank)) @ RNG.normal(size=(rank, n))


@pytest.mark.quick(2)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype, close", [("float32", 2e-4), ("float64", 1e-11)])
def test_values(mode: str, dtype: str, close: float) -> None:
    known, unknown = (("m", "n"), ("m", "k"))
    for given in (of_rank(3, 5, 3), of_rank(2, 5, 3), of_rank(3, 3, 6), of_rank(1, 4, 4), np.zeros((3, 2))):
        a, b = given.astype(dtype), RNG.normal(size=(len(given), 2)).astype(dtype)
        for dims in ((a.shape, b.shape), (known, unknown)):
            x, y = (sj.tensor(d, dtype) for d in dims)
            inverse, solution, left, rank, values, again = sj.function([x, y], everything(x, y), mode=mode)(a, b)
            wanted = np.linalg.lstsq(a, b, rcond=max(a.shape) * np.finfo(dtype).eps)
            assert inverse.dtype == dtype and rank == again == wanted[2]
            np.testing.assert_allclose(inverse, np.linalg.pinv(a, rcond=1e-5), close, close)
            np.testing.assert_allclose(solution, wanted[0], close, close)
            np.testing.assert_allclose(values, wanted[3], close, close)
            np.testing.assert_allclose(left, ((a @ wanted[0] - b) ** 2).sum(0), close, close)


def test_arguments_and_batches() -> None:
    """A vector; a batch of right sides and limits; entries that are not finite; matrices without entries."""
    a, b = RNG.normal(size=(4, 5, 3)), RNG.normal(size=(5,))
    a[1, :, 2] = a[1, :, 0] * (1 + 1e-4)
    rcond = np.array([1e-9, 1e-2, 1e-9, 0.99])
    x, y, limit = sj.tensor(a.shape), sj.vector(), sj.vector()
    wanted = [np.linalg.lstsq(one, b, r)[0] for one, r in zip(a, rcond, strict=True)]
    found = sj.vmap(lambda x, r: sj.lstsq(x, y, r).x)(x, limit)
    results = [found, sj.pinv(x, limit), sj.pinv(x, rtol=1e-2), sj.matrix_rank(x, 0.5), sj.matrix_rank(x, rtol=limit)]
    f = sj.function([x, y, limit], results, mode="reference")(a, b, rcond)
    np.testing.assert_allclose(f[0], wanted, 1e-9)
    np.testing.assert_allclose(f[1], np.linalg.pinv(a, rcond), 1e-9)
    np.testing.assert_allclose(f[2], np.linalg.pinv(a, 1e-2), 1e-9)
    assert f[3].tolist() == np.linalg.matrix_rank(a, 0.5).tolist() and f[4].tolist() == [3, 2, 3, 1]
    with pytest.raises(sj.ArgumentError, match="two names of one argument"):
        sj.pinv(x, 1e-3, rtol=1e-3)
    a[2, 0, 0] = np.nan
    inverse = sj.function([x], sj.pinv(x))(a)
    assert np.isnan(inverse[2]).all() and np.isfinite(inverse[[0, 1, 3]]).all()
    empty = sj.tensor(("m", "n"))
    assert sj.function([empty], sj.pinv(empty), mode="reference")(np.zeros((0, 3))).shape == (3, 0)


@pytest.mark.quick(3)
@pytest.mark.parametrize("mode", [*MODES, "numba"])
@pytest.mark.parametrize("sizes", [("m", "n"), (3, 3)])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_matrix_that_is_not_finite_gives_nan(mode: Any, sizes: Any, bad: float) -> None:
    """Products with a zero for a singular value that counts as zero may leave out terms. None does here."""
    x = sj.tensor(sizes)
    results = [sj.pinv(x), sj.lstsq(x, x).x, *sj.svd(x), sj.cond(x), *([] if sizes[0] == "m" else sj.eigh(x))]
    given = np.eye(3)
    given[0, 1] = bad
    for found in sj.function([x], results, mode=mode)(given):
        assert np.isnan(found).all() or found.shape == ()


@pytest.mark.quick(3)
@pytest.mark.parametrize("shape, rank", [((4, 3), 3), ((3, 4), 3), ((3, 3), 3), ((4, 3), 2), ((4, 4), 2)])
def test_gradients_among_matrices_of_one_rank(shape: tuple[int, int], rank: int) -> None:
    """Changes along factors of the matrix keep its rank. Equal singular values make no difference."""
    left, right = np.eye(shape[0], rank), np.eye(rank, shape[1])
    left, right = (x + RNG.uniform(-0.3, 0.3, x.shape) for x in (left, right))
    b = RNG.normal(size=(shape[0], 2))

    def found(left: Any, right: Any, b: Any) -> list[Any]:
        return [sj.pinv(left @ right, 1e-6), sj.lstsq(left @ right, b, 1e-6).x]

    sj.check_grad(found, (left, right, b), order=2)
    equal = np.eye(*shape)
    sj.check_grad(lambda a: sj.pinv(a, 1e-6), equal, order=2) if rank == min(shape) else None


def test_in_a_step() -> None:
    """A state that is solved for in each step, compiled, with its gradient."""
    a, b = RNG.normal(size=(6, 4, 3)), RNG.normal(size=(6, 4))

    def states(a: Any, b: Any) -> Any:
        return sj.scan(lambda a, b, x: 0.5 * x + sj.lstsq(a, b - a @ x).x, [a, b], np.zeros(3))

    x, y = sj.tensor(("T", 4, 3)), sj.tensor(("T", 4))
    value, slope = sj.function([x, y], [states(x, y), sj.grad((states(x, y) ** 2).sum(), x)])(a, b)
    state, wanted = np.zeros(3), []
    for one, right in zip(a, b, strict=True):
        state = 0.5 * state + np.linalg.lstsq(one, right - one @ state)[0]
        wanted.append(state)
    np.testing.assert_allclose(value, wanted, 1e-10)
    run = sj.function([x, y], (states(x, y) ** 2).sum(), mode="reference")
    step = np.zeros_like(a)
    step[2, 1, 0] = 1e-6
    np.testing.assert_allclose(slope[2, 1, 0], (run(a + step, b) - run(a - step, b)) / 2e-6, 1e-5)


def test_beside_torch() -> None:
    torch = pytest.importorskip("torch")
    for a in (RNG.normal(size=(5, 3)), RNG.normal(size=(3, 5)), np.eye(4) * 2):
        b = RNG.normal(size=(len(a), 2))
        p, q = torch.tensor(a, requires_grad=True), torch.tensor(b, requires_grad=True)
        (torch.linalg.pinv(p) ** 3).sum().backward()
        cost = lambda x: (sj.pinv(x) ** 3).sum()
        np.testing.assert_allclose(sj.value_and_grad(cost, mode="reference")(a)[1], p.grad.numpy(), 1e-8, 1e-8)
        p.grad = None
        (torch.linalg.lstsq(p, q, driver="gelsd").solution ** 3).sum().backward()
        x, y = sj.matrix(), sj.matrix()
        slopes = sj.function([x, y], sj.grad((sj.lstsq(x, y).x ** 3).sum(), [x, y]), mode="reference")(a, b)
        for found, wanted in zip(slopes, (p.grad, q.grad), strict=True):
            np.testing.assert_allclose(found, wanted.numpy(), 1e-8, 1e-8)


def test_complete_modes() -> None:
    """The same as the others where there is nothing to complete, else an error."""
    a = RNG.normal(size=(3, 5))
    x = sj.tensor((3, 5))
    q, r = sj.function([x], list(sj.qr(x, "complete")), mode="reference")(a)
    assert q.shape == (3, 3) and r.shape == (3, 5)
    square = sj.tensor((2, "n", "n"))
    assert sj.svd(square, full_matrices=True).U is sj.svd(square).U
    for shape in ((5, 3), ("m", "n")):
        with pytest.raises(sj.NotSupportedError, match="as many columns of Q"):
            sj.qr(sj.tensor(shape), "complete")
        with pytest.raises(sj.NotSupportedError, match="as many vectors"):
            sj.svd(sj.tensor(shape), full_matrices=True)
    with pytest.raises(sj.NotSupportedError, match="as many vectors"):
        sj.svd(x, full_matrices=True)
    with pytest.raises(sj.ShapeError, match="pinv takes matrices"):
        sj.pinv(sj.vector())

"""Gradients of any order, forward mode, vmap."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import scanjit as sj
from scanjit.ir import OPS, walk
from tests.linalg.support import regular, spd

RNG = np.random.default_rng(0)
A, B = regular(RNG, 3), RNG.normal(size=(3, 2))
FUNCTIONS: dict[str, tuple[Callable[..., Any], tuple[np.ndarray, ...]]] = {
    "solve": (sj.solve, (A, B)),
    "a vector, a batch": (sj.solve, (regular(RNG, 2, 2), RNG.normal(size=2))),
    "inv": (sj.inv, (A,)),
    "cholesky": (sj.cholesky, (spd(RNG, 3) + 0.1 * RNG.normal(size=(3, 3)),)),
    "det": (sj.det, (regular(RNG, 4),)),
    "det by cofactors": (sj.det, (A,)),
    "slogdet": (lambda a: sj.slogdet(a).logabsdet, (A,)),
    "solve_triangular": (lambda a, b: sj.solve_triangular(a, b, lower=False, trans=True), (A, B)),
    "unit_diagonal": (lambda a, b: sj.solve_triangular(a, b, unit_diagonal=True), (A, B)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_derivatives(name: str) -> None:
    fn, values = FUNCTIONS[name]
    sj.check_grad(fn, values, order=2)


def test_third_derivatives() -> None:
    sj.check_grad(sj.cholesky, (spd(np.random.default_rng(1), 2),), order=3, tolerance=1e-6)
    sj.check_grad(sj.solve, (A[:2, :2], B[:2, 0]), order=3, tolerance=1e-6)


def test_the_gradient_of_a_cholesky_factor_is_symmetric() -> None:
    a = sj.matrix("a")
    weights = np.random.default_rng(0).normal(size=(4, 4))
    gradient = sj.grad((sj.cholesky(a) * weights).sum(), a)
    found = sj.function([a], gradient, mode="emulate")(spd(np.random.default_rng(0), 4))
    np.testing.assert_allclose(found, found.T, rtol=1e-12, atol=1e-14)


def test_the_gradient_of_a_small_determinant_needs_no_inverse() -> None:
    a = sj.tensor((3, 3))
    f = sj.function([a], sj.grad(sj.det(a), a), mode="reference")
    np.testing.assert_array_equal(f(np.diag([2.0, 3.0, 0.0])), np.diag([0.0, 0.0, 6.0]))


def test_the_gradient_uses_the_same_factors() -> None:
    a, b = sj.matrix("a"), sj.vector("b")
    cost = sj.solve(a, b).sum() + sj.slogdet(a).logabsdet
    f = sj.function([a, b], [cost, *sj.grad(cost, [a, b])], mode="emulate")
    assert f.source.count("= getrf_") == 1


@pytest.mark.parametrize("known", [True, False])
def test_vmap_is_a_loop(known: bool, rng: np.random.Generator) -> None:
    n: Any = 3 if known else "n"
    given = spd(rng, 4, 3), rng.normal(size=(4, 3)), rng.normal(size=(3, 2))
    a, b, c = sj.tensor(("B", n, n)), sj.tensor(("B", n)), sj.tensor((n, 2))

    def fn(a: Any, b: Any, c: Any) -> Any:
        factor = sj.cholesky(a)
        return sj.solve(a, b), sj.solve(a, c), sj.solve(a[0, 0] * sj.eye(3) if known else a, c), factor, sj.det(a)

    outputs = sj.vmap(fn, in_axes=(0, 0, None))(a, b, c)
    got = sj.function([a, b, c], list(outputs), mode="emulate")(*given)
    one = [sj.tensor(x.type.shape[1:]) for x in (a, b)]
    single = sj.function([*one, c], list(fn(*one, c)), mode="reference")
    rows = [single(x, y, given[2]) for x, y in zip(*given[:2], strict=True)]
    for k, result in enumerate(got):
        np.testing.assert_allclose(result, np.stack([row[k] for row in rows]), rtol=1e-10)


def test_one_matrix_for_a_batch_is_factored_once(rng: np.random.Generator) -> None:
    a, b = sj.tensor(("n", "n")), sj.tensor(("B", "n", "k"))
    outputs = [sj.vmap(sj.solve, in_axes=(None, 0))(a, b), sj.solve(a, b), sj.solve_triangular(a, b)]
    assert all(node.operands[0].ndim == 2 for node in walk(outputs) if node.op.name in ("solve", "triangular_solve"))
    given = regular(rng, 4), rng.normal(size=(3, 4, 2))
    many, same, triangular = sj.function([a, b], outputs, mode="emulate")(*given)
    np.testing.assert_allclose(many, np.linalg.solve(*given), rtol=1e-12, atol=1e-13)
    np.testing.assert_array_equal(many, same)
    np.testing.assert_allclose(triangular, np.linalg.solve(np.tril(given[0]), given[1]), rtol=1e-12, atol=1e-13)


def test_products_and_diagonals_have_derivatives_and_batches(rng: np.random.Generator) -> None:
    """`einsum`, `tensordot`, `diag`, `trace`, `matmul` of batches, in NumPy's sense."""
    x, y, v = rng.normal(size=(2, 3, 3)), rng.normal(size=(4, 1, 3, 2)), rng.normal(size=3)
    cases: tuple[tuple[Callable[..., Any], Callable[..., Any], tuple[np.ndarray, ...]], ...] = (
        (sj.matmul, np.matmul, (x, y)),
        (sj.matmul, np.matmul, (v, x)),
        (
            lambda a, b: sj.einsum("bij,abjk->aik", a, b),
            lambda a, b: np.einsum("bij,abjk->aik", a, b),
            (x, y[:, [0, 0]]),
        ),
        (lambda a, b: sj.tensordot(a, b, 1), lambda a, b: np.tensordot(a, b, 1), (x, v)),
        (lambda a: sj.trace(a, 1, 1, 2), lambda a: np.trace(a, 1, 1, 2), (x,)),
        (lambda a: sj.diag(a, -1), lambda a: np.diag(a, -1), (v,)),
        (lambda a: sj.diag(a, 1), lambda a: np.diag(a, 1), (x[0],)),
    )
    for fn, expected, values in cases:
        inputs = [sj.tensor(value.shape) for value in values]
        got = sj.function(inputs, fn(*inputs), mode="reference")(*values)
        np.testing.assert_allclose(got, expected(*values), rtol=1e-12, atol=1e-13)
        sj.check_grad(fn, values, order=1)
        wide = [sj.tensor(("E", *value.shape)) for value in values]
        stacked = [np.stack([value, 2 * value]) for value in values]
        many = sj.function(wide, sj.vmap(fn)(*wide), mode="reference")(*stacked)
        wanted = np.stack([expected(*s) for s in zip(*stacked, strict=True)])
        np.testing.assert_allclose(many, wanted, rtol=1e-12, atol=1e-13)


def test_ops_are_in_the_table() -> None:
    assert {"solve", "triangular_solve", "cholesky", "lu", "det", "logabsdet", "det_sign"} <= set(OPS)

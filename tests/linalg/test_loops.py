"""Systems inside scans: a Kalman filter, small and of any size, with gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import scanjit as sj
from scanjit.ir import Node
from tests.compare import all_close
from tests.linalg.support import spd


def transposed(x: Node) -> Node:
    return sj.swapaxes(x, -1, -2)


def step(y: Node, x: Node, p: Node, a: Node, h: Node, q: Node, r: Node) -> tuple[Node, ...]:
    """Predict, measure: the new state, its covariance, the log-likelihood."""
    x, p = x @ a.T, a @ p @ a.T + q
    s = h @ p @ h.T + r
    error, factor = (y - x @ h.T)[..., None], sj.cholesky(s)
    gain = transposed(sj.solve(s, h @ p))
    white = sj.solve_triangular(factor, error)
    likelihood = -(white * white).sum((-1, -2)) / 2 - sj.log(sj.diagonal(factor, axis1=-2, axis2=-1)).sum(-1)
    x, p = x + (gain @ error)[..., 0], p - gain @ h @ p
    return x, (p + transposed(p)) * 0.5, likelihood


def kalman(n: Any, m: Any, batch: tuple[int, ...]) -> tuple[list[Node], list[Node]]:
    """Inputs; the likelihood, the last covariance, and gradients."""
    y, x, p = sj.tensor(("T", *batch, m)), sj.tensor((*batch, n)), sj.tensor((*batch, n, n))
    consts = [sj.tensor(shape) for shape in ((n, n), (m, n), (n, n), (m, m))]
    _, covariances, likelihoods = sj.scan(step, y, [x, p, None], consts)
    cost = likelihoods.sum()
    return [y, x, p, *consts], [cost, covariances[-1], *sj.grad(cost, [*consts, p])]


def in_numpy(y: Any, x: Any, p: Any, a: Any, h: Any, q: Any, r: Any) -> tuple[float, Any]:
    """The same of one series, by the textbook."""
    total = 0.0
    for row in y:
        x, p = a @ x, a @ p @ a.T + q
        s, e = h @ p @ h.T + r, row - h @ x
        total -= (e @ np.linalg.inv(s) @ e + np.linalg.slogdet(s)[1]) / 2
        gain = p @ h.T @ np.linalg.inv(s)
        x, p = x + gain @ e, p - gain @ h @ p
    return total, p


def values(n: int, m: int, batch: tuple[int, ...]) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [
        rng.normal(size=(4, *batch, m)),
        rng.normal(size=(*batch, n)),
        spd(rng, *batch, n),
        rng.normal(size=(n, n)) / n,
        rng.normal(size=(m, n)),
        spd(rng, n),
        spd(rng, m),
    ]


@pytest.mark.quick(2)
@pytest.mark.parametrize(
    "mode, n, m, batch, known",
    [
        ("emulate", 4, 2, (), True),
        ("emulate", 4, 2, (3,), True),
        ("emulate", 10, 9, (), True),
        ("emulate", 4, 2, (3,), False),
    ],
)
def test_kalman_filter(mode: str, n: int, m: int, batch: tuple[int, ...], known: bool) -> None:
    given = values(n, m, batch)
    inputs, outputs = kalman(n if known else "n", m if known else "m", batch)
    expected = sj.function(inputs, outputs, mode="reference")(*given)
    got = sj.function(inputs, outputs, mode=mode)(*given)
    all_close(got, expected, rtol=1e-9, atol=1e-11)
    if not batch:
        total, last = in_numpy(*given)
        np.testing.assert_allclose(got[0], total, rtol=1e-10)
        np.testing.assert_allclose(got[1], last, rtol=1e-10, atol=1e-12)


def test_a_loop_that_calls_lapack_compiled(rng: np.random.Generator) -> None:
    a, x, ys = sj.matrix("a"), sj.vector("x"), sj.matrix("ys")

    def body(y: Node, x: Node, a: Node) -> Node:
        return sj.solve_triangular(sj.cholesky(a + sj.outer(x, x)), y)

    f = [sj.function([a, x, ys], sj.scan(body, ys, x, a), mode=mode) for mode in ("numba", "reference")]
    given = spd(rng, 5), rng.normal(size=5), rng.normal(size=(6, 5))
    np.testing.assert_allclose(f[0](*given), f[1](*given), rtol=1e-10)


def test_a_system_that_does_not_change_is_factored_once() -> None:
    a, x = sj.matrix("a"), sj.vector("x")
    xs = sj.scan(lambda x, a: sj.solve(a, x) + 1, outputs_info=x, non_sequences=a, n_steps=5)
    cost = xs[-1].sum()
    f = sj.function([a, x], [cost, *sj.grad(cost, [a, x])], mode="emulate")
    assert f.source.count("= getrf_") == 1
    given = 2 * np.eye(3) + 0.1, np.ones(3)
    expected = sj.function([a, x], [cost, *sj.grad(cost, [a, x])], mode="reference")(*given)
    all_close(f(*given), expected, rtol=1e-12, atol=1e-13)


def moved(rates: Node, x: Node, u: Node) -> Node:
    return sj.solve(sj.as_tensor(np.eye(4)) + x * rates, u)


def moved_back(rates: Node, x: Node, u: Node) -> Node:
    return sj.solve((sj.as_tensor(np.eye(4)) + x * rates).T, u)


def whitened(rates: Node, x: Node, u: Node) -> Node:
    return sj.solve_triangular(sj.as_tensor(2 * np.eye(4)) + x * rates, u, lower=True)


def feedback(rates: Node, x: Node, u: Node) -> Node:
    return sj.solve(sj.as_tensor(np.eye(4)) + x * rates * u, u)


@pytest.mark.parametrize("step", [moved, moved_back, whitened, feedback])
def test_quotients_that_no_step_waits_for(step: Callable[[Node, Node, Node], Node], rng: np.random.Generator) -> None:
    """A system whose matrix is known before the carry is divided by its pivots first."""
    rates, x, u = sj.tensor((4, 4), "float64", "rates"), sj.vector("x", "float64"), sj.tensor((4,), "float64", "u")
    us = sj.scan(lambda x, u: step(rates, x, u), x, u)
    outputs = [us, *sj.grad((us * us).sum(), [rates, x, u])]
    f, wanted = (sj.function([rates, x, u], outputs, mode=mode) for mode in ("numba", "reference"))
    forward = sj.function([rates, x, u], us, mode="emulate")
    assert ("divided by its pivots" in str(forward.explain())) == (step is not feedback)
    matrix, begin = rng.normal(size=(4, 4)), rng.normal(size=4)
    for given in (0.1 * matrix, np.roll(np.eye(4), 1, 0) + 0.1 * matrix, np.zeros((4, 4))):
        row = rng.uniform(0.5, 1.5, 6)
        all_close(f(given, row, begin), wanted(given, row, begin), rtol=1e-8, atol=1e-11)
    nowhere = f(-np.eye(4), np.ones(3), begin)[0] if step is not whitened else f(-2 * np.eye(4), np.ones(3), begin)[0]
    assert np.isnan(nowhere).all() or step is feedback


@pytest.mark.parametrize("n", [2, 3])
def test_a_step_that_solves_a_small_system_is_computed_number_by_number(n: int, rng: np.random.Generator) -> None:
    """With its gradient, and with NaN where there is no solution."""
    A, u = sj.tensor(("T", n, n), "float64", "A"), sj.tensor((n,), "float64", "u")
    ys = sj.scan(lambda A, u: sj.solve(A, u) + 0.1 * u, A, u)
    functions = [sj.function([A, u], [ys, *sj.grad((ys * ys).sum(), [A, u])], mode=m) for m in ("reference", "numba")]
    assert "number by number" in str(functions[1].explain())
    given, start = rng.normal(size=(9, n, n)) + 2 * np.eye(n), rng.normal(size=n)
    for singular in (False, True):
        given[5] = 0 if singular else given[5]
        wanted, found = (f(given, start) for f in functions)
        all_close(found, wanted, rtol=1e-9, atol=1e-12)

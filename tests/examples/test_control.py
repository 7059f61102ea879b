"""Van Loan's discretisation and the regulator beside SciPy's, with derivatives."""

from __future__ import annotations

import numpy as np
import pytest

import scanjit as sj


@pytest.fixture
def example(read_example):
    return read_example("control")


def system(rng: np.random.Generator, n: int = 4, inputs: int = 2) -> tuple[np.ndarray, ...]:
    root = rng.normal(size=(n, n))
    return rng.normal(size=(n, n)), rng.normal(size=(n, inputs)), root @ root.T


@pytest.mark.slow
def test_discretisation_beside_scipy(example) -> None:
    linalg, signal, integrate = (pytest.importorskip(f"scipy.{name}") for name in ("linalg", "signal", "integrate"))
    A, B, Q = system(np.random.default_rng(0))
    names = [sj.matrix(), sj.tensor((4, 2)), sj.matrix(), sj.scalar()]
    F, G, W = sj.function(names, list(example.discretised(*names)))(A, B, Q, 0.3)
    wanted_F, wanted_G, *_ = signal.cont2discrete((A, B, np.eye(4), np.zeros((4, 2))), 0.3)
    covariance = lambda s: linalg.expm(A * s) @ Q @ linalg.expm(A * s).T
    np.testing.assert_allclose(F, wanted_F, 1e-10, 1e-12)
    np.testing.assert_allclose(G, wanted_G, 1e-10, 1e-12)
    np.testing.assert_allclose(W, integrate.quad_vec(covariance, 0, 0.3)[0], 1e-9, 1e-11)
    few = *system(np.random.default_rng(0), 2, 1), np.array(0.3)
    sj.check_grad(lambda A, B, Q, t: list(example.discretised(A, B, Q, t)), few)


def test_regulator_beside_scipy(example, rng: np.random.Generator) -> None:
    linalg = pytest.importorskip("scipy.linalg")
    A, B, Q = system(rng)
    F, R = linalg.expm(A * 0.1), np.eye(2)
    names = [sj.matrix(), sj.tensor((4, 2)), sj.matrix(), sj.tensor((2, 2))]
    K, P = example.lqr(*names)
    cost = (P**2).sum()
    found = sj.function(names, [K, P, cost, sj.grad(cost, names[2])])(F, B, Q, R)
    wanted = linalg.solve_discrete_are(F, B, Q, R)
    np.testing.assert_allclose(found[1], wanted, 1e-9)
    np.testing.assert_allclose(found[0], np.linalg.solve(R + B.T @ wanted @ B, B.T @ wanted @ F), 1e-9)
    step = 1e-5 * np.eye(4)[:, [1]] @ np.eye(4)[[1]]
    up, down = ((linalg.solve_discrete_are(F, B, Q + s * step, R) ** 2).sum() for s in (1, -1))
    np.testing.assert_allclose(found[3][1, 1], (up - down) / 2e-5, 1e-5)


def test_the_length_is_where_the_likelihood_is_largest(example) -> None:
    """Of a pendulum that nobody pushes: `main` finds the length of one that is kept upright."""
    random, F, G = np.random.default_rng(0), *(
        np.asarray(part) for part in sj.function([], list(example.discretised(*example.pendulum(sj.as_tensor(0.7)),
                                                                              np.eye(2), 0.05))[:2])()
    )  # fmt: skip
    pushed = random.normal(size=(25, 1))
    states = [np.array([0.2, 0.0])]
    for push in pushed[1:]:
        states.append(F @ states[-1] + G @ push)
    seen = np.array(states)[:, 0] + 1e-3 * random.normal(size=25)
    length = sj.scalar("length")
    cost = example.likelihood(length, seen, pushed, 0.05, 1e-6, 1e-6)
    f = sj.function([length], cost, mode="reference")
    assert f(0.7) > max(f(0.5), f(0.6), f(0.8), f(1.0))


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["reference", "numba"])
def test_the_length_of_a_pendulum_is_found(example, mode, capsys) -> None:
    example.main(["--steps", "small", "--mode", mode])
    assert "found 0.7" in capsys.readouterr().out

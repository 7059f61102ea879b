"""GARCH: estimates and standard errors against loops by hand, and against the package arch where it is there."""

import numpy as np
import pytest
from scipy import optimize


def by_hand(parameters, returns, before):
    """The logarithm of each day's likelihood."""
    mu, omega, alpha, beta = parameters
    square = variance = before
    terms = []
    for value in returns:
        variance = omega + alpha * square + beta * variance
        square = (value - mu) ** 2
        terms.append(-0.5 * (np.log(2 * np.pi * variance) + square / variance))
    return np.array(terms)


def slopes(fn, x, h=1e-5):
    """The derivatives of a function of four numbers, one a row."""
    return np.array([(fn(x + e) - fn(x - e)) / (2 * h) for e in h * np.eye(4)])


@pytest.fixture
def garch(read_example):
    return read_example("garch")


@pytest.mark.parametrize("mode", ["reference", "emulate"])
def test_derivatives_against_finite_differences(garch, mode):
    returns = garch.simulate(np.random.default_rng(2), 60)
    before = garch.backcast(returns)
    where = garch.TRUE + 0.01
    days, scores, hessian, _ = garch.compile_information(mode)(where, returns, before)
    fn = lambda x: by_hand(x, returns, before)
    np.testing.assert_allclose(days, fn(where), rtol=1e-12)
    np.testing.assert_allclose(scores, slopes(fn, where), rtol=1e-5, atol=1e-6)
    total = lambda x: slopes(lambda y: fn(y).sum(), x)
    np.testing.assert_allclose(hessian, slopes(total, where, 1e-4), rtol=1e-3, atol=1e-2)


def test_estimates_against_an_optimizer_without_derivatives(garch):
    returns = garch.simulate(np.random.default_rng(1), 250)
    result = garch.fit(returns, "reference")
    before = garch.backcast(returns)
    loss = lambda x: -by_hand(x, returns, before).mean() if (x[1:] > 0).all() else np.inf
    found = optimize.minimize(
        loss, result["parameters"] * 1.05, method="Nelder-Mead", options={"xatol": 1e-6, "fatol": 1e-12}
    )
    np.testing.assert_allclose(result["parameters"], found.x, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(result["likelihood"], -found.fun * len(returns), rtol=1e-9)


def test_estimates_against_arch(garch):
    arch = pytest.importorskip("arch")
    returns = garch.simulate(np.random.default_rng(1), 2000)
    ours = garch.fit(returns, "reference")
    model = arch.arch_model(returns, mean="Constant", vol="GARCH", p=1, q=1, rescale=False)
    options = {"disp": "off", "tol": 1e-12, "options": {"ftol": 1e-14, "maxiter": 1000}}
    robust, classic = (model.fit(cov_type=kind, **options) for kind in ("robust", "classic"))
    np.testing.assert_allclose(ours["parameters"], robust.params.values, rtol=1e-5)
    np.testing.assert_allclose(ours["likelihood"], robust.loglikelihood, rtol=1e-10)
    np.testing.assert_allclose(ours["variances"], robust.conditional_volatility**2, rtol=1e-5)
    np.testing.assert_allclose(ours["errors"], classic.std_err.values, rtol=1e-4)
    np.testing.assert_allclose(ours["robust"], robust.std_err.values, rtol=1e-3)


def test_a_file_of_returns(garch, tmp_path, capsys):
    file = tmp_path / "returns.txt"
    np.savetxt(file, garch.simulate(np.random.default_rng(0), 200))
    garch.main(["--file", str(file), "--mode", "reference"])
    from_file = capsys.readouterr().out
    garch.main(["--steps", "200", "--mode", "reference"])
    made_here = capsys.readouterr().out
    assert "200 returns" in from_file and "robust" in from_file and "true" not in from_file
    assert from_file.splitlines()[1] == made_here.splitlines()[1]  # the log likelihood
    np.savetxt(file, np.zeros((200, 2)))
    with pytest.raises(SystemExit, match="must have one column"):
        garch.main(["--file", str(file)])
    with pytest.raises(SystemExit, match=r"cannot read returns from .*missing"):
        garch.main(["--file", str(tmp_path / "missing.txt")])

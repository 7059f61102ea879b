"""The filter and the smoother against what all of it together says: one large normal distribution; and statsmodels."""

import numpy as np
import pytest
from scipy import stats


@pytest.fixture
def kalman(read_example):
    return read_example("kalman")


def together(model, length):
    """The mean and covariance of all states, (length * n), and the matrix that picks what is seen of them."""
    n, A = len(model.mean), np.asarray(model.A)
    means, covs = [model.mean], [model.cov]
    for _ in range(length - 1):
        means.append(A @ means[-1])
        covs.append(A @ covs[-1] @ A.T + model.Q)
    joint = np.zeros((length, n, length, n))
    for t in range(length):
        block = covs[t]
        for later in range(t, length):
            joint[later, :, t], joint[t, :, later] = block, block.T
            block = A @ block
    return np.concatenate(means), joint.reshape(length * n, length * n), np.kron(np.eye(length), model.C)


def posterior(model, seen, until):
    """Mean and covariance of the states given the first measurements, without those that are NaN."""
    length, n = len(seen), len(model.mean)
    mean, cov, pick = together(model, length)
    y = seen.ravel()
    used = ~np.isnan(y) & (np.arange(y.size) < until * seen.shape[1])
    C, noise = pick[used], np.kron(np.eye(length), model.R)[np.ix_(used, used)]
    S = C @ cov @ C.T + noise
    gain = np.linalg.solve(S, C @ cov).T
    after = mean + gain @ (y[used] - C @ mean)
    density = stats.multivariate_normal(C @ mean, S).logpdf(y[used])
    return after.reshape(length, n), (cov - gain @ C @ cov).reshape(length, n, length, n), density


def a_model(kalman, name):
    if name == "boat":
        return kalman.boat()
    return kalman.local_level(np.log([2.0, 3.0]), first=1.0)._replace(cov=np.array([[4.0]]))


@pytest.mark.parametrize("name", ["boat", "level"])
@pytest.mark.parametrize("mode", ["reference", "emulate"])
def test_filter_and_smoother_against_one_normal_distribution(kalman, name, mode):
    model = a_model(kalman, name)

    length = 7
    _, seen = kalman.simulate(np.random.default_rng(0), model, length)
    seen[3] = np.nan
    means, covs, smooth_means, smooth_covs, likelihood = kalman.compile_analysis(model, mode)(seen)
    wanted, joint, density = posterior(model, seen, length)
    np.testing.assert_allclose(smooth_means, wanted, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(smooth_covs, [joint[t, :, t] for t in range(length)], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(likelihood, density, rtol=1e-10)
    for t in range(length):
        wanted, joint, _ = posterior(model, seen, t + 1)
        np.testing.assert_allclose(means[t], wanted[t], rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(covs[t], joint[t, :, t], rtol=1e-9, atol=1e-9)


def test_the_example_finds_what_is_known_of_the_nile(kalman, capsys):
    kalman.main(["--steps", "small", "--mode", "reference"])  # asserts the variances in the literature itself
    assert "the boat" in capsys.readouterr().out


def test_against_statsmodels(kalman):
    smoothers = pytest.importorskip("statsmodels.tsa.statespace.kalman_smoother")
    model = kalman.boat()
    _, seen = kalman.simulate(np.random.default_rng(1), model, 80)
    seen[30:40] = np.nan
    theirs = smoothers.KalmanSmoother(
        k_endog=2, k_states=4, design=model.C, obs_cov=model.R, transition=model.A, selection=np.eye(4),
        state_cov=model.Q,
    )  # fmt: skip
    theirs.initialize_known(model.mean, model.cov)
    theirs.bind(seen.copy())
    wanted = theirs.smooth()
    means, covs, smooth_means, smooth_covs, likelihood = kalman.compile_analysis(model, "reference")(seen)
    np.testing.assert_allclose(likelihood, wanted.llf, rtol=1e-12)
    for ours, other in [(means, wanted.filtered_state), (covs, wanted.filtered_state_cov),
                        (smooth_means, wanted.smoothed_state), (smooth_covs, wanted.smoothed_state_cov)]:  # fmt: skip
        np.testing.assert_allclose(ours, np.moveaxis(other, -1, 0), rtol=1e-9, atol=1e-9)


def test_estimates_against_statsmodels(kalman):
    tsa = pytest.importorskip("statsmodels.tsa.api")
    series = np.array(kalman.NILE.split(), float)
    ours, _ = kalman.fit_local_level(series, "reference")
    model = tsa.UnobservedComponents(series, "llevel")
    model.ssm.initialize_known(np.zeros(1), np.array([[1e7]]))
    model.ssm.loglikelihood_burn = 1  # the first value only says where the level is
    found = model.fit([15000.0, 1500.0], disp=0, method="nm", maxiter=5000, xtol=1e-10, ftol=1e-14).params
    np.testing.assert_allclose(ours, found[::-1], rtol=1e-5)

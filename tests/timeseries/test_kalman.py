"""The Kalman filter beside a joint normal distribution of all states and observations, and beside statsmodels."""

import numpy as np
import pytest

import scanjit as sj

RANDOM = np.random.default_rng(0)
STEPS, STATES, ENTRIES = 7, 3, 2
TRANSITION = 0.5 * RANDOM.normal(size=(STEPS, STATES, STATES)) + 0.6 * np.eye(STATES)
OBSERVATION = RANDOM.normal(size=(STEPS, ENTRIES, STATES))
HALF = RANDOM.normal(size=(STATES, STATES))
STATE_NOISE = HALF @ HALF.T
NOISE = np.array([[0.5, 0.1], [0.1, 0.3]])
MEAN, COVARIANCE = RANDOM.normal(size=STATES), np.diag([1.0, 2.0, 0.5])
STATE_OFFSET, OFFSET = RANDOM.normal(size=STATES), RANDOM.normal(size=(STEPS, ENTRIES))
Y = RANDOM.normal(size=(STEPS, ENTRIES))
Y[2, 1] = Y[4] = Y[6, 0] = np.nan
FORMS = ["covariance", "square-root", "information"]


def model(**changes):
    parts = {
        "transition": TRANSITION, "observation": OBSERVATION, "state_noise": STATE_NOISE, "noise": NOISE, "mean": MEAN,
        "covariance": COVARIANCE, "state_offset": STATE_OFFSET, "offset": OFFSET,
    }  # fmt: skip
    return sj.timeseries.StateSpace(**(parts | changes))


def joint():
    """Means and covariance of all states and all observations together."""
    means, blocks = [MEAN], {(0, 0): COVARIANCE}
    for t in range(1, STEPS):
        move = TRANSITION[t - 1]
        means.append(move @ means[-1] + STATE_OFFSET)
        for s in range(t):
            blocks[t, s] = move @ blocks[t - 1, s]
            blocks[s, t] = blocks[t, s].T
        blocks[t, t] = move @ blocks[t - 1, t - 1] @ move.T + STATE_NOISE
    states = np.block([[blocks[t, s] for s in range(STEPS)] for t in range(STEPS)])
    seen = np.zeros((STEPS * ENTRIES, STEPS * STATES))
    for t in range(STEPS):
        seen[t * ENTRIES : (t + 1) * ENTRIES, t * STATES : (t + 1) * STATES] = OBSERVATION[t]
    spread = seen @ states @ seen.T + np.kron(np.eye(STEPS), NOISE)
    return np.concatenate(means), states, seen @ np.concatenate(means) + OFFSET.ravel(), seen @ states, spread


def given(until):
    """The states' means and covariances by all observations of the steps before `until`, and their log-likelihood."""
    means, states, expected, cross, spread = joint()
    there = np.isfinite(Y).ravel() & (np.arange(Y.size) < until * ENTRIES)
    missed, spread, cross = (Y.ravel() - expected)[there], spread[np.ix_(there, there)], cross[there]
    gain = np.linalg.solve(spread, cross).T
    squares = missed @ np.linalg.solve(spread, missed)
    likelihood = -(missed.size * np.log(2 * np.pi) + np.linalg.slogdet(spread)[1] + squares) / 2
    mean, covariance = means + gain @ missed, states - gain @ cross
    blocks = [slice(t * STATES, (t + 1) * STATES) for t in range(STEPS)]
    return np.stack([mean[b] for b in blocks]), np.stack([covariance[b, b] for b in blocks]), likelihood


@pytest.fixture(scope="module", params=FORMS)
def filtered(request):
    filtering = sj.jit(lambda y, m: sj.timeseries.kalman_filter(y, m, request.param))
    return filtering(Y, model())


@pytest.mark.quick(2)
def test_filter(filtered):
    for t in range(STEPS):
        mean, covariance, likelihood = given(t + 1)
        np.testing.assert_allclose(filtered.mean[t], mean[t], rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(filtered.covariance[t], covariance[t], rtol=1e-6, atol=1e-8)
        mean, covariance, _ = given(t)
        np.testing.assert_allclose(filtered.predicted_mean[t], mean[t], rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(filtered.predicted_covariance[t], covariance[t], rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(filtered.log_likelihood[: t + 1].sum(), likelihood, rtol=1e-7)
    assert filtered.log_likelihood[4] == pytest.approx(0, abs=1e-8)  # nothing was seen


@pytest.mark.parametrize("form", FORMS)
def test_smoother(form):
    smoothed = sj.jit(lambda y, m: sj.timeseries.kalman_smoother(y, m, form))(Y, model())
    mean, covariance, _ = given(STEPS)
    np.testing.assert_allclose(smoothed.mean, mean, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(smoothed.covariance, covariance, rtol=1e-6, atol=1e-8)


def likelihood(y, noises, form="covariance"):
    """Of a local linear trend."""
    moves, seen = np.array([[1.0, 1.0], [0.0, 1.0]]), np.array([[1.0, 0.0]])
    state_noise = sj.diag(noises[1:])
    trend = sj.timeseries.StateSpace(moves, seen, state_noise, noises[:1, None], np.zeros(2), 10 * np.eye(2))
    return sj.timeseries.kalman_filter(y, trend, form).log_likelihood.sum()


def test_forms_agree_where_noise_is_singular():
    y = np.cumsum(RANDOM.normal(size=40))
    noises = np.array([1.0, 0.5, 0.0])
    found = [sj.jit(lambda y, v, form=form: likelihood(y, v, form))(y, noises) for form in FORMS]
    np.testing.assert_allclose(found, found[0], rtol=1e-9)


@pytest.mark.slow
def test_padded_series_of_a_batch():
    """Steps of NaN after the end of a series add nothing; the gradient is that of the series alone."""
    y = np.cumsum(RANDOM.normal(size=(3, 30)), axis=1)
    y[0, 20:] = np.nan
    y[1, 5:9] = np.nan
    noises = np.array([1.0, 0.5, 0.1])
    each = sj.jit(lambda y, v: sj.vmap(lambda y: sj.value_and_grad(likelihood, 1)(y, v))(y))
    values, slopes = each(y, noises)
    for row, length, value, slope in zip(y, (20, 30, 30), values, slopes, strict=True):
        alone = sj.value_and_grad(likelihood, 1)(row[:length], noises)
        np.testing.assert_allclose(value, alone[0], rtol=1e-10)
        np.testing.assert_allclose(slope, alone[1], rtol=1e-7)
    assert np.isfinite(slopes).all()


def test_nothing_is_known_at_first():
    """The information form begins with no knowledge: after two entries, a trend through them is known."""
    moves, seen = np.array([[1.0, 1.0], [0.0, 1.0]]), np.array([[1.0, 0.0]])

    @sj.jit
    def known(y):
        trend = sj.timeseries.StateSpace(moves, seen, 0.1 * np.eye(2), np.eye(1), np.zeros(2), None)
        return sj.timeseries.kalman_filter(y, trend, "information")

    @sj.jit
    def vague(y):
        trend = sj.timeseries.StateSpace(moves, seen, 0.1 * np.eye(2), np.eye(1), np.zeros(2), 1e7 * np.eye(2))
        return sj.timeseries.kalman_filter(y, trend)

    y = np.array([1.0, 3.0, 4.0, 7.0])
    np.testing.assert_allclose(known(y).mean[1:], vague(y).mean[1:], rtol=1e-5)
    np.testing.assert_allclose(known(y).log_likelihood, [0, 0, *vague(y).log_likelihood[2:]], rtol=1e-5)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("slope", [0.1, 0.3, 0.7, 1e8, 1e-8])
@pytest.mark.parametrize("states", [2, 3])
def test_what_rounding_leaves_is_no_knowledge(states, slope, dtype):
    """As many entries as there are states determine a mean, in whatever units the states are, and fewer do not. The
    matrices of information are then singular but for rounding."""
    moves = np.eye(states) * 0.9 + np.eye(states, k=1)
    units = slope ** np.arange(states)
    moves, seen = moves / units[:, None] * units, np.linspace(1, 0.37, states)[None] * units
    parts = (moves, seen, np.diag(0.1 / units**2), np.eye(1), np.zeros(states))
    model = sj.timeseries.StateSpace(*(part.astype(dtype) for part in parts), None)
    y = np.array([1.0, 3.0, 4.0, 7.0, 6.0], dtype)
    found = sj.jit(lambda y: sj.timeseries.kalman_filter(y, model, "information"), mode="reference")(y)
    for known, least in (
        (found.mean, states - 1),
        (found.covariance[:, 0], states - 1),
        (found.predicted_mean, states),
    ):
        assert np.isfinite(known).all(axis=1).tolist() == [t >= least for t in range(len(y))]
    assert (found.log_likelihood[:states] == 0).all() and (found.log_likelihood[states:] < -0.5).all()


@pytest.mark.parametrize("changed", ["noise", "transition", "covariance"])
def test_the_information_form_divides_by_matrices(changed):
    """A matrix without an inverse makes the likelihood NaN. It is no sign that nothing is known yet, which adds 0."""
    model = sj.timeseries.StateSpace(*[np.eye(1)] * 4, np.zeros(1), np.eye(1))._replace(**{changed: np.zeros((1, 1))})
    filter_ = sj.jit(lambda y: sj.timeseries.kalman_filter(y, model, "information").log_likelihood, mode="reference")
    assert np.isnan(filter_(np.array([1.0, 3.0, 4.0]))[1:]).all()


def test_derivatives_where_nothing_is_known_at_first():
    """Steps whose information is singular have no finite mean; what is computed from later steps has derivatives."""

    def fitted(noises, y):
        moves, seen = np.array([[1.0, 1.0], [0.0, 1.0]]), np.array([[1.0, 0.0]])
        trend = sj.timeseries.StateSpace(moves, seen, sj.diag(noises[1:]), sj.diag(noises[:1]), np.zeros(2), None)
        found = sj.timeseries.kalman_filter(y, trend, "information")
        return found.log_likelihood.sum() + found.mean[-1].sum() + found.covariance[-1].sum()

    for y in (np.array([1.0, 3.0, 4.0, 7.0]), np.array([np.nan, 1.0, np.nan, 3.0, 4.0, 7.0])):
        sj.check_grad(lambda noises, y=y: fitted(noises, y), [np.array([1.0, 0.5, 0.1])])


def test_as_statsmodels():
    statespace = pytest.importorskip("statsmodels.api").tsa
    y = np.cumsum(RANDOM.normal(size=80))
    y[10:15] = np.nan
    theirs = statespace.UnobservedComponents(y, "lltrend", use_exact_diffuse=False)
    theirs.ssm.initialize_known(np.zeros(2), 10 * np.eye(2))
    theirs.ssm.loglikelihood_burn = 0
    noises = np.array([1.2, 0.5, 0.1])
    np.testing.assert_allclose(sj.jit(likelihood)(y, noises), theirs.loglike(noises), rtol=1e-8)


@pytest.mark.parametrize(("changes", "form", "error", "message"), [
    ({}, "joseph", sj.ArgumentError, "the form of the filter is unknown"),
    ({"covariance": None}, "covariance", sj.ArgumentError, "needs form='information'"),
    ({"noise": np.ones(2)}, "covariance", sj.ShapeError, "noise has another number of axes"),
    ({"noise": np.eye(3)}, "covariance", sj.ShapeError, "^noise has another shape"),
    ({"state_noise": np.ones((STEPS, 2, 2))}, "covariance", sj.ShapeError, "^state_noise has another shape"),
    ({"observation": OBSERVATION.T}, "covariance", sj.ShapeError, "^observation has another shape"),
    ({"offset": np.ones((2, 2, 2))}, "covariance", sj.ShapeError, "offset has another number of axes"),
])  # fmt: skip
def test_wrong_arguments(changes, form, error, message):
    with pytest.raises(error, match=message):
        sj.timeseries.kalman_filter(sj.matrix("y"), model(**changes), form)

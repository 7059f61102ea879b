"""Smoothing, ARMA, variances, regimes: beside plain loops, statsmodels and arch."""

import itertools

import numpy as np
import pytest

import scanjit as sj

RANDOM = np.random.default_rng(3)
SERIES = 20 + np.cumsum(RANDOM.normal(size=36)) + 3 * np.sin(np.arange(36) * np.pi / 2)
SEASON = {"add": np.array([1.0, -2.0, 0.5, 0.5]), "mul": np.array([1.1, 0.8, 1.0, 1.05])}
FORMS = list(itertools.product(["add", "mul"], [None, "add", "mul"], [False, True], [None, "add", "mul"]))


def smoothing(series, error, trend, damped, season):
    first = {None: None, "add": 0.3, "mul": 1.02}[trend]
    return sj.timeseries.ets(
        series, 20.0, 0.4, trend=first, smooth_trend=0.1 if trend else 0.0, damping=0.9 if damped else 1.0,
        season=SEASON.get(season), smooth_season=0.2 if season else 0.0,
        error=error, trend_form=trend, season_form=season,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("error", "trend", "damped", "season"), [form for form in FORMS if (form[1] or not form[2]) and form[3] != "mul"]
)
def test_ets_as_statsmodels(error, trend, damped, season):
    model = pytest.importorskip("statsmodels.tsa.exponential_smoothing.ets").ETSModel
    found = sj.jit(lambda y: smoothing(y, error, trend, damped, season))(SERIES)
    theirs = model(
        SERIES, error=error, trend=trend, damped_trend=damped, seasonal=season, seasonal_periods=4 if season else None,
        initialization_method="known", initial_level=20.0,
        **({"initial_trend": {"add": 0.3, "mul": 1.02}[trend]} if trend else {}),
        **({"initial_seasonal": SEASON[season]} if season else {}),
    )  # fmt: skip
    names = {"smoothing_level": 0.4, "smoothing_trend": 0.1, "smoothing_seasonal": 0.2, "damping_trend": 0.9}
    states = {"initial_level": 20.0, "initial_trend": {"add": 0.3, "mul": 1.02}.get(trend)}
    states |= {f"initial_seasonal.{i}": s for i, s in enumerate(SEASON.get(season, []))}
    parameters = [(names | states)[name] for name in theirs.param_names]
    result = theirs.smooth(np.array(parameters))
    np.testing.assert_allclose(found.fitted, result.fittedvalues, rtol=1e-8)
    np.testing.assert_allclose(found.level, result.level, rtol=1e-8)
    np.testing.assert_allclose(found.log_likelihood, result.llf, rtol=1e-8)


def test_ets_by_a_plain_loop():
    """(statsmodels changes a season that is multiplied by the level of the same step, Hyndman by that of the last.)"""
    level, season, fitted = 20.0, list(SEASON["mul"]), []
    for t, value in enumerate(SERIES):
        fitted.append(level * season[t])
        missed = value - fitted[-1]
        season.append(season[t] + 0.2 * missed / level)
        level = level + 0.4 * missed / season[t]
    for error in ("add", "mul"):
        found = sj.jit(lambda y, error=error: smoothing(y, error, None, False, "mul"))(SERIES)
        np.testing.assert_allclose(found.fitted, fitted, rtol=1e-12)
        np.testing.assert_allclose(found.season, season[4:], rtol=1e-12)
    level, trend, season = 20.0, 0.3, list(SEASON["add"])
    fitted = []
    for t, value in enumerate(SERIES):
        expected = level + 0.9 * trend
        fitted.append(expected + season[t])
        missed = 0.0 if t == 5 else value - fitted[-1]
        level, trend = expected + 0.4 * missed, 0.9 * trend + 0.1 * missed
        season.append(season[t] + 0.2 * missed)
    series = SERIES.copy()
    series[5] = np.nan
    found = sj.jit(lambda y: smoothing(y, "add", "add", True, "add"))(series)
    np.testing.assert_allclose(found.fitted, fitted, rtol=1e-12)
    np.testing.assert_allclose(found.season, season[4:], rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("how", [pytest.param("add", marks=pytest.mark.slow), "mul"])
def test_derivatives_of_ets(how):
    sj.check_grad(lambda y: smoothing(y, how, how, True, how).log_likelihood, [SERIES])


def test_arma_by_its_covariance():
    """ARMA(1, 1): the likelihood is that of a normal vector with the known autocovariances."""
    ar, ma, variance = 0.7, 0.4, 1.3
    first = variance * (1 + 2 * ar * ma + ma**2) / (1 - ar**2)
    second = variance * (1 + ar * ma) * (ar + ma) / (1 - ar**2)
    lags = abs(np.subtract.outer(np.arange(25), np.arange(25)))
    matrix = np.where(lags == 0, first, second * ar ** np.maximum(lags - 1, 0))
    y = RANDOM.normal(size=25)
    expected = -(25 * np.log(2 * np.pi) + np.linalg.slogdet(matrix)[1] + y @ np.linalg.solve(matrix, y)) / 2
    found = sj.jit(sj.timeseries.arma)(y, np.array([ar]), np.array([ma]), variance)
    np.testing.assert_allclose(found.log_likelihood.sum(), expected, rtol=1e-10)
    sj.check_grad(lambda a, m, v: sj.timeseries.arma(y, a, m, v).log_likelihood.sum(), [[ar], [ma], variance])


def test_arma_as_statsmodels():
    sarimax = pytest.importorskip("statsmodels.api").tsa.SARIMAX
    y = np.cumsum(RANDOM.normal(size=60)) * 0.3
    y[20] = np.nan
    ar, ma, seasonal = np.array([0.5, -0.3]), np.array([0.4]), np.array([0.2])
    theirs = sarimax(y, order=(2, 0, 1), seasonal_order=(1, 0, 0, 4)).loglike([*ar, *ma, *seasonal, 1.5])

    @sj.jit
    def ours(y, ar, ma, seasonal):
        return sj.timeseries.arma(y, sj.timeseries.expanded(ar, seasonal, 4), ma, 1.5).log_likelihood.sum()

    np.testing.assert_allclose(ours(y, ar, ma, seasonal), theirs, rtol=1e-7)


@pytest.mark.parametrize("sign", [-1, 1])
def test_expanded(sign):
    short, long = np.array([0.5, -0.2]), np.array([0.3, 0.1])
    product = np.polymul(np.r_[1, sign * short][::-1], np.r_[1, *(np.eye(4)[3] * sign * s for s in long)][::-1])[::-1]
    found = sj.jit(lambda a, s: sj.timeseries.expanded(a, s, 4, sign))(short, long)
    np.testing.assert_allclose(found, sign * product[1:], atol=1e-12)


ERRORS = RANDOM.standard_t(5, size=300)


def test_garch_by_a_plain_loop():
    variances, logs = [2.0], [np.log(2.0)]
    for e in ERRORS[:-1]:
        variances.append(0.1 + (0.05 + 0.1 * (e < 0)) * e**2 + 0.8 * variances[-1])
        z = e / np.exp(logs[-1] / 2)
        logs.append(0.02 + 0.2 * (abs(z) - np.sqrt(2 / np.pi)) - 0.1 * z + 0.9 * logs[-1])
    found = sj.jit(lambda e: sj.timeseries.garch(e, 0.1, 0.05, 0.8, 0.1, first=2.0))(ERRORS)
    np.testing.assert_allclose(found, variances, rtol=1e-12)
    found = sj.jit(lambda e: sj.timeseries.egarch(e, 0.02, 0.2, 0.9, -0.1, first=2.0))(ERRORS)
    np.testing.assert_allclose(found, np.exp(logs), rtol=1e-10)
    mean = sj.jit(lambda e: sj.timeseries.garch(e, 0.1, 0.05, 0.8))(ERRORS)[0]
    np.testing.assert_allclose(mean, (ERRORS**2).mean(), rtol=1e-12)


def test_variances_and_densities_as_arch():
    univariate = pytest.importorskip("arch.univariate")
    variances, bounds = np.empty(300), np.tile([1e-8, 1e8], (300, 1))
    garch = sj.jit(lambda e: sj.timeseries.garch(e, 0.1, 0.05, 0.8, 0.1, first=0.1 + 0.9 * 1.7))
    univariate.GARCH(1, 1, 1).compute_variance(np.array([0.1, 0.05, 0.1, 0.8]), ERRORS, variances, 1.7, bounds)
    np.testing.assert_allclose(garch(ERRORS)[1:], variances[1:], rtol=1e-9)
    normal, t, skewed = sj.timeseries.normal, sj.timeseries.student_t, sj.timeseries.skew_t
    for ours, theirs, parameters in [
        (normal, univariate.Normal(), []),
        (t, univariate.StudentsT(), [6.0]),
        (skewed, univariate.SkewStudent(), [6.0, -0.3]),
    ]:
        expected = theirs.loglikelihood(parameters, ERRORS, variances, individual=True)
        np.testing.assert_allclose(sj.jit(ours)(ERRORS, variances, *parameters), expected, rtol=1e-9)


def test_densities_are_densities():
    """Their integral is 1, their mean 0, and their variance as given."""
    x, step = np.linspace(-400, 400, 800001, retstep=True)
    for density in (
        sj.timeseries.normal,
        lambda e, v: sj.timeseries.student_t(e, v, 6.0),
        lambda e, v: sj.timeseries.skew_t(e, v, 6.0, 0.4),
    ):
        heights = np.exp(sj.jit(density)(x, 1.7))
        moments = [(heights * x**power).sum() * step for power in (0, 1, 2)]
        np.testing.assert_allclose(moments, [1, 0, 1.7], atol=2e-3)


def test_regimes_by_all_paths():
    """Four steps of two regimes have 16 paths: their probabilities are added up."""
    densities, transition = RANDOM.uniform(0.1, 1, (4, 2)), np.array([[0.8, 0.2], [0.3, 0.7]])
    first = np.array([0.6, 0.4])
    weights = np.zeros((2, 2, 2, 2))
    for path in itertools.product(range(2), repeat=4):
        moves = np.prod([transition[a, b] for a, b in itertools.pairwise(path)])
        weights[path] = first[path[0]] * moves * np.prod([densities[t, s] for t, s in enumerate(path)])

    @sj.jit
    def both(densities):
        found = sj.timeseries.regime_filter(np.log(densities), transition, first)
        return found, sj.timeseries.regime_smoother(found, transition)

    found, smoothed = both(densities)
    np.testing.assert_allclose(found.log_likelihood.sum(), np.log(weights.sum()), rtol=1e-12)
    for t in range(4):
        axes = tuple(axis for axis in range(4) if axis != t)
        np.testing.assert_allclose(smoothed[t], weights.sum(axis=axes) / weights.sum(), rtol=1e-12)
    np.testing.assert_allclose(found.filtered[3], smoothed[3], rtol=1e-12)


@pytest.mark.parametrize(("arguments", "message"), [
    ({"error": "multiply"}, "the form of the error is unknown"),
    ({"trend_form": "plus", "trend": 1.0}, "trend_form is unknown"),
    ({"season_form": "add"}, "season_form needs the first state"),
    ({"season": np.ones(1)}, "a state for each step of a period"),
])  # fmt: skip
def test_wrong_arguments(arguments, message):
    with pytest.raises(sj.ArgumentError, match=message):
        sj.timeseries.ets(sj.vector("y"), 1.0, 0.5, **arguments)


@pytest.mark.parametrize("freedom", [5.0, 1e4, 1e8, 1e16])
def test_many_degrees_of_freedom(freedom):
    stats = pytest.importorskip("scipy.stats")
    x = np.linspace(-3, 3, 7)
    wanted = stats.t.logpdf(x, freedom, scale=np.sqrt(2 * (freedom - 2) / freedom))
    found = sj.jit(lambda x: sj.timeseries.student_t(x, 2.0, freedom))(x)
    np.testing.assert_allclose(found, wanted, rtol=1e-11)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_regimes_that_cannot_be_explain_nothing(dtype):
    """The first regime is never left. Values that only the other one explains have a likelihood all the same."""
    y = np.array([0.0, 60.0, 0.0])
    densities = (-0.5 * (y[:, None] - np.array([0.0, 60.0])) ** 2).astype(dtype)
    transition, first = np.array([[1.0, 0.0], [0.1, 0.9]], dtype), np.array([1.0, 0.0], dtype)

    def likelihood(densities, transition, first):
        return sj.timeseries.regime_filter(densities, transition, first).log_likelihood.sum()

    value, slopes = sj.value_and_grad(likelihood, [0, 1, 2])(densities, transition, first)
    np.testing.assert_allclose(value, densities[:, 0].sum())
    np.testing.assert_array_equal(slopes[0], [[1, 0]] * 3)
    assert all(np.isfinite(slope).all() for slope in slopes)
    found = sj.jit(sj.timeseries.regime_filter)(densities, transition, first)
    np.testing.assert_array_equal(found.filtered, [[1, 0]] * 3)

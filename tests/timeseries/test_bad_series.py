"""Series without data, of one value, of infinity: their results say so, and the others do not change by a bit."""

import numpy as np
import pytest

import scanjit as sj

STEPS = 30
RANDOM = np.random.default_rng(0)
GOOD = 10 + 0.3 * np.cumsum(RANDOM.normal(size=(2, STEPS)), axis=1)
NAN = np.full(STEPS, np.nan)
SERIES = {
    "good": GOOD[0],
    "absent": NAN,
    "one value": np.r_[1.5, NAN[1:]],
    "late": np.r_[NAN[:3], GOOD[1, 3:]],
    "infinite": np.r_[GOOD[1, :5], np.inf, GOOD[1, 6:]],
    "constant": np.full(STEPS, 2.0),
    "zero": np.zeros(STEPS),
    "other": GOOD[1],
}
ROWS = np.stack(list(SERIES.values()))
HARMLESS = ["good", "other"]
ONE = np.ones((1, 1))


def walk(series, noise, form="covariance"):
    model = sj.timeseries.StateSpace(ONE, ONE, sj.as_tensor([[noise]]), ONE, np.zeros(1), 100 * ONE)
    return sj.timeseries.kalman_filter(series, model, form).log_likelihood.sum()


LIKELIHOODS = {
    "covariance": lambda y: walk(y, 0.1),
    "square-root": lambda y: walk(y, 0.1, "square-root"),
    "information": lambda y: walk(y, 0.1, "information"),
    "ets": lambda y: sj.timeseries.ets(y, 10.0, 0.3).log_likelihood,
    "arma": lambda y: sj.timeseries.arma(y, np.array([0.5]), np.array([0.2]), 1.0).log_likelihood.sum(),
    "garch": lambda y: sj.timeseries.normal(y, sj.timeseries.garch(y, 0.1, 0.1, 0.8)).sum(),
    "egarch": lambda y: sj.timeseries.normal(y, sj.timeseries.egarch(y, 0.1, 0.1, 0.8)).sum(),
}
NOT_FINITE = {
    "ets": {"absent", "infinite"},
    "garch": {"absent", "one value", "late", "infinite", "zero"},  # missing entries are not for them
    "egarch": {"absent", "one value", "late", "infinite", "zero"},
}


@pytest.mark.quick(3)
@pytest.mark.parametrize("name", LIKELIHOODS)
def test_likelihoods_of_bad_series(name):
    f = sj.jit(lambda rows: sj.vmap(LIKELIHOODS[name])(rows))
    found = dict(zip(SERIES, f(ROWS), strict=True))
    assert {series for series, value in found.items() if not np.isfinite(value)} == NOT_FINITE.get(name, {"infinite"})
    harmless = f(np.stack([SERIES[series if series in HARMLESS else HARMLESS[0]] for series in SERIES]))
    alone = dict(zip(SERIES, harmless, strict=True))
    assert [alone[series] for series in HARMLESS] == [found[series] for series in HARMLESS]
    if name not in ("garch", "egarch"):
        shorter = f(np.stack([SERIES["late"][:20], SERIES["one value"][:20]]))
        padded = f(np.stack([np.r_[SERIES["late"][:20], NAN[:7]], np.r_[SERIES["one value"][:20], NAN[:7]]]))
        np.testing.assert_allclose(shorter, padded, rtol=1e-14)
    empty = f(np.zeros((2, 0)))
    assert np.isnan(empty).all() if name == "ets" else (empty == 0).all()


def loss_of_walk(x, y):
    return -walk(y, np.exp(x[0]))


def loss_of_smoothing(x, y):
    return -sj.timeseries.ets(y, x[0], x[1]).log_likelihood


@pytest.mark.slow
@pytest.mark.parametrize("method", ["newton", "lbfgs"])
def test_fits_of_bad_series(method):
    def fit(names):
        rows = np.stack([SERIES[name] for name in names])
        options = {"batched": True, "method": method}
        walks = sj.optimize.minimize(loss_of_walk, np.zeros((len(rows), 1)), [rows], **options)
        bounds = [(None, None), (1e-4, 1)]
        start = np.tile([9.0, 0.3], (len(rows), 1))
        smooth = sj.optimize.minimize(loss_of_smoothing, start, [rows], bounds=bounds, **options)
        return walks, smooth

    walks, smooth = fit(SERIES)
    statuses = dict(zip(SERIES, walks.status.tolist(), strict=True))
    assert [statuses[name] for name in ("good", "late", "other", "absent", "infinite")] == [0, 0, 0, 5, 3]
    statuses = dict(zip(SERIES, smooth.status.tolist(), strict=True))
    assert [statuses[name] for name in ("absent", "infinite")] == [3, 3]
    assert all(statuses[name] in (0, 1) for name in ("good", "late", "other"))
    assert statuses["constant"] not in (0, 1)  # its likelihood grows without end
    for all_of_them, alone in zip((walks, smooth), fit(HARMLESS), strict=True):
        places = [list(SERIES).index(name) for name in HARMLESS]
        for name in ("x", "fun", "jac", "nit", "nfev", "status", "hess_inv"):
            np.testing.assert_array_equal(getattr(all_of_them, name)[places], getattr(alone, name), err_msg=name)


def test_a_smoother_without_steps_is_an_error():
    model = sj.timeseries.StateSpace(ONE, ONE, ONE, ONE, np.zeros(1), ONE)
    with pytest.raises(sj.ScanjitError, match="there are 0"):
        sj.jit(lambda y: sj.timeseries.kalman_smoother(y, model).mean)(np.zeros(0))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: sj.timeseries.ets(np.ones((2, 3)), 1.0, 0.5), "series must be a vector(.|\n)*vmap"),
        (lambda: sj.timeseries.arma(np.ones((2, 3)), [0.5], [], 1.0), "series must be a vector(.|\n)*vmap"),
        (lambda: sj.timeseries.arma(np.ones(3), 0.5, [], 1.0), r"ar must be a vector(.|\n)*\[x\]"),
        (lambda: sj.timeseries.arma(np.ones(3), [0.5], 0.1, 1.0), r"ma must be a vector(.|\n)*\[x\]"),
        (lambda: sj.timeseries.ets(np.ones(3), 1.0, 0.5, season=0.1), "season must be a vector"),
        (lambda: sj.timeseries.expanded(0.5, [0.1], 4), "coefficients must be a vector"),
    ],
)
def test_what_is_no_vector(call, message):
    with pytest.raises(sj.ShapeError, match=message):
        call()


def steps_of(count):
    return sj.timeseries.StateSpace(np.full((count, 1, 1), 0.9), ONE, ONE, ONE, np.zeros(1), ONE)


@pytest.mark.parametrize("run", [sj.timeseries.kalman_filter, sj.timeseries.kalman_smoother])
@pytest.mark.parametrize("count", [4, 6])
def test_matrices_of_fewer_or_more_steps_than_observations(run, count):
    with pytest.raises(sj.ShapeError, match="transition has another shape"):
        sj.jit(lambda y: run(y, steps_of(count)).mean)(np.ones(5))
    assert sj.jit(lambda y: run(y, steps_of(5)).mean)(np.ones(5)).shape == (5, 1)


MODEL = sj.timeseries.StateSpace(ONE, ONE, ONE, ONE, np.zeros(1), ONE)


def test_variances_that_are_negative():
    """They are errors if they are known, and where a call computes them, the likelihood is NaN: it was a number."""
    ts, y = sj.timeseries, sj.vector("y")
    refused = {
        "variance is outside": lambda: ts.arma(y, [0.5], [0.2], -1.0),
        "variances is outside": lambda: ts.normal(y, -1.0),
        "variances is": lambda: ts.student_t(y, [1.0, -1.0], 5.0),
        "variances": lambda: ts.skew_t(y, -1.0, 5.0, 0.0),
        "freedom": lambda: ts.student_t(y, 1.0, 1.5),
        "freedom is": lambda: ts.skew_t(y, 1.0, 1.5, 0.0),
        "skew is outside of its range(.|\n)*from -1 to 1": lambda: ts.skew_t(y, 1.0, 5.0, 1.5),
        "constant is outside of its range(.|\n)*0 or more": lambda: ts.garch(y, -0.1, 0.2, 0.5),
        "first": lambda: ts.garch(y, 0.1, 0.2, 0.5, first=-1.0),
        "first is": lambda: ts.egarch(y, 0.1, 0.2, 0.5, first=-1.0),
    }
    for name in ("state_noise", "noise", "covariance"):
        model = MODEL._replace(**{name: np.full((1, 1), -1.0)})
        refused[f"a variance in {name} is"] = lambda model=model: ts.kalman_filter(y, model)
        for form in ("covariance", "square-root", "information"):

            def likelihood(y, v, name=name, form=form):
                return ts.kalman_filter(y, MODEL._replace(**{name: v}), form).log_likelihood.sum()

            for v in (1.0, -0.1):
                assert np.isnan(sj.jit(likelihood, mode="reference")(np.ones(4), np.full((1, 1), v))) == (v < 0), (
                    name,
                    form,
                )
    for message, call in refused.items():
        with pytest.raises(sj.ArgumentError, match=message):
            call()
    for v in (1.0, -1.0):
        assert np.isnan(
            sj.jit(lambda y, v: ts.arma(y, [0.5], [], v).log_likelihood, mode="reference")(np.ones(4), v)
        ).all() == (v < 0)
    assert np.isnan(sj.jit(lambda skew: ts.skew_t(0.3, 1.0, 5.0, skew), mode="reference")(1.5))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: sj.timeseries.kalman_filter(np.ones((2, 3, 1)), MODEL), "observations are"),
        (lambda: sj.timeseries.kalman_filter(np.ones(3), tuple(MODEL)), "is a StateSpace"),
        (lambda: sj.timeseries.kalman_filter(np.ones(3), MODEL, ["covariance"]), "form of the filter is unknown"),
        (lambda: sj.timeseries.kalman_filter(np.ones(3), MODEL._replace(mean=0.0)), "mean has another number of axes"),
        (lambda: sj.timeseries.kalman_filter(np.ones(3), MODEL._replace(covariance=np.ones(1))), "covariance has"),
        (lambda: sj.timeseries.ets(np.ones(3), 1.0, 0.5, smooth_trend=0.1), "smooth_trend has no effect"),
        (lambda: sj.timeseries.ets(np.ones(3), 1.0, 0.5, damping=0.9), "damping has no effect"),
        (lambda: sj.timeseries.ets(np.ones(3), 1.0, 0.5, smooth_season=0.1), "smooth_season has no effect"),
        (lambda: sj.timeseries.ets(np.ones(3), 1.0, 0.5, season=[]), "at least two"),
        (lambda: sj.timeseries.ets(np.ones(3), np.ones(2), 0.5), "level must be a number(.|\n)*vmap"),
        (lambda: sj.timeseries.ets(np.ones(3), 1.0, 0.5, trend=np.ones(2)), "trend must be a number"),
        (lambda: sj.timeseries.ets(np.ones(3) + 1j, 1.0, 0.5), "series must have real numbers"),
        (lambda: sj.timeseries.arma(np.ones(3), [0.5], [], np.ones(2)), "variance must be a number"),
        (lambda: sj.timeseries.kalman_filter(np.ones(3) + 1j, MODEL), "observations must have real numbers"),
        (lambda: sj.timeseries.kalman_filter(np.ones(3), MODEL._replace(noise=None)), "neither a symbol nor"),
        (lambda: sj.timeseries.kalman_filter(np.ones(3), MODEL._replace(noise=1j * ONE)), "noise must have real"),
        (lambda: sj.timeseries.expanded([0.5], [0.1], 0), "period must be at least 1"),
        (lambda: sj.timeseries.expanded([0.5], [0.1], 4, 2), "sign is -1 or 1"),
    ],
)
def test_wrong_arguments(call, message):
    with pytest.raises(sj.ScanjitError, match=message):
        call()


@pytest.mark.parametrize(
    "run",
    [
        lambda y: sj.timeseries.kalman_filter(y, steps_of(4)._replace(transition=0.9 * ONE)).log_likelihood,
        lambda y: sj.timeseries.kalman_smoother(y, MODEL).mean,
        lambda y: sj.timeseries.arma(y, [0.5], [0.2], 1.0).log_likelihood,
        lambda y: sj.timeseries.ets(y, 3, 0.5).fitted,
        lambda y: sj.timeseries.garch(y, 1, 0.1, 0.8),
        lambda y: sj.timeseries.regime_filter(y[:, None] * [0.0, 0.1], np.full((2, 2), 0.5), [1, 0]).filtered,
    ],
)
def test_counts_are_taken_as_floats(run):
    counts = np.array([3, 0, 5, 4])
    np.testing.assert_array_equal(sj.jit(run)(counts), sj.jit(run)(counts.astype(float)))


@pytest.mark.parametrize(
    ("part", "shape"),
    [
        ("observations", (5, 2)),
        ("transition", (2, 2)),
        ("observation", (2, 1)),
        ("state_noise", (2, 2)),
        ("noise", (2, 2)),
        ("mean", (2,)),
        ("covariance", (2, 2)),
        ("state_offset", (2,)),
        ("offset", (5, 2)),
    ],
)
def test_shapes_that_are_known_only_when_a_filter_runs(part, shape):
    given = {"observations": np.ones((5, 1)), **MODEL._asdict(), "state_offset": np.ones(1), "offset": np.ones((5, 1))}

    def run(values):
        return sj.timeseries.kalman_filter(values.pop("observations"), sj.timeseries.StateSpace(**values)).mean

    f = sj.jit(lambda values: run(dict(values)))
    assert f(given).shape == (5, 1)
    with pytest.raises(sj.ShapeError, match=r"has another shape than it should"):
        f(given | {part: np.ones(shape)})

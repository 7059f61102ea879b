"""Covariances and standard errors, beside formulas written in NumPy and beside statsmodels."""

import numpy as np
import pytest

import scanjit as sj

RANDOM = np.random.default_rng(1)
DATA = np.cumsum(RANDOM.normal(size=200)) * 0.1 + RANDOM.standard_t(4, size=200)


def terms(x, data):
    """Minus the logarithm of a normal density with mean x[0] and deviation exp(x[1])."""
    return x[1] + ((data - x[0]) * np.exp(-x[1])) ** 2 / 2


FITTED = np.array([DATA.mean(), np.log(DATA.std())])


def by_hand(kind, lags):
    rest = (DATA - FITTED[0]) / DATA.std()
    scores = np.stack([-rest / DATA.std(), 1 - rest**2], axis=1)
    bread = np.linalg.inv(np.diag([len(DATA) / DATA.var(), 2 * len(DATA)]))
    middle = scores.T @ scores
    for lag in range(1, lags + 1):
        products = scores[lag:].T @ scores[:-lag]
        middle = middle + (1 - lag / (lags + 1)) * (products + products.T)
    return {"hessian": bread, "opg": np.linalg.inv(middle)}.get(kind, bread @ middle @ bread)


@pytest.mark.quick(3)
@pytest.mark.parametrize(("kind", "given", "lags"), [
    ("hessian", None, 0), ("opg", None, 0), ("sandwich", None, 0), ("hac", None, 4), ("hac", 7, 7), ("hac", 0, 0),
])  # fmt: skip
def test_covariance(kind, given, lags):
    found = sj.optimize.covariance(terms, FITTED, [DATA], kind=kind, lags=given)
    np.testing.assert_allclose(found, by_hand(kind, lags), rtol=1e-8, atol=1e-12)
    errors = sj.optimize.standard_errors(terms, FITTED, [DATA], kind, lags=given)
    np.testing.assert_allclose(errors, np.sqrt(np.diag(found)))


@pytest.mark.quick(2)
@pytest.mark.parametrize("kind", ["hessian", "opg", "sandwich", "hac"])
def test_batches(kind):
    data = np.stack([DATA, DATA[::-1] * 2, DATA + 1])
    fitted = np.stack([data.mean(axis=1), np.log(data.std(axis=1))], axis=1)
    found = sj.optimize.standard_errors(terms, fitted, [data], kind, batched=True)
    for row, x, values in zip(found, fitted, data, strict=True):
        np.testing.assert_allclose(row, sj.optimize.standard_errors(terms, x, [values], kind), rtol=1e-10)


def test_a_singular_matrix_is_nan():
    found = sj.optimize.standard_errors(lambda x, data: (data - x[0] - x[1]) ** 2, [0.0, 0.0], [DATA])
    assert not np.isfinite(found).any()


def test_delta_method():
    covariance = by_hand("hessian", 0)
    value, error = sj.optimize.delta_method(lambda x: np.stack([np.exp(x[1]), x[0] * x[1]]), FITTED, covariance)
    slopes = np.array([[0, np.exp(FITTED[1])], [FITTED[1], FITTED[0]]])
    np.testing.assert_allclose(value, [np.exp(FITTED[1]), FITTED.prod()])
    np.testing.assert_allclose(error, np.sqrt(np.diag(slopes @ covariance @ slopes.T)))
    values, errors = sj.optimize.delta_method(
        lambda x: np.exp(x[1]), np.stack([FITTED] * 2), np.stack([covariance, 4 * covariance]), batched=True
    )
    np.testing.assert_allclose(values, np.exp(FITTED[1]))
    np.testing.assert_allclose(errors[1], 2 * errors[0])


def test_as_statsmodels():
    api = pytest.importorskip("statsmodels.api")
    x = np.stack([np.ones(200), RANDOM.normal(size=200)], axis=1)
    y = x @ [1.0, 2.0] + DATA

    def terms(beta, x, y):
        return (y - x @ beta) ** 2 / 2

    model = api.OLS(y, x).fit()
    found = sj.optimize.covariance(terms, model.params, [x, y], kind="sandwich")
    np.testing.assert_allclose(found, model.get_robustcov_results("HC0").cov_params(), rtol=1e-8)
    found = sj.optimize.covariance(terms, model.params, [x, y], kind="hac", lags=5)
    theirs = model.get_robustcov_results("HAC", maxlags=5, use_correction=False).cov_params()
    np.testing.assert_allclose(found, theirs, rtol=1e-8)


@pytest.mark.parametrize(("arguments", "message"), [
    ({"kind": "hc0"}, "the kind of the covariance is unknown"),
    ({"lags": -1}, "lags must be at least 0"),
    ({"x": np.zeros((2, 2))}, "batched=True"),
])  # fmt: skip
def test_wrong_arguments(arguments, message):
    with pytest.raises(sj.ArgumentError, match=message):
        sj.optimize.covariance(**{"terms": terms, "x": FITTED, "args": [DATA]} | arguments)
    with pytest.raises(sj.ArgumentError, match="a row and a column"):
        sj.optimize.delta_method(lambda x: x, FITTED, np.zeros(2))

"""`minimize` beside SciPy, by all methods; batches, bounds, and problems that go wrong."""

import functools
import itertools
import re
import sys
import time

import numpy as np
import pytest

import scanjit as sj
from scanjit.runtime import bars
from tests.terminals import Terminal, without_tqdm

METHODS = ["newton", "lbfgs", "trust"]


def rosenbrock(x):
    return (100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2).sum()


def decay(x, series, kept):
    """Squares of what an exponential leaves of a series; `kept` is 0 for padded steps."""
    fitted = sj.scan(lambda h: h * x[1], outputs_info=x[0], n_steps=series.shape[0])
    return (kept * (fitted - series) ** 2).sum()


@pytest.mark.parametrize("method", METHODS)
def test_rosenbrock(method):
    found = sj.optimize.minimize(rosenbrock, np.array([-1.2, 1.0, -0.5]), method=method)
    assert found.success and found.status == 0 and "converged" in found.message
    np.testing.assert_allclose(found.x, 1.0, atol=1e-5)
    assert 0 < found.nit < found.nfev < 300


def test_as_scipy():
    optimize = pytest.importorskip("scipy.optimize")
    start = np.array([-1.2, 1.0, -0.5])
    theirs = optimize.minimize(**sj.optimize.for_scipy(rosenbrock), x0=start)
    ours = sj.optimize.minimize(rosenbrock, start, tolerance=1e-8)
    np.testing.assert_allclose(ours.x, theirs.x, atol=1e-4)
    np.testing.assert_allclose(ours.hess_inv, np.linalg.inv(optimize.rosen_hess(np.ones(3))), rtol=1e-5)
    assert all(hasattr(ours, name) for name in ("fun", "jac", "nit", "nfev", "success", "status", "message"))


def test_gauss_newton_as_least_squares():
    optimize = pytest.importorskip("scipy.optimize")
    t = np.linspace(0, 3, 20)
    y = 2 * np.exp(-1.5 * t) + 0.3 + 0.01 * np.cos(9 * t)

    def terms(x, t, y):
        return x[0] * np.exp(-x[1] * t) + x[2] - y

    ours = sj.optimize.minimize(terms, [1.0, 1.0, 0.0], [t, y], method="gauss-newton", tolerance=1e-9)
    theirs = optimize.least_squares(lambda x: terms(x, t, y), [1.0, 1.0, 0.0])
    np.testing.assert_allclose(ours.x, theirs.x, rtol=1e-6)
    np.testing.assert_allclose(ours.fun, theirs.cost, rtol=1e-6)
    np.testing.assert_allclose(ours.hess_inv, np.linalg.inv(theirs.jac.T @ theirs.jac), rtol=1e-4)


@pytest.mark.parametrize("method", METHODS)
def test_bounds(method):
    optimize = pytest.importorskip("scipy.optimize")
    bounds = [(-2, 0.5), (None, None), (0.2, 2)]
    start = np.array([-3.0, 1.0, 0.5])  # the first one is outside
    ours = sj.optimize.minimize(rosenbrock, start, method=method, bounds=bounds)
    theirs = optimize.minimize(**sj.optimize.for_scipy(rosenbrock), x0=start, method="L-BFGS-B", bounds=bounds)
    np.testing.assert_allclose(ours.x, theirs.x, atol=2e-4)
    assert ours.status == 1 and ours.success and "bound" in ours.message
    if ours.hess_inv is not None:
        at_bound = np.array([ours.x[0] == 0.5, False, ours.x[2] == 0.2])
        assert at_bound.any()
        np.testing.assert_array_equal(ours.hess_inv == 0, at_bound[:, None] | at_bound)


@pytest.fixture(scope="module")
def series():
    random = np.random.default_rng(0)
    lengths = random.integers(5, 30, 40)
    kept = (np.arange(30) < lengths[:, None]).astype(float)
    levels, decays = random.uniform(1, 2, (40, 1)), random.uniform(0.5, 0.95, (40, 1))
    return levels * decays ** np.arange(1, 31) * kept + 0.01 * random.normal(size=(40, 30)), kept


@pytest.mark.quick(1)
@pytest.mark.parametrize("method", METHODS)
def test_problems_do_not_see_their_neighbours(method, series, monkeypatch):
    start = np.full((40, 2), 0.7)
    told = []
    whole = sj.optimize.minimize(
        decay, start, series, method=method, batched=True, progress=lambda *counts: told.append(counts)
    )
    assert whole.success.all() and whole.nfev.min() < whole.nfev.max()
    assert told[0] == (0, 40) and told[-1] == (40, 40) and sorted(told) == told
    for rows in (slice(7, 11), np.arange(40)[::-1], slice(3, 4)):
        part = sj.optimize.minimize(decay, start[rows], [array[rows] for array in series], method=method, batched=True)
        for name in ("x", "fun", "jac", "nit", "nfev", "status"):
            np.testing.assert_array_equal(getattr(part, name), getattr(whole, name)[rows], err_msg=name)
    monkeypatch.setattr(sys.modules["scanjit.optimize.minimize"], "FEWEST", 7)
    monkeypatch.setattr(sys.modules["scanjit.optimize.minimize"], "GROUP_BYTES", 1)
    told.clear()
    parts = sj.optimize.minimize(
        decay, start, series, method=method, batched=True, progress=lambda *counts: told.append(counts)
    )
    assert told[0] == (0, 40) and told[-1] == (40, 40) and sorted(told) == told
    for name in ("x", "fun", "jac", "nit", "nfev", "status"):
        np.testing.assert_array_equal(getattr(parts, name), getattr(whole, name), err_msg=name)
    alone = sj.optimize.minimize(decay, start[5], [array[5] for array in series], method=method)
    np.testing.assert_allclose(alone.x, whole.x[5], rtol=1e-6)


def test_a_bar_counts_problems_that_have_ended(series, monkeypatch):
    """Loops inside show no bars beside it, and results are as without it."""
    monkeypatch.setattr(bars, "SILENT", 0.0)
    monkeypatch.setattr(bars, "OFTEN", 1e-3)
    without_tqdm(monkeypatch)
    start, drawn = np.full((40, 2), 0.7), []
    quiet = sj.optimize.minimize(decay, start, series, method="lbfgs", batched=True)
    terminal = Terminal.instead_of_stderr(monkeypatch)
    monkeypatch.setattr(bars.Bar, "draw", lambda bar, *shown: drawn.append(shown))
    seen, tell = [], bars.Count.tell

    def told(count, done):
        tell(count, done)
        seen.append((done, bars.seen()))
        deadline = time.perf_counter() + 20
        while len(seen) > 1 and not (drawn and drawn[-1][1] == done) and time.perf_counter() < deadline:
            time.sleep(1e-3)

    monkeypatch.setattr(bars.Count, "tell", told)
    found = sj.optimize.minimize(decay, start, series, method="lbfgs", batched=True)
    for name in ("x", "fun", "nit", "nfev", "status"):
        np.testing.assert_array_equal(getattr(found, name), getattr(quiet, name), err_msg=name)
    assert [done for done, _ in seen] == sorted(done for done, _ in seen) and seen[-1][0] == 40
    assert seen[0][1] is terminal and {stream for _, stream in seen[1:]} == {None}
    assert bars.seen() is terminal  # others are shown again
    texts, counts, totals = zip(*drawn, strict=True)
    assert {*counts} == {done for done, _ in seen[1:]} and {*totals} == {40}
    assert re.fullmatch(r"minimize decay: 40 of 40 problems, \d s", texts[-1])
    count = len(seen)
    monkeypatch.setattr(sj.config, "progress", False)
    sj.optimize.minimize(decay, start, series, method="lbfgs", batched=True)
    assert len(seen) == count


@pytest.mark.parametrize("method", METHODS)
def test_bad_problems_harm_nobody(method, series):
    """A series of NaN, one of infinity, one that is padded as a whole, one of a constant: each says how it ended."""
    start, (values, kept) = np.full((40, 2), 0.7), (series[0].copy(), series[1].copy())
    good = sj.optimize.minimize(decay, start, series, method=method, batched=True)
    values[3], values[4, 2], kept[5], values[6] = np.nan, np.inf, 0, 1.5
    found = sj.optimize.minimize(decay, start, [values, kept], method=method, batched=True)
    assert found.status[3] == 3 and found.status[4] == 3 and "not finite" in found.message[3]
    assert found.status[5] == 5 and "no single minimum" in found.message[5]  # its loss is 0 everywhere
    np.testing.assert_allclose(found.x[6], [1.5, 1.0], atol=1e-3)
    others = np.setdiff1d(np.arange(40), [3, 4, 5, 6])
    np.testing.assert_array_equal(found.x[others], good.x[others])
    np.testing.assert_array_equal(found.x[3], start[3])
    assert repr(good).startswith("Result of 40 problems: 40 converged, ")


def test_second_derivatives_that_are_not_finite():
    """At 0, x**1.5 has a slope of 0 and an infinite curvature: Newton's method cannot begin there."""
    found = sj.optimize.minimize(lambda x: (x**1.5).sum() - x.sum(), [0.0, 1.0])
    assert found.status == 3 and "not finite" in found.message
    assert sj.optimize.minimize(lambda x: (x**1.5).sum() - x.sum(), [0.1, 1.0]).success


def test_a_saddle_is_said_to_be_one():
    found = sj.optimize.minimize(lambda x: x[0] ** 2 - x[1] ** 2, [0.0, 0.0])
    assert found.status == 5 and not found.success and np.isnan(found.hess_inv).all()
    assert "saddle" in found.message


def test_a_minimum_that_is_no_single_one():
    found = sj.optimize.minimize(lambda x: (x[0] + x[1] - 1.0) ** 2, [0.0, 0.0])
    assert found.status == 5 and abs(found.x.sum() - 1) < 1e-6
    assert sj.optimize.minimize(lambda x: (x[0] + x[1] - 1.0) ** 2, [0.0, 0.0], method="lbfgs").success


@pytest.mark.parametrize("method", METHODS)
def test_a_start_at_the_minimum(method):
    """It has converged; a loss that is the same everywhere has not."""
    found = sj.optimize.minimize(lambda x: ((x - 3.0) ** 2).sum(), [3.0, 3.0], method=method)
    assert found.status == 0 and found.nfev == 1
    assert sj.optimize.minimize(lambda x: 0 * x.sum() + 2.0, [3.0, 3.0], method=method).status == 5


def test_a_loss_that_falls_without_end():
    found = sj.optimize.minimize(lambda x: x[0], [0.0], max_steps=30)
    assert not found.success and found.fun < -100
    found = sj.optimize.minimize(lambda x: -(x[0] ** 2), [1.0], method="lbfgs", max_steps=20)
    assert found.status == 2 and found.nfev == 20 and "max_steps" in found.message


def test_common_data_and_single_precision():
    t = np.linspace(0, 1, 9, dtype="float32")

    def loss(x, y, t):
        return ((x[0] + x[1] * t - y) ** 2).sum()

    y = np.array([[1.0], [2.0]], "float32") + np.array([[3.0], [0.5]], "float32") * t
    found = sj.optimize.minimize(loss, np.zeros((2, 2), "float32"), [y], common=[t], batched=True)
    assert found.x.dtype == "float32" and found.success.all()
    np.testing.assert_allclose(found.x, [[1, 3], [2, 0.5]], atol=1e-3)


def test_many_variables():
    def loss(x):
        return ((x - 3.0) ** 2).sum() + ((x[1:] - x[:-1]) ** 2).sum()

    for method in ("lbfgs", "trust"):
        found = sj.optimize.minimize(loss, np.zeros(300), method=method)
        assert found.success
        np.testing.assert_allclose(found.x, 3.0, atol=1e-5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"method": "bfgs"}, "the method of minimize is unknown"),
        ({"loss": 5}, "minimize takes a loss"),
        ({"start": np.zeros((2, 2))}, "pass batched=True"),
        ({"start": np.zeros(0)}, "wrong shape(?!(.|\n)*to do)"),
        ({"start": "a"}, r"the start is no array of real numbers\n.*'a' \(str\)"),
        ({"start": {"a": 1.0}}, "the start is no array of real numbers"),
        ({"start": np.ones(2) * 1j}, "the start is no array of real numbers"),
        ({"start": [[1.0], [2.0, 3.0]], "batched": True}, "the rows of the start have different lengths"),
        ({"start": np.zeros((0, 2)), "batched": True}, "no problem"),
        ({"start": np.zeros((2, 2)), "args": [np.zeros(3)], "batched": True}, "give what all problems share"),
        ({"start": np.zeros((2, 2)), "args": np.zeros((2, 3)), "batched": True}, r"write \[data\]"),
        ({"args": np.zeros(3)}, r"write \[data\]"),
        ({"start": np.zeros((2, 2)), "args": [[np.zeros(3), np.zeros(4)]], "batched": True}, "different lengths"),
        ({"start": np.zeros(2), "batched": True}, "give each problem its start"),
        ({"start": np.ma.array([1.0, 2.0], mask=[0, 1])}, "the start has masked entries"),
        ({"args": [np.ma.array([1.0, 2.0], mask=[0, 1])]}, r"args\[0\] has masked entries"),
        ({"bounds": [(0, 1)]}, "one pair"),
        ({"bounds": object()}, "one pair"),
        ({"bounds": [(1, 0), (0, 1)]}, "above its upper bound"),
        ({"bounds": [(np.nan, 0), (0, 1)]}, "above its upper bound, or is NaN"),
        ({"tolerance": -1.0}, "tolerance must be a number, 0 or more"),
        ({"tolerance": "small"}, "tolerance must be a number"),
        ({"max_steps": 0}, "max_steps must be at least 1"),
        ({"max_steps": 2.5}, "max_steps must be an integer"),
        ({"max_steps": np.inf}, "max_steps must be an integer"),
        ({"method": ["newton"]}, "the method of minimize is unknown"),
        ({"bounds": [("a", 1), (0, 1)]}, "one pair"),
        ({"bounds": [([1, 2], 1), (0, 1)]}, "one pair"),
        ({"bounds": [(0, 1)] * 3}, "one pair"),
        ({"common": np.ones(2)}, "common must be a list"),
        ({"common": None}, "common must be a list"),
        ({"args": [None]}, r"args\[0\] has no numbers"),
        ({"args": [{"a": 1.0}]}, r"args\[0\] has no numbers"),
        ({"progress": True}, "progress must be a function"),
        ({"batched": "no"}, "batched must be"),
    ],
)
def test_wrong_arguments(arguments, message):
    with pytest.raises(sj.ArgumentError, match=message):
        sj.optimize.minimize(**{"loss": rosenbrock, "start": np.zeros(2)} | arguments)


def test_a_loss_with_other_arguments():
    with pytest.raises(sj.ScanError, match=r"rosenbrock does not take(.|\n)*x, 1 of args"):
        sj.optimize.minimize(rosenbrock, np.zeros(2), [np.zeros(3)])


def test_a_loss_of_another_precision():
    with pytest.raises(sj.DtypeError, match=r"the loss has another dtype(.|\n)*astype\('float32'\)"):
        sj.optimize.minimize(lambda x, a: ((x - a) ** 2).sum(), np.zeros(2, "float32"), [np.ones(2)])


def test_a_loss_without_second_derivatives():
    found = sj.optimize.minimize(lambda x: abs(x - 1).sum(), np.zeros(2))
    np.testing.assert_array_equal(found.x, 1.0)


class Model:
    def __init__(self, middle):
        self.middle, self.other = middle, object()

    def __call__(self, x):
        return ((x - self.middle) ** 2).sum()

    def loss(self, x):
        return self(x)


MIDDLE, SETTINGS = np.array([1.0]), {"middle": [1.0]}


def from_module(x):
    return ((x - MIDDLE) ** 2).sum()


def from_settings(x):
    return ((x - SETTINGS["middle"][0]) ** 2).sum()


def test_what_a_loss_uses_from_outside_may_change():
    """(SciPy computes the loss with the new values, too.)"""
    global MIDDLE
    model, held = Model(1.0), [1.0]
    losses = [
        model,
        model.loss,
        from_module,
        from_settings,
        sj.jit(from_module),
        lambda x: from_module(x),
        functools.partial(lambda middle, x: ((x - middle[0]) ** 2).sum(), held),
    ]
    for middle in (1.0, 3.0, 3.0):
        model.middle = held[0] = SETTINGS["middle"][0] = middle
        MIDDLE = np.array([middle])
        for loss in losses:
            np.testing.assert_allclose(sj.optimize.minimize(loss, [0.0]).x, middle)
    MIDDLE[0] = 4.0
    np.testing.assert_allclose(sj.optimize.minimize(from_module, [0.0]).x, 4.0)
    terms = lambda x: (x[0] - 2.0) ** 2 * MIDDLE
    first = sj.optimize.covariance(terms, [2.0])
    value, _ = sj.optimize.delta_method(lambda x: x * MIDDLE, [2.0], [[1.0]])
    MIDDLE = np.array([1.0])
    np.testing.assert_allclose(sj.optimize.covariance(terms, [2.0]), 4 * first)
    np.testing.assert_allclose(value, 8.0)


def test_a_loss_is_compiled_once():
    traced = itertools.count()

    def loss(x):
        next(traced)
        return ((x - MIDDLE) ** 2).sum()

    sj.optimize.minimize(loss, [0.0])
    count = next(traced)
    for _ in range(2):
        sj.optimize.minimize(loss, [0.5])
    assert 0 < count == next(traced) - 1

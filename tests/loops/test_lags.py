"""Taps that reach far back, and taps that are known only when a function runs: values, derivatives, options, cost."""

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import scanjit as sj
from scanjit import ir
from scanjit.loops.carries import LONGEST_LINE
from scanjit.ops.scan import SCAN, scan_node
from scanjit.runtime import host
from scanjit.runtime.gradcheck import check_grad
from tests.compare import all_close
from tests.export.support import exported
from tests.pairs import pairwise

RNG = np.random.default_rng(5)
STEPS = 40
X, W = RNG.normal(size=(STEPS, 3)), RNG.normal(size=(3, 3)) * 0.4
FIRST = RNG.normal(size=(25, 3))


def loop(step: Any, x: np.ndarray, first: np.ndarray, lags: list[int]) -> np.ndarray:
    """The rows that a plain loop returns: the step gets a row and what was returned so many steps ago."""
    rows = list(first[: max(lags)])
    for row in x:
        rows.append(step(row, *(rows[len(rows) - lag] for lag in lags)))
    return np.array(rows[max(lags) :])


def product(row: Any, h1: Any, h12: Any) -> Any:
    return np.tanh(row + 0.6 * h1 * h12)


def matrix(row: Any, h1: Any, h12: Any) -> Any:
    return np.tanh(row + h12 @ W + 0.3 * h1)


def linear(row: Any, h1: Any, h12: Any) -> Any:
    return row + 0.5 * h1 - 0.3 * h12


def pair(inputs: Any, outputs: Any) -> Any:
    """A function by the reference interpreter, and by generated code that is not compiled."""
    return [sj.function(inputs, outputs, mode=mode) for mode in ("reference", "emulate")]


def same(functions: Any, *args: Any, tolerance: float = 1e-9) -> list[np.ndarray]:
    """What all functions give."""
    wanted, *others = ([np.asarray(v) for v in f(*args)] for f in functions)
    for found in others:
        all_close(found, wanted, rtol=tolerance, atol=tolerance)
    return wanted


# ---- values ----------------------------------------------------------------------------------------------------------


@pytest.mark.quick(8)
@pairwise(lags=[[1, 12], [9, 25], [1, 3], [3, 25]], step=[product, matrix, linear], dtype=["float32", "float64"])
def test_values_and_gradients(step: Any, lags: list[int], dtype: str) -> None:
    x, first = sj.tensor(("T", 3), dtype, "x"), sj.tensor(("L", 3), dtype, "first")
    taps = [-lag for lag in lags]
    y = sj.scan(lambda *a: sj.cast(step(*a), dtype), x, dict(initial=first, taps=taps))
    cost = (y**2).sum() + y[-1].sum()
    functions = pair([x, first], [y, *sj.grad(cost, [x, first])])
    given = X.astype(dtype), FIRST.astype(dtype)
    wanted = same(functions, *given, tolerance=1e-9 if dtype == "float64" else 1e-4)
    near = 1e-4 if dtype == "float32" else 1e-12
    np.testing.assert_allclose(wanted[0], loop(step, *given, lags), rtol=near, atol=near)
    for steps in (0, 1, lags[-1] - 1, lags[-1], lags[-1] + 1):
        same(functions, given[0][:steps], given[1][: max(lags) + 1], tolerance=1e-4) if steps else None


@pytest.mark.quick(4)
@pytest.mark.parametrize("n", [1, 2, 7, 8, 9, 16, 23, 24, 25, 48, 60])
def test_a_lag_that_is_known_when_it_runs(n: int) -> None:
    functions, x = FUNCTIONS.get("runtime", _runtime), RNG.normal(size=(90, 3))
    first = RNG.normal(size=(n if n > 1 else 5, 3))
    for f in functions[1:]:
        y, mixed, apart, *_ = f(x, first, W, n)
        np.testing.assert_allclose(y, loop(lambda row, h: np.tanh(row + h @ W), x, first, [n]), rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(mixed, loop(linear, x[:, 0], first[:, 0], [1, n]), rtol=1e-8, atol=1e-12)
        wanted = loop(lambda row, h: np.tanh(row + h), x[:, 1], first[:, 1], [n])
        np.testing.assert_allclose(apart, wanted, rtol=1e-9, atol=1e-12)
    for steps in {1, 8, n, n + 1, 90}:
        same(functions, x[:steps], first, W, n)


def _runtime() -> Any:
    n, x, first, w = sj.lscalar("n"), sj.matrix("x"), sj.matrix("first"), sj.matrix("w")
    y = sj.scan(lambda row, h: sj.tanh(row + h @ w), x, dict(initial=first, taps=[-n]))
    mixed = sj.scan(linear, x[:, 0], dict(initial=first[:, 0], taps=[-1, -n]))
    apart = sj.scan(lambda row, h: sj.tanh(row + h), x[:, 1], dict(initial=first[:, 1], taps=[-n]))
    outputs = [y, mixed, apart, *sj.grad((y**2).sum() + (mixed**2).sum() + (apart**2).sum(), [x, first, w])]
    return [*pair([x, first, w, n], outputs), sj.function([x, first, w, n], outputs)]


class _Made:
    """Functions that several tests share, made once."""

    def __init__(self) -> None:
        self.known: dict[str, Any] = {}

    def get(self, name: str, make: Any) -> Any:
        if name not in self.known:
            self.known[name] = make()
        return self.known[name]


FUNCTIONS = _Made()


def test_taps_of_sequences_that_are_known_when_it_runs() -> None:
    x, n = sj.vector("x"), sj.lscalar("n")
    later = sj.scan(lambda a, b, h: a - b + 0.5 * h, dict(input=x, taps=[n, 0]), 0.0)
    functions = pair([x, n], [sj.scan(lambda a, b: a - b, dict(input=x, taps=[0, -n])), sj.grad(later.sum(), x)])
    for k in (0, 3, -2):
        found = same(functions, X[:, 0], k)
        rows = X[abs(k) :, 0] - X[: STEPS - abs(k), 0]
        np.testing.assert_allclose(found[0], rows if k >= 0 else -rows)


def test_a_lag_of_257() -> None:
    x, first = sj.tensor((600,), name="x"), sj.tensor((300,), name="first")
    y = sj.scan(product, x, dict(initial=first, taps=[-1, -257]))
    given = RNG.normal(size=600), RNG.normal(size=300)
    found = same(pair([x, first], [y, *sj.grad((y**2).sum(), [x, first])]), *given)
    np.testing.assert_allclose(found[0], loop(product, *given, [1, 257]))
    assert not found[2][257:].any()  # rows that no step reads


def test_structures_and_integers() -> None:
    first = {"a": np.arange(12), "b": np.ones((12, 2), "float32")}

    def step(h: Any) -> Any:
        return {"a": h["a"] + 2, "b": h["b"] * 2}

    y = sj.scan(step, None, dict(initial=first, taps=[-12]), n_steps=30)
    a, b = same(pair([], [y["a"], y["b"]]))
    np.testing.assert_array_equal(a, np.arange(30) % 12 + 2 * (np.arange(30) // 12 + 1))
    np.testing.assert_array_equal(b[:, 0], 2.0 ** (np.arange(30) // 12 + 1))


# ---- derivatives and options -----------------------------------------------------------------------------------------


@pytest.mark.quick(4)
@pytest.mark.parametrize(
    "options",
    [{}, {"go_backwards": True}, {"truncate_gradient": 5}, {"checkpoint": "sqrt"}, {"checkpoint": 3}, {"unroll": 3}],
    ids=str,
)
@pytest.mark.parametrize("step", [product, matrix])
def test_options(step: Any, options: dict[str, Any]) -> None:
    def run(x: Any, first: Any) -> Any:
        return sj.scan(step, x, dict(initial=first, taps=[-1, -10]), **options)

    x, first = sj.matrix("x"), sj.matrix("first")
    y = run(x, first)
    slopes = sj.grad((y**3).sum(), [x, first])
    second = sj.grad(sum((g**2).sum() for g in slopes), [x, first])
    same(pair([x, first], [y, *slopes, *second]), X[:21], FIRST[:10], tolerance=1e-7)
    if not options or "go_backwards" in options:
        check_grad(run, [X[:12], FIRST[:10]], order=2, tolerance=1e-6)


def test_truncation_cuts_the_way_back() -> None:
    x, first = sj.vector("x"), sj.vector("first")
    y = sj.scan(lambda row, h: row + 0.5 * h, x, dict(initial=first, taps=[-10]), truncate_gradient=12)
    of_x, of_first = same(pair([x, first], sj.grad(y[-1], [x, first])), X[:30, 0], FIRST[:, 0])
    wanted = np.zeros(30)
    wanted[[29, 19]] = 1, 0.5
    np.testing.assert_array_equal(of_x, wanted)
    assert not of_first.any()


def test_until() -> None:
    x, first = sj.matrix("x"), sj.matrix("first")

    def step(row: Any, h1: Any, h12: Any) -> Any:
        new = product(row, h1, h12)
        return new, sj.until(new.sum() > 1.5)

    y = sj.scan(step, x, dict(initial=first, taps=[-1, -12]))
    found = same(pair([x, first], [y, y[-1], *sj.grad((y**2).sum(), [x, first])]), X, FIRST)
    wanted = loop(product, X, FIRST, [1, 12])
    ran = int(np.argmax(wanted.sum(1) > 1.5)) + 1
    assert 12 < ran < STEPS
    np.testing.assert_allclose(found[0], wanted[:ran])


def test_until_with_more_rows_than_steps() -> None:
    def run(x: Any, first: Any) -> Any:
        y = sj.scan(lambda row, h: (row * h, sj.until(row[0] > 1)), x, dict(initial=first, taps=[-12]))
        return y

    x = np.abs(X[:20]) * 0.3 + 0.2
    x[4, 0] = 2.0
    check_grad(run, [x, FIRST[:12]], order=2, tolerance=1e-6)


def test_vmap() -> None:
    xs, firsts, k = sj.matrix("xs"), sj.matrix("firsts"), sj.scalar("k")

    def one(x: Any, first: Any) -> Any:
        return sj.scan(lambda row, h1, h12: sj.tanh(row + k * h1 * h12), x, dict(initial=first, taps=[-1, -12]))

    def slope(x: Any, first: Any) -> Any:
        return sj.grad((one(x, first) ** 2).sum(), [x, first])

    y = sj.vmap(one)(xs, firsts)
    outputs = [y, *sj.vmap(slope)(xs, firsts), *sj.grad((y**2).sum(), [xs, firsts])]
    outputs.append(sj.vmap(one, in_axes=(0, None))(xs, firsts[0]))
    given = X.T, FIRST[:12].T
    y, *slopes = same(pair([xs, firsts, k], outputs), *given, 0.6)
    np.testing.assert_allclose(y, np.stack([loop(product, *pair, [1, 12]) for pair in zip(*given, strict=True)]))
    all_close(slopes[:2], slopes[2:4], rtol=1e-9)


@pytest.mark.parametrize("symbolic", [False, True])
def test_vmap_of_loops_that_end_at_different_steps(symbolic: bool) -> None:
    xs, firsts, n = sj.matrix("xs"), sj.matrix("firsts"), sj.lscalar("n")

    def last(x: Any, first: Any) -> Any:
        taps = [-n] if symbolic else [-12]
        y = sj.scan(lambda row, h: (sj.tanh(row + h), sj.until(row > 1.1)), x, dict(initial=first, taps=taps))
        return y[-1]

    (found,) = same(pair([xs, firsts, n], [sj.vmap(last)(xs, firsts)]), X.T, FIRST[:12].T, 12)
    for i, (x, first) in enumerate(zip(X.T, FIRST.T, strict=True)):
        ran = int(np.argmax(x > 1.1)) + 1
        np.testing.assert_allclose(found[i], loop(lambda row, h: np.tanh(row + h), x[:ran], first, [12])[-1])


def test_directional_derivatives() -> None:
    x, first, dx, dfirst, v = (sj.matrix(name) for name in ("x", "first", "dx", "dfirst", "v"))
    y = sj.scan(matrix, x, dict(initial=first, taps=[-1, -12]))
    forward = (sj.jvp(y, [x, first], [dx, dfirst]) * v).sum()
    g = sj.grad((y * v).sum(), [x, first])
    backward = (g[0] * dx).sum() + (g[1] * dfirst).sum()
    directions = RNG.normal(size=(STEPS, 3)), RNG.normal(size=FIRST.shape), RNG.normal(size=(STEPS, 3))
    a, b = same(pair([x, first, dx, dfirst, v], [forward, backward]), X, FIRST, *directions)
    np.testing.assert_allclose(a, b)


def test_loops_in_loops() -> None:
    x, first, n = sj.matrix("x"), sj.vector("first"), sj.lscalar("n")

    def outer(row: Any, h: Any) -> Any:
        inner = sj.scan(lambda v, g: v + 0.5 * g, row, dict(initial=h, taps=[-n]))
        return sj.tanh(inner[-1] + h)

    y = sj.scan(outer, x, first)
    found = same(pair([x, first, n], [y, *sj.grad((y**2).sum(), [x, first])]), X[:6], FIRST[0], 2)
    h = FIRST[0]
    for row, made in zip(X[:6], found[0], strict=True):
        h = np.tanh(loop(lambda v, g: v + 0.5 * g, row, h, [2])[-1] + h)
        np.testing.assert_allclose(made, h)


def test_what_is_only_handed_on() -> None:
    first, v = sj.tensor((12,), name="first"), sj.tensor((30,), name="v")
    y = sj.scan(lambda h: h, None, dict(initial=first, taps=[-12]), n_steps=30)
    one = sj.scan(lambda h: 2 * h, None, dict(initial=first, taps=[-12]), n_steps=1)
    found = same(pair([first, v], [y, one, *sj.grad((y * v).sum() + one[0], [first])]), FIRST[:12, 0], X[:30, 0])
    np.testing.assert_array_equal(found[0], FIRST[np.arange(30) % 12, 0])
    np.testing.assert_array_equal(found[1], 2 * FIRST[:1, 0])
    wanted = np.array([X[i:30:12, 0].sum() for i in range(12)])
    wanted[0] += 2
    np.testing.assert_allclose(found[2], wanted)


def test_a_state_that_begins_with_the_rows_of_a_lag() -> None:
    first = sj.tensor((12,), name="first")
    infos = [dict(initial=first, taps=[-12]), first]
    h, s = sj.scan(lambda h, s: (0.5 * h + 1, 0.5 * s + 1), None, infos, n_steps=30)
    found = same(pair([first], [h, s[-1], sj.grad((h**2).sum() + (s**2).sum(), first)]), FIRST[:12, 0])
    np.testing.assert_allclose(found[0], loop(lambda _, h: 0.5 * h + 1, np.zeros(30), FIRST[:, 0], [12]))
    np.testing.assert_allclose(found[1], 2 + (FIRST[:12, 0] - 2) * 0.5**30)


def test_a_number_of_steps_that_is_computed_in_a_step() -> None:
    """The inner loop counts its steps then."""
    k, first = sj.tensor((5,), "int64", "k"), sj.tensor((9,), name="first")

    def outer(k: Any, h: Any) -> Any:
        info = dict(initial=first, taps=[-9])
        return 0.5 * h + sj.scan(lambda g: sj.tanh(g + h), None, info, n_steps=k + 1)[-1]

    counts, h, start = np.array([0, 3, 11, 20, 1]), 0.3, FIRST[:9, 0]
    (found,) = same(pair([k, first], [sj.scan(outer, k, 0.3)]), counts, start)
    for count, made in zip(counts + 1, found, strict=True):
        h = 0.5 * h + loop(lambda _, g: np.tanh(g + h), np.zeros(count), start, [9])[-1]  # noqa: B023
        np.testing.assert_allclose(made, h)


# ---- models ----------------------------------------------------------------------------------------------------------


def test_sarima_of_season_168() -> None:
    """Residuals of SARIMA(1,0,1)(1,0,1)[168] from the series, the series from the residuals, and their derivatives."""
    season, steps = 168, 400
    y, params = sj.vector("y"), sj.vector("params")
    zeros = np.zeros(season + 1)

    def residuals(y: Any, params: Any) -> Any:
        phi, theta, big_phi, big_theta = params[0], params[1], params[2], params[3]
        padded = sj.concatenate([zeros, y])

        def step(now: Any, y1: Any, y168: Any, y169: Any, e1: Any, e168: Any, e169: Any) -> Any:
            predicted = phi * y1 + big_phi * y168 - phi * big_phi * y169
            return now - predicted - theta * e1 - big_theta * e168 - theta * big_theta * e169

        taps = [-1, -season, -season - 1]
        return sj.scan(step, dict(input=padded, taps=[0, *taps]), dict(initial=zeros, taps=taps))

    def oracle(y: np.ndarray, phi: float, theta: float, big_phi: float, big_theta: float) -> np.ndarray:
        y, e = np.concatenate([zeros, y]), list(zeros)
        for t in range(len(zeros), len(y)):
            predicted = phi * y[t - 1] + big_phi * y[t - season] - phi * big_phi * y[t - season - 1]
            old = theta * e[t - 1] + big_theta * e[t - season] + theta * big_theta * e[t - season - 1]
            e.append(y[t] - predicted - old)
        return np.array(e[len(zeros) :])

    e = residuals(y, params)
    given, point = RNG.normal(size=steps), np.array([0.6, 0.3, 0.5, -0.4])
    loss = (e**2).sum()
    functions = [*pair([y, params], [e, sj.grad(loss, params)]), sj.function([y, params], [e, sj.grad(loss, params)])]
    found, slope = same(functions, given, point)
    np.testing.assert_allclose(found, oracle(given, *point), rtol=1e-9)
    for i in range(4):
        shift = np.eye(4)[i] * 1e-5
        ends = [(oracle(given, *(point + s)) ** 2).sum() for s in (shift, -shift)]
        np.testing.assert_allclose(slope[i], (ends[0] - ends[1]) / 2e-5, rtol=1e-6)
    generate = pytest.importorskip("statsmodels.tsa.arima_process").arma_generate_sample
    ar, ma = np.zeros(season + 2), np.zeros(season + 2)
    ar[[0, 1, season, season + 1]] = 1, -point[0], -point[2], point[0] * point[2]
    ma[[0, 1, season, season + 1]] = 1, point[1], point[3], point[1] * point[3]
    series = generate(ar, ma, steps, distrvs=lambda size: given)
    np.testing.assert_allclose(functions[-1](series, point)[0], given, rtol=1e-9, atol=1e-12)


def test_comb_filter() -> None:
    lfilter = pytest.importorskip("scipy.signal").lfilter
    x, k = sj.vector("x"), sj.scalar("k")
    for lag in (12, 168):
        y = sj.scan(lambda row, old: row + k * old, x, dict(initial=np.zeros(lag), taps=[-lag]))
        given, a = RNG.normal(size=500), np.zeros(lag + 1)
        a[0], a[lag] = 1, -0.7
        wanted = lfilter([1.0], a, given)
        found, slope = same(pair([x, k], [y, sj.grad((y**2).sum(), x)]), given, 0.7)
        np.testing.assert_allclose(found, wanted)
        np.testing.assert_allclose(slope, lfilter([1.0], a, 2 * wanted[::-1])[::-1])


def test_karplus_strong() -> None:
    """A plucked string: noise that runs through an average of two neighbours, once in 1000 steps."""
    lag, steps = 1000, 3500
    noise, damping = sj.tensor((lag + 1,), name="noise"), sj.scalar("damping")
    taps = [-lag, -lag - 1]
    y = sj.scan(lambda a, b: damping * (a + b) / 2, None, dict(initial=noise, taps=taps), n_steps=steps)
    given = RNG.uniform(-1, 1, size=lag + 1)
    outputs = [y, *sj.grad(y[-1] ** 2, [noise, damping])]
    functions = [*pair([noise, damping], outputs), sj.function([noise, damping], outputs)]
    found, of_noise, of_damping = same(functions, given, 0.99)
    rows = list(given)
    for _ in range(steps):
        rows.append(0.99 * (rows[-lag] + rows[-lag - 1]) / 2)
    np.testing.assert_allclose(found, rows[lag + 1 :])
    assert np.count_nonzero(of_noise) == 5  # four passes through the average
    np.testing.assert_allclose(of_damping, 4 * 2 * found[-1] ** 2 / 0.99)


# ---- what it costs ---------------------------------------------------------------------------------------------------


def _nodes(outputs: Any) -> int:
    found = 0
    for node in ir.walk(outputs):
        found += 1
        if isinstance(node.params.get("body"), ir.Graph):
            found += len(node.params["body"].nodes())
    return found


@pytest.mark.parametrize("step", [linear, product])
def test_code_does_not_grow_with_the_lag(step: Any) -> None:
    x, first = sj.vector("x"), sj.vector("first")
    sizes = []
    for lag in (10, 64, 1000):
        y = sj.scan(step, x, dict(initial=first, taps=[-1, -lag]))
        slopes = sj.grad((y**2).sum(), [x, first])
        second = sj.grad((slopes[0] ** 2).sum(), [x, first])
        value, gradient = sj.function([x, first], y, mode="emulate"), sj.function([x, first], slopes, mode="emulate")
        lines = [len(f.source.splitlines()) for f in (value, gradient)]
        sizes.append(([_nodes([y]), _nodes(slopes), _nodes(second)], lines))
    assert sizes[0][0] == sizes[1][0] == sizes[2][0]
    assert sizes[1][1] == sizes[2][1]
    assert all(many < 2 * few for few, many in zip(sizes[0][1], sizes[2][1], strict=True))  # several steps at a time


def test_memory_is_a_ring_of_as_many_rows_as_the_lag() -> None:
    x, first, w = sj.tensor(("T", 3), name="x"), sj.tensor((1024, 3), name="first"), sj.tensor((3, 3), name="w")

    def step(row: Any, h: Any, s: Any) -> Any:
        return sj.tanh(row + h @ w), 0.9 * s + (h @ w).sum()

    _, total = sj.scan(step, x, [dict(initial=first, taps=[-1024]), 0.0])
    f = sj.function([x, first, w], total[-1], mode="emulate")
    few, many = (f.memory(T=steps).workspace for steps in (10, 100_000))
    assert 1024 * 3 * 8 < few < 1100 * 3 * 8
    assert many == few


@pytest.mark.parametrize("reverse", [False, True])
def test_a_ring_in_both_directions(reverse: bool) -> None:
    x, first, w = sj.tensor(("T", 3), name="x"), sj.tensor((4, 3), name="first"), sj.tensor((3, 3), name="w")
    h, s, row, inner = (ir.new_input(node.type) for node in (first[0], x[0, 0], x[0], w))
    new = sj.tanh(row + h @ inner)
    body = ir.Graph.of([h, s, row, inner], [new, 0.9 * s + (h @ inner).sum()])
    node = scan_node(body, [first, sj.cast(0.0, "float64")], [x], [w], x.type.shape[0], reverse=reverse, lags={0: 4})
    functions = pair([x, first, w], [ir.parts(node)[1]])
    assert functions[1].memory(T=1000).workspace < 1000  # no trajectory
    for steps in (1, 4, 5, 11):
        (found,) = same(functions, X[:steps], FIRST[:4], W)
        way = -1 if reverse else 1
        made = loop(lambda row, h: np.tanh(row + h @ W), X[:steps][::way], FIRST[:4][::way], [4])
        wanted = 0.0
        for value in np.concatenate([FIRST[:4][::way], made])[:steps]:
            wanted = 0.9 * wanted + (value @ W).sum()
        np.testing.assert_allclose(found, wanted)


def test_memory_of_elementwise_steps_is_that_of_a_block() -> None:
    x, first, k = sj.tensor(("T",), name="x"), np.zeros(1024), sj.scalar("k")
    y = sj.scan(lambda row, h: sj.tanh(row + k * h), x, dict(initial=first, taps=[-1024]))
    f = sj.function([x, k], sj.grad((y**2).sum(), x), mode="emulate")
    assert f.memory(T=10**7).workspace - 8 * 10**7 < 10**6  # the result, and no other number a step


@pytest.mark.quick(2)
@pytest.mark.parametrize("shape", [(), (3,)])
@pytest.mark.parametrize("step", [product, linear, lambda row, h1, h12: row - 0.2 * h12])
def test_blocks_of_time(step: Any, shape: tuple[int, ...]) -> None:
    x, n = sj.tensor(("T", *shape), name="x"), sj.lscalar("n")
    first = RNG.normal(size=(12, *shape))
    y = sj.scan(step, x, dict(initial=first, taps=[-1, -12]))
    z = sj.scan(lambda row, h: sj.tanh(row + 0.5 * h), x, dict(initial=first, taps=[-n]))
    with host.using(replace(host.target(), level2_bytes=256)):
        functions = pair([x, n], sj.grad((y**2).sum() + (z**2).sum(), x))
    assert re.search("memory for one block of .*carry", functions[1].explain())
    for steps in (1, 2, 11, 12, 13, 48, 49, 60, 131):
        for lag in (1, 5, 12):
            same(functions, RNG.normal(size=(steps, *shape)), lag, tolerance=1e-8)


def test_taps_of_one_output_share_their_memory() -> None:
    def step(row: Any, a: Any, b: Any, c: Any) -> Any:
        return row + 0.2 * (a + b + c)

    x, first = sj.tensor(("T",), name="x"), sj.tensor((200,), name="first")
    steps, lags = 600, [1, 12, 168]
    given = RNG.normal(size=steps), RNG.normal(size=200)
    y = sj.scan(step, x, dict(initial=first, taps=[-lag for lag in lags]))
    f = sj.function([x, first], y, mode="emulate")
    np.testing.assert_allclose(f(*given), loop(step, *given, lags))
    assert f.memory(T=steps).workspace < 1000  # the result lies behind the rows before it


@pytest.mark.parametrize("start", [0, 3, 8])
def test_one_value_with_two_pasts(start: int) -> None:
    """Their memory is one only where the values before the first step are."""
    first = sj.tensor((30,), name="first")
    infos = [dict(initial=first[:12], taps=[-12]), dict(initial=first[start : start + 9], taps=[-9])]
    a, _ = sj.scan(lambda a, b: (0.5 * a - b,) * 2, None, infos, n_steps=40)
    given = RNG.normal(size=30)
    (found,) = same(pair([first], [a]), given)
    one, other = list(given[:12]), list(given[start : start + 9])
    for made in found:
        np.testing.assert_allclose(made, 0.5 * one[-12] - other[-9])
        one.append(made)
        other.append(made)


def test_small_lags_stay_in_registers() -> None:
    x = sj.vector("x")
    taps = list(range(-LONGEST_LINE, 0))
    y = sj.scan(lambda row, *h: row + 0.1 * sum(h), x, dict(initial=np.zeros(LONGEST_LINE), taps=taps))
    (scan,) = (node for node in ir.walk([y]) if node.op is SCAN)
    assert scan.params["lags"] == () and scan.params["carries"] == LONGEST_LINE


# ---- errors ----------------------------------------------------------------------------------------------------------


def test_errors_when_it_runs() -> None:
    x, first, n = sj.vector("x"), sj.vector("first"), sj.lscalar("n")
    y = sj.scan(lambda row, h: row + h, x, dict(initial=first, taps=[-n]))
    for f in pair([x, first, n], y):
        for lag in (0, -3):
            with pytest.raises(sj.ScanError, match=f"output 0: a tap reads {lag} steps back: a step can read only"):
                f(X[:, 0], FIRST[:, 0], lag)
        with pytest.raises(sj.ScanError, match=r"output 0: initial holds 5 rows, taps \[-n\] need 6"):
            f(X[:, 0], FIRST[:5, 0], 6)


@pytest.mark.parametrize(
    ("info", "words"),
    [
        (dict(initial=np.zeros(11), taps=[-12]), r"output 0: initial holds 11 rows, taps \[-12\] need 12"),
        (dict(initial=0.0, taps=[-12]), r"initial is a scalar, taps \[-12\] need 12 rows"),
        (dict(initial=np.zeros(3), taps=[sj.scalar("a")]), "the taps of output 0 must be integers"),
        (dict(initial=np.zeros(3), taps=[-1, True]), "the taps of output 0 must be integers"),
        (dict(initial=np.zeros(3), taps=[-9, -9]), r"the taps of output 0 are repeated: \[-9\]"),
    ],
)
def test_errors_when_it_is_built(info: Any, words: str) -> None:
    with pytest.raises(sj.ScanError, match=words):
        sj.scan(lambda *h: h[0] + 1.0, None, info, n_steps=5)


# ---- elsewhere -------------------------------------------------------------------------------------------------------


def _gradient() -> Any:
    x, first, n = sj.matrix("x"), sj.matrix("first"), sj.lscalar("n")
    y = sj.scan(matrix, x, dict(initial=first, taps=[-1, -n]))
    return [x, first, n], [y, *sj.grad((y**2).sum(), [x, first])]


def test_export_saving_and_printing(tmp_path: Any) -> None:
    f = sj.function(*_gradient(), mode="reference")
    given = X, FIRST, np.int64(12)
    wanted = f(*given)
    f.save(tmp_path / "f.sj")
    for other in (exported(f, tmp_path).model, sj.load(tmp_path / "f.sj", mode="reference")):
        all_close(other(*given), wanted, rtol=1e-12, atol=1e-13)
    assert "lags=((0, n),)" in str(sj.dprint(f, file="str"))


def test_onnx() -> None:
    for library in ("onnx", "onnxruntime"):
        pytest.importorskip(library)
    from tests.onnx.support import session_of

    found = session_of(sj.onnx.export(_gradient())).run(None, {"x": X, "first": FIRST, "n": np.array(12)})
    all_close(found, sj.function(*_gradient(), mode="reference")(X, FIRST, 12), rtol=1e-9)

"""Scans and what stands between them, a band of points at a time."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

import scanjit as sj
from scanjit import types
from scanjit.rewrite import run as rewrite
from scanjit.runtime import host
from scanjit.schedule.cost import rates
from scanjit.schedule.nests import Blocks
from scanjit.schedule.pipeline import schedule
from tests.compare import same_for_any_threads
from tests.fuzz.check import Config

P, R = sj.tensor(("N", 3), name="p"), sj.tensor(("N", "T"), name="r")
A, X, W = sj.tensor(("K",), name="a"), sj.tensor(("S", "K"), name="x"), sj.tensor(("S", "K"), name="w")
B, Y = sj.tensor(("M", "K"), name="b"), sj.tensor(("S", "M", "K"), name="y")
INPUTS = [P, R, A, X, W, B, Y]


def gradients(checkpoint: Any = None) -> dict[str, list[sj.Node]]:
    """Results whose loops have these checkpoints."""
    scan = partial(sj.scan, checkpoint=checkpoint)

    def likelihood(p: sj.Node, r: sj.Node) -> sj.Node:
        """Of one series, maps before and after the loop."""
        square = r * r
        h = scan(lambda x, h: p[0] + p[1] * x + p[2] * h, square, 1.0)
        return (sj.log(h) + square / h).sum()

    def states() -> sj.Node:
        return scan(lambda x, h: sj.tanh(A * h + x), X, sj.zeros_like(A))

    def rows() -> sj.Node:
        return scan(lambda y, h: sj.sigmoid(A * h + y), Y, B)

    values = sj.vmap(likelihood)(P, R)
    (curve,) = sj.grad((sj.grad(values.sum(), P) ** 2).sum(), [P])
    padded = sj.concatenate([states(), sj.zeros((1, A.size))])
    truth = scan(lambda x, h, c: (sj.tanh(A * h + x + c), h), X, [sj.zeros_like(A)] * 2)[0]
    return {
        "values": [values],
        "likelihoods": [values, sj.grad(values.sum(), P)],
        "likelihoods of series": [sj.grad(values.sum(), R)],
        "second derivatives": [curve],
        "squares": [sj.grad((states() ** 2).sum(0).sum(), A)],
        "weights": [sj.grad((states() * W).sum(0).sum(), X)],
        "two carries": [sj.grad(truth.sum(0).sum(), [A, X])[0]],
        "rows": [sj.grad((rows() ** 2).sum((0, 2)).sum(), [B, Y])[0]],
        "loss": [loss := (states() ** 2).sum(), *sj.grad(loss, [A, X])],
        "masked loss": [sj.grad(sj.where(W > 0, (states() - W) ** 2, 0.0).mean(), A)],
        "last state": [sj.grad((states()[-1:] ** 2).sum() + sj.tanh(padded.max(0)).sum(), A)],
        "loss of rows": [sj.grad((rows() ** 2).sum(), [B, Y])[0]],
        "stack too": [states(), sj.grad((states() ** 2).sum(0).sum(), A)],
    }


CASES = gradients()
NAMES = [name for name, found in CASES.items() for _ in found]


@pytest.mark.parametrize("name", [name for name in CASES if name not in ("rows", "loss of rows", "stack too")])
def test_memory_is_that_of_a_band(name: str) -> None:
    program = schedule(INPUTS, rewrite(CASES[name]).outputs, host.target())
    assert any(isinstance(statement, Blocks) for statement in program.suite)
    sizes = {"T": 2000, "N": 10**6, "S": 50, "K": 10**6, "M": 1}
    known = {types.as_atom(dim): sizes[str(dim)] for node in INPUTS for dim in node.type.shape if str(dim) in sizes}
    buffers = {buffer for s in program.suite for buffer, _, _ in s.all_refs() if buffer.kind == "temporary"}
    for buffer in buffers:
        # 400 MB for all points
        assert types.evaluate(buffer.nbytes, known) <= 50 * 10**6, (buffer.name, buffer.shape)


def function(cases: dict[str, list[sj.Node]], mode: str) -> Callable[..., list[Any]]:
    """All cases in one function, with bands of few points."""
    with host.using(replace(host.target(), level2_bytes=2**17)):
        return sj.function(INPUTS, [node for found in cases.values() for node in found], mode=mode)


@pytest.fixture(scope="module", params=["numba", "emulate"])
def compiled(request: pytest.FixtureRequest) -> Callable[..., list[Any]]:
    return function(CASES, request.param)


@functools.cache
def reference() -> Callable[..., list[Any]]:
    return sj.function(INPUTS, [node for found in CASES.values() for node in found], mode="reference")


def arguments(n: int, t: int, k: int, s: int, m: int) -> list[Any]:
    rng = np.random.default_rng(n + t)
    return [
        rng.uniform(0.1, 0.3, (n, 3)), rng.standard_normal((n, t)), rng.uniform(-1, 1, k), rng.standard_normal((s, k)),
        rng.standard_normal((s, k)), rng.standard_normal((m, k)), rng.standard_normal((s, m, k)),
    ]  # fmt: skip


@pytest.mark.quick(3)
@pytest.mark.parametrize(
    "sizes", [(1, 3, 1, 2, 1), (130, 9, 1100, 5, 3), (64, 1, 512, 1, 8), (3, 2, 9, 7, 17), (3, 0, 65, 0, 9)]
)
def test_values(compiled: Callable[..., list[Any]], sizes: tuple[int, ...]) -> None:
    args = arguments(*sizes)
    for name, value, other in zip(NAMES, compiled(*args), reference()(*args), strict=True):
        np.testing.assert_allclose(value, other, rtol=1e-9, atol=1e-10, err_msg=name)


@pytest.mark.slow
@pytest.mark.parametrize(("checkpoint", "sizes"), [(3, (130, 9, 600, 10, 2)), ("sqrt", (2, 16, 3, 1, 10))])
def test_checkpoints_change_no_bit(checkpoint: Any, sizes: tuple[int, ...]) -> None:
    f, g = (function(cases, "emulate")(*arguments(*sizes)) for cases in (CASES, gradients(checkpoint)))
    for name, value, other in zip(NAMES, f, g, strict=True):
        np.testing.assert_array_equal(value, other, err_msg=name)


def test_the_last_band_has_fewer_points() -> None:
    """Of 14 rows, a thread computes 8, and another one 6. Of saved carries, each copies only its own."""
    y = sj.tensor(("S", 14, 3), name="y")
    h = sj.scan(lambda row, h: sj.tanh(0.5 * h + row), y, sj.zeros((14, 3)), checkpoint=2)
    with Config(threads=2, small=True).active():
        f = sj.function([y], sj.grad((h**2).sum(), [y]), mode="emulate")
        assert "points at a time" in f.explain() and "recomputed for the gradient" in f.explain()
        given = np.random.default_rng(0).standard_normal((5, 14, 3))
        (slope,) = f(given)
    (expected,) = sj.function([y], sj.grad((h**2).sum(), [y]), mode="reference")(given)
    np.testing.assert_allclose(slope, expected, rtol=1e-9)


def test_finite_differences() -> None:
    f = sj.function([P, R], CASES["likelihoods"])
    p, r = arguments(200, 40, 1, 1, 1)[:2]
    _, slope = f(p, r)
    for i in range(3):
        step = np.zeros_like(p)
        step[:, i] = 1e-5
        numeric = (f(p + step, r)[0] - f(p - step, r)[0]) / 2e-5
        np.testing.assert_allclose(slope[:, i], numeric, rtol=1e-5, atol=1e-5)


def test_results_do_not_depend_on_threads(compiled: Callable[..., list[Any]]) -> None:
    if compiled.mode == "emulate":  # type: ignore[attr-defined]
        pytest.skip("emulation would take minutes")
    same_for_any_threads(compiled, *arguments(1500, 300, 900, 40, 20))


KEPT = {name: CASES[name] for name in ("likelihoods", "loss", "loss of rows", "two carries")}


@functools.cache
def without_threads() -> Callable[..., list[Any]]:
    return function(KEPT, "emulate")


@pytest.mark.quick(2)
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("meeting", [-1e9, 1e9], ids=["shared", "kept"])
def test_threads_keep_bands(shared: bool, meeting: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each thread has bands of its own, with temporaries in the memory that is planned for its copies: where threads
    touch each other's places, that is a race, which is a fault."""
    for name in ("MEETING", "WAKING", "LEAST_GAIN"):
        monkeypatch.setattr(rates, name, 0.0)
    given = [arguments(*sizes) for sizes in ((200, 3, 1100, 3, 3), (1, 2, 9, 3, 17))]
    expected = [without_threads()(*args) for args in given]
    with Config(threads=3, shared=shared).active():
        rates.MEETING = meeting
        f = function(KEPT, "emulate")
        (stage,) = f.executable.stages
        for args, results in zip(given, expected, strict=True):
            stage.forget()
            np.testing.assert_equal(f(*args), results)
            (sized,) = stage.known.values()
            found = sized.sharing.rows_apart
            kept = {rows: apart for rows, apart in found.items() if sized.number(rows.size)}  # a few series, or many
            assert len(found) == 3 and len(kept) == 2 and set(kept.values()) == {meeting > 0}
            copies = {sized.number(rows.copies) for rows in kept}
            assert copies == {min(3, sized.number(rows.size)) if meeting > 0 else 1 for rows in kept}
    assert f.explain().count("points of different bands never meet") == len(found)


@pytest.mark.parametrize("mode", ["emulate", "numba"])
def test_sums_of_series_along_rows_need_memory_for_a_stretch(mode: Any, rng: np.random.Generator) -> None:
    """Also where vectors are filled with steps if the series are few."""

    def step(x: sj.Node, h: sj.Node, *p: sj.Node) -> tuple[sj.Node, sj.Node]:
        h = p[0] + p[1] * x * x + p[2] * h
        return h, sj.log(h) + x * x / h

    likelihood = lambda p, r: sj.scan(step, r, [1.0, None], [p[0], p[1], p[2]])[1].sum()
    f, reference = (sj.function([P, R], sj.vmap(likelihood)(P, R).sum(), mode=each) for each in (mode, "reference"))
    assert "in blocks of time" in f.explain() and "lanes along time" in str(sj.dprint(f, "str", stage="blocks"))
    for n, steps in ((1, 300), (2, 67), (9, 40), (0, 5), (3, 0)):
        given = rng.uniform(0.1, 0.3, (n, 3)), rng.standard_normal((n, steps))
        np.testing.assert_allclose(f(*given), reference(*given), rtol=1e-12)


@pytest.mark.quick(2)
@pytest.mark.parametrize("mode", ["emulate", "numba"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_few_linear_series_fill_vectors_with_steps(dtype: str, mode: Any, rng: np.random.Generator) -> None:
    """Running sums and maxima, an average that forgets, and its gradients; also where something is not finite."""
    x, a = sj.tensor(("b", "n"), dtype), sj.scalar("a", dtype)
    smooth = sj.vmap(lambda row, a: sj.scan(lambda v, h: a * h + v, row, 0.0), in_axes=(0, None))(x, a)
    results = [sj.cumsum(x, 1), sj.cummax(x, 1), smooth, *sj.grad((smooth**2).sum(), [x, a])]
    f = sj.function([x, a], results, mode=mode)
    g = sj.function([x, a], results, mode="reference")
    close = 1e-4 if dtype == "float32" else 1e-11
    for shape in ((1, 300), (3, 67), (7, 16), (8, 40), (15, 33), (16, 33), (17, 5), (0, 5), (2, 0)):
        rows = rng.normal(size=shape).astype(dtype)
        for odd in ((), (np.inf,), (np.nan,)):
            if rows.size:
                rows[0, 2 : 2 + len(odd)] = odd
            for found, wanted in zip(f(rows, 0.9), g(rows, 0.9), strict=True):
                np.testing.assert_allclose(found, wanted, close, 10 * close)
    program = schedule([x, a], rewrite(results).outputs, host.target())
    assert {1} < {statement.size for statement in program.suite if isinstance(statement, Blocks)}


@pytest.mark.parametrize("part", [slice(1, 9), slice(None, 8)])
def test_a_step_that_reads_a_part_of_rows_that_lie_apart(part: slice) -> None:
    """The copy of such rows has their own size, which is not that of the state."""
    x, start = sj.matrix("x"), np.linspace(0.0, 1.0, 8)
    states = sj.scan(lambda row, h: np.tanh(h + row[part]), sequences=x.T, outputs_info=start)
    values = np.random.default_rng(0).normal(size=(9, 40))
    expected = sj.function([x], states, mode="reference")(values)
    np.testing.assert_allclose(sj.function([x], states, mode="emulate")(values), expected, rtol=1e-12, atol=1e-13)


def test_blocks_of_time_read_long_pieces_of_series_whose_steps_lie_side_by_side() -> None:
    """The total of all series: 8 steps of 2,000 series would fill what stays near, and be a line of the cache each."""
    values = CASES["values"][0].sum()
    program = schedule([P, R], rewrite([values]).outputs, host.target())
    (blocks,) = (statement for statement in program.suite if isinstance(statement, Blocks))

    def steps(series: int) -> int:
        return types.evaluate(blocks.size, dict(zip(map(types.as_atom, R.type.shape), (series, 1000), strict=True)))

    near = host.target().near_bytes
    assert 16 <= steps(near // 128) <= 32
    assert steps(near // 1024) > 32
    assert steps(10 * near) == steps(100 * near) < 8


@pytest.mark.parametrize("rows", [False, True])
def test_few_columns_are_computed_together_and_few_rows_one_by_one(rows: bool) -> None:
    """A vector of columns that is not full takes as long as one column. The steps of a row lie side by side."""
    series = sj.tensor(("n", "t") if rows else ("t", "n"), name="series")
    x, a = series.T if rows else series, sj.tensor(("n",), name="a")
    states = sj.scan(lambda row, h: a * h + row, x, sj.zeros(x.shape[1], x.dtype))
    results = [*sj.grad((states**2).sum(), [a, series])]
    program = schedule([a, series], rewrite(results).outputs, host.target())
    (few,) = (statement for statement in program.suite if isinstance(statement, Blocks) and statement.size == 1)
    sizes = [types.evaluate(few.total, {types.as_atom(a.type.shape[0]): n}) for n in (1, 2, 3, 7, 64)]
    lanes = host.target().lanes(8)
    assert sizes == ([n if n < lanes else 0 for n in (1, 2, 3, 7, 64)] if rows else [1, 0, 0, 0, 0])

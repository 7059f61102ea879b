"""Short loops of unknown sizes have variants for rows of one vector and of two, which calls with short rows run."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import scanjit as sj
from tests.compare import all_close
from tests.fuzz.check import Config

Model = Callable[[Any, Any, Any], Any]


def learned(x: Any, A: Any, start: Any) -> Any:
    """A sum over a row, and what it changes in all of the row."""
    return sj.scan(lambda x, w: w + 0.1 * (1.0 - x @ w) * x, x, start)[-1].sum() + A[0, 0]


def hidden(x: Any, A: Any, start: Any) -> Any:
    """A product with a matrix, a sum of its entries, and a division by that."""

    def step(x: Any, a: Any) -> Any:
        a = (a @ A) * x
        return a / a.sum(), sj.log(a.sum())

    return sj.scan(step, abs(x) + 0.1, [abs(start) + 0.1, None])[1].sum()


def likely(x: Any, A: Any, start: Any) -> Any:
    """Maxima down columns, and where they are."""

    def step(x: Any, d: Any) -> Any:
        v = d[:, None] + A
        return v.max(0) + x, sj.cast(sj.argmax(v, 0), x.dtype)

    d, back = sj.scan(step, x, [start, None])
    return d[-1].sum() + back.sum() + d.max() + sj.argmin(d[-1])


def weighted(x: Any, A: Any, start: Any) -> Any:
    """A softmax: sums and maxima of terms that take long."""

    def step(x: Any, h: Any) -> Any:
        e = sj.exp(x - x.max() + 0.1 * h)
        h = (sj.tanh(h[:, None] + A) * e[:, None]).sum(0) / e.sum()
        return h, (h * h).min()

    h, least = sj.scan(step, x, [start, None])
    return h[-1].sum() + least.sum()


def chained(x: Any, A: Any, start: Any) -> Any:
    """Each element flows into the next one: rows that begin and end elsewhere."""

    def step(x: Any, s: Any) -> Any:
        out = 0.3 * s
        return s - out + sj.concatenate([x[:1], out[:-1]])

    s = sj.scan(step, x, start)
    return s[:, -1].sum() + (s[-1] * A[0]).sum()


def stacked(x: Any, A: Any, start: Any) -> Any:
    """Two carries of which all steps are read, and the last element of one of them in the step."""

    def step(x: Any, s: Any, v: Any) -> Any:
        v = 0.5 * v + x * s[-1]
        return s + 0.1 * (x - (s * v).sum()), v

    s, v = sj.scan(step, x, [start, start * 0.5])
    return (s * s).sum() + (v @ A).sum()


def backwards(x: Any, A: Any, start: Any) -> Any:
    """From the last row to the first."""
    s = sj.scan(lambda x, s: 0.5 * s + x * (A @ s), x, start, go_backwards=True)
    return (s * s).sum()


def windows(x: Any, A: Any, start: Any) -> Any:
    """Parts of rows that begin or end elsewhere than the row."""

    def step(x: Any, s: Any, delay: Any, far: Any) -> Any:
        s = s[1:].inc(0.5 * x[:-1] * delay[1:])
        s = s[:-1].inc(0.1 * s[1:]) + s[::-1] * 0.1
        far = sj.concatenate([far[3:], x[:1] * s[:1], sj.zeros_like(far[:3])])[: x.shape[0]]
        return 0.5 * s, sj.concatenate([x[:1], delay[:-1]]), sj.concatenate([far, 0 * x])[: x.shape[0]]

    s, delay, far = sj.scan(step, x, [start, start, start])
    return (s * delay).sum() + (far[-1] * A[0]).sum()


def filtered(x: Any, A: Any, start: Any) -> Any:
    """A filter whose state has a mean and a matrix."""

    def step(x: Any, m: Any, P: Any) -> Any:
        P = A @ P @ A.T + 0.1 * x[:, None] * x
        total = (x * (P @ x)).sum() + 1.0
        k = P @ x / total
        missed = x.sum() - (start * (A @ m)).sum()
        return A @ m + k * missed, P - k[:, None] * (x @ P), sj.log(total) + missed * missed / total

    return sj.scan(step, x, [start, A @ A.T, None])[2].sum()


def plastic(x: Any, A: Any, start: Any) -> Any:
    """Weights that learn in each step, read in several ways; all of them are stored."""

    def step(x: Any, S: Any) -> Any:
        return S + 0.1 * sj.tanh(x - S @ x)[:, None] * x + 0.1 * S.T * S[0]

    S = sj.scan(step, x, A)
    return (S * S).sum() + (S[-1] @ start).sum() + S[:, :, -1].sum()


def poured(x: Any, A: Any, start: Any) -> Any:
    """Tanks, each of which flows into the next one, and parts of a row that begin three elements behind it."""

    def step(x: Any, s: Any, far: Any) -> Any:
        out = start * s
        into = sj.concatenate([x[:1] + 0.1 * far[-1:], out[:-1]])
        return 0.9 * s + into - out, sj.concatenate([far[3:] * s[3:], far[:3]])

    s, far = sj.scan(step, x, [start, start])
    return (s * s).sum() + (far[-1] * A[0]).sum()


def lagged(x: Any, A: Any, start: Any) -> Any:
    """The last numbers of a series, of which all steps are read. A step stores them in two parts."""
    s = sj.scan(lambda x, s: sj.concatenate([(x[0] + 0.2 * (s * A[0]).sum())[None], s[:-1]]), x, start)
    return (s * s).sum() + (s[-1] @ A).sum()


def stopped(x: Any, A: Any, start: Any) -> Any:
    """A step may be the last one; and so may one of a loop in each step."""

    def step(x: Any, s: Any) -> Any:
        near = sj.while_loop(lambda s: (s * s).sum() > 0.1, lambda s: 0.3 * s + 0.1 * s[::-1], A[0] * x)
        s = 0.5 * s + near * sj.concatenate([x[:1], s[:-1]])
        return s, sj.until((s * s).sum() > 2.0)

    s = sj.scan(step, x, start)
    return (s * s).sum() + s.shape[0]


MODELS: list[Model] = [
    stopped,
    lagged,
    poured,
    windows,
    learned,
    hidden,
    likely,
    weighted,
    chained,
    stacked,
    backwards,
    filtered,
    plastic,
]


def program(model: Model, dtype: str, **options: Any) -> Any:
    x, A = sj.tensor(("T", "N"), dtype, "x"), sj.tensor(("N", "N"), dtype, "A")
    start = sj.tensor(("N",), dtype, "start")
    value = model(x, A, start)
    outputs = [value] if model in (likely, stopped) else [value, *sj.grad(value, [x, A, start])]
    return sj.function([x, A, start], outputs, **options)


def arguments(size: int, dtype: str) -> list[Any]:
    rng = np.random.default_rng(size)
    given = rng.normal(size=(5, size)), 0.3 * rng.normal(size=(size, size)), 0.3 * rng.normal(size=size)
    return [value.astype(dtype) for value in given]


@pytest.mark.quick(4)
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_values_and_gradients_of_all_sizes(model: Model, dtype: str) -> None:
    f, wanted = program(model, dtype), program(model, dtype, mode="reference")
    tolerance = 1e-10 if dtype == "float64" else 2e-4
    for size in (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 33):
        given, results = arguments(size, dtype), []
        for sj.config.threads in (1, 2, 3):
            results.append(f(*given))
        for got, *others, right in zip(*results, wanted(*given), strict=True):
            np.testing.assert_allclose(got, right, rtol=tolerance, atol=tolerance)
            assert all(np.array_equal(got, other, equal_nan=True) for other in others)


@pytest.mark.quick(2)
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("threads", [1, 2])
def test_memory(model: Model, threads: int) -> None:
    wanted = program(model, "float64", mode="reference")
    with Config(threads=threads, small=True).active():
        f = program(model, "float64", mode="emulate")
        for size in (1, 3, 4, 5, 9, 14):
            given = arguments(size, "float64")
            all_close(f(*given), wanted(*given), rtol=1e-10)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("mode", ["numba", "emulate"])
def test_parts_of_rows_of_two_vectors(dtype: str, mode: str) -> None:
    x, start = sj.tensor(("T", "N"), dtype, "x"), sj.tensor(("N",), dtype, "start")
    value = poured(x, x, start)
    f, wanted = sj.function([x, start], value, mode=mode), sj.function([x, start], value, mode="reference")
    tolerance = 1e-10 if dtype == "float64" else 2e-4
    for size in (4, 5, 7, 8, 9, 12, 15, 16, 17, 25, 32, 33):
        x_, _, start_ = arguments(size, dtype)
        np.testing.assert_allclose(f(x_, start_), wanted(x_, start_), rtol=tolerance)


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64"])
@pytest.mark.parametrize("mode", ["numba", "emulate"])
def test_ends_of_short_rows_are_stored_as_whole_vectors(dtype: str, mode: str) -> None:
    """One element or two at the ends of a row. Where the last one lies is known in a call."""

    def step(x: Any, s: Any, w: Any, v: Any) -> Any:
        zeros = sj.zeros(2, dtype)
        moved = sj.concatenate([x[None], s[2:] - s[:-2], zeros[:1]])
        kept = sj.concatenate([sj.maximum(w[:-1], s[1:]), w[-1:]])
        return moved, kept, sj.concatenate([zeros, v[:-2] + w[2:]])

    x, start = sj.tensor(("T",), dtype, "x"), sj.tensor(("N",), dtype, "start")
    rows = [found[-1] for found in sj.scan(step, x, [start, start, start])]
    f, wanted = (sj.function([x, start], rows, mode=each) for each in (mode, "reference"))
    for size in (2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 31, 33):
        given = [np.arange(length).astype(dtype) for length in (9, size)]
        for got, right in zip(f(*given), wanted(*given), strict=True):
            np.testing.assert_allclose(got, right, rtol=1e-6)
    short = [body for body in f.source.split("\ndef ") if "begin" not in body and "opaque(select(" in body]
    assert short and not any("store_masked(" in body for body in f.source.split("\ndef ") if "begin" not in body)


@pytest.mark.parametrize("model", [hidden, filtered])
def test_rows_lie_on_the_stack(model: Model) -> None:
    x, A, start = sj.tensor(("T", "N"), name="x"), sj.tensor(("N", "N"), name="A"), sj.tensor(("N",), name="start")
    f = sj.function([x, A, start], model(x, A, start), mode="emulate")
    called = re.search(r"if 0 < \w+ <= \d+:\n +if thread == 0:\n +(\w+)\(", f.source)
    assert called is not None
    body = f.source.split(f"def {called[1]}(")[1].split("\n\n")[0]
    assert "stack(" in body
    assert "first_piece" not in body


def test_rows_that_are_stored_in_parts_lie_on_the_stack() -> None:
    x, A, start = sj.tensor(("T", "N"), name="x"), sj.tensor(("N", "N"), name="A"), sj.tensor(("N",), name="start")
    f = sj.function([x, A, start], lagged(x, A, start), mode="emulate")
    assert "slide_up1" in f.source


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "int64", "int8", "bool"])
def test_all_rows(dtype: str, rng: np.random.Generator) -> None:
    x, start = sj.tensor(("T", "N"), dtype, "x"), sj.tensor(("N",), dtype, "start")
    step = lambda x, s: (s ^ x) | s.any() if dtype == "bool" else s + x * (x - sj.cast(s.sum(), dtype))
    rows = sj.scan(step, x, start)
    f, wanted = (sj.function([x, start], rows, mode=mode) for mode in ("numba", "reference"))
    for length, size in ((0, 3), (1, 1), (3, 3), (3, 8), (3, 16), (3, 17), (3, 300)):
        given = [rng.integers(-2, 3, shape).astype(dtype) for shape in ((length, size), size)]
        np.testing.assert_array_equal(f(*given), wanted(*given))


def test_rows_without_elements() -> None:
    x, start = sj.tensor(("T", "N"), "float64", "x"), sj.tensor(("N",), "float64", "start")
    rows = sj.scan(lambda x, w: w + 0.1 * (1.0 - x @ w) * x, x, start)
    f = sj.function([x, start], [rows, rows.sum()])
    rows, total = f(np.zeros((5, 0)), np.zeros(0))
    assert rows.shape == (5, 0)
    assert total == 0


@pytest.mark.parametrize(("units", "brief"), [(3, True), (200, False)])
def test_few_rows_of_known_length(units: int, brief: bool) -> None:
    """One thread computes a few short rows one by one; threads share long ones."""
    x, h, w = sj.tensor(("T", "B", units), name="x"), sj.tensor(("B", units), name="h"), sj.tensor((units, units))
    outputs = sj.scan(lambda x, h: sj.tanh(x + h @ w), x, h)[-1]
    f, wanted = (sj.function([x, h, w], outputs, mode=mode) for mode in ("numba", "reference"))
    assert bool(re.search(r"if 0 < \w+ <= \d:", f.source)) == brief
    for rows in (0, 1, 2, 4, 5, 9):
        rng = np.random.default_rng(rows)
        given = [rng.normal(size=size) for size in ((6, rows, units), (rows, units), (units, units))]
        given[2] *= 0.1
        np.testing.assert_allclose(f(*given), wanted(*given), rtol=1e-8, atol=1e-12)


def test_one_thread_computes_small_matrices_of_known_sizes() -> None:
    x, A = sj.tensor(("T", 7), name="x"), sj.tensor((7, 7), name="A")
    f = sj.function([x, A], sj.scan(lambda x, S: S + 0.1 * (x - S @ x)[:, None] * x, x, A)[-1], mode="emulate")
    loops = [part.split("\n\n\n")[0] for part in f.source.split("def loop_")[1:]]
    assert len(loops) == 1 and "first_piece" not in loops[0]


def test_a_step_may_sum_down_no_columns() -> None:
    """A known size of 0 beside an unknown one."""
    x, e, w = (sj.tensor(shape, "float64") for shape in (("T", "N"), ("M", 0), ("N", "N")))

    def step(a: Any, h: Any, e: Any, w: Any) -> Any:
        v = (e * h[0]).sum(axis=0)
        return sj.tanh(h @ w + a) + v.sum() + (v * v).sum(), v

    made = sj.scan(step, x, [sj.zeros(x.shape[1], "float64"), None], non_sequences=[e, w])
    args = np.ones((3, 5)), np.ones((4, 0)), np.eye(5)
    found, wanted = (sj.function([x, e, w], made, mode=mode)(*args) for mode in ("emulate", "reference"))
    np.testing.assert_allclose(found[0], wanted[0], rtol=1e-12)
    assert found[1].shape == wanted[1].shape == (3, 0)


@pytest.mark.parametrize("width", [16, 32, 64])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_square_states_whose_rows_are_vectors(dtype: str, width: int, rng: np.random.Generator) -> None:
    """A nest goes through their rows as if they were one: it is longer than a vector."""
    lanes = width // np.dtype(dtype).itemsize
    for size in (lanes, 2 * lanes):
        x, y = (sj.tensor(("T", size, size), dtype, name) for name in "xy")
        states = sj.scan(lambda x, y, s: x @ (s - y), [x, y], x[0])
        given = [(rng.standard_normal((3, size, size)) / size).astype(dtype) for _ in range(2)]
        wanted = sj.function([x, y], states, mode="reference")(*given)
        with Config(width=width).active():
            got = sj.function([x, y], states, mode="emulate")(*given)
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("width", [16, 32, 64])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_windows_that_reach_into_the_next_row(dtype: str, width: int, rng: np.random.Generator) -> None:
    """They are no parts of a row, though they have fewer elements than one."""
    lanes = width // np.dtype(dtype).itemsize
    for size in (lanes, 2 * lanes):
        x, start = sj.tensor(("T", size), dtype, "x"), sj.tensor((3, size), dtype, "start")
        window = slice(size // 2, size // 2 + size)

        def step(x: Any, s: Any, window: slice = window) -> Any:
            flat = sj.tanh(s + x).reshape(-1)
            return flat[window].set(0.5 * s.reshape(-1)[window] + x).reshape(s.shape), s.reshape(-1)[window] * 2

        states, windows = sj.scan(step, x, [start, None])
        outputs = [states[-1], windows]
        given = [rng.standard_normal((3, size)).astype(dtype) for _ in range(2)]
        wanted = sj.function([x, start], outputs, mode="reference")(*given)
        with Config(width=width).active():
            got = sj.function([x, start], outputs, mode="emulate")(*given)
        all_close(got, wanted, rtol=1e-4, atol=1e-5)

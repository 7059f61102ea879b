"""Steps that move the elements of short states of known length: parts of rows are read and written in registers."""

from typing import Any

import numpy as np

import scanjit as sj
from scanjit.runtime import host
from tests.fuzz.check import Config
from tests.pairs import pairwise

SIZES = (2, 3, 5, 7, 8, 9, 12, 15, 16, 17, 32)


def tanks(x: Any, start: Any) -> Any:
    """Each flows into the next one."""

    def step(x: Any, h: Any) -> Any:
        out = 0.5 * sj.sqrt(abs(h))
        return h + 0.1 * (sj.concatenate([x[None], out[:-1]]) - out)

    return sj.scan(step, x, start)


def last_tank(x: Any, start: Any) -> Any:
    """The last one at each step, and all of them after the last step."""
    h = tanks(x, start)
    return sj.concatenate([h[:, -1], h[-1]])


def filters(x: Any, start: Any) -> Any:
    """The last samples, with weights that learn."""

    def step(x: Any, last: Any, w: Any) -> Any:
        last = sj.concatenate([x[None], last[:-1]])
        error = x - (w * last).sum()
        return last, w + 0.1 * error / (1.0 + (last * last).sum()) * last, error

    last, w, error = sj.scan(step, x, [start, start * 0.5, None])
    return sj.concatenate([last[-1], w[-1], error])


def turned(x: Any, start: Any) -> Any:
    """Both ends meet, and a part is overwritten."""

    def step(x: Any, h: Any, g: Any) -> Any:
        h = sj.concatenate([h[1:], h[:1]]) * 0.9 + x / (2.0 + abs(h))
        return h, g[1:].set(h[:-1] + 0.5 * g[:-1])

    return sj.concatenate(sj.scan(step, x, [start, start]), axis=1)


MODELS = [tanks, last_tank, filters, turned]


@pairwise(model=MODELS, dtype=["float32", "float64"], mode=["emulate", "numba"])
def test_as_the_reference(model: Any, dtype: str, mode: Any, rng: np.random.Generator) -> None:
    x, gradient = sj.tensor(("T",), dtype, "x"), mode == "emulate"
    for size in SIZES:
        start = sj.tensor((size,), dtype, "start")
        y = model(x, start)
        outputs = [y, sj.grad((y * y).sum(), x)] if gradient else [y]
        f, reference = (sj.function([x, start], outputs, mode=m) for m in (mode, "reference"))
        for length in (1, 2, 9):
            given = [rng.uniform(0.1, 1.0, n).astype(dtype) for n in (length, size)]
            for found, wanted in zip(f(*given), reference(*given), strict=True):
                np.testing.assert_allclose(found, wanted, rtol=1e-4 if dtype == "float32" else 1e-10, atol=1e-6)


def test_parts_are_moved_in_registers() -> None:
    x, start = sj.vector("x"), sj.tensor((8,), "float64", "start")
    f = sj.function([x, start], last_tank(x, start), mode="emulate")
    assert "number by number" not in str(f.explain())
    assert "slide_up1(" in f.source


def test_rows_of_eight_vectors_stay_in_registers() -> None:
    size = 8 * host.target().lanes(8)
    x = sj.tensor(("T", size), "float64", "x")
    f = sj.function([x], sj.scan(lambda row, h: 0.9 * h + row, x, sj.zeros(size)), mode="emulate")
    assert "c7 = " in f.source
    given = np.random.default_rng(0).normal(size=(5, size))
    reference = sj.function([x], sj.scan(lambda row, h: 0.9 * h + row, x, sj.zeros(size)), mode="reference")
    np.testing.assert_allclose(f(given), reference(given), rtol=1e-12)


def test_numbers_begin_as_numbers() -> None:
    x = sj.vector("x")

    def step(x: Any, ring: Any, k: Any, total: Any) -> Any:
        return ring[k].set(x), sj.where(sj.equal(k, 19), 0, k + 1), total + x - ring[k]

    f = sj.function([x], sj.scan(step, x, [sj.zeros(20), 0, 0.0])[2], mode="emulate")
    (loop,) = [part for part in f.source.split("\n\n\n") if "def loop" in part]
    assert "load_masked" not in loop
    np.testing.assert_allclose(f(np.arange(30.0))[-1], np.arange(10.0, 30.0).sum())


def test_a_number_that_is_changed_as_a_slice_is_no_row() -> None:
    """Two statements of a step store it. (Rewriting makes one of them.)"""

    def step(x: Any, a: Any) -> Any:
        whole = sj.floor(x) + a
        changed = whole[()].set(whole[()] + sj.maximum(a, whole))
        return sj.tanh(changed + whole)

    x = sj.vector("x")
    out = sj.scan(step, x, sj.zeros((), x.dtype))
    data = np.arange(7, dtype=x.dtype) / 4
    with Config(rewrite=False).active():
        found = sj.function([x], out, mode="emulate")(data)
    np.testing.assert_allclose(found, sj.function([x], out, mode="reference")(data), rtol=1e-6)

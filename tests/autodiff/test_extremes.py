"""Gradients of maxima and minima: what is compared with the largest float is what it was found among."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import scanjit as sj
from tests.compare import all_close
from tests.fuzz.check import Config
from tests.pairs import pairwise


def softened(x: Any, y: Any, A: Any, start: Any) -> Any:
    """Products and sums whose largest is subtracted."""

    def step(x: Any, y: Any, c: Any) -> Any:
        u = 0.9 * x + sj.where(y * (x @ c) <= 0, y, 0.0) * sj.sin(c)
        e = sj.exp(u - u.max())
        u = (sj.tanh((e / e.sum())[:, None] + A) * x[None, :]).sum(0) * 0.1
        return sj.tanh(u + 0.1 * c), y + u.sum()

    rows, sums = sj.scan(step, [x, y], [start, None])
    return sj.sin(rows[::-1].sum()) + sj.sin(sums[::-1].sum())


def columns(x: Any, y: Any, A: Any, start: Any) -> Any:
    """The largest of each column, and the smallest of each row."""

    def step(x: Any, y: Any, c: Any) -> Any:
        v = c[:, None] * 0.5 + A * (0.3 + y * y)
        return 0.3 * v.max(0) + sj.sin(0.7 * v - x[:, None] * 1.7).min(1)

    return (sj.scan(step, [x, y], start) * x).sum()


@pytest.mark.quick(4)
@pairwise(dtype=["float32", "float64"], size=["N", 17], width=[None, 32, 16], program=[softened, columns])
def test_gradients_of_a_loop(program: Any, width: int | None, size: Any, dtype: str) -> None:
    x, y = sj.tensor(("T", size), dtype, "x"), sj.tensor(("T",), dtype, "y")
    A, start = sj.tensor((size, size), dtype, "A"), sj.tensor((size,), dtype, "start")
    value = program(x, y, A, start)
    outputs = [value, *sj.grad(value, [x, A, start])]
    wanted = sj.function([x, y, A, start], outputs, mode="reference")
    with Config(width=width, mode="numba").active():
        f = sj.function([x, y, A, start], outputs)
        assert "equal" in f.explain().split("for the gradient")[1].split("\n")[0]
        rng, tolerance = np.random.default_rng(0), {"float32": 2e-3, "float64": 1e-9}[dtype]
        for n in (1, 3, 8, 17, 33) if size == "N" else (size,):
            shapes = ((5, n), (5,), (n, n), (n,))
            given = [(0.5 * rng.standard_normal(shape)).astype(dtype) for shape in shapes]
            all_close(f(*given), wanted(*given), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_gradients_without_a_loop(dtype: str, rng: np.random.Generator) -> None:
    u, A = sj.tensor(("N",), dtype, "u"), sj.tensor(("N", "N"), dtype, "A")
    v = sj.sin(u[:, None]) * 0.37 + A * 1.7
    value = (v.max(0) * u).sum() + (0.5 * u + A[0] * 0.3).min()
    f, wanted = (sj.function([u, A], sj.grad(value, [u, A]), mode=mode) for mode in ("numba", "reference"))
    for n in (1, 3, 8, 17, 33):
        given = [rng.standard_normal(shape).astype(dtype) for shape in (n, (n, n))]
        all_close(f(*given), wanted(*given), rtol=1e-3, atol=1e-4)

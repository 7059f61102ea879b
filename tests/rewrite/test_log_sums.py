"""Loops over a vector whose step is `logaddexp`: exponentials and logarithms of all steps are computed together."""

from typing import Any

import numpy as np
import pytest

import scanjit as sj

INF, NAN = np.inf, np.nan
NOTE = "exponentials and logarithms of running sums are computed together"
VALUES: tuple[list[float], ...] = (
    [],
    [1.0],
    [-INF, -INF, -800.0, 800.0, 3.0],
    [-INF, 800.0, -INF, INF, 3.0],
    [1.0, NAN, 2.0],
    [INF, -INF, NAN, 2.0],
    [-800.0, 800.0] * 20,
    [800.0] * 20,
    [*np.random.default_rng(0).normal(0.0, 300.0, 100)],
)


@pytest.mark.parametrize("mode", ["emulate", "numba"])
def test_all_values_and_starts(mode: Any) -> None:
    x, start = sj.vector("x"), sj.scalar("start")
    rows = sj.scan(lambda a, h: sj.logaddexp(h, a), x, start)
    f = sj.function([x, start], [rows, rows[-1:]], mode=mode)
    assert NOTE in str(f.explain())
    for values in VALUES:
        for first in (-INF, INF, NAN, 0.0, 5.0, -900.0):
            with np.errstate(invalid="ignore"):
                wanted = np.logaddexp.accumulate([first, *values])[1:]
            found, end = f(np.array(values), first)
            np.testing.assert_allclose(found, wanted, rtol=1e-13)
            np.testing.assert_allclose(end, wanted[-1:], rtol=1e-13)


@pytest.mark.parametrize("mode", ["emulate", "numba"])
def test_of_integers(mode: Any) -> None:
    x, given = sj.tensor(("n",), "int32", "x"), np.array([3, -700, 3, 1000, 999])
    f = sj.function([x], sj.logcumsumexp(x), mode=mode)
    assert NOTE in str(f.explain())
    np.testing.assert_allclose(f(given), np.logaddexp.accumulate(given.astype("float64")), rtol=1e-14)


def test_long_sums_lose_less() -> None:
    x = sj.tensor(("n",), "float32", "x")
    given = np.random.default_rng(0).normal(size=100_000).astype("float32")
    exact = np.log(np.cumsum(np.exp(given.astype("float64"))))
    assert abs(sj.function([x], sj.logcumsumexp(x))(given) - exact).max() < 4e-6  # two units of the last place


@pytest.mark.parametrize("mode", ["emulate", "numba"])
def test_in_steps_and_branches_with_derivatives(mode: Any) -> None:
    x, c = sj.matrix("x"), sj.scalar("c")
    inside = sj.scan(lambda row, h: sj.logcumsumexp(row + h)[-1], x, c)
    chosen = sj.ifelse(c > 0, lambda: sj.logcumsumexp(x[0]), lambda: x[0])
    back = sj.scan(lambda a, h: sj.logaddexp(h, a), x[1], c, go_backwards=True)
    outputs = [inside, chosen, back, *(sj.grad((y**2).sum(), x) for y in (inside, chosen, back))]
    f = sj.function([x, c], outputs, mode=mode)
    assert NOTE in str(f.explain())
    for value in (0.5, -0.5):
        given = np.random.default_rng(1).normal(size=(3, 20)), value
        for found, wanted in zip(f(*given), sj.function([x, c], outputs, mode="reference")(*given), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize(
    "loop",
    [
        lambda x: sj.logcumsumexp(x[:, None] + np.zeros(5), 0),  # vectors are full of rows
        lambda x: sj.scan(lambda a, h: sj.logaddexp(h, a) + 0.5 * a, x, -INF),
        lambda x: sj.scan(lambda a, h: (sj.logaddexp(h, a), sj.until(h > 3.0)), x, -INF),
        lambda x: sj.scan(lambda a, h: sj.logaddexp(a, a) + 0 * h, x, 0.0),
    ],
    ids=["rows", "more", "until", "other"],
)
def test_other_loops_stay(loop: Any) -> None:
    x = sj.vector("x")
    f = sj.function([x], loop(x), mode="emulate")
    assert NOTE not in str(f.explain())
    given = np.random.default_rng(2).normal(size=9)
    np.testing.assert_allclose(f(given), sj.function([x], loop(x), mode="reference")(given), rtol=1e-13)

"""What steps compute from the rows of loops that decide how many there are: in memory of the most there may be."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import scanjit as sj

X = np.array([[0.4, 1.2, 0.7], [30.0, 0.1, 1.1], [2.0, 1.4, 1.0], [0.01, 1.01, 0.5]])
"""Rows of which a loop makes some steps, one step, a few, and all that it may."""


def rows(v: Any, h: Any = 0.0, most: Any = 9) -> Any:
    """A vector a step, until its sum exceeds a limit."""
    step = lambda s: (s * 1.3 + h * 0.1, sj.until(s.sum() > 9.0))
    return sj.scan(step, outputs_info=v, n_steps=most)


READS: dict[str, Callable[[Any], Any]] = {
    "sum": lambda y: (y * y).sum(0).sum() + sj.sum(sj.tanh(y)),
    "mean": lambda y: y.mean(),
    "extremes": lambda y: (y.max(0) - y.min(0)).sum() + y[::-1].max(),
    "places": lambda y: y[-1].sum() + y[0, 1] * y[-1, 0],
    "parts": lambda y: (y[1:] - y[:-1]).sum() + y[::2].sum() + (y[::-1] * y).sum(),
    "product": lambda y: sj.dot(y.T, y).sum() + sj.dot(y, y.T).sum() + sj.dot(y, y[0]).max(),
    "positions": lambda y: sj.argmax(y[:, 0]) + sj.argmin(y, 0).sum() + y[:, 1].sum(),
    "joined": lambda y: (sj.concatenate([y[:1], y * 2.0, y[1:]]) ** 2).sum(),
    "filled": lambda y: (sj.concatenate([y, sj.ones((9 - y.shape[0], 3))]) * np.arange(27.0).reshape(9, 3)).sum(),
    "counted": lambda y: (y[:, 0] * sj.arange(y.shape[0])).sum() / y.shape[0],
    "replaced": lambda y: (y[-1:].set(y[:1] * 3.0) ** 2).sum() + (y[::2].inc(1.0) ** 2).sum(),
    "gathered": lambda y: y[sj.constant(np.array([0, 0]))].sum() + y.shape[0],
    "softmax": lambda y: (sj.softmax(y, 0) * y).sum() + sj.logsumexp(y),
    "scanned": lambda y: (sj.scan(lambda r, h: 0.5 * h + r, y, sj.zeros(3)) ** 2).sum(),
    "cumsum": lambda y: sj.cumsum(y, 0).sum(),
    "backwards": lambda y: sj.scan(lambda r, h: sj.tanh(h * r), y, sj.ones(3), go_backwards=True)[-1].sum(),
    "taps": lambda y: sj.scan(
        lambda a, b: a * b, sequences={"input": sj.concatenate([y[:1], y]), "taps": [0, 1]}
    ).sum(),
}


def agree(outputs: Callable[..., list[Any]], *values: np.ndarray, mode: str = "emulate") -> list[np.ndarray]:
    symbols = [sj.matrix(f"x{i}") for i in range(len(values))]
    made = outputs(*symbols)
    found, expected = (sj.function(symbols, made, mode=m)(*values) for m in (mode, "reference"))
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)
    return found


@pytest.mark.quick(4)
@pytest.mark.parametrize("name", READS)
def test_rows_in_a_step_and_their_gradient(name: str) -> None:
    """Each in the step of a loop whose state decides how many rows there are."""

    def build(x: Any) -> list[Any]:
        h = sj.scan(lambda v, h: sj.tanh(READS[name](rows(v, h)) * 0.01 + h), x, sj.constant(0.5))
        first = sj.grad(h.sum(), x)
        second = [sj.grad((first * x).sum(), x)] if name in ("sum", "replaced") else []
        return [h, first, sj.jvp(h, x, sj.tanh(x)), *second]

    found = agree(build, X)
    x = sj.matrix("x")
    value = sj.function([x], build(x)[0].sum(), mode="reference")
    eps = 1e-6
    for i, j in ((0, 1), (1, 0), (3, 2)):
        step = np.zeros_like(X)
        step[i, j] = eps
        slope = (value(X + step) - value(X - step)) / (2 * eps)
        np.testing.assert_allclose(found[1][i, j], slope, rtol=1e-5, atol=1e-7)


def test_rows_in_compiled_steps_of_any_size() -> None:
    """A bound that a run gives: rows without any step, and of many; in a step, a branch and a batch."""

    def build(x: Any, z: Any) -> list[Any]:
        read = lambda v: sj.dot(y := rows(v, most=z.shape[0]), sj.ones(3)).sum() + y[1:].sum() + (y * y).max(1).sum()
        each = sj.map(read, x)
        chosen = sj.map(lambda v: sj.ifelse(v[0] > 0.1, lambda: read(v), lambda: v.sum()), x)
        batched = sj.vmap(read)(x)
        return [each, chosen, batched, *(sj.grad((y * y).sum(), x) for y in (each, chosen, batched))]

    for n in (0, 1, 2, 300):
        agree(build, X, np.zeros((n, 1)), mode="numba" if n == 300 else "emulate")


def test_what_stopped_stays_and_nan_does_not_leak() -> None:
    """One step more would be the square root of a negative number."""

    def build(x: Any) -> list[Any]:
        last = lambda v: sj.scan(
            lambda s: (s + 0.1 + v[0] * sj.sqrt(3.0 - s), sj.until(s + 0.1 + v[0] * sj.sqrt(3.0 - s) > 3.0)),
            outputs_info=v[1],
            n_steps=40,
        )
        total = lambda v: last(v).sum()
        ways = [sj.vmap(lambda v: last(v)[-1])(x), sj.map(total, x), sj.vmap(total)(x)]
        slopes = [sj.grad(y.sum(), x) for y in ways]
        return [*ways, *slopes, sj.vmap(lambda v: sj.grad(total(v), v))(x), sj.grad(slopes[1].sum(), x)]

    for found in agree(build, X, mode="numba"):
        assert np.isfinite(found).all()


def test_rows_that_are_not_there_are_an_error() -> None:
    x = sj.matrix("x")
    reads = (lambda y: y[5].sum(), lambda y: y[3:][0].sum(), lambda y: y[3:].max())
    for y in [sj.map(lambda v, read=read: read(rows(v)), x) for read in reads]:
        f = sj.function([x], y, mode="emulate")
        f(X[[3, 3]])
        with pytest.raises((sj.OutOfBoundsError, sj.ShapeError)):
            f(X)


def test_a_size_without_a_bound_is_refused() -> None:
    """The rows of as many steps as the state asks for, in a step."""
    x = sj.vector("x")

    def stacked(v: Any) -> Any:
        n = sj.cast(v, "int64")
        return sj.scan(lambda s: s * 1.1 + sj.sin(s), outputs_info=v, n_steps=n)

    y = sj.map(lambda v: sj.cumsum(stacked(v)).max(), x)
    with warnings.catch_warnings(), pytest.raises(sj.NotSupportedError, match="depends on a value computed in"):
        warnings.simplefilter("error")
        sj.function([x], y, mode="emulate")

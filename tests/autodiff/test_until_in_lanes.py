"""Loops of a batch that end at different steps: all examples side by side, backwards too. Beside JAX: `vmap` of
`while_loop`, and gradients through a bounded `scan` with `where`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import scanjit as sj
from scanjit.rewrite import run as rewrite
from scanjit.runtime import host
from scanjit.schedule.nests import TimeLoop
from scanjit.schedule.pipeline import schedule
from tests.compare import all_close
from tests.optional import optional

jax, needs_jax = optional("jax")

X, W = sj.vector("x"), sj.vector("w")
GIVEN = np.array([0.3, 2.0, 700.0, 1.3, 9.0, 1e-3, 4.0, 16.0, 25.5])
WEIGHTS = np.linspace(0.5, 1.5, 5)
MOST = 40


def root(x: Any, **options: Any) -> Any:
    """Newton's steps to the square root, until they are short."""

    def step(h: Any) -> Any:
        new = 0.5 * (h + x / h)
        return new, sj.until(abs(new - h) < 1e-3 * h)

    return sj.scan(step, outputs_info=x, n_steps=MOST, **options)[-1]


def summed(x: Any) -> Any:
    """All rows are used, and a weight from a place that differs between the examples."""

    def step(h: Any, k: Any) -> Any:
        new = h * (0.5 + 0.1 * sj.tanh(W[k % 5]))
        return (new, k + 1), sj.until(new < 0.01)

    return (sj.scan(step, outputs_info=[x, 0], n_steps=MOST)[0] ** 2).sum()


def while_root(x: Any) -> Any:
    return sj.while_loop(lambda h: abs(h * h - x) > 1e-6 * x, lambda h: 0.5 * (h + x / h), x, max_steps=MOST)


def maybe_none(x: Any) -> Any:
    """No step at all where x is small."""
    return sj.while_loop(lambda h: h > 2.0, lambda h: h * 0.7 * sj.cos(0.1 * h) + 0.01 * x, x, max_steps=MOST)


def buffered(x: Any) -> Any:
    """A step reads and writes elements of a vector."""

    def step(h: Any, k: Any) -> Any:
        new = h[k % 3] * 0.5
        return (h[(k + 1) % 3].set(new), k + 1), sj.until(new < 0.1)

    return sj.scan(step, outputs_info=[x * sj.arange(1.0, 4.0), 0], n_steps=MOST)[0].sum()


LOOPS: dict[str, Callable[[Any], Any]] = {f.__name__: f for f in (root, summed, while_root, maybe_none, buffered)}


def both_ways(f: Callable[[Any], Any], over: Callable[..., Any]) -> list[Any]:
    values = over(f, X)
    inputs = [X, W] if f is summed else [X]
    return [values, *sj.grad((values * sj.arange(1.0, 10.0)).sum(), inputs), sj.jvp(values, X, sj.cos(X))]


@pytest.mark.quick(3)
@pytest.mark.parametrize("over", [sj.map, lambda f, x: sj.vmap(f)(x)], ids=["map", "vmap"])
@pytest.mark.parametrize("name", LOOPS)
def test_values_and_derivatives(name: str, over: Any) -> None:
    """As the reference interpreter's, one example after the other; and as differences of values."""
    outputs = both_ways(LOOPS[name], over)
    for given in (GIVEN, GIVEN[:1], np.tile(GIVEN, 40)[:1]):
        given = np.resize(given, 9)
        got = sj.function([X, W], outputs)(given, WEIGHTS)
        expected = sj.function([X, W], outputs, mode="reference")(given, WEIGHTS)
        all_close(got, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", ["root", "summed", "while_root"])
def test_gradients_are_those_of_differences(name: str) -> None:
    f = LOOPS[name]
    value = sj.function([X, W], sj.vmap(f)(X))
    (slope,) = sj.grad(sj.vmap(f)(X).sum(), [X])
    found, step = sj.function([X, W], slope)(GIVEN, WEIGHTS), 1e-6
    for i in range(len(GIVEN)):
        up, down = GIVEN.copy(), GIVEN.copy()
        up[i] *= 1 + step
        down[i] *= 1 - step
        difference = (value(up, WEIGHTS) - value(down, WEIGHTS))[i] / (2 * step * GIVEN[i])
        np.testing.assert_allclose(found[i], difference, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", ["root", "summed"])
def test_no_loop_runs_inside_of_another(name: str) -> None:
    """Neither the value nor the gradient goes over the examples one by one."""
    outputs = both_ways(LOOPS[name], lambda f, x: sj.vmap(f)(x))[:2]
    program = schedule([X, W], rewrite(outputs).outputs, host.target())
    loops = [each for statement in program.suite for each in statement.every() if isinstance(each, TimeLoop)]
    assert loops
    for loop in loops:
        assert loop.length != X.type.shape[0]
        assert not any(isinstance(each, TimeLoop) for suite in loop.suites for one in suite for each in one.every())


def test_many_examples_in_several_threads() -> None:
    given = np.random.default_rng(0).uniform(0.1, 900.0, 3001)
    outputs = [sj.vmap(root)(X), sj.grad(sj.vmap(root)(X).sum(), X)]
    expected = [np.sqrt(given), 0.5 / np.sqrt(given)]
    bits = []
    for sj.config.threads in (1, 2):
        got = sj.function([X], outputs)(given)
        all_close(got, expected, rtol=1e-3)
        bits.append([part.tobytes() for part in got])
    assert bits[0] == bits[1]


def test_second_derivatives() -> None:
    slope = sj.grad(sj.vmap(root)(X).sum(), X)
    curve = sj.grad(slope.sum(), X)
    got, expected = (sj.function([X], [slope, curve], mode=mode)(GIVEN) for mode in ("numba", "reference"))
    all_close(got, expected, rtol=1e-8)
    np.testing.assert_allclose(got[1], -0.25 * GIVEN**-1.5, rtol=0.02)


@pytest.mark.parametrize("checkpoint", ["sqrt", "all"])
def test_checkpoints_give_the_same(checkpoint: Any) -> None:
    saved = sj.grad(sj.vmap(lambda x: root(x, checkpoint=checkpoint))(X).sum(), X)
    plain = sj.grad(sj.vmap(root)(X).sum(), X)
    np.testing.assert_allclose(*sj.function([X], [plain, saved])(GIVEN), rtol=1e-12, atol=1e-13)


def test_a_loop_without_a_bound_says_what_to_write() -> None:
    def endless(x: Any) -> Any:
        return sj.while_loop(lambda h: abs(h * h - x) > 1e-6 * x, lambda h: 0.5 * (h + x / h), x)

    np.testing.assert_allclose(sj.function([X], sj.vmap(endless)(X))(GIVEN), np.sqrt(GIVEN), rtol=1e-5)
    with pytest.raises(sj.NotSupportedError, match="or max_steps of a while_loop"):
        sj.function([X], sj.grad(sj.vmap(endless)(X).sum(), X))


def test_an_error_is_that_of_an_example_that_still_runs() -> None:
    """An example that has ended reads nothing more; one that runs and reads outside is an error."""
    table, n = sj.vector("table"), sj.lvector("n")

    def walk(last: Any) -> Any:
        def step(total: Any, k: Any) -> Any:
            return (total + table[k], k + 1), sj.until(k >= last)

        return sj.scan(step, outputs_info=[0.0, 0], n_steps=10)[0][-1]

    outputs = [sj.vmap(walk)(n), sj.grad(sj.vmap(walk)(n).sum(), table)]
    for mode in ("numba", "reference"):
        f = sj.function([table, n], outputs, mode=mode)
        values, slopes = f(np.arange(6.0), [5, 0, 3])
        np.testing.assert_array_equal(values, [15.0, 0.0, 6.0])
        np.testing.assert_array_equal(slopes, [3.0, 2.0, 2.0, 2.0, 1.0, 1.0])
        with pytest.raises(sj.OutOfBoundsError):
            f(np.arange(5.0), [5, 0, 3])


# ---- beside JAX -----------------------------------------------------------------------------------------------------


@needs_jax
def test_beside_jax() -> None:
    """Values beside `vmap(while_loop)`, gradients beside those through a bounded `scan` that keeps what has ended."""
    jax.config.update("jax_enable_x64", True)

    def ended(h: Any, x: Any) -> Any:
        return abs(h * h - x) <= 1e-6 * x

    def by_while(x: Any) -> Any:
        return jax.lax.while_loop(lambda h: ~ended(h, x), lambda h: 0.5 * (h + x / h), x)

    def by_scan(x: Any) -> Any:
        def step(h: Any, _: Any) -> Any:
            return jax.numpy.where(ended(h, x), h, 0.5 * (h + x / h)), None

        return jax.lax.scan(step, x, None, length=MOST)[0]

    values, slope, forward = sj.function([X, W], both_ways(while_root, lambda f, x: sj.vmap(f)(x)))(GIVEN, WEIGHTS)
    np.testing.assert_allclose(values, jax.vmap(by_while)(GIVEN), rtol=1e-12, atol=1e-13)
    weights = np.arange(1.0, 10.0)
    np.testing.assert_allclose(slope, jax.grad(lambda x: (jax.vmap(by_scan)(x) * weights).sum())(GIVEN), rtol=1e-9)
    tangent = jax.jvp(jax.vmap(by_while), (GIVEN,), (np.cos(GIVEN),))[1]
    np.testing.assert_allclose(forward, tangent, rtol=1e-9)

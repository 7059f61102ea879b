"""Loops with `until` that keep some of their states for the gradient: the same values and derivatives as of those that
keep all, with less memory. Beside JAX: a bounded loop of `checkpoint`ed stretches."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

import scanjit as sj
from scanjit.errors import AssertError, ScanError
from tests.compare import all_close
from tests.optional import optional

jax, needs_jax = optional("jax")

W, LIMIT = sj.vector("w"), sj.scalar("limit")
GIVEN, MOST = np.array([0.3, 0.9, 1.1]), 30


def last(limit: Any = LIMIT, **options: Any) -> Any:
    """The last state alone."""

    def step(h: Any, t: Any) -> Any:
        return [sj.tanh(h * W + 0.1), t + 1], sj.until(t >= limit)

    return (sj.scan(step, outputs_info=[sj.zeros(3), 0.0], n_steps=MOST, **options)[0][-1] ** 2).sum()


def rows(**options: Any) -> Any:
    """All rows are used; rows of a sequence, an output that is not fed back, and one that is read three steps later."""
    xs = sj.outer(sj.arange(1.0, MOST + 1), W) / MOST

    def step(x: Any, early: Any, h: Any, t: Any) -> Any:
        new = sj.sin(h * W + x) + 0.1 * early
        return [new, t + 1, (new * x).sum()], sj.until(t >= LIMIT)

    initial = dict(initial=sj.ones((3, 3)) * W, taps=[-3, -1])
    h, t, y = sj.scan(step, xs, [initial, 0.0, None], **options)
    return (h * h).sum() + (y * t).sum() + h[-1, 0]


def repeated(**options: Any) -> Any:
    """A loop of loops: the outer one keeps some of its states."""

    def step(h: Any, t: Any) -> Any:
        inner = sj.scan(lambda h: (h * 0.9 + 0.1 * sj.cos(h * W), sj.until(h[0] > 2.0)), outputs_info=h, n_steps=4)
        return [inner[-1], t + 1], sj.until(t >= LIMIT)

    return (sj.scan(step, outputs_info=[W, 0.0], n_steps=MOST, **options)[0][-1] ** 2).sum()


def while_free(**options: Any) -> Any:
    """No bound: the steps are counted first."""
    found = sj.while_loop(
        lambda s: s[1] <= LIMIT, lambda s: (sj.tanh(s[0] * W + 0.1), s[1] + 1), (sj.zeros(3), 0.0), **options
    )
    return (found[0] ** 2).sum()


def while_last(**options: Any) -> Any:
    return while_free(max_steps=MOST, **options)


LOOPS: dict[str, Callable[..., Any]] = {f.__name__: f for f in (last, rows, repeated, while_last, while_free)}


def everything(cost: Any) -> list[Any]:
    slope = sj.grad(cost, W)
    return [cost, slope, sj.grad((slope * sj.arange(1.0, 4.0)).sum(), W), sj.jvp(cost, W, sj.cos(W))]


LIMITS = (0.0, 2.0, 3.0, 6.0, 13.0, 28.0)
"""Ends within a stretch, at its end, at the bound."""


@cache
def plainly(name: str) -> list[list[Any]]:
    """What a loop that keeps all its states gives, for each limit."""
    plain = sj.function([W, LIMIT], everything(LOOPS[name]()), mode="reference")
    return [plain(GIVEN, limit) for limit in LIMITS]


@pytest.mark.quick(3)
@pytest.mark.parametrize(
    ("name", "mode"),
    [
        *((name, "reference") for name in LOOPS),
        *((name, "numba") for name in ("last", "while_free")),
        ("last", "emulate"),
        pytest.param("while_last", "numba", marks=pytest.mark.slow),
        *(pytest.param(name, "emulate", marks=pytest.mark.slow) for name in LOOPS if name != "last"),
    ],
)
def test_the_same_as_without(name: str, mode: str) -> None:
    cases = list(zip(LIMITS, plainly(name), strict=True))  # emulated, each checkpoint meets half of them
    for i, checkpoint in enumerate({"numba": (7,), "emulate": ("sqrt", 4), "reference": ("sqrt", 1, 4, MOST)}[mode]):
        f = sj.function([W, LIMIT], everything(LOOPS[name](checkpoint=checkpoint)), mode=mode)
        for limit, wanted in cases[i::2] if mode == "emulate" else cases:
            all_close(f(GIVEN, limit), wanted, 1e-11, 1e-12, err_msg=f"{checkpoint} {limit}")


@pytest.mark.quick(2)
@pytest.mark.parametrize("over", [sj.map, lambda f, x: sj.vmap(f)(x)], ids=["map", "vmap"])
@pytest.mark.parametrize("mode", ["reference", "emulate", "numba"])
def test_in_a_batch(over: Callable[..., Any], mode: str) -> None:
    limits = sj.vector("limits")

    found = [over(lambda limit, c=c: last(limit, checkpoint=c), limits) for c in (None, 4)]
    wanted, got = (sj.function([W, limits], [y, sj.grad((y * limits).sum(), W)], mode=mode) for y in found)
    all_close(got(GIVEN, [1.0, 11.0, 7.0]), wanted(GIVEN, [1.0, 11.0, 7.0]), 1e-11)


def test_symbolic_bounds_and_sizes() -> None:
    n, xs = sj.iscalar("n"), sj.matrix("xs")

    def cost(checkpoint: Any) -> Any:
        h = sj.scan(
            lambda x, h: (sj.tanh(h + x), sj.until(h[0] > LIMIT)), xs, sj.zeros(xs.shape[1:]), checkpoint=checkpoint
        )
        k = sj.scan(lambda h: (sj.cos(h), sj.until(h[0] < -LIMIT)), None, h[-1], n_steps=n, checkpoint=checkpoint)
        return (k[-1] ** 2).sum() + h.sum()

    data = np.random.default_rng(0).uniform(0, 1, (21, 300)).astype("float64")
    plain, kept = (
        sj.function([xs, LIMIT, n], [cost(checkpoint), sj.grad(cost(checkpoint), xs)]) for checkpoint in (None, "sqrt")
    )
    for count, limit in ((1, 0.5), (9, 0.99), (30, 2.0)):
        all_close(kept(data, limit, count), plain(data, limit, count), 1e-11, 1e-12)


@pytest.mark.parametrize("loop", [last, while_last])
def test_memory(loop: Callable[..., Any]) -> None:
    """A gradient through 10,000 of at most 1,000,000 steps holds about 2,000 states."""
    given, limit = np.linspace(0.1, 1.2, 400), 9_999.0

    def cost(checkpoint: Any) -> Any:
        def step(h: Any, t: Any) -> Any:
            return [sj.tanh(h * W + 0.1), t + 1], sj.until(t >= LIMIT)

        if loop is last:
            h, _ = sj.scan(step, outputs_info=[W, 0.0], n_steps=1_000_000, checkpoint=checkpoint)
            return (h[-1] ** 2).sum()
        state = sj.while_loop(
            lambda s: s[1] <= LIMIT, lambda s: step(*s)[0], [W, 0.0], max_steps=1_000_000, checkpoint=checkpoint
        )
        return (state[0] ** 2).sum()

    f = sj.function([W, LIMIT], [cost("sqrt"), sj.grad(cost("sqrt"), W)])
    tracemalloc.start()
    f(given, limit)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4_000 * given.nbytes


def test_errors() -> None:
    with pytest.raises(ScanError, match="checkpoint is unknown"):
        while_last(checkpoint="some")
    f = sj.function([W, LIMIT], while_last(checkpoint=7))
    with pytest.raises(AssertError, match="has not ended after max_steps = 30 steps"):
        f(GIVEN, 30.0)
    f(GIVEN, 29.0)


@needs_jax
def test_beside_jax() -> None:
    """JAX has no gradient of `while_loop`: its users bound the loop and checkpoint stretches of it."""
    jax.config.update("jax_enable_x64", True)

    @jax.checkpoint
    def stretch(state: Any, w: Any, limit: Any) -> Any:
        def step(state: Any, _: Any) -> Any:
            h, t, over = state
            new = jax.numpy.tanh(h * w + 0.1)
            return (jax.numpy.where(over, h, new), jax.numpy.where(over, t, t + 1), over | (t >= limit)), None

        return jax.lax.scan(step, state, None, length=5)[0]

    def cost(w: Any, limit: Any) -> Any:
        given = (jax.numpy.zeros(3), 0.0, False)
        (h, _, _), _ = jax.lax.scan(lambda s, _: (stretch(s, w, limit), None), given, None, length=6)
        return (h**2).sum()

    slope = jax.grad(cost)
    for checkpoint in (None, 5, "sqrt"):
        found = last(checkpoint=checkpoint)
        f = sj.function([W, LIMIT], [found, sj.grad(found, W), sj.grad(sj.grad(found, W).sum(), W)])
        for limit in (0.0, 4.0, 17.0, 28.0):
            wanted = [g(GIVEN, limit) for g in (cost, slope, jax.grad(lambda *given: slope(*given).sum()))]
            all_close(f(GIVEN, limit), wanted, 1e-9, 1e-10)

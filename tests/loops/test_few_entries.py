"""Gradients of loops whose steps read a few entries of a state, such as a delay line, a table or a stack: the entries
are stored, not the state of each step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import scanjit as sj

Model = Callable[..., Any]


def window(x: Any, w: Any, buffer: Any, **options: Any) -> Any:
    """A window that moves through the state."""

    def step(x: Any, t: Any, buffer: Any) -> Any:
        return buffer[t + 3].set(x * (buffer[t : t + 3][::-1] * w).sum())

    start = sj.concatenate([buffer[:3], sj.zeros(x.shape[0])])
    return sj.scan(step, [x, sj.arange(x.shape[0])], start, **options)[-1]


def ring(x: Any, w: Any, buffer: Any, **options: Any) -> Any:
    """A delay line, whose length is that of `buffer`."""
    n = buffer.shape[0]

    def step(x: Any, t: Any, ring: Any) -> Any:
        y = sj.tanh(x + w[0] * ring[(t + 1) % n] + w[1] * ring[(t + 3) % n] ** 2)
        return ring[t % n].set(y), y

    return sj.scan(step, [x, sj.arange(x.shape[0])], [buffer, None], **options)[1]


def table(x: Any, w: Any, buffer: Any, **options: Any) -> Any:
    """A table of values that are learned one by one."""
    places = sj.cast(x * x * 100, "int64") % 4

    def step(x: Any, i: Any, j: Any, values: Any) -> Any:
        error = x + w[0] * values[j].max() - values[i, 0]
        return values[i, 0].inc(w[1] * error), error

    start = sj.broadcast_to(buffer[:4, None], (4, 3)) * np.array([1.0, 0.5, -0.3])
    values, errors = sj.scan(step, [x, places, places[::-1]], [start, None], **options)
    return sj.concatenate([values[-1].ravel(), errors])


def all_rows(x: Any, w: Any, buffer: Any, **options: Any) -> Any:
    """All states are results too."""

    def step(x: Any, t: Any, state: Any) -> Any:
        return state[t % 4].set(x * state[(t + 1) % 4] * w[0])

    return sj.scan(step, [x, sj.arange(x.shape[0])], buffer, **options)


def whole(x: Any, w: Any, buffer: Any, **options: Any) -> Any:
    """Another part of the step reads the whole state."""

    def step(x: Any, t: Any, state: Any) -> Any:
        return state[t % 4].set(x * state[(t + 1) % 4] * w[0] + (state**2).sum() * 0.01)

    return sj.scan(step, [x, sj.arange(x.shape[0])], buffer, **options)[-1]


def gradients(model: Model, mode: Any = "numba", **options: Any) -> Any:
    def cost(x: Any, w: Any, buffer: Any) -> Any:
        y = model(x, w, buffer, **options)
        return (y * sj.cos(sj.arange(y.size).reshape(y.shape))).sum()

    return sj.value_and_grad(cost, argnums=(0, 1, 2), mode=mode)


def arguments(steps: int, places: int = 7) -> list[np.ndarray]:
    rng = np.random.default_rng(steps)
    return [rng.normal(size=steps), np.array([0.6, -0.4, 0.3]), rng.normal(size=places)]


def flat(results: Any) -> np.ndarray:
    value, slopes = results
    return np.concatenate([np.ravel(value), *map(np.ravel, slopes)])


@pytest.mark.parametrize("model", [window, ring, table, all_rows, whole])
def test_gradients(model: Model) -> None:
    f, wanted = gradients(model), gradients(model, "reference")
    for steps in (1, 2, 40) if model in (window, table, whole) else (0, 1, 2, 40):
        given = arguments(steps)
        np.testing.assert_allclose(flat(f(*given)), flat(wanted(*given)), rtol=1e-12, atol=1e-12)
    sj.check_grad(model, arguments(5), order=2 if model is not table else 1)


@pytest.mark.parametrize("model", [window, ring, table, whole])
@pytest.mark.parametrize("options", [{"checkpoint": "sqrt"}, {"checkpoint": 3}, {"checkpoint": "all"}, {"unroll": 3}])
def test_checkpoints(model: Model, options: Any) -> None:
    given = arguments(40)
    found, wanted = flat(gradients(model, **options)(*given)), flat(gradients(model)(*given))
    np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(("model", "stored"), [(window, False), (ring, False), (table, False), (whole, True)])
def test_what_is_stored(model: Model, stored: bool) -> None:
    x, w, buffer = sj.tensor(("T",), name="x"), sj.tensor((3,), name="w"), sj.tensor(("N",), name="buffer")
    f = sj.function([x, w, buffer], list(sj.grad((model(x, w, buffer) ** 2).sum(), [x, w, buffer])))
    (stores,) = (line for line in f.explain().splitlines() if "the forward loop stores" in line)
    assert ("gather" in stores) != stored
    assert (f.memory(T=1000, N=1000).workspace > 1000 * 1000 * 8) == stored


def test_examples_of_a_batch() -> None:
    given = [np.stack([value, 0.5 * value]) for value in arguments(12)]
    both = sj.jit(lambda *args: sj.vmap(lambda *each: sj.grad(ring(*each).sum(), each))(*args))(*given)
    for i in range(2):
        alone = sj.jit(lambda *each: sj.grad(ring(*each).sum(), each))(*(value[i] for value in given))
        for batch, one in zip(both, alone, strict=True):
            np.testing.assert_allclose(batch[i], one, rtol=1e-12, atol=1e-14)

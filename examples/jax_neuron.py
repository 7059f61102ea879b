"""A neuron of Hodgkin and Huxley in JAX, with JAX's own loop over time and with one compiled here: values, gradients
and the times of both. The state is four numbers: the work of a step is small beside the call of a step.

    python examples/jax_neuron.py --steps 20000

Needs `pip install scanjit[jax]`.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import scanjit as sj

DT = 0.025


def neuron(np: Any) -> Callable[..., Any]:
    """A step of the neuron, written with the functions of a module: `jax.numpy`, or `scanjit`."""

    def rate(x: Any) -> Any:
        return x / (1 - np.exp(-x / 10) + 1e-9)

    def gate(value: Any, opens: Any, closes: Any) -> Any:
        return value + DT * (opens * (1 - value) - closes * value)

    def step(current: Any, v: Any, m: Any, h: Any, n: Any, conductances: Any) -> Any:
        sodium, potassium, leak = conductances[0], conductances[1], conductances[2]
        m = gate(m, 0.1 * rate(v + 40), 4 * np.exp(-(v + 65) / 18))
        h = gate(h, 0.07 * np.exp(-(v + 65) / 20), 1 / (1 + np.exp(-(v + 35) / 10)))
        n = gate(n, 0.01 * rate(v + 55), 0.125 * np.exp(-(v + 65) / 80))
        flow = sodium * m * m * m * h * (v - 50) + potassium * n * n * n * n * (v + 77) + leak * (v + 54.387)
        return v + DT * (current - flow), m, h, n

    return step


START = (-65.0, 0.05, 0.6, 0.32)


def voltages_here(currents: Any, conductances: Any) -> Any:
    """The voltages, with a loop that is compiled here."""
    step = neuron(sj)
    start = [sj.as_tensor(np.asarray(value, currents.dtype)) for value in START]
    return sj.scan(lambda current, *state: step(current, *state), currents, start, conductances)[0]


def voltages_of_jax(currents: Any, conductances: Any) -> Any:
    """The voltages, with JAX's loop."""
    import jax
    import jax.numpy as jnp

    step = neuron(jnp)

    def one(state: Any, current: Any) -> Any:
        state = step(current, *state, conductances)
        return state, state[0]

    start = tuple(jnp.asarray(value, currents.dtype) for value in START)
    return jax.lax.scan(one, start, currents)[1]


def best(f: Callable[[], Any], times: int = 5) -> float:
    """The shortest of some runs, in milliseconds."""
    spent = []
    for _ in range(times):
        began = time.perf_counter()
        f()
        spent.append(time.perf_counter() - began)
    return min(spent) * 1000


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="A neuron in JAX, with its loop and with ours.")
    parser.add_argument("--steps", type=int, default=20_000)
    steps = parser.parse_args(argv).steps
    import jax
    import jax.numpy as jnp

    currents = jnp.where(jnp.arange(steps) % 4000 < 2000, 2.0, 0.0).astype("float32")
    conductances = jnp.asarray([120.0, 36.0, 0.3], "float32")
    wanted = -60.0
    found: dict[str, list[Any]] = {}
    for name, voltages in (("scanjit", sj.jax.as_function(voltages_here)), ("jax", voltages_of_jax)):

        def loss(conductances: Any, voltages: Callable[..., Any] = voltages) -> Any:
            return ((voltages(currents, conductances) - wanted) ** 2).mean()

        began = time.perf_counter()
        forward, gradient = jax.jit(loss), jax.jit(jax.value_and_grad(loss))
        jax.block_until_ready((forward(conductances), gradient(conductances)))
        first = time.perf_counter() - began
        runs = [best(lambda f=f: jax.block_until_ready(f(conductances))) for f in (forward, gradient)]
        print(f"{name:8} loss {runs[0]:8.2f} ms, with gradient {runs[1]:8.2f} ms, first result {first:5.1f} s")
        found[name] = [np.asarray(value) for value in gradient(conductances)]
    for mine, theirs in zip(found["scanjit"], found["jax"], strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=0.02)


if __name__ == "__main__":
    main()

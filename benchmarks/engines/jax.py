"""JAX: a jitted function, compiled ahead for the shapes of the row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.case import Program, Task


def program(forward: Callable[..., Any]) -> Callable[[Task], Program]:
    """A program of `forward(**arrays) -> value`."""

    def make(task: Task) -> Program:
        import jax

        jax.config.update("jax_enable_x64", task.dtype == "float64")
        arguments = {name: jax.numpy.asarray(value) for name, value in task.arguments().items()}
        if task.kind == "hessian":
            run = jax.jit(_with_hessian(task, forward)).lower(arguments).compile()
            return Program(lambda: jax.block_until_ready(run(arguments)), _read)
        if not task.gradient:
            run = jax.jit(lambda arguments: [forward(**arguments)]).lower(arguments).compile()
            return Program(lambda: jax.block_until_ready(run(arguments)), _read)
        dy = jax.numpy.asarray(task.cotangent())
        run = jax.jit(_with_gradient(task, forward)).lower(arguments, dy).compile()
        return Program(lambda: jax.block_until_ready(run(arguments, dy)), _read)

    return make


def scan(step: Callable[..., Any], rows: Any, state: Any) -> Any:
    """What `state = step(row, *state)` gives first, at each row: as `cases.common.loop`, by `lax.scan`."""
    from jax import lax

    def body(state: Any, row: Any) -> Any:
        state = step(row, *state)
        return state, state[0]

    return lax.scan(body, state, rows)[1]


def _with_gradient(task: Task, forward: Callable[..., Any]) -> Callable[..., Any]:
    import jax

    def run(arguments: dict[str, Any], dy: Any) -> list[Any]:
        wrt = {name: arguments[name] for name in task.case.wrt}
        rest = {name: value for name, value in arguments.items() if name not in wrt}
        y, back = jax.vjp(lambda wrt: forward(**wrt, **rest), wrt)
        (found,) = back(dy)
        return [y, *(found[name] for name in task.case.wrt)]

    return run


def _with_hessian(task: Task, forward: Callable[..., Any]) -> Callable[..., Any]:
    import jax

    def run(arguments: dict[str, Any]) -> list[Any]:
        value = lambda wrt: forward(**{**arguments, **wrt})
        wrt = {name: arguments[name] for name in task.case.wrt}
        (y, first), second = jax.value_and_grad(value)(wrt), jax.hessian(value)(wrt)
        return [y, *(first[name] for name in task.case.wrt), *(second[name][name] for name in task.case.wrt)]

    return run


def training(
    loss: Callable[..., Any], weights: dict[str, Any], arguments: tuple[Any, ...], limit: float | None = None
) -> Program:
    """A program of a step of Adam: `loss(weights, *arguments)`, of which gradients whose norm is above `limit` are
    scaled down. It returns the loss."""
    import jax
    from jax import numpy as jnp

    def step(weights: Any, mean: Any, square: Any, count: Any, arguments: Any) -> Any:
        value, slopes = jax.value_and_grad(loss)(weights, *arguments)
        if limit is not None:
            norm = jnp.sqrt(sum(jnp.sum(g * g) for g in jax.tree.leaves(slopes)))
            slopes = jax.tree.map(lambda g: g * jnp.minimum(1.0, limit / norm), slopes)
        count = count + 1
        mean = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, mean, slopes)
        square = jax.tree.map(lambda s, g: 0.999 * s + 0.001 * g * g, square, slopes)
        rate = 1e-3 * jnp.sqrt(1 - 0.999**count) / (1 - 0.9**count)
        weights = jax.tree.map(lambda w, m, s: w - rate * m / (jnp.sqrt(s) + 1e-8), weights, mean, square)
        return weights, mean, square, count, value

    zeros = jax.tree.map(jnp.zeros_like, weights)
    state = [weights, zeros, zeros, jnp.float32(0)]
    run = jax.jit(step).lower(*state, arguments).compile()

    def call() -> list[Any]:
        *state[:], value = run(*state, arguments)
        return [jax.block_until_ready(value)]

    return Program(call, _read)


def _read(results: list[Any]) -> list[np.ndarray]:
    return [np.asarray(result) for result in results]

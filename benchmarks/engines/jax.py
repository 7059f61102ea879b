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
        if not task.gradient:
            run = jax.jit(lambda arguments: [forward(**arguments)]).lower(arguments).compile()
            return Program(lambda: jax.block_until_ready(run(arguments)), _read)
        dy = jax.numpy.asarray(task.cotangent())
        run = jax.jit(_with_gradient(task, forward)).lower(arguments, dy).compile()
        return Program(lambda: jax.block_until_ready(run(arguments, dy)), _read)

    return make


def _with_gradient(task: Task, forward: Callable[..., Any]) -> Callable[..., Any]:
    import jax

    def run(arguments: dict[str, Any], dy: Any) -> list[Any]:
        wrt = {name: arguments[name] for name in task.case.wrt}
        rest = {name: value for name, value in arguments.items() if name not in wrt}
        y, back = jax.vjp(lambda wrt: forward(**wrt, **rest), wrt)
        (found,) = back(dy)
        return [y, *(found[name] for name in task.case.wrt)]

    return run


def _read(results: list[Any]) -> list[np.ndarray]:
    return [np.asarray(result) for result in results]

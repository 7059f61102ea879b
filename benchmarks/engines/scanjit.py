"""scanjit: a recurrence as a user writes it, over symbols."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.case import Program, Task


class program:
    """Makes programs of `forward(unroll=..., **symbols) -> value`.

    Parameters are shared variables where there is no gradient, as ONNX Runtime's are constants: packed when they
    change. With a gradient they are arguments, as in training, where every call has new ones. `weights` is what
    `sj.mixed` rounds operands of products to, if anything.
    """

    def __init__(self, forward: Callable[..., Any], weights: str | None = None) -> None:
        self.forward, self.weights = forward, weights

    def __call__(self, task: Task) -> Program:
        import scanjit as sj

        inputs, outputs, values = self.graph(task)
        function = sj.function(inputs, outputs, name=task.case.name, mode=task.mode)
        if self.weights is not None:
            function = sj.mixed(function, weights=self.weights)
        return Program(Call(function, values, task), lambda results: results)

    def graph(self, task: Task) -> tuple[list[Any], list[Any], list[np.ndarray]]:
        """Inputs and outputs, and the arrays for the inputs."""
        return graph(task, self.forward)


def graph(task: Task, forward: Callable[..., Any]) -> tuple[list[Any], list[Any], list[np.ndarray]]:
    """Inputs and outputs as symbols, and the arrays for the inputs."""
    import scanjit as sj

    arguments = task.arguments()
    kept = () if task.gradient else task.case.weights
    symbols = {
        name: sj.shared(value, name) if name in kept else sj.tensor(_shape(task, name, value), str(value.dtype), name)
        for name, value in arguments.items()
    }
    default, sj.config.floatX = sj.config.floatX, task.dtype  # what layers make of themselves has the dtype, too
    try:
        y = forward(unroll=task.unroll, **symbols)
    finally:
        sj.config.floatX = default
    inputs, values = ([d[name] for name in arguments if name not in kept] for d in (symbols, arguments))
    if not task.gradient:
        return inputs, [y], values
    wrt = [symbols[name] for name in task.case.wrt]
    if not task.case.value:
        second = [sj.hessian(y, x) for x in wrt] if task.kind == "hessian" else []
        return inputs, [y, *sj.grad(y, wrt), *second], values
    dy = sj.tensor(y.type.shape, task.dtype, "dy")
    return [*inputs, dy], [y, *sj.grad((y * dy).sum(), wrt)], [*values, task.cotangent()]


def _shape(task: Task, name: str, value: np.ndarray) -> tuple[int | str, ...]:
    """The sizes that a user knows; batch and length are any, unless the loop is to be written out."""
    free = {} if task.unroll is True else task.case.free.get(name, {})
    return tuple(free.get(axis, size) for axis, size in enumerate(value.shape))


class Call:
    """The call, with its function and arguments to look at."""

    def __init__(self, function: Any, values: list[np.ndarray], task: Task) -> None:
        import scanjit as sj

        self.function, self.values, self.config = function, values, sj.config
        self.threads = task.threads if task.fixed else 0

    def __call__(self) -> list[np.ndarray]:
        self.config.threads = self.threads
        return self.function(*self.values)

"""PyTensor: `scan` in numba mode. A function serves all sizes, so it is compiled once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.case import Program, Task


def program(forward: Callable[..., Any]) -> Callable[[Task], Program]:
    """A program of `forward(**symbols) -> value`."""
    compiled: dict[tuple[str, bool], Any] = {}

    def make(task: Task) -> Program:
        if task.kind == "hessian":
            raise NotImplementedError("not measured with second derivatives")
        key = task.dtype, task.gradient
        if key not in compiled:
            compiled[key] = _compiled(task, forward)
        function = compiled[key]
        values = [*task.arguments().values(), *([task.cotangent()] if task.gradient else [])]
        return Program(lambda: function(*values), lambda results: [np.asarray(result) for result in results])

    return make


def _compiled(task: Task, forward: Callable[..., Any]) -> Any:
    import pytensor
    import pytensor.tensor as pt

    symbols = {n: pt.tensor(n, dtype=str(v.dtype), shape=(None,) * v.ndim) for n, v in task.arguments().items()}
    y = forward(**symbols)
    if not task.gradient:
        return pytensor.function([*symbols.values()], [y], mode="NUMBA", trust_input=True)
    dy = pt.tensor("dy", dtype=task.dtype, shape=(None,) * len(task.case.value))
    found = pytensor.grad((y * dy).sum(), [symbols[name] for name in task.case.wrt])
    return pytensor.function([*symbols.values(), dy], [y, *found], mode="NUMBA", trust_input=True)

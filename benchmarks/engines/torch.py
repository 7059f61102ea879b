"""PyTorch: without a record of what was computed where no gradient is wanted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.case import Arrays, Program, Task


def program(forward: Callable[..., Any]) -> Callable[[Task], Program]:
    """A program of `forward(**tensors) -> value`, written as a loop in Python."""

    def make(task: Task) -> Program:
        arguments = tensors(task)
        leaves = [arguments[name] for name in task.case.wrt]
        return timed(task, lambda: forward(**arguments), leaves, lambda found: found)

    return make


def tensors(task: Task) -> dict[str, Any]:
    """The arguments, with the memory of NumPy's."""
    return as_tensors(task.arguments(), task.threads)


def as_tensors(arrays: Arrays, threads: int) -> dict[str, Any]:
    """Arrays as tensors, for a program of so many threads."""
    import torch

    torch.set_num_threads(threads)
    return {name: torch.from_numpy(np.ascontiguousarray(value)) for name, value in arrays.items()}


def timed(
    task: Task,
    forward: Callable[[], Any],
    leaves: list[Any],
    read_gradients: Callable[[list[np.ndarray]], list[np.ndarray]],
) -> Program:
    """`forward` and, if it is wanted, the gradients with respect to `leaves`, freshly made at each call."""
    import torch

    def value() -> list[Any]:
        with torch.inference_mode():
            return [forward()]

    def with_gradient() -> list[Any]:
        y = forward()
        return [y, *torch.autograd.grad(y, leaves, dy)]

    def read(results: list[Any]) -> list[np.ndarray]:
        y, *found = (result.detach().numpy() for result in results)
        return [y, *(read_gradients(found) if task.gradient else [])]

    if not task.gradient:
        return Program(value, read)
    dy = torch.from_numpy(task.cotangent())
    for leaf in leaves:
        leaf.requires_grad_(True)
    return Program(with_gradient, read)

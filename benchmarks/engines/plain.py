"""Loops by hand in plain NumPy."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from benchmarks.case import Program, Task


def loop_of(module: str, task: Task, name: str = "") -> tuple[Any, list[Any]]:
    """The loop for a row, and its arguments: of a module of `benchmarks.cases`, `forward` or `with_gradient`; or those
    of a `name`, if the module has the loops of several cases: `NAME` and `NAME_with_gradient`."""
    loops = importlib.import_module(f"benchmarks.cases.{module}")
    if task.kind == "hessian":
        raise NotImplementedError("no second derivatives")
    values: list[Any] = [*task.arguments().values()]
    if task.gradient and task.case.value:
        values.append(task.cotangent())
    forward, backward = (name, f"{name}_with_gradient") if name else ("forward", "with_gradient")
    return getattr(loops, backward if task.gradient else forward), values


def program(module: str) -> Callable[[Task], Program]:
    """A program of the loops in a module of `benchmarks.cases`; they return lists."""

    def make(task: Task) -> Program:
        loop, values = loop_of(module, task)
        return Program(lambda: loop(*values), list)

    return make


def direct(forward: Callable[..., Any]) -> Callable[[Task], Program]:
    """A program of a function of arrays that gives one array."""

    def make(task: Task) -> Program:
        values = list(task.arguments().values())
        return Program(lambda: [forward(*values)], list)

    return make

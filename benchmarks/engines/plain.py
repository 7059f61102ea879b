"""Loops by hand in plain NumPy."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from benchmarks.case import Program, Task


def loop_of(module: str, task: Task) -> tuple[Any, list[Any]]:
    """The loop for a row (`forward` or `with_gradient` of a module of `benchmarks.cases`), and its arguments."""
    loops = importlib.import_module(f"benchmarks.cases.{module}")
    if task.kind == "hessian":
        raise NotImplementedError("no second derivatives")
    values: list[Any] = [*task.arguments().values()]
    if task.gradient and task.case.value:
        values.append(task.cotangent())
    return loops.with_gradient if task.gradient else loops.forward, values


def program(module: str) -> Callable[[Task], Program]:
    """A program of the loops in a module of `benchmarks.cases`; they return lists."""

    def make(task: Task) -> Program:
        loop, values = loop_of(module, task)
        return Program(lambda: loop(*values), list)

    return make

"""Loops by hand in plain NumPy."""

from __future__ import annotations

import importlib
from collections.abc import Callable

from benchmarks.case import Program, Task


def program(module: str) -> Callable[[Task], Program]:
    """A program of the loops `forward` and `with_gradient` in a module of `benchmarks.cases`; they return lists."""

    def make(task: Task) -> Program:
        loops = importlib.import_module(f"benchmarks.cases.{module}")
        loop = loops.with_gradient if task.gradient else loops.forward
        values = [*task.arguments().values()]
        if task.gradient and task.case.value:
            values.append(task.cotangent())
        return Program(lambda: loop(*values), list)

    return make

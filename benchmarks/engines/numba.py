"""Loops by hand for Numba: compiled for the types of the row."""

from __future__ import annotations

import importlib
from collections.abc import Callable

from benchmarks.case import Program, Task


def program(module: str) -> Callable[[Task], Program]:
    """A program of the loops `forward` and `with_gradient` in a module of `benchmarks.cases`; they return tuples."""

    def make(task: Task) -> Program:
        import numba

        loops = importlib.import_module(f"benchmarks.cases.{module}")
        loop = loops.with_gradient if task.gradient else loops.forward
        values = [*task.arguments().values()]
        if task.gradient and task.case.value:
            values.append(task.cotangent())
        loop.compile(tuple(numba.typeof(value) for value in values))
        return Program(lambda: loop(*values), list)

    return make

"""Loops by hand for Numba: compiled for the types of the row."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.case import Program, Task
from benchmarks.engines.plain import loop_of


def program(module: str) -> Callable[[Task], Program]:
    """A program of the loops in a module of `benchmarks.cases`; they return tuples."""

    def make(task: Task) -> Program:
        import numba

        loop, values = loop_of(module, task)
        loop.compile(tuple(numba.typeof(value) for value in values))
        return Program(lambda: loop(*values), list)

    return make

"""Loops by hand for Numba: compiled for the types of the row."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from benchmarks.case import Program, Task
from benchmarks.engines.plain import loop_of


def program(module: str, name: str = "") -> Callable[[Task], Program]:
    """A program of the loops in a module of `benchmarks.cases`, or of those of a `name` in it. They return an array, or
    several of them."""

    def make(task: Task) -> Program:
        import numba

        loop, values = loop_of(module, task, name)
        loop.compile(tuple(numba.typeof(value) for value in values))
        return Program(lambda: loop(*values), lambda found: [found] if isinstance(found, np.ndarray) else list(found))

    return make

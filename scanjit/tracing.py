"""The functions that are being traced whose graphs will run many times: the step of a scan, an example of a batch.

Sizes in them cannot depend on computed values. And code that is called in them may ask for the number of the step.

A step function is called once, and its graph runs many times. A random draw in it must give other numbers in each step.
So the draw asks the active functions for their numbers, and the code that traces the function (`scan`, `vmap`) then
provides them. If no draw asks, the loop has no such counter.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import numpy as np

from scanjit.ir import Node, new_input
from scanjit.scoped import scoped
from scanjit.types import Type


class TracedFunction:
    """A function that is being traced, whose graph will run many times."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.start = new_input(Type(np.dtype("int64"))).serial
        """Nodes that were made before this function was traced have lower serial numbers."""
        self.asked: Node | None = None
        """The symbol of the number, if the traced function asked for it."""

    @property
    def number(self) -> Node:
        """The number of the step or example, from 0: an int64 scalar. Ask for it only while the function is traced."""
        if self.asked is None:
            self.asked = new_input(Type(np.dtype("int64")), self.name)
        return self.asked


_active: ContextVar[tuple[TracedFunction, ...]] = ContextVar("active", default=())


def active() -> tuple[TracedFunction, ...]:
    """The functions that are being traced, the outermost first."""
    return _active.get()


@contextmanager
def mark(name: str) -> Iterator[TracedFunction]:
    """Mark that a function is being traced. `name` is the name of its number in prints.

    Examples
    --------
    >>> with mark("step") as function:
    ...     number = active()[-1].number
    >>> function.asked is number, active()
    (True, ())
    """
    function = TracedFunction(name)
    with scoped(_active, (*_active.get(), function)):
        yield function

"""The number of the step, or of the example in a batch, for code that asks for it while a function is traced.

A step function is called once, and its graph runs many times. A random draw in it must give other numbers in each step.
So the draw asks the active frames for their numbers, and whoever traces the function (`scan`, `vmap`) then provides
them. If no draw asks, the loop has no such counter.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import numpy as np

from scanjit.ir import Node, new_input
from scanjit.types import Type


class Frame:
    """A function that is being traced, whose graph will run many times."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.start = new_input(Type(np.dtype("int64"))).serial
        """Nodes that were made before the frame have lower serial numbers."""
        self.asked: Node | None = None
        """The symbol of the number, if the traced function asked for it."""

    @property
    def number(self) -> Node:
        """The number of the step or example, from 0: an int64 scalar. Ask for it only while the function is traced."""
        if self.asked is None:
            self.asked = new_input(Type(np.dtype("int64")), self.name)
        return self.asked


_active: ContextVar[tuple[Frame, ...]] = ContextVar("frames", default=())


def active() -> tuple[Frame, ...]:
    """The functions that are being traced, the outermost first."""
    return _active.get()


@contextmanager
def tracing(name: str) -> Iterator[Frame]:
    """Mark that a function is being traced. `name` is the name of its number in prints.

    Examples
    --------
    >>> with tracing("step") as frame:
    ...     number = active()[-1].number
    >>> frame.asked is number, active()
    (True, ())
    """
    frame = Frame(name)
    token = _active.set((*_active.get(), frame))
    try:
        yield frame
    finally:
        _active.reset(token)

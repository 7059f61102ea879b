"""Which step of a loop it is, or which example of a batch, for those that ask while a function is traced.

A step function is called once and its graph runs many times. What must differ from one time to the next without being
told so by the user (random draws) asks for the numbers of the frames that are active; who traces the function then
provides them. Where nobody asks, there is no such number.
"""

from __future__ import annotations

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
        """What was made before has a lower serial number."""
        self.asked: Node | None = None
        """The symbol of the number, if someone asked for it."""

    @property
    def number(self) -> Node:
        """Which time it is, from 0: an int64 scalar. To be asked for only while the function is traced."""
        if self.asked is None:
            self.asked = new_input(Type(np.dtype("int64")), self.name)
        return self.asked


_active: ContextVar[tuple[Frame, ...]] = ContextVar("frames", default=())


def active() -> tuple[Frame, ...]:
    """The functions that are being traced, the outermost first."""
    return _active.get()


@contextmanager
def tracing(name: str) -> Iterator[Frame]:
    """While inside, a function is traced; `name` is what the number is called in prints.

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

"""Functions that the modules of exported wheels hold a copy of: they call a library through ctypes. Nothing else uses
them."""

import threading
from typing import Any

import numpy as np

_memory = threading.local()


def workspace(count: int) -> int:
    """The address of `count` bytes, a multiple of 64. The thread keeps them for its next calls."""
    held = getattr(_memory, "held", None)
    if held is None or held.nbytes < count + 64:
        held = _memory.held = np.empty(count + 64, np.uint8)
    start = int(held.ctypes.data)
    return start + -start % 64


def checked(library: Any, name: str, status: int) -> None:
    """Raise an error with the library's message for a status: `IndexError` above 0, `ValueError` below 0, none for
    0."""
    if status:
        say = getattr(library, f"{name}_error")
        text = say(status).decode()
        raise IndexError(text) if status > 0 else ValueError(text)

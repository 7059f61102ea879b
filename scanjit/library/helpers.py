"""What modules of exported wheels hold a copy of: calls of a library through ctypes. Nothing here is used elsewhere."""

import threading
from typing import Any

import numpy as np

_memory = threading.local()


def workspace(count: int) -> int:
    """The address of so many bytes, which this thread keeps for its next calls."""
    held = getattr(_memory, "held", None)
    if held is None or held.nbytes < count + 64:
        held = _memory.held = np.empty(count + 64, np.uint8)
    start = int(held.ctypes.data)
    return start + -start % 64


def checked(library: Any, name: str, status: int) -> None:
    """An error with what the library says, if a call did not go well."""
    if status:
        say = getattr(library, f"{name}_error")
        text = say(status).decode()
        raise IndexError(text) if status > 0 else ValueError(text)

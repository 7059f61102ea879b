"""Reading Python source, from any thread."""

import ast
import os
import threading

from scanjit.runtime.locks import holding

_lock = threading.RLock()


def parsed(source: str) -> ast.Module:
    """The syntax tree of a source, as `ast.parse` gives it.

    One thread at a time: Python 3.11 counts for all threads together how deep it is in a tree, and raises a
    SystemError where that number is not what it expects.
    """
    return holding([_lock], ast.parse, source)


def _after_fork() -> None:
    global _lock
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)

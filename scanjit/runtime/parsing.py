"""Reading Python source, from any thread."""

import ast
import os
import threading

from scanjit.runtime.locks import holding

_lock = threading.RLock()


def parsed(source: str) -> ast.Module:
    """The syntax tree of a source, as `ast.parse` gives it.

    One thread parses at a time. Python 3.11 has one counter of the depth in a tree for all threads, and raises a
    SystemError if it finds another number than it expects.
    """
    return holding([_lock], ast.parse, source)


def _after_fork() -> None:
    global _lock
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)

"""Reading Python source, from any thread."""

import ast

from scanjit.runtime.locks import holding, new_lock

_lock = new_lock()


def parsed(source: str) -> ast.Module:
    """The syntax tree of a source, as `ast.parse` gives it.

    One thread parses at a time. Python 3.11 has one counter of the depth in a tree for all threads, and raises a
    SystemError if it finds another number than it expects.
    """
    return holding([_lock], ast.parse, source)

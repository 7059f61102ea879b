"""Text that generated functions have in common: indentation, and the look whether to end."""

from collections.abc import Iterable

LOOK = ("if interrupted(line):", "    return")
"""The lines with which a function looks whether it is to end."""


def indented(lines: Iterable[str], depth: int = 1) -> list[str]:
    """The lines as the body of a loop, or of `depth` loops around each other."""
    return ["    " * depth + line for line in lines]

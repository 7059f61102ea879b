"""Nested scopes of generated source."""

from __future__ import annotations


class Scope:
    """The content of a loop, a branch, or the function: lines, and scopes inside it. While an inner scope is open,
    further lines go before it.

    Parameters
    ----------
    header : the line before it, such as `for i in range(n):`; None for the function, and for scopes without such a
        line.
    most : the most turns that a loop can have, if its text does not say so.
    steps : whether it is a loop over time.

    If `ends` is the name of a variable, the loop ends after a turn in which it is true.
    """

    def __init__(self, header: str | None, most: int | None = None, steps: bool = False) -> None:
        self.header, self.most, self.steps = header, most, steps
        self.lines: list[str | Scope] = []
        self.ends = ""
        self._before: Scope | None = None

    def add(self, line: str | Scope) -> None:
        """Add a line (before the inner scope that is open)."""
        (self.lines if self._before is None else self._before.lines).append(line)

    def open(self, inner: Scope) -> None:
        """Begin an inner scope."""
        self._before = Scope(None)
        self.lines += [self._before, inner]

    def close(self) -> None:
        """End the inner scope: further lines go after it."""
        self._before = None

    def text(self, indent: int = 0) -> list[str]:
        """The source lines."""
        result = [] if self.header is None else ["    " * indent + self.header]
        inner = indent if self.header is None else indent + 1
        lines: list[str] = []
        for line in self.lines:
            lines += ["    " * inner + line] if isinstance(line, str) else line.text(inner)
        if self.ends:
            lines += ["    " * inner + f"if {self.ends}:", "    " * (inner + 1) + "break"]
        if self.header is not None and not lines:  # steps that change nothing
            lines = ["    " * inner + "pass"]
        return result + lines

"""Loops over the elements of long rows, as Python source, with a look whether to end now and then."""

from collections.abc import Callable

from scanjit.codegen.lines import LOOK, indented

STRETCH = 2**20
"""After this many elements, a thread looks whether to end. Each element takes some nanoseconds."""


def stretches(n: str, lines: list[str], lanes: int = 1, start: str = "0") -> list[str]:
    """The loop over the elements from `start` to `n`, `lanes` at a time."""
    return [
        f"for stretch in range({start}, {n}, {STRETCH}):",
        *indented(LOOK),
        f"    for i in range(stretch, min(stretch + {STRETCH}, {n}), {lanes}):",
        *indented(lines, 2),
    ]


def vectors(n: str, part: Callable[[str], list[str]], lanes: int) -> list[str]:
    """The same for vectors of `lanes` elements. `part` gives the lines for one vector. It is given the name of the mask
    of the elements that exist; for a whole vector, an empty name."""
    return [
        *stretches(f"({n} - {lanes - 1})", part(""), lanes),
        f"i = {n}//{lanes}*{lanes}",
        f"if i < {n}:",
        f"    inside = head_x{lanes}({n} - i)",
        *indented(part("inside")),
    ]

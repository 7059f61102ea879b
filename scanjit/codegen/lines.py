"""Text that generated functions have in common: indentation, templates, the look whether to end, and loops over the
elements of long rows."""

from collections.abc import Callable, Iterable
from string import Template

LOOK = ("if interrupted(line):", "    return")
"""The lines with which a function looks whether it is to end."""


def indented(lines: Iterable[str], depth: int = 1) -> list[str]:
    """The lines as the body of a loop, or of `depth` loops around each other."""
    return ["    " * depth + line for line in lines]


def loaded(kind: str, place: str, mask: str = "") -> str:
    """A vector that lies at an address; if there is a mask, zeros in the lanes that it leaves out."""
    return f"load_masked_{kind}({place}, {mask})" if mask else f"load_{kind}({place})"


def stored(place: str, value: str, mask: str = "") -> str:
    """The line that stores a vector at an address, or the lanes of it that are in a mask."""
    return f"store_masked({place}, {value}, {mask})" if mask else f"store({place}, {value})"


def filled(template: str, **parts: object) -> list[str]:
    """The lines of a template. `$name` stands for a number or a text. On a line of its own, it may stand for a list of
    lines, which are indented as it is.

    Examples
    --------
    >>> filled("while $more:\\n    $body", more="x > 0", body=["x -= 1", "y += 2"])
    ['while x > 0:', '    x -= 1', '    y += 2']
    """
    found: list[str] = []
    for line in template.strip("\n").split("\n"):
        word = line.lstrip()
        part = parts.get(word[1:]) if word.startswith("$") else None
        if isinstance(part, list | tuple):
            found += indented(part, (len(line) - len(word)) // 4)
        else:
            found.append(Template(line).substitute(parts))
    return found


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

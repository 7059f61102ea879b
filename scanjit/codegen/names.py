"""Names in generated code: variables, suffixes of SIMD types, literals, and the names that a source imports."""

import re
import textwrap
from collections import Counter
from collections.abc import Sequence

import numpy as np

from scanjit.kinds import kind_of
from scanjit.signatures import DType

INT32, INT64 = np.dtype("int32"), np.dtype("int64")
"""The dtype of positions, and of numbers in a table."""
_LAST = re.compile(r"\b[a-z_][a-z0-9_]*+\Z")
_PYTHON = {"range", "min", "max", "def", "return", "int", "if", "for"}


class FreshNames:
    """Makes variables of a function: each has a name of its own, which begins with a hint.

    Examples
    --------
    >>> fresh = FreshNames()
    >>> fresh("x"), fresh("x"), fresh("y")
    ('x0', 'x1', 'y0')
    """

    def __init__(self) -> None:
        self._counts = Counter[str]()

    def __call__(self, hint: str) -> str:
        self._counts[hint] += 1
        return f"{hint}{self._counts[hint] - 1}"


def suffix(dtype: DType, lanes: int) -> str:
    """The suffix of a SIMD type: `f32x16`."""
    return f"{kind_of(dtype).name}x{lanes}"


def number(value: object) -> str:
    """The exact source text of a number. `inf` and `nan` are imported names."""
    return repr(np.asarray(value).item())


def imports(lines: Sequence[str], local: frozenset[str] = frozenset()) -> list[str]:
    """The import lines that a source needs.

    Examples
    --------
    >>> imports(["x = fma(load_f32x8(p), min(a, 2), inf)", "Cell_1(x)", "store(q, x)"])
    ['from math import inf', 'from scanjit.simd import fma, load_f32x8, store']
    """
    text = "\n".join(lines)
    before = {part[part.rfind(" ") + 1 :] for part in text.split("(")[:-1]}  # few: most calls are of the same functions
    called = {found[0] for part in before if (found := _LAST.search(part))}
    words = sorted(called - _PYTHON - local)
    constants = [name for name in ("inf", "nan") if name in text and re.search(rf"\b{name}\b", text)]
    result = [f"from math import {', '.join(constants)}"] if constants else []
    if words:
        line = f"from scanjit.simd import {', '.join(words)}"
        if len(line) > 120:
            rows = textwrap.fill(", ".join(words) + ",", 115, initial_indent="    ", subsequent_indent="    ")
            line = f"from scanjit.simd import (\n{rows}\n)"
        result.append(line)
    return result

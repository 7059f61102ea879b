"""Make names from any text: for generated code, for exported packages, and for files of other formats."""

import itertools
import keyword
import re
from collections.abc import Container

_LONGEST = 60
"""The most characters of an identifier: files get such names."""
_UNWRITABLE = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
"""Characters that XML cannot contain. Most other formats cannot contain zero bytes and surrogates either."""


def identifier(text: str, other: str) -> str:
    """The text as a Python identifier of ASCII letters, digits and underscores; `other` if nothing of it remains.

    Only ASCII: names of symbols in object code have no other letters, Python changes some (`ﬁ` becomes `fi`), and some
    characters that count as letters or digits may not stand in a name (`²`).

    Examples
    --------
    >>> identifier("layer 1/h", "loop"), identifier("1st", "loop"), identifier("α", "loop"), identifier("for", "loop")
    ('layer_1_h', 'loop_1st', 'loop', 'for_')
    """
    name = re.sub(r"\W", "_", text, flags=re.ASCII)[:_LONGEST]
    if not name.strip("_"):
        return other
    if name[0].isdigit():
        return f"{other}_{name}"
    return f"{name}_" if keyword.iskeyword(name) else name


def free_name(name: str, taken: Container[str], apart: str = "_", first: int = 2) -> str:
    """The name; if it is taken, the name and the first number with which it is not.

    Examples
    --------
    >>> free_name("x", {}), free_name("x", {"x", "x_2"})
    ('x', 'x_3')
    """
    numbered = (f"{name}{apart}{number}" for number in itertools.count(first))
    return name if name not in taken else next(other for other in numbered if other not in taken)


def writable(text: str) -> str:
    r"""The text as every file can hold it. Control characters and surrogates are written as `repr` writes them.

    Examples
    --------
    >>> writable("α\ud800\0") == "α\\ud800\\x00"
    True
    """
    return _UNWRITABLE.sub(lambda found: ascii(found[0])[1:-1], text)

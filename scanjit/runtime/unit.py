"""The input of the compiler."""

from collections.abc import Mapping
from typing import NamedTuple


class Unit(NamedTuple):
    """The input of the compiler: the source of a kernel, and its names.

    `symbol` is the name that the object code exports. `externals` maps the name of each kernel that is called to its
    symbol and its number of arguments. `path` is where the source can be found, and `stem` is the beginning of the
    names of its files.
    """

    name: str
    source: str
    path: str
    symbol: str
    externals: Mapping[str, tuple[str, int]]
    stem: str

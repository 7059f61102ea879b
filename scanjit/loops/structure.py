"""Nested values: tuples, lists, dicts, named tuples and dataclasses, taken apart into leaves and put together again.

Complex numbers are a structure of two: their real and their imaginary part.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from scanjit import errors, tracebacks
from scanjit.ir import Node, as_node, is_number, is_symbol
from scanjit.kinds import COMPLEX as COMPLEX_KINDS, kind_of
from scanjit.ops.parts import joined
from scanjit.records import record
from scanjit.types import DtypeName


@record(eq=True)
class Tree:
    """The structure of a nested value: a leaf (`kind` is None) or a container of named children.

    The kind `complex` has two children, or one: the array of floats that holds both parts.

    Examples
    --------
    >>> leaves, tree = flatten({"h": 1, "c": (2, 3)})
    >>> leaves
    [1, 2, 3]
    >>> tree.unflatten([10, 20, 30])
    {'h': 10, 'c': (20, 30)}
    >>> tree.paths()
    ["['h']", "['c'][0]", "['c'][1]"]
    """

    kind: type | None = None
    names: tuple[Hashable, ...] = ()
    children: tuple[Tree, ...] = ()

    @property
    def size(self) -> int:
        """The number of leaves."""
        return 1 if self.kind is None else sum(child.size for child in self.children)

    def unflatten(self, leaves: Sequence[Any]) -> Any:
        """The nested value with these leaves."""
        remaining = iter(leaves)
        return self._build(remaining)

    def _build(self, leaves: Iterator[Any]) -> Any:
        if self.kind is None:
            return next(leaves)
        values = [child._build(leaves) for child in self.children]
        if self.kind is complex:
            return _complex(*values)
        if self.kind in (tuple, list):
            return self.kind(values)
        if self.kind is dict:
            return dict(zip(self.names, values, strict=True))
        if issubclass(self.kind, tuple):
            make: Callable[[list[Any]], Any] = getattr(self.kind, "_make", self.kind)  # of a named tuple
            return make(values)
        fields = dict(zip(map(str, self.names), values, strict=True))
        made = self.kind(**fields)
        for name, value in fields.items():
            _check_kept(made, name, value)
        return made

    def with_leaves(self, trees: Iterable[Tree]) -> Tree:
        """The same structure with other structures in place of its leaves."""
        remaining = iter(trees)
        return self._with(remaining)

    def _with(self, trees: Iterator[Tree]) -> Tree:
        if self.kind is None:
            return next(trees)
        return Tree(self.kind, self.names, tuple(child._with(trees) for child in self.children))

    def tensors(self, first: int = 0) -> list[tuple[int, ...]]:
        """The positions of the leaves of each tensor. A tensor of complex numbers has two leaves."""
        if self.kind in (None, complex):
            return [tuple(range(first, first + self.size))]
        found: list[tuple[int, ...]] = []
        for child in self.children:
            found += child.tensors(first)
            first += child.size
        return found

    def whole(self) -> Tree:
        """The same structure with a leaf in place of each tensor of complex numbers."""
        if self.kind is complex:
            return Tree()
        return Tree(self.kind, self.names, tuple(child.whole() for child in self.children))

    def stored(self) -> list[bool]:
        """For each leaf, whether it holds complex numbers."""
        if self.kind is None or self == STORED:
            return [self == STORED]
        return [flag for child in self.children for flag in child.stored()]

    def paths(self) -> list[str]:
        """The path to each leaf, as Python writes it: `['c'][0]`."""
        if self.kind is None:
            return [""]
        return [
            self._access(name) + rest
            for name, child in zip(self.names, self.children, strict=True)
            for rest in child.paths()
        ]

    def _access(self, name: Any) -> str:
        plain = self.kind in (tuple, list, dict)
        return f"[{name!r}]" if plain else f".{name}"

    def leaves_of(self, value: Any, path: str = "") -> list[Any]:
        """The leaves of a value that should have this structure, in this structure's order.

        Raises
        ------
        Mismatch
            Where the value has another structure.
        """
        if self.kind is None:
            if is_container(value):
                raise Mismatch(path, describe(value), REAL if _kind(value) is complex else "a tensor")
            return [value]
        if self.kind is complex and is_number(value):
            value = complex(value)
        found = dict(_items(value)) if is_container(value) and _kind(value) is self.kind else None
        if found is None or found.keys() != set(self.names):
            raise Mismatch(path, describe(value), str(self))
        return [
            leaf
            for name, child in zip(self.names, self.children, strict=True)
            for leaf in child.leaves_of(found[name], path + self._access(name))
        ]

    def fits(self, value: Any) -> bool:
        """Whether a value has this structure."""
        try:
            self.leaves_of(value)
        except Mismatch:
            return False
        return True

    def __str__(self) -> str:
        if self.kind is None:
            return "a tensor"
        if self.kind is complex:
            return "a tensor of complex numbers"
        if self.kind in (tuple, list):
            return f"a {self.kind.__name__} of {len(self.children)}"
        return f"a {self.kind.__name__} of " + ", ".join(map(str, self.names))


REAL = "a tensor of real numbers"
"""What a `Mismatch` expects where it got complex numbers."""

PARTS = Tree(complex, ("real", "imag"), (Tree(), Tree()))
"""The structure of a tensor of complex numbers."""

STORED = Tree(complex, ("stored",), (Tree(),))
"""The structure of an array of complex numbers, whose leaf is the array of floats that holds them."""


def _check_kept(made: Any, name: str, given: Any) -> None:
    """Raise an error if a dataclass changed a field when it was made: made again, it would change it twice."""
    kept = getattr(made, name)
    if not _are_same(given, kept):
        raise errors.ArgumentError(
            f"{type(made).__name__} changes its field {name} when it is made: made again, it would do so twice",
            got=f"{describe(kept)} from {describe(given)}",
            fix="compute it before it is given, or put it into a field with init=False",
        )


def _fields(value: Any) -> list[tuple[str, Any]]:
    """The fields of a dataclass that are given when it is made. The others must follow from them."""
    every = dataclasses.fields(value)
    given = [(field.name, getattr(value, field.name)) for field in every if field.init]
    later = [field.name for field in every if not field.init and field.compare]
    again = type(value)(**dict(given)) if later else None
    for name in later:
        own, computed = (getattr(each, name, _UNSET) for each in (value, again))
        if not _are_same(own, computed):
            raise errors.ArgumentError(
                f"the field {name} of {type(value).__name__} does not follow from the fields that are given when it is "
                "made: made again from those, it would be lost",
                got=describe(own),
                expected="nothing" if computed is _UNSET else describe(computed),
                fix="leave out init=False, or compute it in __post_init__; with compare=False it may differ",
            )
    return given


_UNSET = object()


def _are_same(before: Any, after: Any) -> bool:
    """Whether two nested values have the same leaves."""
    if before is after:
        return True
    first, second = flatten(before)[0], flatten(after)[0]
    return len(first) == len(second) and all(map(_is_same, first, second))


def _is_same(a: Any, b: Any) -> bool:
    """Whether two leaves are one symbol, or have the same value."""
    if a is b or is_symbol(a) or is_symbol(b):
        return a is b
    return np.array_equal(a, b, equal_nan=np.issubdtype(np.asarray(a).dtype, np.inexact))


class Mismatch(Exception):
    """A value has another structure than the one expected of it."""

    def __init__(self, path: str, got: str, expected: str) -> None:
        super().__init__(path, got, expected)
        self.path, self.got, self.expected = path, got, expected


def describe(value: Any) -> str:
    """A value in a few words, for an error."""
    if isinstance(value, Node):
        return repr(value)
    if is_container(value):
        return str(flatten(value)[1]) if _items(value) else f"an empty {_kind(value).__name__}"
    text = repr(value)
    return f"{text if len(text) < 60 else text[:57] + '...'} ({type(value).__name__})"


def _is_array_text(value: Any) -> bool:
    """Whether a value is a (nested) list of numbers, which is how people write an array."""
    if isinstance(value, list):
        return bool(value) and all(map(_is_array_text, value))
    return isinstance(value, bool | int | float | complex | np.generic)


def _is_complex(value: Any) -> bool:
    """Whether a value is a tensor of complex numbers: a symbol, an array, a number or a list of numbers."""
    if isinstance(value, list):
        return _is_array_text(value) and any(map(_is_complex, value))
    dtype = getattr(value, "dtype", None)
    known = isinstance(dtype, np.dtype | DtypeName) and any(dtype == kind.dtype for kind in COMPLEX_KINDS)
    return known or isinstance(value, complex)


def _parts(value: Any) -> tuple[Any, Any]:
    """The real and the imaginary part of complex numbers."""
    if is_number(value):
        return value.real, value.imag
    if not is_symbol(value):
        return np.real(value), np.imag(value)
    real, imaginary = as_node(value).args
    return real, imaginary


_OF_FLOATS = {kind_of(kind.moved).dtype: kind.dtype for kind in COMPLEX_KINDS}


def complex_of(pairs: np.ndarray) -> np.ndarray:
    """The complex numbers that an array of floats holds."""
    found: np.ndarray = pairs.view(_OF_FLOATS[pairs.dtype])[..., 0]
    return found


def _complex(*parts: Any) -> Any:
    """Complex numbers, of their parts or of the array of floats that holds both.

    Of one part a size may be known that the other does not have: operations on that part alone gave it."""
    if len(parts) == 1:
        return complex_of(*parts)
    return complex(*parts) if all(map(is_number, parts)) else joined(*map(as_node, parts))


def is_container(value: Any) -> bool:
    """Whether a value is a structure of others, and not a leaf."""
    if _is_complex(value):
        return True
    if is_symbol(value) or isinstance(value, type):
        return False
    if isinstance(value, list):
        return not _is_array_text(value)
    return isinstance(value, tuple | dict) or dataclasses.is_dataclass(value)


def _kind(value: Any) -> type:
    """The class of a container, by which structures are compared and built. Subclasses of dict count as dict."""
    if _is_complex(value):
        return complex
    return dict if isinstance(value, dict) else type(value)


def _items(value: Any) -> list[tuple[Any, Any]]:
    if _is_complex(value):
        return list(zip(("real", "imag"), _parts(value), strict=True))
    if isinstance(value, dict):
        return list(value.items())
    if isinstance(value, tuple | list):
        return list(zip(getattr(value, "_fields", range(len(value))), value, strict=True))
    return _fields(value)


def flatten(value: Any, whole: bool = False) -> tuple[list[Any], Tree]:
    """The leaves of a nested value, and its structure. With `whole`, tensors of complex numbers are leaves."""
    if not is_container(value) or (whole and _is_complex(value)):
        return [value], Tree()
    names, leaves, children = [], [], []
    for name, item in _items(value):
        inner, child = flatten(item, whole)
        names.append(name)
        leaves += inner
        children.append(child)
    return leaves, Tree(_kind(value), tuple(names), tuple(children))


def function_location(fn: Callable[..., Any]) -> str:
    """`file:line` of a function's definition. For a function without one (a builtin), the line of the user's call."""
    while True:
        inner = getattr(fn, "__wrapped__", None) or getattr(fn, "func", None)
        if not callable(inner):
            break
        fn = inner
    code = getattr(getattr(fn, "__func__", fn), "__code__", None) or getattr(type(fn).__call__, "__code__", None)
    return tracebacks.line(code.co_filename, code.co_firstlineno) if code else errors.user_location()

"""Recipes as values that JSON can hold, and back.

Each class is written as the list of its fields. It is read back by the types of these fields, so that each value has
the right type, or there is an error. Sizes, dimensions and arrays are written once, and referred to by their numbers.
"""

import collections.abc
import dataclasses
import functools
import operator
import types as python
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from scanjit import ir, types
from scanjit.errors import FormatError
from scanjit.ir import Node
from scanjit.runtime.decoding import CALLS, index, integer, listed
from scanjit.runtime.encoding import JSON
from scanjit.runtime.recipe import Recipe
from scanjit.signatures import Array, DType
from scanjit.types import Atom, Dim, Dimension

NEW = {True: "new", False: "number"}
"""How an atom is written that only this recipe has. The key says whether it is certainly not negative: in `x[:n]`, an n
that may be negative counts from the end."""


_AS_THEY_ARE = frozenset({type(None), bool, int, str})
"""The types whose values stand for themselves in JSON."""


class Known(NamedTuple):
    """The things that a recipe may refer to: the sizes of its graph, the arrays of its constants, and the nodes in
    it."""

    sizes: list[Atom]
    arrays: list[np.ndarray]
    nodes: Callable[[], dict[Node, int]]


# ---- writing ---------------------------------------------------------------------------------------------------------


def write(recipe: Recipe, known: Known) -> tuple[JSON, list[np.ndarray]]:
    """A recipe as a value for JSON, and its arrays that are not arrays of its graph."""
    writer = _Writer(known)
    return {"recipe": writer.value(recipe), "sizes": writer.sizes}, writer.arrays


class _Writer:
    """Writes values, and lists the sizes and dimensions that they refer to. A size that is computed from others comes
    behind them."""

    def __init__(self, known: Known) -> None:
        self.known = known
        self.sizes: list[JSON] = []
        self.arrays: list[np.ndarray] = []
        self._numbers: dict[Atom | Dim, int] = {}
        self._arrays = {id(array): number for number, array in enumerate(known.arrays)}
        self._given = {atom: number for number, atom in enumerate(known.sizes)}

    def value(self, value: Any) -> JSON:
        """A value, written as its type demands."""
        if type(value) in _AS_THEY_ARE:
            return value
        if isinstance(value, tuple | list | frozenset):
            return self._values(value)
        if isinstance(value, Dim):
            return [self._dim(value)]
        if isinstance(value, Atom):
            return self._atom(value)
        if isinstance(value, np.dtype):
            return value.name
        if isinstance(value, np.ndarray):
            return self._array(value)
        if isinstance(value, Mapping):
            return [self._values(pair) for pair in value.items()]
        return self._values([getattr(value, name) for name in value.__match_args__])

    def _values(self, values: Iterable[Any]) -> list[JSON]:
        """Some values. Most are numbers: for these, nothing is called."""
        return [value if type(value) in _AS_THEY_ARE else self.value(value) for value in values]

    def _dim(self, dim: Dim) -> int:
        if dim not in self._numbers:
            for atom in types.functions_in([dim]):
                self._atom(atom)
            terms = [[[self._atom(atom) for atom in monomial], factor] for monomial, factor in dim.terms]
            self._add(dim, ["sum", terms])
        return self._numbers[dim]

    def _atom(self, atom: Atom) -> int:
        if atom not in self._numbers:
            if atom in self._given:
                self._add(atom, ["size", self._given[atom]])
            elif atom.kind == "value" and atom.node in self.known.nodes():
                self._add(atom, ["node", self.known.nodes()[atom.node]])
            else:
                self._add(atom, [atom.kind, *map(self.value, atom.args)] if atom.args else [NEW[atom.not_negative]])
        return self._numbers[atom]

    def _add(self, size: Atom | Dim, written: JSON) -> None:
        self._numbers[size] = len(self.sizes)
        self.sizes.append(written)

    def _array(self, array: np.ndarray) -> int:
        if id(array) not in self._arrays:
            self._arrays[id(array)] = len(self._arrays)
            self.arrays.append(array)
        return self._arrays[id(array)]


# ---- reading ---------------------------------------------------------------------------------------------------------


def read(data: JSON, arrays: list[np.ndarray], known: Known) -> Recipe:
    """The recipe that was written, of the same graph.

    Raises
    ------
    FormatError, or any other exception, for data that `write` did not make.
    """
    reader = _Reader(known, arrays)
    for size in listed(data["sizes"]):
        reader.add(size)
    recipe = reader.value(Recipe, data["recipe"])
    assert isinstance(recipe, Recipe)
    return recipe


class _Reader:
    """Reads values of given types."""

    def __init__(self, known: Known, arrays: list[np.ndarray]) -> None:
        self.known, self.arrays = known, [*known.arrays, *arrays]
        self.sizes: list[Dimension] = []
        self._nodes: list[Node] = []

    def add(self, written: JSON) -> None:
        """Read a size or a dimension."""
        kind, *rest = listed(written)
        if kind == "sum":
            (terms,) = rest
            total: Dimension = 0
            for factors, number in terms:
                total = types.product(self.sizes[index(i, len(self.sizes))] for i in factors) * integer(number) + total
            self.sizes.append(total)
        elif kind == NEW[True]:
            self.sizes.append(types.size())
        elif kind == NEW[False]:
            self.sizes.append(types.dim_of(Atom("value", None)))
        elif kind == "size":
            self.sizes.append(types.dim_of(self.known.sizes[index(rest[0], len(self.known.sizes))]))
        elif kind == "node":
            self._nodes = self._nodes or list(self.known.nodes())
            self.sizes.append(ir.as_dim(self._nodes[index(rest[0], len(self._nodes))]))
        else:
            self.sizes.append(CALLS[kind](*(self.value(Dimension, argument) for argument in rest)))

    def value(self, kind: Any, data: JSON) -> Any:
        """A value of a type."""
        return _reading(kind)(self, data)

    def dim(self, data: JSON) -> Dimension:
        """A dimension: an integer, or a list of the number of one."""
        return integer(data) if isinstance(data, int) else self.sizes[index(listed(data)[0], len(self.sizes))]

    def atom(self, data: JSON) -> Atom:
        """A size that is no formula of others."""
        found = types.as_atom(self.sizes[index(data, len(self.sizes))])
        if found is None:
            raise FormatError("a formula stands where a size should be")
        return found

    def array(self, data: JSON) -> np.ndarray:
        """An array."""
        return self.arrays[index(data, len(self.arrays))]


Reading = Callable[[_Reader, JSON], Any]
"""A function that makes a value from its written form."""


@functools.cache
def _reading(kind: Any) -> Reading:
    """What reads values of a type."""
    if kind in _PLAIN:
        return _PLAIN[kind]
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if python.NoneType in parts:
        some = _reading(functools.reduce(operator.or_, (part for part in parts if part is not python.NoneType)))
        return lambda reader, data: None if data is None else some(reader, data)
    if origin in (list, frozenset) or (origin is tuple and parts[-1:] == (...,)):
        item = _reading(parts[0])
        return lambda reader, data: origin([item(reader, each) for each in listed(data)])
    if origin is collections.abc.Mapping:
        key, item = map(_reading, parts)
        return lambda reader, data: {key(reader, name): item(reader, each) for name, each in listed(data)}
    if origin is tuple:
        return _fields(lambda *items: items, parts)
    hints = typing.get_type_hints(kind)
    names = kind._fields if issubclass(kind, tuple) else [field.name for field in dataclasses.fields(kind)]
    return _fields(kind, [hints[name] for name in names])


def _fields(make: Callable[..., Any], kinds: Sequence[Any]) -> Reading:
    fields = [_reading(kind) for kind in kinds]
    return lambda reader, data: make(*(read(reader, item) for read, item in zip(fields, listed(data), strict=True)))


def _exactly(kind: type) -> Reading:
    def read(reader: _Reader, data: JSON) -> Any:
        if type(data) is not kind:
            raise FormatError("a value is of another type than it should be", got=type(data).__name__)
        return data

    return read


_PLAIN: dict[Any, Reading] = {
    int: _exactly(int),
    bool: _exactly(bool),
    str: _exactly(str),
    Dimension: _Reader.dim,
    Atom: _Reader.atom,
    DType: lambda reader, data: types.dtype_of(data),
    np.ndarray: _Reader.array,
    Array: _Reader.array,
}

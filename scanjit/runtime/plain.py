"""Converts dumped graphs (see `pickling`) to values that JSON can hold, and back.

Numbers, texts, booleans and None are themselves. Everything else is a list that begins with a word for what it is.
Arrays are kept beside the JSON and are numbered in it; so are shared variables and sizes.

Reading trusts nothing: it returns a value of the right kind or raises an error.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from scanjit import errors, types
from scanjit.ir import Data
from scanjit.runtime.pickling import CALLS, CallAt, CallOf, DimOf, Dumped, GraphOf, Record, TypeOf, ValueOf
from scanjit.runtime.shared import SharedVariable
from scanjit.types import Atom

JSON = Any
_INT64 = np.iinfo(np.int64)


class Writer:
    """Writes values, and collects the arrays among them.

    Parameters
    ----------
    variables : the number of each shared variable.
    sizes : the number of each size.
    """

    def __init__(self, variables: Mapping[Any, int], sizes: Mapping[Atom, int]) -> None:
        self.variables, self.sizes = variables, sizes
        self.arrays: list[np.ndarray] = []
        self._places: dict[str, int] = {}

    def graph(self, dumped: Dumped) -> dict[str, JSON]:
        """A graph, without its sizes."""
        nodes = [
            [
                record.op,
                list(record.operands),
                {key: self.value(value) for key, value in record.params.items()},
                self._places.setdefault(record.where, len(self._places)),
            ]
            for record in dumped.records
        ]
        calls = [[call.kind, *map(self.value, call.args)] for call in dumped.calls]
        return {"nodes": nodes, "roots": list(dumped.roots), "places": list(self._places), "calls": calls}

    def array(self, array: np.ndarray) -> int:
        """The number of an array."""
        self.arrays.append(array)
        return len(self.arrays) - 1

    def value(self, value: Any) -> JSON:
        """A parameter."""
        if isinstance(value, str):
            return saved_text(value)
        if value is None or isinstance(value, bool) or type(value) is int:
            return value
        if type(value) is float:
            return value if math.isfinite(value) else ["float", repr(value)]
        if isinstance(value, np.generic):
            return ["number", self.array(np.asarray(value))]
        if isinstance(value, np.dtype):
            return ["dtype", value.name]
        if type(value) in (tuple, list):
            return [type(value).__name__, *map(self.value, value)]
        if isinstance(value, Data):
            return ["array", self.array(value.array)]
        if isinstance(value, Atom):
            return ["size", self.sizes[value]]
        if isinstance(value, DimOf):
            return ["dim", *([[self.value(atom) for atom in monomial], factor] for monomial, factor in value.terms)]
        if isinstance(value, ValueOf):
            return ["value", value.position]
        if isinstance(value, CallAt):
            return ["call", value.position]
        if isinstance(value, TypeOf):
            return ["type", np.dtype(value.dtype).name, *map(self.value, value.shape)]
        if isinstance(value, GraphOf):
            return ["graph", list(value.inputs), list(value.outputs)]
        if isinstance(value, SharedVariable):
            return ["shared", self.variables[value]]
        raise errors.NotSupportedError(
            "a graph with this in it cannot be saved", got=f"{value!r} ({type(value).__name__})"
        )


class Reader:
    """Reads what `Writer` wrote. Anything else raises a `FormatError` (or another exception:
    the caller makes one of that)."""

    def __init__(self, arrays: Sequence[np.ndarray], variables: Sequence[Any], sizes: Sequence[Atom]) -> None:
        self.arrays, self.variables, self.sizes = arrays, variables, sizes
        self.count = self._calls = 0
        self._taken: dict[int, Data] = {}

    def graph(self, data: JSON) -> Dumped:
        """A graph: every node refers to earlier ones only."""
        places = [text(place, "a place") for place in data["places"]]
        listed_calls = listed(data.get("calls", []))  # a file of version 1 has none: `_atom` reads them where they are
        self._calls = len(listed_calls)
        records = []
        for op, operands, params, place in data["nodes"]:
            records.append(
                Record(
                    text(op, "an op"),
                    self.positions(operands),
                    {key: self.value(value) for key, value in params.items()},
                    places[index(place, len(places))],
                )
            )
            self.count += 1
        calls = []
        for self._calls, (kind, *args) in enumerate(listed_calls):
            calls.append(self._call(kind, *args))
        return Dumped(list(self.sizes), records, list(self.positions(data["roots"])), calls)

    def positions(self, data: JSON) -> tuple[int, ...]:
        """Positions of nodes that were read."""
        return tuple(index(position, self.count) for position in listed(data))

    def value(self, data: JSON) -> Any:
        """A parameter."""
        if data is None or isinstance(data, bool | float):
            return data
        if isinstance(data, str):
            return text(data, "a parameter")
        if isinstance(data, int):
            return integer(data)
        kind, *rest = listed(data)
        if not isinstance(kind, str) or kind not in _KINDS:
            raise errors.FormatError("a parameter is of a kind that there is not", got=type(kind).__name__)
        return _KINDS[kind](self, *rest)

    def _float(self, data: JSON) -> float:
        return float(text(data, "a number"))

    def _number(self, place: JSON) -> Any:
        return self.arrays[index(place, len(self.arrays))][()]

    def _dtype(self, name: JSON) -> np.dtype:
        return types.dtype_of(text(name, "a dtype"))

    def _tuple(self, *items: JSON) -> tuple[Any, ...]:
        return tuple(map(self.value, items))

    def _list(self, *items: JSON) -> list[Any]:
        return list(map(self.value, items))

    def _array(self, place: JSON) -> Data:
        i = index(place, len(self.arrays))
        if i not in self._taken:  # which copies it: a file could ask for one array again and again
            self._taken[i] = Data(self.arrays[i])
        return self._taken[i]

    def _shared(self, place: JSON) -> Any:
        return self.variables[index(place, len(self.variables))]

    def _dim(self, *terms: JSON) -> DimOf:
        return DimOf(tuple((tuple(map(self._atom, listed(atoms))), integer(factor)) for atoms, factor in terms))

    def _atom(self, data: JSON) -> Any:
        kind, *rest = listed(data)
        if kind == "size" and len(rest) == 1:
            return self.sizes[index(rest[0], len(self.sizes))]
        if kind == "value" and len(rest) == 1:
            return ValueOf(index(rest[0], self.count))
        if kind == "call" and len(rest) == 1:
            return CallAt(index(rest[0], self._calls))
        if kind != "call" or len(rest) != 3:
            raise errors.FormatError("a size is made of what there is not", got=repr(kind))
        return self._call(*rest)

    def _call(self, kind: JSON, left: JSON, right: JSON) -> CallOf:
        if kind not in CALLS:
            raise errors.FormatError("a size is a function of others that there is not", got=repr(kind))
        return CallOf(kind, (self._size(left), self._size(right)))

    def _size(self, data: JSON) -> Any:
        value = self.value(data)
        if type(value) is not int and not isinstance(value, DimOf):
            raise errors.FormatError("this is no size", got=type(value).__name__)
        return value

    def _type(self, name: JSON, *shape: JSON) -> TypeOf:
        return TypeOf(self._dtype(name).name, tuple(map(self._size, shape)))

    def _graph(self, inputs: JSON, outputs: JSON) -> GraphOf:
        return GraphOf(self.positions(inputs), self.positions(outputs))


_KINDS: dict[str, Callable[..., Any]] = {
    "float": Reader._float,
    "number": Reader._number,
    "dtype": Reader._dtype,
    "tuple": Reader._tuple,
    "list": Reader._list,
    "array": Reader._array,
    "shared": Reader._shared,
    "dim": Reader._dim,
    "type": Reader._type,
    "graph": Reader._graph,
}


def listed(data: JSON) -> list[JSON]:
    """A list."""
    if not isinstance(data, list):
        raise errors.FormatError("there is no list where one should be", got=type(data).__name__)
    return data


LONGEST_TEXT = 4096
"""The most characters of a text. Texts become parts of other texts, error messages for example."""


def saved_text(value: str) -> str:
    """A text, cut so that `text` accepts it."""
    if len(value) > LONGEST_TEXT:
        raise errors.NotSupportedError(
            "a text that is so long cannot be saved", got=f"{len(value)} characters: {value[:40]}..."
        )
    return value


def text(data: JSON, what: str) -> str:
    """A text."""
    if not isinstance(data, str):
        raise errors.FormatError(f"{what} is no text", got=type(data).__name__)
    if len(data) > LONGEST_TEXT:
        raise errors.FormatError(f"{what} is longer than it may be", got=len(data), expected=LONGEST_TEXT)
    return data


def integer(data: JSON) -> int:
    """An integer that fits into 64 bits."""
    if type(data) is not int or not _INT64.min <= data <= _INT64.max:
        raise errors.FormatError("there is no integer of 64 bits where one should be", got=type(data).__name__)
    return data


def index(data: JSON, count: int) -> int:
    """An integer from 0 to `count` - 1."""
    if type(data) is not int or not 0 <= data < count:
        raise errors.FormatError("there is a reference to what comes later, or does not exist")
    return data

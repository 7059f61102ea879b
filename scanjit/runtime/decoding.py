"""Graphs from the plain data that `encoding` makes of them.

Reading trusts nothing, as the data may be a file that anybody wrote: it returns a value of the right kind or raises an
error.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from scanjit import errors, ir, types
from scanjit.ir import INPUT, OPS, SHARED, Data, Graph, Node
from scanjit.ops.parts import as_stored
from scanjit.runtime.encoding import JSON, LONGEST_TEXT, Encoded
from scanjit.types import Dim, Dimension, Type

_INT64 = np.iinfo(np.int64)
_MOST_TERMS = 256
"""A monomial becomes one term, or a few if this version simplifies an atom that another version did not. More terms are
a fault of the data, and would multiply."""
CALLS: dict[str, Callable[[Dimension, Dimension], Dimension]] = {
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "min": types.minimum,
    "max": types.maximum,
    "root": lambda a, b: types.square_root(a),
}
"""Maps a name to the function that makes a dimension from the dimensions of its arguments."""


def decode(encoded: Encoded, check: Callable[[Node], None] | None = None, given: Sequence[Node] = ()) -> list[Node]:
    """The roots of a graph, made anew. Inputs are new; sizes and shared variables are those of the data, and so are the
    nodes that `encode` was given. `check` is called with each node before others use it.

    Raises
    ------
    FormatError, or any other exception, for data that `encode` did not make.
    """
    graph, decoder = encoded.graph, _Decoder(encoded, given)
    places = [text(place, "a place") for place in graph["places"]]
    for op, operands, params, place in graph["nodes"]:
        with errors.located(places[index(place, len(places))]):
            node = decoder.node(text(op, "an op"), operands, params)
            if check is not None:
                check(node)
            decoder.nodes.append(node)
    return decoder.listed_nodes(graph["roots"])


class _Decoder:
    """Makes nodes and their parameters. Each refers to earlier nodes only."""

    def __init__(self, encoded: Encoded, given: Sequence[Node]) -> None:
        self.encoded = encoded
        self.nodes = list(given)
        self._calls = listed(encoded.graph.get("calls", []))  # a file of version 1 has none: see `_atom`
        self._called: list[Dimension] = []
        self._callable = len(self._calls)
        self._taken: dict[int, Data] = {}

    def node(self, op: str, operands: JSON, given: dict[str, JSON]) -> Node:
        """The node that an op makes of these operands and parameters."""
        params = {key: self.value(value) for key, value in given.items()}
        if op == INPUT.name:
            return ir.new_input(params["type"], params["name"])
        if op == SHARED.name:
            return as_stored(ir.as_node(params["variable"]))  # it may have been given another name since
        if op == "scan":
            params = {"lags": (), "stored": None, "gradient": False, **params}  # it may be older than these
        if op not in OPS:
            raise errors.NotSupportedError(f"the graph uses the op {op!r}, which this version lacks")
        return OPS[op](*self.listed_nodes(operands), **params)

    def listed_nodes(self, positions: JSON) -> list[Node]:
        """The nodes at these positions."""
        return [self.nodes[index(position, len(self.nodes))] for position in listed(positions)]

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

    def _array(self, place: JSON) -> Data:
        array = _item(self.encoded.arrays, place)
        if place not in self._taken:  # `Data` copies it: a file could ask for one array again and again
            self._taken[place] = Data(array)
        return self._taken[place]

    def _dim(self, *terms: JSON) -> Dimension:
        total: Dimension = 0
        for atoms, factor in terms:
            product: Dimension = integer(factor)
            for atom in listed(atoms):
                product = _bounded(product * self._atom(atom))
            total = total + product
        return total

    def _atom(self, data: JSON) -> Dimension:
        kind, *rest = listed(data)
        if kind == "size" and len(rest) == 1:
            return types.dim_of(_item(self.encoded.sizes, rest[0]))
        if kind == "value" and len(rest) == 1:
            return ir.as_dim(_item(self.nodes, rest[0]))
        if kind == "call" and len(rest) == 1:
            return self._call_at(index(rest[0], self._callable))
        if kind != "call" or len(rest) != 3:
            raise errors.FormatError("a size is made of what there is not", got=repr(kind))
        return self._call(*rest)  # a file of version 1 has functions inside each other

    def _call_at(self, position: int) -> Dimension:
        """A function of dimensions. Its arguments refer to earlier ones only."""
        outer = self._callable
        while len(self._called) <= position:
            self._callable = len(self._called)
            self._called.append(self._call(*self._calls[self._callable]))
        self._callable = outer
        return self._called[position]

    def _call(self, kind: JSON, left: JSON, right: JSON) -> Dimension:
        if kind not in CALLS:
            raise errors.FormatError("a size is a function of others that there is not", got=repr(kind))
        return CALLS[kind](self._size(left), self._size(right))

    def _size(self, data: JSON) -> Dimension:
        value = self.value(data)
        if type(value) is not int and not isinstance(value, Dim):
            raise errors.FormatError("this is no size", got=type(value).__name__)
        return value

    def _type(self, name: JSON, *shape: JSON) -> Type:
        return Type(_dtype(self, name), tuple(map(self._size, shape)))

    def _graph(self, inputs: JSON, outputs: JSON) -> Graph:
        return Graph.of(self.listed_nodes(inputs), self.listed_nodes(outputs))


def _dtype(decoder: _Decoder, name: JSON) -> np.dtype:
    return types.dtype_of(text(name, "a dtype"))


_KINDS: dict[str, Callable[..., Any]] = {
    "float": lambda decoder, data: float(text(data, "a number")),
    "number": lambda decoder, place: _item(decoder.encoded.arrays, place)[()],
    "dtype": _dtype,
    "tuple": lambda decoder, *items: tuple(map(decoder.value, items)),
    "list": lambda decoder, *items: list(map(decoder.value, items)),
    "array": _Decoder._array,
    "shared": lambda decoder, place: _item(decoder.encoded.variables, place),
    "object": lambda decoder, place: _item(decoder.encoded.objects, place),
    "dim": _Decoder._dim,
    "type": _Decoder._type,
    "graph": _Decoder._graph,
}
"""Maps the first word of a list to the function that makes a value of the rest."""


def _bounded(dim: Dimension) -> Dimension:
    """A product of sizes, or an error if it is too long: a few bytes can say a power of a power of a power."""
    terms = dim.terms if isinstance(dim, Dim) else (((), dim),)
    if len(terms) > _MOST_TERMS or any(len(factors) > _MOST_TERMS for factors, _ in terms):
        raise errors.NotSupportedError("a product of sizes has too many terms")
    if any(abs(number) > _INT64.max for _, number in terms):
        raise errors.NotSupportedError("a size is larger than an integer of 64 bits")
    return dim


# ---- values of JSON --------------------------------------------------------------------------------------------------


def listed(data: JSON) -> list[JSON]:
    """A list."""
    if not isinstance(data, list):
        raise errors.FormatError("there is no list where one should be", got=type(data).__name__)
    return data


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


def _item(items: Sequence[Any], place: JSON) -> Any:
    return items[index(place, len(items))]

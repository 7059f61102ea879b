"""Graphs as plain data that pickles.

Nodes become a flat list, arguments first (a chain of ten thousand nodes would exhaust a recursive pickler), and are
made anew by applying their ops: interning and types follow. Symbolic sizes keep their identity within one pickle and
named ones join those of their name; a dimension that is the value of a node refers to that node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from scanjit import errors, ir, types
from scanjit.ir import INPUT, OPS, SHARED, Graph, Node
from scanjit.ops.custom import DerivativeRule
from scanjit.types import Atom, Dim, Dimension, Type


class Record(NamedTuple):
    """One node: the name of its op, the positions of its operands, its parameters (encoded) and location."""

    op: str
    operands: tuple[int, ...]
    params: dict[str, Any]
    where: str


class CallOf(NamedTuple):
    """A function of dimensions."""

    kind: str
    args: tuple[Any, ...]


class Dumped(NamedTuple):
    """A graph as data."""

    sizes: list[Atom]
    """In the order in which they were made, which decides between equal dimensions."""
    records: list[Record]
    roots: list[int]
    """Positions of nodes."""
    calls: Sequence[CallOf] = ()
    """The functions in dimensions: each is a function of earlier ones, of sizes and of values."""


class ValueOf(NamedTuple):
    """Stands for a size that is the value of a node: the node's position."""

    position: int


class CallAt(NamedTuple):
    """Stands for a size that is a function of other dimensions: its position in `Dumped.calls`."""

    position: int


class DimOf(NamedTuple):
    """Stands for a dimension: its terms, whose atoms are encoded."""

    terms: tuple[tuple[tuple[Any, ...], int], ...]


class GraphOf(NamedTuple):
    """Stands for a graph inside a node: the positions of its inputs and outputs."""

    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


class TypeOf(NamedTuple):
    """Stands for a type."""

    dtype: str
    shape: tuple[Any, ...]


def dump(roots: Sequence[Node]) -> Dumped:
    """The graph of `roots` as data."""
    order: dict[Node, int] = {}
    _collect(roots, order)
    encoder = _Encoder(order)
    records = [
        Record(
            node.op.name,
            tuple(order[arg] for arg in node.operands),
            {key: encoder.value(value) for key, value in node.params.items()},
            node.where,
        )
        for node in order
    ]
    sizes = sorted(encoder.sizes, key=lambda atom: atom.serial)
    return Dumped(sizes, records, [order[root] for root in roots], encoder.calls)


def _collect(roots: Sequence[Node], order: dict[Node, int]) -> None:
    """Number every node that the roots need, those of inner graphs before the nodes that hold them."""
    for node in ir.walk(roots):
        if node not in order:
            for value in node.params.values():
                for graph in _graphs(value):
                    _collect([*graph.inputs, *graph.outputs], order)
            order[node] = len(order)


def _graphs(value: Any) -> Iterator[Graph]:
    if isinstance(value, Graph):
        yield value
    elif isinstance(value, tuple | list):
        for item in value:
            yield from _graphs(item)


class _Encoder:
    def __init__(self, order: dict[Node, int]) -> None:
        self.order = order
        self.sizes: dict[Atom, None] = {}
        self.calls: list[CallOf] = []
        self._places: dict[Atom, CallAt] = {}

    def value(self, value: Any) -> Any:
        if isinstance(value, Dim):
            for atom in types.functions_in([value]):
                if atom not in self._places:
                    self._places[atom] = CallAt(len(self.calls))
                    self.calls.append(CallOf(atom.kind, tuple(map(self._dim, atom.args))))
            return self._dim(value)
        if isinstance(value, Type):
            return TypeOf(value.dtype.str, self.value(value.shape))
        if isinstance(value, Graph):
            return GraphOf(
                tuple(self.order[node] for node in value.inputs), tuple(self.order[node] for node in value.outputs)
            )
        if type(value) in (tuple, list):
            return type(value)(map(self.value, value))
        return None if isinstance(value, DerivativeRule) else value  # functions of the user's are no data

    def _dim(self, dim: Dimension) -> DimOf | int:
        if isinstance(dim, int):
            return dim
        return DimOf(tuple((tuple(map(self._atom, monomial)), factor) for monomial, factor in dim.terms))

    def _atom(self, atom: Atom) -> Atom | ValueOf | CallAt:
        if atom.kind == "size":
            self.sizes[atom] = None
            return atom
        return ValueOf(self.order[atom.node]) if atom.kind == "value" else self._places[atom]


def load(dumped: Dumped, check: Callable[[Node], None] | None = None) -> list[Node]:
    """The roots of a graph, made anew. Inputs are new; shared variables are those of the pickle. `check` is called with
    each node before others use it."""
    decoder = _Decoder(dumped.calls)
    for record in dumped.records:
        with errors.located(record.where):
            node = decoder.node(record)
            if check is not None:
                check(node)
            decoder.nodes.append(node)
    return [decoder.nodes[position] for position in dumped.roots]


CALLS: dict[str, Callable[[Dimension, Dimension], Dimension]] = {
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "min": types.minimum,
    "max": types.maximum,
    "root": lambda a, b: types.square_root(a),
}
"""By name: the function that makes a dimension from the dimensions of its arguments."""


_MOST_TERMS = 256
"""A monomial is one term, or a few where this version simplifies an atom that another one did not. More are a fault of
the data, and would multiply."""
_LARGEST = 2**63 - 1


class _Decoder:
    def __init__(self, calls: Sequence[CallOf]) -> None:
        self.nodes: list[Node] = []
        self._to_call = iter(calls)
        self._called: list[Dimension] = []

    def node(self, record: Record) -> Node:
        params = {key: self.value(value) for key, value in record.params.items()}
        if record.op == INPUT.name:
            return ir.new_input(params["type"], params["name"])
        if record.op == SHARED.name:
            return ir.as_node(params["variable"])  # it may have been given another name since
        if record.op == "scan":
            params.setdefault("lags", ())  # it may have been written before there were any
        if record.op not in OPS:
            raise errors.NotSupportedError(f"the graph uses the op {record.op!r}, which this version lacks")
        return OPS[record.op](*(self.nodes[i] for i in record.operands), **params)

    def value(self, value: Any) -> Any:
        if isinstance(value, DimOf):
            return self.dim(value)
        if isinstance(value, TypeOf):
            return Type(types.dtype_of(value.dtype), self.value(value.shape))
        if isinstance(value, GraphOf):
            return Graph.of([self.nodes[i] for i in value.inputs], [self.nodes[i] for i in value.outputs])
        if type(value) in (tuple, list):
            return type(value)(map(self.value, value))
        return value

    def dim(self, encoded: DimOf) -> Dimension:
        total: Dimension = 0
        for monomial, factor in encoded.terms:
            product: Dimension = factor
            for atom in monomial:
                product = _bounded(product * self.atom(atom))
            total = total + product
        return total

    def atom(self, encoded: Any) -> Dimension:
        if isinstance(encoded, ValueOf):
            return ir.as_dim(self.nodes[encoded.position])
        if isinstance(encoded, CallOf):  # an old file has functions inside each other
            return CALLS[encoded.kind](*map(self.value, encoded.args))
        if isinstance(encoded, CallAt):
            while len(self._called) <= encoded.position:
                self._called.append(self.atom(next(self._to_call)))
            return self._called[encoded.position]
        return types.dim_of(encoded)


def _bounded(dim: Dimension) -> Dimension:
    """A product of sizes, or an error if it is too long: a few bytes can say a power of a power of a power."""
    terms = dim.terms if isinstance(dim, Dim) else (((), dim),)
    if len(terms) > _MOST_TERMS or any(len(factors) > _MOST_TERMS for factors, _ in terms):
        raise errors.NotSupportedError("a product of sizes has too many terms")
    if any(abs(number) > _LARGEST for _, number in terms):
        raise errors.NotSupportedError("a size is larger than an integer of 64 bits")
    return dim

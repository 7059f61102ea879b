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
from scanjit.ops.custom import Rule
from scanjit.types import Atom, Dim, Dimension, Type


class Record(NamedTuple):
    """One node: the name of its op, the positions of its operands, its parameters (encoded) and location."""

    op: str
    operands: tuple[int, ...]
    params: dict[str, Any]
    where: str


class Dumped(NamedTuple):
    """A graph as data: sizes in their order (which decides between equal dimensions), nodes, positions of the roots."""

    sizes: list[Atom]
    records: list[Record]
    roots: list[int]


class ValueOf(NamedTuple):
    """Stands for a size that is the value of a node: the node's position."""

    position: int


class CallOf(NamedTuple):
    """Stands for a size that is a function of other dimensions."""

    kind: str
    args: tuple[Any, ...]


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
    return Dumped(sizes, records, [order[root] for root in roots])


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

    def value(self, value: Any) -> Any:
        if isinstance(value, Dim):
            return DimOf(tuple((tuple(map(self.atom, monomial)), factor) for monomial, factor in value.terms))
        if isinstance(value, Type):
            return TypeOf(value.dtype.str, self.value(value.shape))
        if isinstance(value, Graph):
            return GraphOf(
                tuple(self.order[node] for node in value.inputs), tuple(self.order[node] for node in value.outputs)
            )
        if type(value) in (tuple, list):
            return type(value)(map(self.value, value))
        return None if isinstance(value, Rule) else value  # functions of the user's are no data

    def atom(self, atom: Atom) -> Any:
        if atom.kind == "size":
            self.sizes[atom] = None
            return atom
        if atom.kind == "value":
            return ValueOf(self.order[atom.args[0]])
        return CallOf(atom.kind, tuple(map(self.value, atom.args)))


def load(dumped: Dumped, check: Callable[[Node], None] | None = None) -> list[Node]:
    """The roots of a graph, made anew. Inputs are new; shared variables are those of the pickle. `check` is called with
    each node before others use it."""
    decoder = _Decoder()
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


class _Decoder:
    def __init__(self) -> None:
        self.nodes: list[Node] = []

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
                product = product * self.atom(atom)
                if isinstance(product, Dim) and len(product.terms) > _MOST_TERMS:
                    raise errors.NotSupportedError("a product of sizes has too many terms")
            total = total + product
        return total

    def atom(self, encoded: Any) -> Dimension:
        if isinstance(encoded, ValueOf):
            return ir.as_dim(self.nodes[encoded.position])
        if isinstance(encoded, CallOf):
            return CALLS[encoded.kind](*map(self.value, encoded.args))
        return types.dim_of(encoded)

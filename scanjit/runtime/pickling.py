"""Graphs as plain data that pickles.

Nodes become a flat list, arguments first (a chain of ten thousand nodes would exhaust a recursive pickler), and are
made anew by applying their ops: interning and types follow. Symbolic sizes keep their identity within one pickle and
named ones join those of their name; a dimension that is the value of a node refers to that node.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from scanjit import errors, ir, types
from scanjit.ir import INPUT, OPS, Graph, Node
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


class _Value(NamedTuple):
    """In place of the atom that is the value of a node: the node's position."""

    position: int


class _Call(NamedTuple):
    """In place of an atom that is a function of dimensions."""

    kind: str
    args: tuple[Any, ...]


class _Dim(NamedTuple):
    """In place of a dimension: its terms, with encoded atoms."""

    terms: tuple[tuple[tuple[Any, ...], int], ...]


class _Graph(NamedTuple):
    """In place of a graph: positions of its inputs and outputs."""

    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


class _Type(NamedTuple):
    """In place of a type."""

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
            return _Dim(tuple((tuple(map(self.atom, monomial)), factor) for monomial, factor in value.terms))
        if isinstance(value, Type):
            return _Type(value.dtype.str, self.value(value.shape))
        if isinstance(value, Graph):
            return _Graph(
                tuple(self.order[node] for node in value.inputs), tuple(self.order[node] for node in value.outputs)
            )
        if type(value) in (tuple, list):
            return type(value)(map(self.value, value))
        return value

    def atom(self, atom: Atom) -> Any:
        if atom.kind == "size":
            self.sizes[atom] = None
            return atom
        if atom.kind == "value":
            return _Value(self.order[atom.args[0]()])
        return _Call(atom.kind, tuple(map(self.value, atom.args)))


def load(dumped: Dumped) -> list[Node]:
    """The roots of a graph, made anew. Inputs are new; shared variables are those of the pickle."""
    decoder = _Decoder()
    for record in dumped.records:
        with errors.located(record.where):
            decoder.nodes.append(decoder.node(record))
    return [decoder.nodes[position] for position in dumped.roots]


_CALLS = {"//": lambda a, b: a // b, "%": lambda a, b: a % b, "min": types.minimum, "max": types.maximum}


class _Decoder:
    def __init__(self) -> None:
        self.nodes: list[Node] = []

    def node(self, record: Record) -> Node:
        params = {key: self.value(value) for key, value in record.params.items()}
        if record.op == INPUT.name:
            return ir.new_input(params["type"], params["name"])
        if record.op not in OPS:
            raise errors.NotSupportedError(f"the pickled graph uses the op {record.op!r}, which this version lacks")
        return OPS[record.op](*(self.nodes[i] for i in record.operands), **params)

    def value(self, value: Any) -> Any:
        if isinstance(value, _Dim):
            return self.dim(value)
        if isinstance(value, _Type):
            return Type(types.dtype_of(value.dtype), self.value(value.shape))
        if isinstance(value, _Graph):
            return Graph.of([self.nodes[i] for i in value.inputs], [self.nodes[i] for i in value.outputs])
        if type(value) in (tuple, list):
            return type(value)(map(self.value, value))
        return value

    def dim(self, encoded: _Dim) -> Dimension:
        total: Dimension = 0
        for monomial, factor in encoded.terms:
            product: Dimension = factor
            for atom in monomial:
                product = product * self.atom(atom)
            total = total + product
        return total

    def atom(self, encoded: Any) -> Dimension:
        if isinstance(encoded, _Value):
            return ir.as_dim(self.nodes[encoded.position])
        if isinstance(encoded, _Call):
            return _CALLS[encoded.kind](*map(self.value, encoded.args))
        return types.dim_of(encoded)

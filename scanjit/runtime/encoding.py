"""Graphs as plain data, for pickles and for files.

Nodes become a flat list, arguments first (a chain of ten thousand nodes would exhaust a recursive pickler). `decoding`
makes them anew by applying their ops: interning and types follow. Inner graphs and sizes refer to nodes by their
positions.

Parameters become values that JSON can hold. Numbers, texts, booleans and None are themselves. Everything else is a list
that begins with a word for what it is. What JSON cannot hold is listed beside it, and the list has its number.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import field
from typing import Any

import numpy as np

from scanjit import ir, types
from scanjit.ir import SHARED, Data, Graph, Node
from scanjit.ops.custom import DerivativeRule
from scanjit.records import record
from scanjit.runtime.shared import SharedVariable
from scanjit.types import Atom, Dim, Dimension, Type

JSON = Any
LONGEST_TEXT = 4096
"""The most characters of a text in a file. Texts become parts of other texts, error messages for example."""


@record(frozen=False)
class Encoded:
    """A graph as data.

    Attributes
    ----------
    graph : the nodes as a value that JSON can hold.
    sizes : the sizes, in the order in which they were made; this order decides between equal dimensions.
    variables : the shared variables.
    arrays : the arrays of constants.
    objects : objects that only a pickle can hold, such as the functions of custom ops. A graph in a file has none.
    values : the names of sizes that are values of nodes without a name, each with the position of the node.
    """

    graph: JSON
    sizes: list[Atom]
    variables: list[SharedVariable]
    arrays: list[np.ndarray] = field(default_factory=list)
    objects: list[Any] = field(default_factory=list)
    values: dict[str, int] = field(default_factory=dict)


def encode(
    roots: Sequence[Node],
    variables: Sequence[SharedVariable] = (),
    arrays: Sequence[np.ndarray] = (),
    given: Sequence[Node] = (),
) -> Encoded:
    """The graph of `roots` as data. Its own shared variables and arrays are listed behind the given ones. The nodes
    `given` are no part of it: who decodes the data has them."""
    order = {node: i for i, node in enumerate(given)}
    collect(roots, order)
    own = list(order)[len(given) :]
    variables = [*variables, *(node.params["variable"] for node in own if node.op is SHARED)]
    sizes = {atom for node in own for atom in ir.own_atoms(node) if atom.kind == "size"}
    sizes |= {atom for variable in variables for dim in variable.type.shape for atom in types.atoms(dim)}
    encoded = Encoded({}, sorted(sizes, key=lambda atom: atom.serial), list(dict.fromkeys(variables)), list(arrays))
    encoder = _Encoder(encoded, order)
    places: dict[str, int] = {}
    nodes = [
        [
            node.op.name,
            encoder.positions(node.operands),
            {key: encoder.value(value) for key, value in node.params.items()},
            places.setdefault(node.where, len(places)),
        ]
        for node in own
    ]
    encoded.graph |= {"nodes": nodes, "roots": encoder.positions(roots), "places": list(places), "calls": encoder.calls}
    return encoded


def collect(roots: Sequence[Node], order: dict[Node, int]) -> None:
    """Number every node that the roots need, those of inner graphs before the nodes that hold them. Nodes that have a
    number stay as they are, and so do those that only they need."""
    for node in ir.walk(roots, order):
        if node not in order:
            for graph in ir.graphs_in([node]):
                collect([*graph.inputs, *graph.outputs], order)
            order[node] = len(order)


class _Encoder:
    """Writes values. Functions of dimensions are listed in `calls`: each is a function of earlier ones."""

    def __init__(self, into: Encoded, order: dict[Node, int]) -> None:
        self.into, self.order = into, order
        self.calls: list[JSON] = []
        self._variables = {variable: i for i, variable in enumerate(into.variables)}
        self._sizes = {atom: i for i, atom in enumerate(into.sizes)}
        self._called: dict[Atom, int] = {}

    def positions(self, nodes: Iterable[Node]) -> list[int]:
        """The positions of nodes."""
        return [self.order[node] for node in nodes]

    def value(self, value: Any) -> JSON:
        """A parameter."""
        if value is None or type(value) in (bool, int) or (isinstance(value, str) and len(value) <= LONGEST_TEXT):
            return value
        if isinstance(value, DerivativeRule):
            return None  # functions of the user's are no data
        if type(value) is float:
            return value if math.isfinite(value) else ["float", repr(value)]
        if isinstance(value, np.generic):
            return ["number", _number(np.asarray(value), self.into.arrays)]
        if isinstance(value, np.dtype):
            return ["dtype", value.name]
        if type(value) in (tuple, list):
            return [type(value).__name__, *map(self.value, value)]
        if isinstance(value, Data):
            return ["array", _number(value.array, self.into.arrays)]
        if isinstance(value, Dim):
            return self._dim(value)
        if isinstance(value, Type):
            return ["type", value.dtype.name, *map(self._dim, value.shape)]
        if isinstance(value, Graph):
            return ["graph", self.positions(value.inputs), self.positions(value.outputs)]
        if isinstance(value, SharedVariable):
            return ["shared", self._variables[value]]
        return ["object", _number(value, self.into.objects)]

    def _dim(self, dim: Dimension) -> JSON:
        if isinstance(dim, int):
            return dim
        for atom in types.functions_in([dim]):
            if atom not in self._called:
                self._called[atom] = len(self._called)
                self.calls.append([atom.kind, *map(self._dim, atom.args)])
        return ["dim", *([[self._atom(atom) for atom in monomial], factor] for monomial, factor in dim.terms)]

    def _atom(self, atom: Atom) -> JSON:
        if atom.kind == "size":
            return ["size", self._sizes[atom]]
        if atom.kind == "value":
            place = self.order[atom.node]
            if not atom.node.name:
                self.into.values[atom.name] = place
            return ["value", place]
        return ["call", self._called[atom]]


def _number(value: Any, listed: list[Any]) -> int:
    """The number of a value, which is added to a list."""
    listed.append(value)
    return len(listed) - 1

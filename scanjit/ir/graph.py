"""Graphs of nodes: walks over them, replacements in them, and `Graph`, a closed one that is a function."""

from __future__ import annotations

import operator
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from operator import attrgetter
from typing import ClassVar

from scanjit import errors, types
from scanjit.interned import Interned
from scanjit.ir.dims import as_dim
from scanjit.ir.node import BOUND, ORIGINS, AppliedOp, Node, dim_nodes, interned, new_input, own_atoms
from scanjit.scoped import scoped
from scanjit.signatures import Parameter
from scanjit.types import Atom, Dim, Dimension, Type
from scanjit.walks import bottom_up

_walked: ContextVar[dict[tuple[int, ...], tuple[list[Node], list[Node]]] | None] = ContextVar("walked", default=None)
"""Walks that are remembered: the roots, and what was met, by the addresses of the roots."""


def remembered_walks() -> AbstractContextManager[object]:
    """Inside, a walk is made once for the same roots: most passes leave a graph as it is, and the next one walks over
    it again. All nodes that were met live as long."""
    return scoped(_walked, {})


def walk(roots: Iterable[Node], stop: Container[Node] = (), sizes: bool = True) -> list[Node]:
    """Every node that `roots` depend on, arguments first. The walk lists the nodes in `stop`, but not their arguments.
    Without `sizes`, it leaves out nodes that only dimensions depend on."""
    known = _walked.get()
    if known is None or stop != () or not sizes:
        return bottom_up(roots, attrgetter("args" if sizes else "operands"), stop)
    roots = list(roots)
    key = tuple(map(id, roots))
    if key not in known:
        known[key] = roots, bottom_up(roots, attrgetter("args"))
    return list(known[key][1])


def dependents(order: Iterable[Node], roots: Iterable[Node]) -> set[Node]:
    """`roots`, and the nodes that depend on them among `order`, in which arguments come first."""
    found = set(roots)
    for node in order:
        if any(arg in found for arg in node.args):
            found.add(node)
    return found


def users_among(nodes: Iterable[Node]) -> dict[Node, list[Node]]:
    """Maps each argument of some nodes to those of them that use it, once for each use."""
    found: dict[Node, list[Node]] = {}
    for node in nodes:
        for arg in node.args:
            found.setdefault(arg, []).append(node)
    return found


def replace(
    roots: Sequence[Node], mapping: Mapping[Node, Node], dims: Mapping[Atom, Dimension] | None = None
) -> list[Node]:
    """`roots` with nodes replaced. Types are inferred anew. If a replacement has other computed sizes than the node
    that it replaces, the new ones are substituted everywhere, also in the graphs of scans. Named sizes stay: `renamed`
    changes them. Origins that are not in `mapping` stay as they are."""
    computed = {atom: after for atom, after in _new_sizes(mapping).items() if atom.kind == "value"}
    known: dict[Atom, Dimension] = computed | dict(dims or {})
    done: dict[Node, Node] = dict(mapping)
    for node in walk(roots, mapping):
        if node not in done and node.op not in ORIGINS and (known or not done.keys().isdisjoint(node.args)):
            done[node] = rebuild(node, tuple([done.get(arg, arg) for arg in node.args]), known)
    return [done.get(root, root) for root in roots]


def renamed(roots: Sequence[Node], mapping: Mapping[Node, Node]) -> list[Node]:
    """`roots` with inputs replaced. The named sizes that these inputs declare become those of the replacements."""
    return replace(roots, mapping, _new_sizes(mapping))


def _new_sizes(mapping: Mapping[Node, Node]) -> dict[Atom, Dimension]:
    """Maps sizes of nodes to those of their replacements, where they differ."""
    found: dict[Atom, Dimension] = {}
    for old, new in mapping.items():
        if not old.several and old.type.shape != new.type.shape:
            for before, after in zip(old.type.shape, new.type.shape, strict=True):
                atom = types.as_atom(before)
                if atom is not None and before != after:
                    found.setdefault(atom, after)
    return found


def rebuild(node: Node, args: tuple[Node, ...], dims: Mapping[Atom, Dimension] | None = None) -> Node:
    """The node's op on other arguments (one for each of `node.args`), at the same location."""
    if not dims and all(map(operator.is_, node.args, args)):
        return node
    changed = dict(dims or {})
    typed = True
    for old, new in zip(node.args, args, strict=True):  # a size may also be the value of an operand
        if old is not new:
            typed = typed and old.types == new.types
            if old.dim_ref is not None and (atom := old.dim_atom) is not None:
                changed[atom] = as_dim(new)
    params, operands = node.params, args[: node.arity]
    if changed:
        params = {k: map_dims(v, lambda d: types.substitute(d, changed)) for k, v in params.items()}
    elif typed:
        return interned(node.applied, node.applied.arguments(operands), node)
    with errors.located(node.where):
        return node.op(*operands, **params)


def transferred(node: Node, args: tuple[Node, ...], where: str, name: str | None) -> Node:
    """The node's op on other arguments of the same types, at another location, with another name if it has one."""
    applied = node.applied
    if name != node.name:
        applied = AppliedOp.of(node.op, {**node.params, "name": name}, node.arity)
    return interned(applied, args, node, where)


def with_params(node: Node, **changed: Parameter) -> Node:
    """The same node with some parameters changed."""
    with errors.located(node.where):
        return node.op(*node.operands, **{**node.params, **changed})


def with_body(node: Node, body: Graph) -> Node:
    """A loop or a branch with another graph inside, for the same inputs."""
    given = node.operands[len(node.operands) - len(body.inputs) :]
    first = node.params.get("carries", 0) + node.params.get("sequences", 0)
    return with_params(node, body=body, sizes=sizes_in(body, given, first))


def rebuilt(outputs: Sequence[Node], change: Callable[[Node, Node], Node | None]) -> list[Node]:
    """The outputs, with `change(old, new)` in place of each node, from the origins up. `new` is the node on arguments
    that are replaced already; None leaves it."""
    done: dict[Node, Node] = {}  # the nodes that are not as they were
    same = done.keys().isdisjoint
    for node in walk(outputs):
        new = node if same(node.args) else rebuild(node, tuple([done.get(arg, arg) for arg in node.args]))
        changed = change(node, new)
        if changed is not None or new is not node:
            done[node] = new if changed is None else changed
    return [done.get(output, output) for output in outputs]


def map_dims(value: Parameter, change: Callable[[Dimension], Dimension]) -> Parameter:
    """A copy of a parameter with every dimension in it changed by a function."""
    if isinstance(value, Dim):
        return change(value)
    if isinstance(value, Type):
        return Type(value.dtype, tuple(map_dims(d, change) for d in value.shape))
    if isinstance(value, tuple) and type(value) is tuple:
        return tuple(map_dims(item, change) for item in value)
    if isinstance(value, Graph):
        return value.map_dims(change)
    return value


class Graph:
    """A closed graph: its outputs depend on its inputs alone. Inputs are `bound` nodes, known by position, so that
    equal functions are the same object. Make one with `Graph.of`.

    Dimensions inside a graph may use named sizes, which mean the same everywhere, and values of nodes of this graph. So
    if the type of an input depends on the value of a node, that node is an input too."""

    __slots__ = ("__weakref__", "_nodes", "_sizes", "inputs", "outputs")

    inputs: tuple[Node, ...]
    outputs: tuple[Node, ...]
    _nodes: list[Node] | None
    _sizes: list[Atom] | None
    _interned: ClassVar[Interned[tuple[object, ...], Graph]] = Interned()

    @classmethod
    def of(cls, inputs: Sequence[Node], outputs: Sequence[Node]) -> Graph:
        """The graph of `outputs` as a function of `inputs` (any distinct nodes). Other origins are an error."""
        is_bound = all(node.op is BOUND and node.params["index"] == i for i, node in enumerate(inputs))
        bound, dims = (tuple(inputs), {}) if is_bound else _renewed(inputs, _bound)
        moved = {old: new for old, new in zip(inputs, bound, strict=True) if new is not old}
        new = tuple(replace(outputs, moved, dims)) if moved else tuple(outputs)
        allowed = set(bound)
        for node in walk(new):
            if node.op in ORIGINS and node not in allowed:
                raise errors.InternalError(f"the graph is not closed: {node!r} is no input of it", where=node.where)
        key = (tuple(map(id, bound)), tuple(map(id, new)))
        found = cls._interned.get(key)
        if found is None:
            made = object.__new__(cls)
            made.inputs, made.outputs, made._nodes, made._sizes = bound, new, None, None
            found = cls._interned.known(key, made)
        return found

    def with_outputs(self, outputs: Sequence[Node]) -> Graph:
        """The graph of other outputs as a function of the same inputs."""
        same = len(outputs) == len(self.outputs) and all(map(operator.is_, outputs, self.outputs))
        return self if same else Graph.of(self.inputs, outputs)

    def __call__(self, *args: Node) -> list[Node]:
        """The outputs with the inputs replaced by `args`: the graph inlined."""
        return replace(self.outputs, dict(zip(self.inputs, args, strict=True)))

    def opened(self, dims: Mapping[Atom, Dimension] | None = None) -> tuple[list[Node], list[Node]]:
        """New inputs and the outputs over them, to build another graph from; dimensions replaced as `dims` says."""
        inputs, known = _renewed(self.inputs, lambda i, type_, name: new_input(type_, name), dims)
        return list(inputs), replace(self.outputs, dict(zip(self.inputs, inputs, strict=True)), known)

    def map_dims(self, change: Callable[[Dimension], Dimension]) -> Graph:
        """The graph with every dimension from outside changed. Dimensions that are values of nodes inside stay."""
        dims = {}
        for atom in self.named_sizes():
            before = types.dim_of(atom)
            after = change(before)
            if after != before:
                dims[atom] = after
        if not dims:
            return self
        inputs, known = _renewed(self.inputs, _bound, dims)  # not `opened`: graphs inside are changed once, not twice
        return Graph.of(inputs, replace(self.outputs, dict(zip(self.inputs, inputs, strict=True)), known))

    def named_sizes(self) -> list[Atom]:
        """The sizes from outside that it and the graphs inside of it use, the oldest first."""
        if self._sizes is None:
            found = {atom for node in self.nodes() for atom in own_atoms(node) if atom.kind == "size"}
            found.update(*[graph.named_sizes() for graph in _graphs_at(self.nodes())])
            self._sizes = sorted(found, key=lambda atom: atom.serial)
        return self._sizes

    def nodes(self) -> list[Node]:
        """Every node, arguments first."""
        if self._nodes is None:
            self._nodes = walk([*self.inputs, *self.outputs])
        return self._nodes

    def __repr__(self) -> str:
        return f"<Graph of {len(self.inputs)} inputs, {len(self.outputs)} outputs>"


def _bound(index: int, type_: Type, name: str | None) -> Node:
    """The input of a graph at an index."""
    return BOUND(index=index, type=type_)


def _renewed(
    inputs: Sequence[Node], make: Callable[[int, Type, str | None], Node], dims: Mapping[Atom, Dimension] | None = None
) -> tuple[tuple[Node, ...], dict[Atom, Dimension]]:
    """Replace nodes by new ones of the same types. Also returns the new forms of the dimensions in these types.

    If the type of node `a` depends on the value of node `b`, the type of the new `a` depends on the value of the new
    `b`.
    """
    known: dict[Atom, Dimension] = dict(dims or {})
    new: dict[int, Node] = {}
    for i, node in enumerate(inputs):
        if node.dim_atom is not None:
            new[i] = make(i, node.type, node.name)
            known[node.dim_atom] = as_dim(new[i])
    for i, node in enumerate(inputs):
        if i not in new:
            type_ = map_dims(node.type, lambda d: types.substitute(d, known)) if known else node.type
            new[i] = make(i, type_, node.name)
    return tuple(new[i] for i in range(len(inputs))), known


def graphs_in(nodes: Iterable[Node]) -> list[Graph]:
    """The graphs that are parameters of nodes, and the graphs inside them. Each is given once, inner graphs first."""
    found = _graphs_at(nodes)
    return bottom_up(found, lambda graph: _graphs_at(graph.nodes())) if found else []


def walk_inside(outputs: Iterable[Node]) -> list[Node]:
    """Every node that `outputs` depend on, then every node of the graphs inside of these."""
    order = walk(outputs)
    return [*order, *[node for graph in graphs_in(order) for node in graph.nodes()]]


def _graphs_at(nodes: Iterable[Node]) -> list[Graph]:
    return [value for node in nodes for value in node.params.values() if isinstance(value, Graph)]


def sizes_are_given(outputs: Iterable[Node]) -> bool:
    """Whether no node computes a size of a graph, or of one inside it: its sizes are numbers and sizes of inputs."""
    return all([node.dim_ref is None for node in walk_inside(outputs)])


def atoms_of(node: Node) -> Iterator[Atom]:
    """The atoms of the dimensions in a node's types and parameters, and in the graph of a loop or branch."""
    yield from own_atoms(node)
    for graph in graphs_in([node]):
        for inner in graph.nodes():
            yield from own_atoms(inner)


def sizes_in(body: Graph, operands: Sequence[Node], first: int = 0) -> tuple[tuple[int, Dimension], ...]:
    """The operands, from position `first` on, whose values are sizes in the graph of an op: the position and the
    dimension of each."""
    known = [(i, inner.dim_atom) for i, inner in enumerate(body.inputs) if i >= first and inner.dim_atom is not None]
    if not known:
        return ()
    # Inner graphs list in `sizes` the values that they use; their own inputs may be the same nodes as ours.
    used = {atom for node in body.nodes() for atom in own_atoms(node)}
    return tuple((i, as_dim(operands[i])) for i, atom in known if atom in used)


def free_variables(outputs: Iterable[Node], inputs: Iterable[Node]) -> list[Node]:
    """The outermost nodes that `outputs` use and that do not depend on `inputs`: what a step function closes over.

    Nodes that depend on constants and dimensions alone are not listed: they belong to the graph. Except: a node whose
    value is a size in the type of an input, an output or a listed node is always listed. A size must be one value
    outside and inside, or the types would not agree."""
    given = sorted(inputs, key=lambda n: n.serial)
    inputs, outputs = set(given), list(outputs)
    outputs += [size for node in given for size in dim_nodes({"types": node.types})]
    order = walk(outputs, inputs)
    depends: set[Node] = set()
    known: set[Node] = set()
    for node in order:
        if node in inputs or any(arg in depends for arg in node.args):
            depends.add(node)
        elif node.op not in ORIGINS and all(arg in known for arg in node.args):
            known.add(node)
    free: dict[Node, None] = {}
    for node in order:
        for arg in node.args if node in depends and node not in inputs else ():
            if arg not in depends and arg not in known:
                free[arg] = None
    for node in outputs:
        if node not in depends and node not in known:
            free[node] = None
    for node in [*given, *outputs, *free]:
        free |= dict.fromkeys(size for size in dim_nodes({"types": node.types}) if size not in depends)
    return list(free)

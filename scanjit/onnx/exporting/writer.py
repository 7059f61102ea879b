"""An ONNX graph that is being written: its nodes, the names of values, and sizes as tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from scanjit import errors, ir, types
from scanjit.ir import Node
from scanjit.kinds import kind_of
from scanjit.onnx import tensors
from scanjit.onnx.exporting.weights import Weight
from scanjit.onnx.extra import package
from scanjit.show.identifiers import writable
from scanjit.types import Atom, Dim, Dimension, Type

Rule = Callable[..., "str | Sequence[str]"]
"""A function that writes a node. It gets the writer, the node and the names of its operands, and returns the name of
the result, or the names of several."""


class UniqueNames:
    """Makes names that are unique in a model."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._counts: dict[str, int] = {}

    def new(self, wanted: str) -> str:
        """A new name: the wanted one, or if it is taken, the wanted one with a number."""
        name = wanted = writable(wanted)
        while not name or name in self._taken:
            count = self._counts.get(wanted, 0)
            self._counts[wanted] = count + 1
            name = f"{wanted}_{count}"
        self._taken.add(name)
        return name


class Writer:
    """Writes a graph: that of a model, or one inside a node.

    Parameters
    ----------
    table : the rules of the ops, by the names of the ops.
    opset : the version of the op set that the model is written for.
    outer : the writer of the graph around it, whose values it may use.
    """

    def __init__(self, table: dict[str, Rule], opset: int, outer: Writer | None = None) -> None:
        self.table, self.opset, self.outer = table, opset, outer
        self.names: UniqueNames = UniqueNames() if outer is None else outer.names
        self.sizes: dict[Atom, tuple[str, int]] = {} if outer is None else outer.sizes
        """For each size, a tensor and an axis that have it."""
        self.root: Writer = self if outer is None else outer.root
        self.initializers: dict[str, Weight] = {}
        self.with_cells = True
        """Whether a scan that is an RNN, LSTM or GRU is written as that op. The root decides, for all graphs inside."""
        self.protos: list[Any] = []
        self._values: dict[Node, str | tuple[str, ...]] = {}
        self._used: dict[Node, dict[int, list[Node]]] = {}
        self._dims: dict[Dimension, str] = {}
        self._constants: dict[Any, str] = {}

    # ---- nodes -------------------------------------------------------------------------------------------------------

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """The name of the output of a new node with one output."""
        return self.several(kind, inputs, 1, **attributes)[0]

    def several(self, kind: str, inputs: Sequence[str], outputs: int, **attributes: Any) -> list[str]:
        """The names of the outputs of a new node with `outputs` outputs."""
        names = [self.names.new(kind.lower()) for _ in range(outputs)]
        kept = {key: value for key, value in attributes.items() if value is not None}
        self.protos.append(
            package().helper.make_node(kind, list(inputs), names, name=names[0] if names else "", **kept)
        )
        return names

    def constant(self, value: Any, dtype: Any = None) -> str:
        """The name of an array, held by a new node; equal arrays share a node."""
        array = np.asarray(value, dtype)
        key = (str(array.dtype), array.shape, array.tobytes())
        found = self._known("_constants", key)
        if found is None:
            found = self._constants[key] = self.op("Constant", value=_tensor(array))
        return found

    def full(self, value: np.ndarray | np.generic, shape: Sequence[Dimension]) -> str:
        """The name of a tensor of one value."""
        return self.op("ConstantOfShape", self.vector(shape), value=_tensor(np.reshape(value, 1)))

    def initializer(self, value: Weight, name: str) -> str:
        """Add a weight to the model; returns its name."""
        name = self.names.new(name)
        self.root.initializers[name] = value
        return name

    def ints(self, *values: int) -> str:
        """The name of a constant vector of int64."""
        return self.constant(values, np.int64)

    def cast(self, name: str, dtype: Any) -> str:
        """The name of a value in another dtype."""
        return self.op("Cast", name, to=tensors.number_of(dtype))

    def where(self, condition: str, a: str, b: str, dtype: Any) -> str:
        """`where(condition, a, b)`. Runtimes lack it for bools: there it is made of And, Or and Not."""
        if not kind_of(dtype).is_mask:
            return self.op("Where", condition, a, b)
        return self.op("Or", self.op("And", condition, a), self.op("And", self.op("Not", condition), b))

    def unsqueeze(self, name: str, *axes: int) -> str:
        """The name of a value with new axes of size 1."""
        return self.op("Unsqueeze", name, self.ints(*axes)) if axes else name

    def transpose(self, name: str, order: Sequence[int]) -> str:
        """The name of a value with its axes in another order."""
        return name if list(order) == sorted(order) else self.op("Transpose", name, perm=list(order))

    # ---- values ------------------------------------------------------------------------------------------------------

    def define(self, node: Node, name: str | Sequence[str]) -> None:
        """Store the name of the value of a node, or the names of its several results."""
        self._values[node] = name if isinstance(name, str) else tuple(name)

    def _known(self, attribute: str, key: Any) -> Any:
        found = getattr(self, attribute).get(key)
        if found is None and self.outer is not None and _means_the_same(key):
            found = self.outer._known(attribute, key)
            if isinstance(found, tuple) and "" in found:  # a loop around this graph stacks only what is used there
                return None
        return found

    def value(self, node: Node) -> str:
        """The name of the value of a node that was written."""
        found = self._known("_values", node)
        if found is None or not isinstance(found, str):
            raise errors.InternalError("a node was not written before it is used", got=repr(node))
        return found

    def used(self, node: Node) -> Mapping[int, Sequence[Node]]:
        """The numbers of the results of a node with several that are used in this graph, and the nodes that use each. A
        result that is an output of this graph uses itself."""
        return self._used.get(node, {})

    def stands_for(self, new: Node, old: Node) -> None:
        """Note that node `new` is written in place of `old`, so that the same results of it are used."""
        self._used[new] = self._used.get(old, {})

    def write(self, roots: Sequence[Node]) -> list[str]:
        """Write some nodes and all nodes that they depend on. Returns the names of the values of `roots`."""
        order = ir.walk(roots, _Seen(self))
        uses = [*((node, arg) for node in order for arg in node.args), *zip(roots, roots, strict=True)]
        for user, part in uses:
            if part.op is ir.PART:
                self._used.setdefault(part.args[0], {}).setdefault(part.params["index"], []).append(user)
        for node in order:
            if self._known("_values", node) is None:
                self._write(node)
        return [self.value(root) for root in roots]

    def _write(self, node: Node) -> None:
        if node.op is ir.PART:
            self.define(node, self._known("_values", node.args[0])[node.params["index"]])
            return
        rule = self.table.get(node.op.name)
        if rule is None:
            raise errors.NotSupportedError(
                f"{node.op.name} has no equivalent in ONNX", got=repr(node), where=node.where
            )
        with errors.located(node.where):
            self.define(node, rule(self, node, *(self.value(arg) for arg in node.operands)))

    # ---- sizes -------------------------------------------------------------------------------------------------------

    def vector(self, dims: Sequence[Dimension]) -> str:
        """The name of a vector of int64 that holds sizes."""
        if not any(isinstance(dim, Dim) for dim in dims):
            return self.ints(*types.as_ints(dims))
        return self.op("Concat", *(self.as_vector(dim) for dim in dims), axis=0)

    def as_vector(self, dim: Dimension) -> str:
        """The name of a vector of int64 that holds one size."""
        return self.ints(dim) if isinstance(dim, int) else self.unsqueeze(self.dim(dim), 0)

    def dim(self, dim: Dimension) -> str:
        """The name of a scalar of int64 that holds a size."""
        if isinstance(dim, int):
            return self.constant(dim, np.int64)
        found = self._known("_dims", dim)
        if found is None:
            found = self._dims[dim] = self._polynomial(dim)
        return found

    def _polynomial(self, dim: Dim) -> str:
        total = ""
        for monomial, factor in sorted(dim.terms, key=lambda term: not term[0]):
            term = "" if factor == 1 and monomial else self.constant(factor, np.int64)
            for atom in monomial:
                term = self.op("Mul", term, self._atom(atom)) if term else self._atom(atom)
            total = self.op("Add", total, term) if total else term
        return total

    def _atom(self, atom: Atom) -> str:
        if atom.kind == "size":
            if atom not in self.sizes:
                raise errors.NotSupportedError(f"the size {atom.name} is no size of an input, as it is")
            name, axis = self.sizes[atom]
            return self.op("Gather", self.op("Shape", name), self.constant(axis, np.int64), axis=0)
        if atom.kind == "value":
            node = atom.node
            name = self.value(node)
            return name if node.dtype == np.int64 else self.cast(name, np.int64)
        left, right = map(self.dim, atom.args)
        if atom.kind in ("min", "max"):
            return self.op("Min" if atom.kind == "min" else "Max", left, right)
        if atom.kind == "root":
            return self.cast(self.op("Ceil", self.op("Sqrt", self.cast(left, np.float64))), np.int64)
        positive = types.not_negative(atom.args[1] - 1)
        return self.quotient(left, right, safe=positive) if atom.kind == "//" else self.rest(left, right, safe=positive)

    def quotient(self, a: str, b: str, safe: bool, fits: bool = True) -> str:
        """A quotient of int64, rounded down. Division by 0 gives 0. `safe` says that no divisor is 0, and `fits` that
        `a - a % b` fits into int64."""
        divisor = b if safe else self._not_zero(b)
        found = (
            self.op("Div", self.op("Sub", a, self.op("Mod", a, divisor)), divisor) if fits else self._far(a, divisor)
        )
        return found if safe else self._unless_zero(b, found)

    def _far(self, a: str, b: str) -> str:
        """A quotient of any int64, rounded down. It is first rounded towards zero, and made one less where that rounded
        up: there the two kinds of remainder differ. `-2**63 / -1` would end the process, so `a / -1` is `-a`."""
        minus = self.op("Equal", b, self.constant(-1, np.int64))
        divisor = self.op("Where", minus, self.constant(1, np.int64), b)
        alike = self.op("Equal", self.op("Mod", a, divisor), self.op("Mod", a, divisor, fmod=1))
        down = self.op("Sub", self.op("Div", a, divisor), self.cast(self.op("Not", alike), np.int64))
        return self.op("Where", minus, self.op("Neg", a), down)

    def rest(self, a: str, b: str, safe: bool) -> str:
        """The remainder of such a quotient, which has the sign of the divisor."""
        found = self.op("Mod", a, b if safe else self._not_zero(b))
        return found if safe else self._unless_zero(b, found)

    def _not_zero(self, b: str) -> str:
        return self.op("Where", self.op("Equal", b, self.constant(0, np.int64)), self.constant(1, np.int64), b)

    def _unless_zero(self, b: str, found: str) -> str:
        zero = self.constant(0, np.int64)
        return self.op("Where", self.op("Equal", b, zero), zero, found)

    def refuse(self, node: Node, reason: str, **more: Any) -> errors.NotSupportedError:
        """The error for a node that cannot be written."""
        return errors.NotSupportedError(f"{node.op.name}: {reason}", where=node.where, **more)

    # ---- graphs inside nodes -----------------------------------------------------------------------------------------

    def inner(self, bound: Sequence[Node], names: Sequence[str]) -> Writer:
        """A writer for a graph inside a node of this graph. In it, the nodes in `bound` are the values of this graph
        with the given names."""
        made = Writer(self.table, self.opset, self)
        for node, name in zip(bound, names, strict=True):
            made.define(node, name)
        return made

    def input(self, node: Node, wanted: str) -> Any:
        """The declaration of a new input, which is the value of a node."""
        name = self.names.new(wanted)
        self.define(node, name)
        return self.info(name, node.type)

    def typed(self, nodes: Sequence[Node]) -> list[tuple[str, Type]]:
        """Write some nodes and all nodes that they depend on. Returns the names and types of `nodes`."""
        return [(name, node.type) for name, node in zip(self.write(nodes), nodes, strict=True)]

    def graph(self, name: str, inputs: Sequence[Any], outputs: Sequence[tuple[str, Type]]) -> Any:
        """The graph that was written. Its outputs get new names."""
        infos = [self.info(self.op("Identity", value), type_) for value, type_ in outputs]
        return package().helper.make_graph(self.protos, name, list(inputs), infos)

    def info(self, name: str, type_: Type, shape: Sequence[Any] | None = None) -> Any:
        """The declaration of an input or an output. If no shape is given, the sizes that are numbers are declared."""
        if shape is None:
            shape = [dim if isinstance(dim, int) else None for dim in type_.shape]
        return package().helper.make_tensor_value_info(name, tensors.number_of(type_.dtype), shape)


def _means_the_same(key: Any) -> bool:
    """Whether a node, a size or a constant is the same in all graphs. The inputs of two graphs may be one node."""
    if isinstance(key, Node):
        return key.is_closed
    return not isinstance(key, Dim) or all(atom.kind == "size" or atom.node.is_closed for atom in types.atoms(key))


def _tensor(array: np.ndarray) -> Any:
    """A TensorProto."""
    number = tensors.number_of(array.dtype)
    return package().helper.make_tensor("", number, array.shape, array.tobytes(), raw=True)


class _Seen:
    """The set of nodes that a writer, or a writer of a graph around it, has written. A walk stops at them."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    def __contains__(self, node: object) -> bool:
        return isinstance(node, Node) and self._writer._known("_values", node) is not None

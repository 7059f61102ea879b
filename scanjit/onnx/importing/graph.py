"""The walk over the nodes of an ONNX graph, its subgraphs and the functions that a model defines."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from types import MappingProxyType
from typing import Any

import numpy as np

from scanjit import errors, ir
from scanjit.ir import Node
from scanjit.onnx import tensors
from scanjit.onnx.extra import package
from scanjit.onnx.importing import known
from scanjit.onnx.importing.call import Call
from scanjit.onnx.importing.choices import Choices
from scanjit.onnx.importing.table import TABLE
from scanjit.records import record

_DEFAULT_DOMAINS = ("", "ai.onnx")
_DEEPEST = 64
"""The most levels of nested calls of functions. More are an error, such as those of a function that calls itself."""


@record(frozen=False)
class GraphScope:
    """The names that are visible in a graph, and the versions of the op sets of its nodes.

    `later` maps the names of initializers to functions, which read the value when it is used for the first time.
    """

    versions: Mapping[str, int]
    outer: GraphScope | None = None
    depth: int = 0
    later: Mapping[str, Callable[[], Node]] = MappingProxyType({})
    values: dict[str, Node] = field(default_factory=dict)

    def find(self, name: str) -> Node | None:
        """The value of a name, in this graph or in one around it."""
        scope: GraphScope | None = self
        while scope is not None:
            if name in scope.later and name not in scope.values:
                scope.values[name] = scope.later[name]()
            if name in scope.values:
                return scope.values[name]
            scope = scope.outer
        return None

    def define(self, name: str, node: Node) -> None:
        """Store the value of a name; an error if the name has one already."""
        if name in self.values or name in self.later:
            raise errors.FormatError(f"two things in this graph are called {name!r}")
        self.values[name] = node


class Reader:
    """Reads the graphs of a model.

    Parameters
    ----------
    functions : the functions that the model defines, by domain and name.
    folder : the folder of the model, for data in other files.
    source : the name of the model in errors.
    """

    def __init__(self, functions: Mapping[tuple[str, str], Any], folder: str | None, source: str) -> None:
        self.functions, self.folder, self.source = functions, folder, source
        self.choices = Choices()

    def nodes(self, graph: Any, scope: GraphScope) -> None:
        """Compute all nodes of a graph (or of a function)."""
        for node in graph.node:
            label = f"the node {node.name!r}" if node.name else f"the node that makes {', '.join(node.output)!r}"
            with errors.located(f"{label} ({node.op_type}) of {self.source}"), known.holding():
                results = self._results(node, scope)
                for name, result in zip(node.output, results, strict=False):
                    if name:
                        scope.define(name, result)

    def subgraph(self, graph: Any, inputs: Sequence[Node], outer: GraphScope) -> list[Node]:
        """The outputs of a graph inside a node."""
        if len(graph.input) != len(inputs):
            raise errors.FormatError(
                f"the graph {graph.name!r} has another number of inputs than its node passes to it",
                got=len(graph.input),
                expected=len(inputs),
            )
        scope = GraphScope(outer.versions, outer, outer.depth)
        for value, node in zip(graph.input, inputs, strict=True):
            scope.define(value.name, node)
        for tensor in graph.initializer:
            scope.define(tensor.name, ir.constant(tensors.array_of(tensor, self.folder)))
        self.nodes(graph, scope)
        return [self.output(value.name, scope) for value in graph.output]

    def output(self, name: str, scope: GraphScope) -> Node:
        """The value of an output of a graph."""
        node = scope.find(name)
        if node is None:
            raise errors.FormatError(f"no node of the graph makes its output {name!r}")
        return node

    def result(self, value: Any, scope: GraphScope) -> Node:
        """The value of an output of the model. After a choice between branches, its rank must be the declared one."""
        node, kind = self.output(value.name, scope), value.type.tensor_type
        if kind.HasField("shape") and len(kind.shape.dim) != node.ndim and self.choices.any():
            raise errors.ShapeError(
                f"the output {value.name!r} has another rank than it is declared with",
                got=node.type,
                expected=f"{len(kind.shape.dim)} axes",
            )
        return node

    # ---- one node ----------------------------------------------------------------------------------------------------

    def _results(self, node: Any, scope: GraphScope) -> Sequence[Node]:
        try:
            results = self._computed(node, scope)
        except errors.InternalError as error:
            # Users of this package do not see such an error, as its functions check what they are given.
            raise errors.FormatError(error.what, got=error.got, expected=error.expected, fix=error.fix) from error
        except errors.ScanjitError:
            raise
        except errors.not_from_signal_handler(Exception) as error:  # any error, as no exporter made this file
            raise errors.FormatError(f"this node is not valid ({type(error).__name__}: {error})") from error
        named = _count(node.output)
        if named > len(results):
            raise errors.FormatError(f"{node.op_type} has no {named} outputs", got=list(node.output))
        return results

    def _computed(self, node: Any, scope: GraphScope) -> Sequence[Node]:
        function = self.functions.get((node.domain, node.op_type))
        inputs = [self._input(name, scope) for name in node.input]
        attributes = {a.name: self._attribute(a) for a in node.attribute}
        if function is not None:
            return self._called(function, inputs, attributes, scope)
        standard = node.domain in _DEFAULT_DOMAINS
        rule = TABLE.get(node.op_type if standard else f"{node.domain}.{node.op_type}")
        if rule is None and not standard:
            raise errors.NotSupportedError(f"there is no op {node.op_type!r} of the domain {node.domain!r} here")
        version = max(scope.versions.get(domain, 0) for domain in _DEFAULT_DOMAINS)
        run = lambda graph, inputs: self.subgraph(graph, inputs, scope)
        inside = scope.outer is not None
        count = _count(node.output)
        call = Call(node.op_type, version, inputs, count, attributes, run, inside, self.choices, self.source)
        if rule is None:
            return self._composed(node.op_type, version, inputs, attributes, scope)
        result = rule(call)
        if call.unread():
            raise errors.NotSupportedError(
                f"{node.op_type} has attributes that are not supported", got=", ".join(call.unread())
            )
        return [result] if isinstance(result, Node) else result

    def _input(self, name: str, scope: GraphScope) -> Node | None:
        if not name:
            return None
        node = scope.find(name)
        if node is None:
            raise errors.FormatError(f"no node before this one makes its input {name!r}")
        return node

    def _attribute(self, attribute: Any) -> Any:
        onnx = package()
        kinds = onnx.AttributeProto
        if attribute.type == kinds.TENSOR:
            return np.asarray(tensors.array_of(attribute.t, self.folder))
        if attribute.type in (kinds.STRING, kinds.STRINGS):
            texts = [text.decode("utf-8", "replace") for text in (attribute.s, *attribute.strings)]
            return texts[1:] if attribute.type == kinds.STRINGS else texts[0]
        if attribute.type in (kinds.FLOAT, kinds.INT, kinds.FLOATS, kinds.INTS, kinds.GRAPH):
            return onnx.helper.get_attribute_value(attribute)
        raise errors.NotSupportedError(f"the attribute {attribute.name!r} is of a kind that is not supported")

    # ---- functions: of the model, and those that ONNX defines ops by -------------------------------------------------

    def _called(
        self, function: Any, inputs: Sequence[Node | None], attributes: Mapping[str, Any], scope: GraphScope
    ) -> list[Node]:
        if scope.depth >= _DEEPEST:
            raise errors.FormatError(f"the function {function.name!r} calls itself")
        if len(inputs) > len(function.input):
            raise errors.FormatError(f"the node has more inputs than the function {function.name!r}", got=len(inputs))
        versions = {item.domain: item.version for item in function.opset_import} or scope.versions
        inner = GraphScope(versions, None, scope.depth + 1)
        for name, node in zip(function.input, inputs, strict=False):
            if node is not None:
                inner.define(name, node)
        given = {a.name: self._attribute(a) for a in function.attribute_proto} | dict(attributes)
        bound = type(function)()
        bound.CopyFrom(function)
        _bind(bound.node, given)
        self.nodes(bound, inner)
        return [self.output(name, inner) for name in function.output]

    def _composed(
        self, op: str, version: int, inputs: Sequence[Node | None], attributes: Mapping[str, Any], scope: GraphScope
    ) -> list[Node]:
        """An op that ONNX itself defines by a function of other ops."""
        defs = package().defs
        try:
            schema = defs.get_schema(op, version or defs.onnx_opset_version(), "")
        except errors.not_from_signal_handler(Exception):
            raise errors.NotSupportedError(f"there is no op {op!r}") from None
        if not schema.has_function:
            raise errors.NotSupportedError(f"the op {op!r} is not supported")
        defaults = {
            name: self._attribute(a.default_value) for name, a in schema.attributes.items() if a.default_value.name
        }
        return self._called(schema.function_body, inputs, defaults | dict(attributes), scope)


def _count(names: Sequence[str]) -> int:
    """The number of names up to the last one that is not empty."""
    return max((i + 1 for i, name in enumerate(names) if name), default=0)


def _bind(nodes: Any, given: Mapping[str, Any]) -> None:
    """Replace the references to attributes of a function by their values."""
    for node in nodes:
        kept = []
        for attribute in node.attribute:
            if attribute.ref_attr_name:
                if attribute.ref_attr_name in given:
                    made = package().helper.make_attribute(attribute.name, _proto(given[attribute.ref_attr_name]))
                    kept.append(made)
                continue
            if attribute.HasField("g"):
                _bind(attribute.g.node, given)
            kept.append(attribute)
        copies = [type(a).FromString(a.SerializeToString()) for a in kept]
        del node.attribute[:]
        node.attribute.extend(copies)


def _proto(value: Any) -> Any:
    return package().numpy_helper.from_array(value) if isinstance(value, np.ndarray) else value

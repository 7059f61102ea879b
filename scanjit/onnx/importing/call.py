"""One node of an ONNX graph, as it is passed to the functions of the table."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import field
from typing import Any

import numpy as np

from scanjit import errors, ir
from scanjit.ir import Node
from scanjit.onnx.importing import known
from scanjit.onnx.importing.choices import Choices
from scanjit.ops.expect import expect
from scanjit.ops.probe import ASSERT
from scanjit.ops.shape import RESHAPE
from scanjit.records import record
from scanjit.rewrite.match import at_most
from scanjit.tensor.shapes import specify_shape
from scanjit.tensor.variables import axis_of
from scanjit.types import Dim, Dimension

_REQUIRED: Any = object()


@record(frozen=False)
class Call:
    """A node: its inputs, its attributes, and a function that reads its subgraphs.

    Parameters
    ----------
    op : the type of the op.
    version : the version of the op set that the model uses.
    inputs : a node for each input; None where an optional one is left out.
    outputs : how many outputs the node names, up to the last one that has a name.
    attributes : the values of the attributes by name, as Python objects; graphs are protocol buffers.
    run : `run(graph, inputs)` gives the outputs of one of its graphs.
    in_subgraph : whether the node is in a branch, or in the body of a loop.
    choices : the choices between two branches whose condition is unknown while the model is read.
    source : the name of the model in errors.
    """

    op: str
    version: int
    inputs: Sequence[Node | None]
    outputs: int
    attributes: dict[str, Any]
    run: Callable[[Any, Sequence[Node]], list[Node]]
    in_subgraph: bool
    choices: Choices
    source: str
    _read: set[str] = field(default_factory=set)

    def unread(self) -> list[str]:
        """The attributes that no function has read: they are not supported."""
        return sorted(set(self.attributes) - self._read)

    # ---- inputs ------------------------------------------------------------------------------------------------------

    def optional(self, i: int) -> Node | None:
        """An input, or None if it is left out."""
        return self.inputs[i] if i < len(self.inputs) else None

    def input(self, i: int) -> Node:
        """An input; an error if it is left out."""
        node = self.optional(i)
        if node is None:
            raise errors.FormatError(f"{self.op} lacks its input {i}", got=f"{len(self.inputs)} inputs")
        return node

    def all(self) -> list[Node]:
        """All inputs of a node that takes any number, of one dtype."""
        nodes = [self.input(i) for i in range(max(len(self.inputs), 1))]
        return self.alike(*nodes)

    def alike(self, *nodes: Node) -> list[Node]:
        """The given nodes; an error if their dtypes differ."""
        if len({node.dtype for node in nodes}) > 1:
            raise errors.DtypeError(
                f"the inputs of {self.op} must have one dtype", got=", ".join(str(node.dtype) for node in nodes)
            )
        return list(nodes)

    def stretched(self, *nodes: Node) -> list[Node]:
        """The given nodes, which are broadcast with each other; an error if their dtypes differ."""
        shapes = [node.type.shape for node in self.alike(*nodes)]
        return [stretched(node, shapes, self.op) for node in nodes]

    def pair(self) -> list[Node]:
        """The two inputs of a node that takes two of one dtype."""
        return self.alike(self.input(0), self.input(1))

    # ---- attributes --------------------------------------------------------------------------------------------------

    def attribute(self, name: str, kind: type | tuple[type, ...], default: Any = _REQUIRED) -> Any:
        """The value of an attribute, which must be of some type."""
        self._read.add(name)
        if name not in self.attributes:
            if default is _REQUIRED:
                raise errors.FormatError(f"{self.op} lacks its attribute {name!r}")
            return default
        value = self.attributes[name]
        if not isinstance(value, kind):
            raise errors.FormatError(f"the attribute {name!r} of {self.op} is of another kind", got=repr(value)[:80])
        return value

    def ignore(self, *names: str) -> None:
        """Mark attributes as read that do not change the result."""
        self._read.update(names)

    def number(self, name: str, default: Any = _REQUIRED) -> Any:
        """An attribute that is a float."""
        value = self.attribute(name, (float, int), default)
        return value if value is None else float(value)

    def integer(self, name: str, default: Any = _REQUIRED) -> Any:
        """An attribute that is an integer."""
        return self.attribute(name, int, default)

    def flag(self, name: str, default: bool = False) -> bool:
        """An attribute that is 0 or 1."""
        return bool(self.integer(name, int(default)))

    def text(self, name: str, default: Any = _REQUIRED) -> Any:
        """An attribute that is a text."""
        return self.attribute(name, str, default)

    def choice(self, name: str, default: str, known: Collection[str], term: str = "") -> str:
        """An attribute whose text is in `known`. `term` is its name in errors, as "mode of Resize" in "there is no such
        mode of Resize"."""
        value: str = self.text(name, default)
        if value not in known:
            raise errors.FormatError(f"there is no such {term or name}", got=value)
        return value

    def axis(self, x: Node, default: Any = _REQUIRED) -> int:
        """The attribute `axis`, counted from the first axis of a tensor."""
        return axis_of(self.integer("axis", default), x.ndim)

    def integers(self, name: str, default: Any = _REQUIRED) -> Any:
        """An attribute that is a list of integers."""
        return self._several(name, int, default)

    def numbers(self, name: str, default: Any = _REQUIRED) -> Any:
        """An attribute that is a list of floats."""
        return self._several(name, (float, int), default)

    def texts(self, name: str, default: Any = _REQUIRED) -> Any:
        """An attribute that is a list of texts."""
        return self._several(name, str, default)

    def _several(self, name: str, kind: Any, default: Any) -> Any:
        values = self.attribute(name, list, default)
        if name in self.attributes and not all(isinstance(value, kind) for value in values):
            raise errors.FormatError(f"the attribute {name!r} of {self.op} is of another kind", got=repr(values)[:80])
        return values

    # ---- attributes that have become inputs in a later version -------------------------------------------------------

    def ints(self, name: str, i: int, default: Any = _REQUIRED) -> Any:
        """Integers that must be known, from an attribute or from an input."""
        return self._either(name, i, default, known.ints)

    def dims(self, name: str, i: int, default: Any = _REQUIRED) -> Any:
        """Integers that may be symbolic sizes, from an attribute or from an input."""
        return self._either(name, i, default, known.dims)

    def _either(self, name: str, i: int, default: Any, read: Callable[[Node, str], tuple[Dimension, ...]]) -> Any:
        values = self.integers(name, None)
        if values is not None:
            return tuple(values)
        node = self.optional(i)
        if node is not None:
            return read(node, f"the input {name!r} of {self.op}")
        if default is _REQUIRED:
            raise errors.FormatError(f"{self.op} lacks {name!r}")
        return default

    def expect(self, x: Node, *bounds: tuple[Dimension, Dimension, str]) -> Node:
        """`x`, after a check that `left <= right` for each `(left, right, text)`; the text is the error.

        In a branch or a loop, sizes that are not known are checked when it runs: otherwise they may be any.
        """
        for left, right, text in bounds:
            if not self.in_subgraph or isinstance(right - left, int):
                x = expect(x, (left, right, text), error="shape")
            else:
                fits = ir.dim_node(left) <= ir.dim_node(right)
                x = ASSERT(x, fits, message=text.format(left=left, right=right))
        return x

    def scalar_input(self, i: int, default: Any = _REQUIRED) -> Any:
        """The value of an input that must be a number known at this time."""
        node = self.optional(i)
        if node is None and default is not _REQUIRED:
            return default
        return known.scalar(self.input(i), f"the input {i} of {self.op}")

    def values(self, name: str, i: int) -> list[float] | None:
        """Floats that must be known, from an attribute or from an input; None if there is neither."""
        found = self.numbers(name, None)
        node = self.optional(i)
        if found is not None or node is None:
            return found
        value = node.params["variable"].get_value() if node.op is ir.SHARED else known.array(node)
        if value is None:
            raise self.refuse(f"its input {name!r} must be known when the model is loaded", got=node)
        return [float(v) for v in value.reshape(-1)]

    # ---- graphs ------------------------------------------------------------------------------------------------------

    def graph(self, name: str) -> Any:
        """An attribute that is a graph."""
        self._read.add(name)
        value = self.attributes.get(name)
        if not hasattr(value, "node"):
            raise errors.FormatError(f"{self.op} lacks its graph {name!r}")
        return value

    def refuse(self, reason: str, **more: Any) -> errors.NotSupportedError:
        """The error for a node that is valid, but not supported for this reason."""
        return errors.NotSupportedError(f"{self.op}: {reason}", **more)


def scalar(node: Node) -> Node:
    """A node as a scalar. Models also give scalars as vectors of one element."""
    if node.ndim == 0:
        return node
    return RESHAPE(node, shape=())


def stretched(x: Node, shapes: Sequence[tuple[Dimension, ...]], op: str) -> Node:
    """A node that is broadcast with shapes. An axis with at most one element, such as `x[:1]` of an axis of any size,
    has one if a shape has more there. That is checked when a function runs."""
    sizes = list(x.type.shape)
    for axis, size in enumerate(sizes, start=-len(sizes)):
        others = [shape[axis] for shape in shapes if len(shape) >= -axis]
        if isinstance(size, Dim) and at_most(size, 1) and not all(at_most(other, 1) for other in others):
            sizes[axis] = 1
    return specify_shape(x, sizes, f"an operand of {op}")


def like(value: Any, node: Node) -> Node:
    """A number, as a constant in the dtype of a node."""
    return ir.constant(np.asarray(value), node.dtype)

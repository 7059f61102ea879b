"""`load`: an ONNX model as expressions and shared variables."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from scanjit import errors, ir, types
from scanjit.ir import Node
from scanjit.onnx import functions as tensor
from scanjit.onnx import tensors
from scanjit.onnx.extra import package
from scanjit.onnx.importing.graph import Reader, Scope
from scanjit.ops.elementwise import cast
from scanjit.runtime.function import CompiledFunction, function
from scanjit.runtime.shared import SharedVariable
from scanjit.types import Dimension, Type

_OLDEST = 7
"""The first op set with broadcasting as it is now."""


def load(source: Any) -> Model:
    """An ONNX model, as expressions to build on.

    Sizes with a name in the model are symbolic sizes of that name. Weights are shared variables: tensors of floats with
    one axis or more; numbers, and tensors of integers (which are shapes and indices), are constants.

    `RNN`, `LSTM`, `GRU` (with all their attributes), `Scan`, `Loop` and `If` are read, and the ops that
    `scanjit.onnx.importing.table` lists: arithmetic, functions, activations, products, reductions, shapes, indices.

    Parameters
    ----------
    source : path, bytes, or `onnx.ModelProto`
        Data that a model keeps in other files is read if the model is given by its path, from its own folder only.

    Returns
    -------
    Model

    Raises
    ------
    NotSupportedError
        For ops, dtypes and op sets that there is nothing for here, or if the package `onnx` is not installed. The
        error names the node.
    FormatError, ShapeError, DtypeError
        For a model that is not valid. The error names the node. Nothing in a model is run as code, and nothing is made
        of a size that the file does not hold data for.

    Examples
    --------
    >>> import numpy as np
    >>> import scanjit as sj
    >>> x, w = sj.tensor(("n", 2), name="x"), sj.shared([[1.0], [10.0]], "w")
    >>> data = sj.onnx.export(([x], [sj.tanh(x) @ w])).SerializeToString()
    >>> model = sj.onnx.load(data)
    >>> model.inputs, sorted(model.initializers)
    ((<x: float64(n, 2)>,), ['w'])
    >>> model.function(mode="reference")(np.zeros((3, 2)))
    array([[0.],
           [0.],
           [0.]])
    """
    proto, folder, label = _proto(source)
    try:
        return Model(proto, folder, label)
    except errors.ScanjitError:
        raise
    except Exception as error:  # whatever a file that nobody made leads to
        raise errors.FormatError(
            f"{label} is not a valid ONNX model", got=f"{type(error).__name__}: {error}"
        ) from error


def _proto(source: Any) -> tuple[Any, str | None, str]:
    """The model, its folder if it has one, and what to call it."""
    onnx = package()
    if isinstance(source, onnx.ModelProto):
        return source, None, "the model"
    folder, label, data = None, "the model", source
    if isinstance(source, str | os.PathLike):
        path = os.fspath(source)
        folder, label = os.path.dirname(os.path.abspath(path)), repr(os.path.basename(path))
        with open(path, "rb") as file:
            data = file.read()
    if not isinstance(data, bytes | bytearray | memoryview):
        raise errors.ArgumentError(
            "a model is loaded from a path, bytes, or an onnx.ModelProto", got=f"{type(source).__name__}"
        )
    proto = onnx.ModelProto()
    try:
        proto.ParseFromString(bytes(data))
    except Exception as error:
        raise errors.FormatError(f"{label} is no ONNX model, or was cut", got=str(error)) from None
    return proto, folder, label


class Model:
    """An ONNX model that was read: made by `load`.

    Attributes
    ----------
    name : str
    inputs : tuple of Node
        The symbols that the outputs are expressions of, with the names that they have in the model.
    outputs : tuple of Node
    output_names : tuple of str
    initializers : dict from names to SharedVariable
        The weights; setting one changes what functions of the model compute.

    Examples
    --------
    Calling a model on other expressions puts them in place of its inputs, with the same weights:

    >>> import scanjit as sj
    >>> x = sj.tensor(("n",), name="x")
    >>> model = sj.onnx.load(sj.onnx.export(([x], [2 * x, x + 1])))
    >>> y = sj.tensor((3,), name="y")
    >>> double, more = model(y * 10)
    >>> sj.function([y], [double, more], mode="reference")([1.0, 2.0, 3.0])
    [array([20., 40., 60.]), array([11., 21., 31.])]
    """

    def __init__(self, proto: Any, folder: str | None, label: str) -> None:
        self._proto, self._label = proto, label
        self._versions = {item.domain: item.version for item in proto.opset_import}
        version = max(self._versions.get("", 0), self._versions.get("ai.onnx", 0))
        if not version > 0 or version < _OLDEST:
            raise errors.NotSupportedError(
                f"{label} belongs to an op set that is not supported",
                got=f"version {version}",
                expected=f"{_OLDEST} or newer",
                fix="convert it with onnx.version_converter",
                where="",
            )
        named = [proto.graph, *proto.graph.input, *proto.graph.output, *proto.graph.initializer]
        if not all(isinstance(each.name, str) for each in named):  # bytes, where they are no text
            raise errors.FormatError(f"{label} has names that are no text", where="")
        functions = {(f.domain, f.name): f for f in proto.functions}
        self._reader = Reader(functions, folder, label)
        self.name: str = proto.graph.name
        self._constants: dict[str, Node] = {}
        self.initializers: dict[str, SharedVariable] = {}
        with errors.located(label):
            self._read_initializers(proto.graph)
            declared = [value for value in proto.graph.input if not self._has(value.name)]
            sizes: dict[str, Dimension] = {}
            self.inputs: tuple[Node, ...] = tuple(_symbol(value, sizes) for value in declared)
            self.output_names: tuple[str, ...] = tuple(value.name for value in proto.graph.output)
            self.outputs: tuple[Node, ...] = self._computed(self.inputs)

    def _has(self, name: str) -> bool:
        return name in self.initializers or name in self._constants

    def _read_initializers(self, graph: Any) -> None:
        if graph.sparse_initializer:
            raise errors.NotSupportedError("sparse initializers are not supported")
        for value in graph.initializer:
            if self._has(value.name):
                raise errors.FormatError(f"two initializers are called {value.name!r}")
            array = tensors.array_of(value, self._reader.folder)
            if array.dtype.kind == "f" and array.ndim:
                kind = Type(array.dtype, array.shape)
                self.initializers[value.name] = SharedVariable(array, kind, value.name, self._label)
            else:
                self._constants[value.name] = ir.constant(array)

    def _computed(self, inputs: tuple[Node, ...]) -> tuple[Node, ...]:
        scope = Scope(self._versions)
        for name, variable in self.initializers.items():
            scope.define(name, variable.__scanjit_node__())
        for name, node in self._constants.items():
            scope.define(name, node)
        names = [value.name for value in self._proto.graph.input if not self._has(value.name)]
        for name, node in zip(names, inputs, strict=True):
            scope.define(name, node)
        self._reader.nodes(self._proto.graph, scope)
        return tuple(self._reader.output(name, scope) for name in self.output_names)

    def __call__(self, *args: Any, **named: Any) -> Any:
        """The outputs for these values of the inputs, by position or by name: expressions or arrays.

        Returns
        -------
        Node, or tuple of them
            As many as the model has outputs.
        """
        given = self._given(args, named)
        fitted: list[Node] = []
        sizes: dict[types.Atom, Dimension] = {}
        for symbol, value in zip(self.inputs, given, strict=True):
            fitted.append(_fitted(symbol, value, sizes))
        outputs = self._computed(tuple(fitted))
        return outputs[0] if len(outputs) == 1 else outputs

    def _given(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> list[Any]:
        names = [symbol.name for symbol in self.inputs]
        rest = names[len(args) :]
        if len(args) > len(names) or set(named) != set(rest):
            raise errors.ArgumentError(
                "a model is called with a value for each of its inputs",
                got=f"{len(args)} by position, and {', '.join(map(repr, named)) or 'none'} by name",
                expected=", ".join(map(repr, names)),
            )
        return [*args, *(named[name] for name in rest if name is not None)]

    def function(self, mode: str = "numba", name: str | None = None) -> CompiledFunction:
        """A compiled function from the inputs to the outputs: one comes back bare, several as a list.

        Parameters
        ----------
        mode : str
            As for `scanjit.function`.
        name : str, optional
            By default the model's.

        Examples
        --------
        >>> import scanjit as sj
        >>> import scanjit.onnx
        >>> x = sj.tensor(("n",), name="x")
        >>> sj.onnx.load(sj.onnx.export(([x], [2 * x]))).function(mode="reference")([1.0, 2.0])
        array([2., 4.])
        """
        outputs = self.outputs[0] if len(self.outputs) == 1 else list(self.outputs)
        return function(list(self.inputs), outputs, name=name or self.name or "model", mode=mode)

    def __repr__(self) -> str:
        return f"<ONNX model {self.name!r}: {len(self.inputs)} inputs, {len(self.outputs)} outputs>"


# ---- inputs ----------------------------------------------------------------------------------------------------------


def _symbol(value: Any, sizes: dict[str, Dimension]) -> Node:
    """The symbol of an input of the graph."""
    what = f"the input {value.name!r}"
    if not value.type.HasField("tensor_type"):
        raise errors.NotSupportedError(f"{what} is no tensor", got=value.type.WhichOneof("value"))
    kind = value.type.tensor_type
    dtype = tensors.dtype_of(kind.elem_type, what)
    if not kind.HasField("shape"):
        raise errors.NotSupportedError(f"{what} has a rank that is not known")
    shape = tuple(_dimension(dim, sizes, what) for dim in kind.shape.dim)
    return ir.new_input(Type(dtype, shape), value.name)


def _dimension(dim: Any, sizes: dict[str, Dimension], what: str) -> Dimension:
    if dim.HasField("dim_value"):
        if dim.dim_value < 0:
            raise errors.FormatError(f"{what} has a negative size", got=dim.dim_value)
        return dim.dim_value
    name = dim.dim_param
    if not name:
        return types.size()
    if name not in sizes:
        sizes[name] = types.size(name)
    return sizes[name]


def _fitted(symbol: Node, value: Any, sizes: dict[types.Atom, Dimension]) -> Node:
    """What stands for an input: of its dtype, and of sizes that agree with it and with the other inputs."""
    node = tensor.as_tensor(value)
    label = f"the input {symbol.name!r} of the model"
    if not np.can_cast(node.dtype, symbol.dtype, "safe"):
        raise errors.DtypeError(f"{label} has another dtype", got=node.type, expected=symbol.type)
    if node.ndim != symbol.ndim:
        raise types.other_shape(label, (node.type.shape, symbol.type.shape))
    shape: list[Dimension] = []
    for declared, own in zip(symbol.type.shape, node.type.shape, strict=True):
        atom = types.as_atom(declared)
        shape.append(declared if atom is None else sizes.setdefault(atom, own))
    return tensor.specify_shape(cast(node, symbol.dtype), shape, label)

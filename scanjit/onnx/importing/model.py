"""`load`: an ONNX model as expressions and shared variables."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping, Sequence
from typing import Any

from scanjit import errors, ir, types
from scanjit.ir import Node
from scanjit.kinds import kind_of
from scanjit.onnx import tensors
from scanjit.onnx.extra import package
from scanjit.onnx.importing.graph import GraphScope, Reader
from scanjit.onnx.importing.inputs import Inputs, fitted
from scanjit.records import replace
from scanjit.runtime.function import CompiledFunction, function
from scanjit.runtime.function_graph import Mode
from scanjit.runtime.shared import SharedVariable
from scanjit.types import Dimension, Type

_OLDEST = 7
"""The first op set that broadcasts as NumPy does."""


def load(
    source: Any,
    *,
    inputs: Mapping[str, Any] | None = None,
    sizes: Mapping[str, int | Sequence[int | None]] | None = None,
) -> Model:
    """An ONNX model, as expressions to build on.

    Sizes with a name in the model are symbolic sizes of that name. Weights are shared variables: tensors of floats with
    one axis or more; numbers, and tensors of integers (which are shapes and indices), are constants.

    `RNN`, `LSTM`, `GRU` (with all their attributes), `Scan`, `Loop` and `If` are read, and the ops that
    `scanjit.onnx.importing.table` lists: arithmetic, functions, activations, products, reductions, shapes, indices.

    Parameters
    ----------
    source : path, bytes, or `onnx.ModelProto`
        Data that a model keeps in other files is read if the model is given by its path, from its own folder only.
    inputs : dict from names of inputs to arrays or numbers, optional
        Inputs that always have these values. They are constants while the model is read, so a branch that they exclude
        is not looked at.
    sizes : dict, optional
        From the name of a size to its value, or from the name of an input to its shape, in which None is a size that
        stays as the model declares it. A size that is known takes part in all checks, and gives faster code.

    Returns
    -------
    Model

    Raises
    ------
    NotSupportedError
        For ops, dtypes and op sets that are not supported, or if the package `onnx` is not installed. The
        error names the node.
    FormatError, ShapeError, DtypeError
        For a model that is not valid. The error names the node. Nothing in a model is run as code, and nothing is made
        of a size that the file does not hold data for.
    ArgumentError
        For an input or a size that the model does not have.

    Notes
    -----
    A branch whose condition is known is the only one that is read. Where the condition depends on sizes that are not
    known, and the two branches differ in rank, as in `If(x.shape[k] == 1) {Squeeze} else {Identity}`, the model is read
    for one of them: the one that most sizes take, or if the rest of the model does not fit that one, the other. A call
    with sizes that would take the branch that was left out is an `AssertError`.

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

    Sizes and inputs that never change:

    >>> sj.onnx.load(data, sizes={"n": 3}).outputs
    (<contract: float64(3, 1)>,)
    >>> sj.onnx.load(data, inputs={"x": np.zeros((3, 2))}).inputs
    ()
    """
    proto, folder, label = _proto(source)
    try:
        return Model(proto, folder, label, dict(inputs or {}), dict(sizes or {}))
    except errors.ScanjitError:
        raise
    except errors.not_from_signal_handler(Exception) as error:  # any error, as no exporter made this file
        raise errors.FormatError(
            f"{label} is not a valid ONNX model", got=f"{type(error).__name__}: {error}"
        ) from error


def _proto(source: Any) -> tuple[Any, str | None, str]:
    """The protocol buffer of a model, its folder (None if it has none), and its name in errors."""
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
    except errors.not_from_signal_handler(Exception) as error:
        raise errors.FormatError(f"{label} is not an ONNX model, or is truncated", got=str(error)) from None
    return proto, folder, label


class Model:
    """An ONNX model that was read: made by `load`.

    Attributes
    ----------
    name : str
    inputs : tuple of Node
        The symbols that the outputs are expressions of, with the names that they have in the model; without the inputs
        that `load` was given values for.
    outputs : tuple of Node
    output_names : tuple of str
    initializers : dict from names to SharedVariable
        The weights that the outputs use; setting one changes what functions of the model compute.

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

    def __init__(
        self, proto: Any, folder: str | None, label: str, values: Mapping[str, Any], sizes: Mapping[str, Any]
    ) -> None:
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
        # protocol buffers give bytes where a name is not UTF-8
        if not all(isinstance(each.name, str) for each in named):
            raise errors.FormatError(f"{label} has names that are not text", where="")
        functions = {(f.domain, f.name): f for f in proto.functions}
        self._reader = Reader(functions, folder, label)
        self.name: str = proto.graph.name
        self.initializers: dict[str, SharedVariable] = {}
        with errors.located(label):
            self._initializers = self._listed(proto.graph)
            declared = [value for value in proto.graph.input if value.name not in self._initializers]
            made = Inputs(declared, values, sizes)
            self._fixed, self._names = made.values, tuple(made.symbols)
            self.inputs: tuple[Node, ...] = tuple(made.symbols.values())
            self.output_names: tuple[str, ...] = tuple(value.name for value in proto.graph.output)
            self.outputs: tuple[Node, ...] = self._computed(self.inputs)
        used = {node.params["variable"] for node in ir.walk(self.outputs) if node.op is ir.SHARED}
        self.initializers = {name: variable for name, variable in self.initializers.items() if variable in used}

    def _listed(self, graph: Any) -> dict[str, Any]:
        """The initializers by name: read when a node asks for them."""
        if graph.sparse_initializer:
            raise errors.NotSupportedError("sparse initializers are not supported")
        found: dict[str, Any] = {}
        for value in graph.initializer:
            if value.name in found:
                raise errors.FormatError(f"two initializers are called {value.name!r}")
            found[value.name] = value
        return found

    def _initializer(self, name: str) -> Node:
        """The value of an initializer: a shared variable for floats with axes, else a constant."""
        if name in self.initializers:
            return self.initializers[name].__scanjit_node__()
        array = tensors.array_of(self._initializers[name], self._reader.folder)
        if not kind_of(array.dtype).floating or not array.ndim:
            return ir.constant(array)
        made = SharedVariable(array, Type(array.dtype, array.shape), name, self._label)
        self.initializers[name] = made
        return made.__scanjit_node__()

    def _computed(self, inputs: tuple[Node, ...]) -> tuple[Node, ...]:
        return self._reader.choices.fitting(lambda: self._walked(inputs))

    def _walked(self, inputs: tuple[Node, ...]) -> tuple[Node, ...]:
        scope = GraphScope(
            self._versions, later={n: functools.partial(self._initializer, n) for n in self._initializers}
        )
        for name, node in [*self._fixed.items(), *zip(self._names, inputs, strict=True)]:
            scope.define(name, node)
        self._reader.nodes(self._proto.graph, scope)
        return tuple(self._reader.result(value, scope) for value in self._proto.graph.output)

    def __call__(self, *args: Any, **named: Any) -> Any:
        """The outputs for these values of the inputs, by position or by name: expressions or arrays.

        Returns
        -------
        Node, or tuple of them
            As many as the model has outputs.
        """
        given = self._values_of_inputs(args, named)
        sizes: dict[types.Atom, Dimension] = {}
        outputs = self._computed(tuple(fitted(*pair, sizes) for pair in zip(self.inputs, given, strict=True)))
        return outputs[0] if len(outputs) == 1 else outputs

    def _values_of_inputs(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> list[Any]:
        names = [symbol.name for symbol in self.inputs]
        rest = names[len(args) :]
        if len(args) > len(names) or set(named) != set(rest):
            raise errors.ArgumentError(
                "a model is called with a value for each of its inputs",
                got=f"{len(args)} by position, and {', '.join(map(repr, named)) or 'none'} by name",
                expected=", ".join(map(repr, names)),
            )
        return [*args, *(named[name] for name in rest if name is not None)]

    def function(self, mode: Mode = "numba", name: str | None = None) -> CompiledFunction[Any]:
        """A compiled function from the inputs to the outputs. It returns one output as an array, several ones as a
        list.

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
        made = function(list(self.inputs), outputs, name=name or self.name or "model", mode=mode)
        made.graph = replace(made.graph, names=self.output_names)
        return made

    def __repr__(self) -> str:
        return f"<ONNX model {self.name!r}: {len(self.inputs)} inputs, {len(self.outputs)} outputs>"

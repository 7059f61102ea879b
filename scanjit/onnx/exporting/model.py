"""`export` and `save`: a function as an ONNX model."""

import itertools
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from scanjit import errors, ir, types
from scanjit.ir import INPUT, SHARED, Node
from scanjit.onnx.exporting.table import TABLE
from scanjit.onnx.exporting.weights import Weight, add, encoded, nbytes, pieces
from scanjit.onnx.exporting.writer import Writer
from scanjit.onnx.extra import package
from scanjit.records import replace
from scanjit.runtime.files import replace_file
from scanjit.runtime.function import CompiledFunction, function
from scanjit.runtime.function_graph import check_complete
from scanjit.show.identifiers import writable
from scanjit.types import Atom, Dim
from scanjit.version import __version__

OLDEST, NEWEST = 13, 25
"""The op sets that models can be written for."""
MOST_BYTES = 2**31 - 2**20
"""Protocol buffers hold less than 2 GB. Models with more bytes of weights keep them in a second file."""


def export(source: Any, opset: int = 18, name: str | None = None, cells: bool = True) -> Any:
    """A function as an ONNX model.

    Scans become `Scan` (or `Loop`, if a condition ends them or they have no sequences), branches `If`. Shared variables
    become initializers with the values that they have now. Sizes with a name keep it; computed sizes are computed from
    the shapes of the inputs.

    Parameters
    ----------
    source : CompiledFunction, or a pair (inputs, outputs)
        As for `scanjit.function`: a list of symbols, and an expression or a list or dict of them. A dict's keys are
        the names of the outputs; those of a function of a model that was loaded are the model's.
    opset : int
        The version of the op set, 13 to 25.
    name : str, optional
        By default the function's.
    cells : bool
        Whether scans that compute an RNN, an LSTM or a GRU are written as these ops, for which runtimes have fast code.
        Their weights then have the layout of the op.

    Returns
    -------
    onnx.ModelProto

    Raises
    ------
    NotSupportedError
        For ops without an equivalent (random numbers, factorizations), named with the line that made them; for
        functions that update shared variables, as models have no state; or if the package `onnx` is not installed.

    Notes
    -----
    `print_` and `assert_` pass their operand on: the model prints nothing and checks nothing.

    ONNX Runtime 1.32 refuses models with float64 in `RNN`, `LSTM` and `GRU` (which `cells=False` writes as scans), in
    convolutions and means over windows, and in `erf`, `tan`, `sinh`, `cosh` and the inverses of functions like them:
    it has them for float32.

    Examples
    --------
    >>> import scanjit as sj
    >>> x = sj.tensor(("T", 3), "float32", "x")
    >>> h = sj.scan(lambda row, before: 0.5 * before + row, x, sj.zeros(3, "float32"))
    >>> model = sj.onnx.export(([x], {"h": h}))
    >>> [node.op_type for node in model.graph.node][-2:], model.graph.output[0].name
    (['Scan', 'Identity'], 'h')
    """
    model, weights = _made(source, opset, name, cells)
    add(model, weights)
    return model


def _made(source: Any, opset: int, name: str | None, cells: bool) -> tuple[Any, dict[str, Weight]]:
    """The ModelProto without its weights, and the weights by name."""
    onnx = package()
    if type(opset) is not int or not OLDEST <= opset <= NEWEST:
        raise errors.ArgumentError(
            "opset must be a version that can be written", got=opset, expected=f"{OLDEST} to {NEWEST}"
        )
    inputs, outputs, label = _read(source)
    graph, weights = _Exported(inputs, outputs, opset, cells).graph(writable(name or label))
    model = onnx.helper.make_model(
        graph,
        opset_imports=[onnx.helper.make_opsetid("", opset)],
        producer_name="scanjit",
        producer_version=__version__,
    )
    model.ir_version = onnx.helper.find_min_ir_version_for(list(model.opset_import))
    return model, weights


def save(
    source: Any, path: str | os.PathLike[str], opset: int = 18, name: str | None = None, cells: bool = True
) -> None:
    """Write a function to a file as an ONNX model. See `export` for the arguments.

    If the weights have more than 2 GB, which is more than a model's file can hold, they are written to a second file
    beside it, whose name is that of the first with `.data` at its end.

    Examples
    --------
    >>> import os, tempfile, scanjit as sj
    >>> x = sj.tensor(("n",), name="x")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "double.onnx")
    ...     sj.onnx.save(([x], 2 * x), path)
    ...     sj.onnx.load(path).inputs
    (<x: float64(n)>,)
    """
    model, weights = _made(source, opset, name, cells)
    beside = f"{os.path.basename(path)}.data" if sum(map(nbytes, weights.values())) > MOST_BYTES else None
    with replace_file(path) as file:
        file.writelines(encoded(model, weights, beside))
        if beside is not None:
            file.flush()  # if there is no space for the model, its old weights stay, too
            with replace_file(os.path.join(os.path.dirname(path), beside)) as data:
                data.writelines(itertools.chain(*map(pieces, weights.values())))


# ---- the source ------------------------------------------------------------------------------------------------------


def _read(source: Any) -> tuple[list[Node], dict[str, Node], str]:
    """The inputs, the outputs by name, and the name of the model."""
    if isinstance(source, CompiledFunction):
        graph, label = source.graph, source.name
    elif isinstance(source, tuple | list) and len(source) == 2:
        made = function(source[0], source[1], mode="reference")
        graph, label = replace(made.graph, updates=()), "model"  # without the updates that variables have by default
    else:
        raise errors.ArgumentError(
            "the source of an ONNX model must be a compiled function, or a pair of inputs and outputs",
            got=f"{type(source).__name__}",
        )
    if graph.updates:
        variables = ", ".join(variable.label for variable, _ in graph.updates)
        raise errors.NotSupportedError(
            "an ONNX model has no state, and this function updates shared variables",
            got=variables,
            fix="export (inputs, outputs), with the new values among the outputs",
        )
    if graph.tree is None:
        raise errors.ArgumentError("a function without outputs is no model")
    check_complete(graph, label)
    names = list(graph.names) or [_plain(path) for path in graph.tree.paths()]
    unique: dict[str, Node] = {}
    for i, (key, node) in enumerate(zip(names, graph.outputs, strict=True)):
        key = key or ("output" if len(names) == 1 else f"output_{i}")
        unique[key if key not in unique else f"{key}_{i}"] = node
    return list(graph.inputs), unique, label


def _plain(path: str) -> str:
    """A name made of the path of an output: `h_0` of "['h'][0]". A place in a list, such as "[0]", makes no name."""
    found = re.sub(r"[^\w]+", "_", path, flags=re.ASCII).strip("_")
    return "" if re.fullmatch(r"\[\d+\]", path) else found


# ---- the graph -------------------------------------------------------------------------------------------------------


class _Exported:
    """Writes the graph of a model."""

    def __init__(self, inputs: Sequence[Node], outputs: Mapping[str, Node], opset: int, cells: bool) -> None:
        self.inputs, self.outputs = inputs, outputs
        self.writer = Writer(TABLE, opset)
        self.writer.with_cells = cells
        self.parameters: dict[Atom, str] = {}
        for name in outputs:
            self.writer.names.new(name)

    def graph(self, name: str) -> tuple[Any, dict[str, Weight]]:
        """The GraphProto without its initializers, and the initializers by name."""
        onnx, w = package(), self.writer
        infos = [self._input(i, node) for i, node in enumerate(self.inputs)]
        shared = [node for node in _leaves(self.outputs.values()) if node.op is SHARED]
        for i, node in enumerate(shared):
            self._initializer(i, node)
        results = w.write(list(self.outputs.values()))
        made = []
        for (key, node), value in zip(self.outputs.items(), results, strict=True):
            w.protos.append(onnx.helper.make_node("Identity", [value], [key], name=key))
            made.append(w.info(key, node.type, self._shape(node)))
        nodes, read = _needed(w.protos, self.outputs)
        weights = {key: value for key, value in w.initializers.items() if key in read}
        return onnx.helper.make_graph(nodes, name, infos, made), weights

    def _input(self, i: int, node: Node) -> Any:
        name = self.writer.names.new(node.name or f"input_{i}")
        self.writer.define(node, name)
        self._sizes(node, name)
        return self.writer.info(name, node.type, self._shape(node))

    def _initializer(self, i: int, node: Node) -> None:
        name = self.writer.initializer(node.params["variable"].stored, node.name or f"shared_{i}")
        self.writer.define(node, name)
        self._sizes(node, name)

    def _sizes(self, node: Node, name: str) -> None:
        for axis, dim in enumerate(node.type.shape):
            atom = types.as_atom(dim)
            if atom is not None and atom.kind == "size":
                self.writer.sizes.setdefault(atom, (name, axis))

    def _shape(self, node: Node) -> list[Any]:
        return [self._parameter(dim) if isinstance(dim, Dim) else dim for dim in node.type.shape]

    def _parameter(self, dim: Dim) -> str | None:
        """The name of a size; None if it is computed from others."""
        atom = types.as_atom(dim)
        if atom is None or atom.kind != "size":
            return None
        if atom not in self.parameters:
            self.parameters[atom] = writable(atom.name) if types.is_named(atom) else self._new_size()
        return self.parameters[atom]

    def _new_size(self) -> str:
        """A new name, for a size without one."""
        taken = {
            a.name for node in self.inputs for dim in node.type.shape for a in types.atoms(dim) if types.is_named(a)
        }
        taken.update(self.parameters.values())
        return next(name for name in (f"n{i}" for i in itertools.count()) if name not in taken)


def _leaves(outputs: Any) -> list[Node]:
    return [node for node in ir.walk(outputs) if node.op in (INPUT, SHARED)]


def _needed(protos: Sequence[Any], outputs: Iterable[str]) -> tuple[list[Any], set[str]]:
    """The nodes that outputs depend on, and the names that these nodes read."""
    read, kept = set(outputs), []
    for proto in reversed(protos):
        if not read.isdisjoint(proto.output):
            kept.append(proto)
            read.update(_read_by(proto))
    return kept[::-1], read


def _read_by(proto: Any) -> Iterator[str]:
    """The names that a node reads, and all names in the graphs inside it."""
    yield from proto.input
    for attribute in proto.attribute:
        if attribute.HasField("g"):
            yield from (value.name for value in attribute.g.output)
            for inner in attribute.g.node:
                yield from _read_by(inner)

"""Compiled functions in files: `CompiledFunction.save` and `load`.

A file holds the graph as text, and the values of constants and shared variables; no code and nothing that Python could
run (no pickle). What is read is put together again by the ops themselves, which check types as they do for users.
"""

from __future__ import annotations

import os
from collections import namedtuple
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from scanjit import __version__, errors, ir, types
from scanjit.ir import INPUT, LEAVES, SHARED, Graph, Node
from scanjit.loops.structure import Tree
from scanjit.runtime import pickling, sound
from scanjit.runtime.function import CompiledFunction, FunctionGraph, check_complete, check_mode
from scanjit.runtime.plain import JSON, Reader, Writer, index, integer, listed, saved_text, text
from scanjit.runtime.shared import SharedVariable, snapshot
from scanjit.types import Atom, Dim, Type

FORMAT = "scanjit function"
VERSION = 1
"""The version of the file format. It is raised when an older reader would misunderstand a newer file."""


# ---- writing ---------------------------------------------------------------------------------------------------------


def save(function: CompiledFunction, path: str | os.PathLike[str]) -> None:
    """See `CompiledFunction.save`."""
    from scanjit.runtime import (
        container,
    )  # imports zipfile and what that imports, which most programs need not wait for

    container.write(path, *contents(function))


def contents(function: CompiledFunction) -> tuple[dict[str, JSON], list[np.ndarray]]:
    """The content of a file: a value for JSON, and the arrays."""
    graph, variables = function.graph, function.shared
    updates = [_update_graph(variable) for variable in variables]
    defaults = [node for update in updates if update for node in (*update.inputs, *update.outputs)]
    dumped = pickling.dump([*graph.inputs, *graph.roots, *defaults])
    sizes = sorted({*dumped.sizes, *_sizes_of(variables)}, key=lambda atom: atom.serial)
    numbers = {variable: i for i, variable in enumerate(variables)}
    writer = Writer(numbers, {atom: i for i, atom in enumerate(sizes)})
    content = {
        "format": FORMAT,
        "version": VERSION,
        "scanjit": __version__,
        "name": saved_text(function.name),
        "mode": function.mode,
        "sizes": [saved_text(atom.name) if types.is_named(atom) else None for atom in sizes],
        "shared": [
            _written(writer, variable, value, update)
            for variable, value, update in zip(variables, snapshot(variables), updates, strict=True)
        ],
        "inputs": len(graph.inputs),
        "tree": None if graph.tree is None else _written_tree(graph.tree),
        "updated": [numbers[variable] for variable, _ in graph.updates],
        "graph": writer.graph(dumped),
    }
    return content, writer.arrays


def _sizes_of(variables: Sequence[SharedVariable]) -> set[Atom]:
    return {atom for variable in variables for dim in variable.type.shape for atom in types.atoms(dim)}


def _written(writer: Writer, variable: SharedVariable, value: np.ndarray, update: Graph | None) -> JSON:
    shape = [writer.sizes[types.as_atom(dim)] if isinstance(dim, Dim) else None for dim in variable.type.shape]  # type: ignore[index]
    return {
        "name": None if variable.name is None else saved_text(variable.name),
        "sizes": shape,
        "value": writer.array(value),
        "place": variable.where,
        "default_update": update is not None,
    }


class _Update:
    """A `default_update` that was read: the new value of a variable as a graph of the old one."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph

    def __call__(self, node: Node) -> Node:
        return self.graph(node)[0]

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored_update, (pickling.dump([*self.graph.inputs, *self.graph.outputs]),)


def _restored_update(dumped: Any) -> _Update:
    before, after = pickling.load(dumped)
    return _Update(Graph.of([before], [after]))


def _update_graph(variable: SharedVariable) -> Graph | None:
    """The `default_update` of a variable, as a graph."""
    if variable.default_update is None:
        return None
    before = ir.new_input(variable.type)
    try:
        return Graph.of([before], [ir.as_node(variable.default_update(before))])
    except errors.InternalError as error:
        raise errors.NotSupportedError(
            f"{variable.label} has a default update that uses more than its own value: that cannot be saved",
            got=error.what,
            fix="set its default_update to None: the function keeps the updates that it has",
        ) from None


_LEAF = "value"
_CONTAINERS: dict[type, str] = {tuple: "tuple", list: "list", dict: "dict"}
_KEYS = str | int | float | bool | None


def _written_tree(tree: Tree) -> JSON:
    if tree.kind is None:
        return _LEAF
    children = [_written_tree(child) for child in tree.children]
    if tree.kind in (tuple, list):
        return [_CONTAINERS[tree.kind], children]
    if tree.kind is dict:
        for name in tree.names:
            if not isinstance(name, _KEYS) or isinstance(name, np.generic):
                raise errors.NotSupportedError(
                    "a function that returns a dict is saved with its keys: they must be texts or numbers",
                    got=f"{name!r} ({type(name).__name__})",
                )
        return ["dict", children, list(tree.names)]
    return ["named", children, list(tree.names), tree.kind.__name__]


# ---- reading ---------------------------------------------------------------------------------------------------------


def load(path: str | os.PathLike[str], mode: str | None = None) -> CompiledFunction:
    """A function that `CompiledFunction.save` wrote: without the code that defined it, and with shared variables of its
    own, which have the values that they had then.

    Parameters
    ----------
    path : str or path
    mode : str, optional
        As for `function`. By default that of the function that was saved.

    Returns
    -------
    CompiledFunction
        It gives the same bits as the one that was saved did on this machine. Its `shared` are the variables: to read
        them, to set them, or to build more functions with. Where the other returned a dataclass or a named tuple, it
        returns a named tuple with the same fields.

    Raises
    ------
    FormatError
        If the file is something else, was cut or changed, or holds a graph that is none. Nothing in a file is ever run
        as code, and no more memory is taken than a small multiple of its size.
    NotSupportedError
        If a newer version of this package wrote it.
    OSError
        If it cannot be read.

    Examples
    --------
    >>> import os, tempfile, scanjit as sj
    >>> x, total = sj.vector("x"), sj.shared(1.0, "total")
    >>> f = sj.function([x], 2 * x, updates={total: total + x.sum()}, mode="reference")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "double.sj")
    ...     f.save(path)
    ...     g = sj.load(path)
    >>> g(x=[1.0, 2.0]), g.shared[0].name, g.shared[0].get_value()
    (array([2., 4.]), 'total', array(4.))
    """
    from scanjit.runtime import container

    if mode is not None:
        check_mode(mode)
    try:
        content, arrays = container.read(path)
        _check_version(content)
        graph, name, saved_mode = _Loader(content, arrays).function()
    except (OSError, errors.FormatError, errors.NotSupportedError):
        raise
    except Exception as error:  # whatever a file that nobody wrote leads to
        raise errors.FormatError(
            "this saved function is none that save wrote",
            got=f"{os.fspath(path)!r}: {type(error).__name__}: {error}",
        ) from error
    return CompiledFunction(graph, name, mode or saved_mode)


def _check_version(content: JSON) -> None:
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise errors.FormatError("this file is no saved function")
    version = content.get("version")
    if type(version) is not int or version < 1:
        raise errors.FormatError("a saved function says which version of the format it has", got=repr(version))
    if version > VERSION:
        raise errors.NotSupportedError(
            "this function was saved by a newer version of scanjit",
            got=f"version {version} of the format, by scanjit {content.get('scanjit')!s:.20}",
            expected=f"version {VERSION} or lower",
            fix="install the newer version",
        )


class _Loader:
    """One file, being read."""

    def __init__(self, content: dict[str, JSON], arrays: list[np.ndarray]) -> None:
        self.content, self.arrays = content, arrays
        self.values: set[int] = set()
        self.sizes = [_atom(name) for name in listed(content["sizes"])]
        self.variables = [self._variable(data) for data in listed(content["shared"])]

    def _variable(self, data: JSON) -> SharedVariable:
        place = index(data["value"], len(self.arrays))
        if place in self.values:  # which are copied: a file could ask for one array again and again
            raise errors.FormatError("two shared variables of a saved function have one array")
        self.values.add(place)
        value = self.arrays[place]
        sizes = [None if size is None else self.sizes[index(size, len(self.sizes))] for size in listed(data["sizes"])]
        shape = [n if atom is None else types.dim_of(atom) for n, atom in zip(value.shape, sizes, strict=True)]
        name = None if data["name"] is None else text(data["name"], "a name")
        return SharedVariable(value.copy(), Type(value.dtype, tuple(shape)), name, text(data["place"], "a place"))

    def function(self) -> tuple[FunctionGraph, str, str]:
        """The graph, the name and the mode."""
        content = self.content
        name, mode = text(content["name"], "the name"), text(content["mode"], "the mode")
        check_mode(mode)
        dumped = Reader(self.arrays, self.variables, self.sizes).graph(content["graph"])
        roots = iter(pickling.load(dumped, sound.check))
        inputs = [next(roots) for _ in range(integer(content["inputs"]))]
        tree = None if content["tree"] is None else _read_tree(content["tree"])
        outputs = [next(roots) for _ in range(0 if tree is None else tree.size)]
        targets = [self.variables[index(i, len(self.variables))] for i in listed(content["updated"])]
        updates = [(variable, next(roots)) for variable in targets]
        for variable, data in zip(self.variables, content["shared"], strict=True):
            if data["default_update"]:
                variable.default_update = _default_update(variable, next(roots), next(roots))
        graph = FunctionGraph(tuple(inputs), tuple(outputs), tree, tuple(updates))
        _check(graph, name, len(dumped.records))
        return graph, name, mode


def _atom(name: JSON) -> Atom:
    (atom,) = types.atoms(types.size(None if name is None else text(name, "the name of a size")))
    return atom


def _default_update(variable: SharedVariable, before: Node, after: Node) -> Callable[[Node], Node]:
    if not _fits(before, variable) or not _fits(after, variable):
        raise errors.FormatError(f"the default update of {variable.label} has another type than it")
    return _Update(Graph.of([before], [after]))


def _fits(node: Node, variable: SharedVariable) -> bool:
    return node.dtype == variable.type.dtype and node.ndim == variable.type.ndim


def _check(graph: FunctionGraph, name: str, listed_nodes: int) -> None:
    """Raise an error for a graph that `function` would refuse, too."""
    if len(set(graph.inputs)) < len(graph.inputs) or any(node.op is not INPUT for node in graph.inputs):
        raise errors.FormatError("the inputs of a saved function are not inputs, or given twice")
    if any(isinstance(node.type, tuple) for node in graph.roots):
        raise errors.FormatError("an output of a saved function is several")
    if not all(_fits(node, variable) for variable, node in graph.updates):
        raise errors.FormatError("an update of a saved function has another type than its variable")
    serials = [variable.serial for variable, _ in graph.updates]
    if serials != sorted(set(serials)):
        raise errors.FormatError("the updates of a saved function are not in their order")
    if any(node.op in LEAVES and node.op not in (INPUT, SHARED) for node in ir.walk(graph.roots)):
        raise errors.FormatError("a saved function uses an input of a loop outside it")
    count, most = _count(ir.walk(graph.roots), {}), _FEW_NODES + _TIMES * listed_nodes
    if count > most:
        raise errors.FormatError(
            "the loops of a saved function hold more nodes than they may", got=count, expected=most
        )
    check_complete(graph, name)


_FEW_NODES, _TIMES = 4096, 64
"""A file may hold so many nodes, or so many times what it lists, where those of steps and branches count wherever they
occur: many nodes may have one graph inside, and in it others may, so that few bytes say what never ends."""


def _count(nodes: Iterable[Node], known: dict[Graph, int]) -> int:
    """The nodes of a graph, with those inside its nodes."""
    total = 0
    for node in nodes:
        total += 1
        body = node.params.get("body")
        if isinstance(body, Graph):
            if body not in known:
                known[body] = _count(body.nodes(), known)
            total += known[body]
    return total


def _read_tree(data: JSON) -> Tree:
    if data == _LEAF:
        return Tree()
    kind, children, *rest = listed(data)
    below = tuple(_read_tree(child) for child in listed(children))
    if kind in ("tuple", "list") and not rest:
        return Tree(tuple if kind == "tuple" else list, tuple(range(len(below))), below)
    names = tuple(listed(rest[0]))
    if len(set(names)) != len(below) or len(names) != len(below):
        raise errors.FormatError("a dict that a saved function returns has other keys than values")
    if kind == "dict" and len(rest) == 1:
        return Tree(dict, names, below)
    if kind != "named" or len(rest) != 2:
        raise errors.FormatError("a saved function returns a kind of container that there is not")
    return Tree(_named_tuple(rest[1], names), names, below)


def _named_tuple(name: JSON, fields: tuple[Any, ...]) -> type:
    """A class of named tuples. A field whose name Python reserves gets another name."""
    if not all(isinstance(word, str) and word.isidentifier() for word in (name, *fields)):
        raise errors.FormatError("a saved function returns fields without a name")
    return namedtuple(name, fields, rename=True)

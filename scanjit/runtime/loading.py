"""Compiled functions from files: `load`.

What is read is put together again by the ops themselves, which check types as they do for users.
"""

import os
from collections import namedtuple
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from scanjit import errors, ir, types
from scanjit.ir import INPUT, ORIGINS, SHARED, Graph, Node
from scanjit.loops.structure import STORED, Tree
from scanjit.runtime import graph_checks
from scanjit.runtime.decoding import decode, index, integer, listed, text
from scanjit.runtime.encoding import JSON, Encoded, encode
from scanjit.runtime.function import CompiledFunction
from scanjit.runtime.function_graph import FunctionGraph, Mode, check_complete, check_mode
from scanjit.runtime.saving import COMPLEX, FORMAT, LEAF, VERSION
from scanjit.runtime.shared import SharedVariable
from scanjit.types import Atom, Type


class SavedUpdate:
    """A `default_update` that was read: the new value of a variable as a graph of the old one."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph

    def __call__(self, node: Node) -> Node:
        return self.graph(node)[0]

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored_update, (encode([*self.graph.inputs, *self.graph.outputs]),)


def _restored_update(encoded: Encoded) -> SavedUpdate:
    before, after = decode(encoded)
    return SavedUpdate(Graph.of([before], [after]))


def load(path: str | os.PathLike[str], mode: Mode | None = None) -> CompiledFunction[Any]:
    """Load a function that `CompiledFunction.save` wrote. The code that defined it is not needed. It has shared
    variables of its own, which begin with the values that were saved.

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
    except errors.not_from_signal_handler(Exception) as error:  # whatever a file that nobody wrote leads to
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
        names = listed(content["sizes"])
        labels = listed(content.get("labels", [None] * len(names)))
        self.sizes = [_atom(name, label) for name, label in zip(names, labels, strict=True)]
        self.variables = [self._variable(data) for data in listed(content["shared"])]

    def _variable(self, data: JSON) -> SharedVariable:
        place = index(data["value"], len(self.arrays))
        if place in self.values:  # which are copied: a file could ask for one array again and again
            raise errors.FormatError("two shared variables of a saved function have one array")
        self.values.add(place)
        value = STORED.unflatten([self.arrays[place]]) if data.get("complex") else self.arrays[place]
        sizes = [None if size is None else self.sizes[index(size, len(self.sizes))] for size in listed(data["sizes"])]
        shape = [n if atom is None else types.dim_of(atom) for n, atom in zip(value.shape, sizes, strict=True)]
        name = None if data["name"] is None else text(data["name"], "a name")
        return SharedVariable(value.copy(), Type(value.dtype, tuple(shape)), name, text(data["place"], "a place"))

    def function(self) -> tuple[FunctionGraph, str, Mode]:
        """The graph, the name and the mode."""
        content = self.content
        name = text(content["name"], "the name")
        mode: Any = text(content["mode"], "the mode")
        check_mode(mode)
        encoded = Encoded(content["graph"], self.sizes, self.variables, self.arrays)
        roots = iter(decode(encoded, graph_checks.check))
        inputs = [next(roots) for _ in range(integer(content["inputs"]))]
        tree = None if content["tree"] is None else _read_tree(content["tree"])
        outputs = [next(roots) for _ in range(0 if tree is None else tree.size)]
        targets = [self.variables[index(i, len(self.variables))] for i in listed(content["updated"])]
        updates = [(variable, next(roots)) for variable in targets]
        for variable, data in zip(self.variables, content["shared"], strict=True):
            if data["default_update"]:
                variable.default_update = _default_update(variable, next(roots), next(roots))
        graph = FunctionGraph(tuple(inputs), tuple(outputs), tree, tuple(updates))
        _check(graph, name, len(listed(encoded.graph["nodes"])))
        return graph, name, mode


def _atom(name: JSON, label: JSON) -> Atom:
    if name is not None:
        dim = types.size(text(name, "the name of a size"))
    else:
        dim = types.anonymous_size(None if label is None else text(label, "what a size is shown as"))
    (atom,) = types.atoms(dim)
    return atom


def _default_update(variable: SharedVariable, before: Node, after: Node) -> Callable[[Node], Node]:
    if not _fits(before, variable) or not _fits(after, variable):
        raise errors.FormatError(f"the default update of {variable.label} has another type than it")
    return SavedUpdate(Graph.of([before], [after]))


def _fits(node: Node, variable: SharedVariable) -> bool:
    type_ = variable.type.in_memory
    return node.dtype == type_.dtype and node.ndim == type_.ndim


def _check(graph: FunctionGraph, name: str, listed_nodes: int) -> None:
    """Raise an error for a graph that `function` would refuse, too."""
    if len(set(graph.inputs)) < len(graph.inputs) or any(node.op is not INPUT for node in graph.inputs):
        raise errors.FormatError("the inputs of a saved function are not inputs, or given twice")
    if any(node.several for node in graph.roots):
        raise errors.FormatError("an output of a saved function is several")
    if not all(_fits(node, variable) for variable, node in graph.updates):
        raise errors.FormatError("an update of a saved function has another type than its variable")
    serials = [variable.serial for variable, _ in graph.updates]
    if serials != sorted(set(serials)):
        raise errors.FormatError("the updates of a saved function are not in their order")
    if any(node.op in ORIGINS and node.op not in (INPUT, SHARED) for node in ir.walk(graph.roots)):
        raise errors.FormatError("a saved function uses an input of a loop outside it")
    count, most = _count(ir.walk(graph.roots), {}), _FEW_NODES + _TIMES * listed_nodes
    if count > most:
        raise errors.FormatError(
            "the loops of a saved function hold more nodes than they may", got=count, expected=most
        )
    check_complete(graph, name)


_FEW_NODES, _TIMES = 4096, 64
"""A file may hold `_FEW_NODES` nodes, or `_TIMES` as many as it lists. The nodes of steps and branches count at each
place where they occur: if ten nodes share a graph, and ten nodes of that graph share another one, a few bytes describe
a hundred graphs."""


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
    if data in (LEAF, COMPLEX):
        return Tree() if data == LEAF else STORED
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

"""Compiled functions in files: `CompiledFunction.save`. `load`, which reads them, is in `loading`.

A file holds the graph as text, and the values of constants and shared variables; no code and nothing that Python could
run (no pickle).
"""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np

from scanjit import errors, ir, types
from scanjit.ir import Graph
from scanjit.loops.structure import Tree
from scanjit.runtime import pickling
from scanjit.runtime.function_graph import FunctionGraph
from scanjit.runtime.plain import JSON, Writer, saved_text
from scanjit.runtime.shared import SharedVariable, snapshot
from scanjit.types import Atom, Dim
from scanjit.version import __version__

FORMAT = "scanjit function"
VERSION = 2
"""The version of the file format. It is raised when an older reader would misunderstand a newer file."""


# ---- writing ---------------------------------------------------------------------------------------------------------


def save(graph: FunctionGraph, name: str, mode: str, path: str | os.PathLike[str]) -> None:
    """See `CompiledFunction.save`."""
    from scanjit.runtime import (
        container,
    )  # imports zipfile and what that imports, which most programs need not wait for

    container.write(path, *contents(graph, name, mode))


def contents(graph: FunctionGraph, name: str, mode: str) -> tuple[dict[str, JSON], list[np.ndarray]]:
    """The content of a file: a value for JSON, and the arrays."""
    variables = graph.variables
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
        "name": saved_text(name),
        "mode": mode,
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


LEAF = "value"
_CONTAINERS: dict[type, str] = {tuple: "tuple", list: "list", dict: "dict"}
_KEYS = str | int | float | bool | None


def _written_tree(tree: Tree) -> JSON:
    if tree.kind is None:
        return LEAF
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

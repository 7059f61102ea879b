"""Compiled functions in files: `CompiledFunction.save`. `load`, which reads them, is in `loading`.

A file holds the graph as text, and the values of constants and shared variables; no code and nothing that Python could
run (no pickle).
"""

import os
from typing import Any

import numpy as np

from scanjit import errors, ir, types
from scanjit.ir import Graph
from scanjit.loops.structure import STORED, Tree
from scanjit.runtime.encoding import JSON, LONGEST_TEXT, Encoded, encode
from scanjit.runtime.function_graph import FunctionGraph
from scanjit.runtime.shared import SharedVariable, snapshot
from scanjit.version import __version__

FORMAT = "scanjit function"
VERSION = 2
"""The version of the file format. It is raised when an older reader would misunderstand a newer file."""


# ---- writing ---------------------------------------------------------------------------------------------------------


def save(graph: FunctionGraph, name: str, mode: str, path: str | os.PathLike[str]) -> None:
    """See `CompiledFunction.save`."""
    from scanjit.runtime import container  # imports zipfile, which most programs need not wait for

    content, encoded = contents(graph, name, mode)
    container.write(path, content, encoded.arrays)


def contents(graph: FunctionGraph, name: str, mode: str) -> tuple[dict[str, JSON], Encoded]:
    """The content of a file: a value for JSON, and the encoded graph, which has the arrays."""
    variables = graph.variables
    updates = [_update_graph(variable) for variable in variables]
    defaults = [node for update in updates if update for node in (*update.inputs, *update.outputs)]
    encoded = encode([*graph.inputs, *graph.roots, *defaults], variables, snapshot(variables))
    for value in encoded.objects:
        _check_text(value)
        raise errors.NotSupportedError(
            "a graph with this in it cannot be saved", got=f"{value!r} ({type(value).__name__})"
        )
    content = {
        "format": FORMAT,
        "version": VERSION,
        "scanjit": __version__,
        "name": _check_text(name),
        "mode": mode,
        "sizes": [_check_text(atom.name) if types.is_named(atom) else None for atom in encoded.sizes],
        "labels": [_check_text(types.label(atom)) for atom in encoded.sizes],
        "shared": [_written(encoded, i, update is not None) for i, update in enumerate(updates)],
        "inputs": len(graph.inputs),
        "tree": None if graph.tree is None else _written_tree(graph.tree),
        "updated": [encoded.variables.index(variable) for variable, _ in graph.updates],
        "graph": encoded.graph,
    }
    return content, encoded


def _check_text(value: Any) -> Any:
    """The value; an error if it is a text that `load` would not accept."""
    if isinstance(value, str) and len(value) > LONGEST_TEXT:
        raise errors.NotSupportedError(
            "a text that is so long cannot be saved", got=f"{len(value)} characters: {value[:40]}..."
        )
    return value


def _written(encoded: Encoded, number: int, has_update: bool) -> JSON:
    """A shared variable. Its value is the array with its number."""
    variable = encoded.variables[number]
    atoms = [types.as_atom(dim) for dim in variable.type.shape]
    return {
        "name": _check_text(variable.name),
        "sizes": [None if atom is None else encoded.sizes.index(atom) for atom in atoms],
        "complex": variable.type.kind.is_complex,
        "value": number,
        "place": variable.where,
        "default_update": has_update,
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


LEAF, COMPLEX = "value", "complex"
_CONTAINERS: dict[type, str] = {tuple: "tuple", list: "list", dict: "dict"}
_KEYS = str | int | float | bool | None


def _written_tree(tree: Tree) -> JSON:
    if tree.kind is None:
        return LEAF
    if tree == STORED:
        return COMPLEX
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

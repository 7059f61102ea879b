"""Digests of graphs. Two functions that compute the same have the same digest, in any process."""

import hashlib
import json
import pickle
import re
from collections.abc import Iterable

import numpy as np

from scanjit import errors
from scanjit.runtime.encoding import JSON, Encoded, encode
from scanjit.runtime.function_graph import FunctionGraph
from scanjit.runtime.saving import contents
from scanjit.runtime.shared import snapshot


def portable(encoded: Encoded) -> JSON:
    """An encoded graph without everything that differs between processes, or with the user's lines: where nodes were
    made, the numbers of inputs, and in texts the names of sizes that are values. (An error message may say `mod27`, and
    in another process `mod4`, as that counts all nodes of a process.)"""
    graph = encoded.graph
    nodes = [
        [op, operands, {name: value for name, value in params.items() if name != "serial"}]
        for op, operands, params, _ in graph["nodes"]
    ]
    found = {**graph, "nodes": nodes, "places": []}
    if not encoded.values:
        return found
    names = re.compile(rf"\b({'|'.join(map(re.escape, encoded.values))})\b")
    return names.sub(lambda name: f"value {encoded.values[name[0]]}", json.dumps(found))


def digest(content: JSON, arrays: Iterable[np.ndarray]) -> str:
    """A digest of a value for JSON and of arrays."""
    found = hashlib.sha256(json.dumps(content, sort_keys=True).encode())
    for array in arrays:
        found.update(f"{array.dtype} {array.shape}".encode())
        found.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return found.hexdigest()


def token(graph: FunctionGraph, name: str, mode: str) -> str:
    """For Dask: a digest of what a function computes, with the values that shared variables have now."""
    try:
        content, encoded = contents(graph, name, mode)
    except errors.NotSupportedError:  # something of the user's own is in it, which pickles
        variables = graph.variables
        encoded = encode([*graph.inputs, *graph.roots], variables, snapshot(variables))
        own = pickle.dumps((encoded.objects, graph.tree, [variable.default_update for variable in variables]))
        updated = [variables.index(variable) for variable, _ in graph.updates]
        content = {"name": name, "mode": mode, "inputs": len(graph.inputs), "updated": updated, "own": own.hex()}
        content["shared"] = []
    content["graph"] = portable(encoded)
    for variable in content["shared"]:
        variable["place"] = ""
    return digest(content, encoded.arrays)

"""Digests of graphs. Two functions that compute the same have the same one, in any process."""

import hashlib
import json
from collections.abc import Iterable

import numpy as np

from scanjit import errors
from scanjit.runtime.encoding import JSON
from scanjit.runtime.function_graph import FunctionGraph
from scanjit.runtime.saving import contents


def portable(graph: JSON) -> JSON:
    """An encoded graph without what differs from process to process, or with the user's lines: where nodes were made,
    and the numbers of inputs."""
    nodes = [
        [op, operands, {name: value for name, value in params.items() if name != "serial"}]
        for op, operands, params, _ in graph["nodes"]
    ]
    return {**graph, "nodes": nodes, "places": []}


def digest(content: JSON, arrays: Iterable[np.ndarray]) -> str:
    """A digest of a value for JSON and of arrays."""
    found = hashlib.sha256(json.dumps(content, sort_keys=True).encode())
    for array in arrays:
        found.update(f"{array.dtype} {array.shape}".encode())
        found.update(np.ascontiguousarray(array).data)
    return found.hexdigest()


def token(graph: FunctionGraph, name: str, mode: str) -> str | None:
    """For Dask: a digest of what a function computes, with the values that shared variables have now. None for a
    function that cannot be saved."""
    try:
        content, arrays = contents(graph, name, mode)
    except errors.NotSupportedError:
        return None
    content["graph"] = portable(content["graph"])
    for variable in content["shared"]:
        variable["place"] = ""
    return digest(content, arrays)

"""Tokens for Dask. Two functions that compute the same have the same token, in any process."""

import hashlib
import json

from scanjit import errors
from scanjit.runtime.function_graph import FunctionGraph
from scanjit.runtime.saving import contents


def token(graph: FunctionGraph, name: str, mode: str) -> str | None:
    """A digest of what a function computes, with the values that shared variables have now. Where its lines stand in
    the user's files is no part of it. None for a function that cannot be saved."""
    try:
        content, arrays = contents(graph, name, mode)
    except errors.NotSupportedError:
        return None
    content["graph"]["places"] = []
    for node in content["graph"]["nodes"]:
        node[2].pop("serial", None)  # of an input: the number that it has in this process
        del node[3]
    for variable in content["shared"]:
        variable["place"] = ""
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode())
    for array in arrays:
        digest.update(f"{array.dtype} {array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()

"""Tokens for Dask. Two functions that compute the same have the same token, in any process."""

from __future__ import annotations

import hashlib
import json
import pickle
from typing import TYPE_CHECKING

from scanjit import errors

if TYPE_CHECKING:
    from scanjit.runtime.function import CompiledFunction


def token(function: CompiledFunction) -> str:
    """A digest of what a function computes, with the values that shared variables have now. Where its lines stand in
    the user's files is no part of it."""
    from scanjit.runtime.saving import contents

    try:
        content, arrays = contents(function)
    except errors.NotSupportedError:  # something of the user's own, which pickles
        return hashlib.sha256(pickle.dumps(function)).hexdigest()
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

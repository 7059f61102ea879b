"""The check of arguments that are vectors."""

from typing import Any

from scanjit import errors
from scanjit.ir import Node
from scanjit.tensor import as_tensor


def vector(x: Any, name: str) -> Node:
    """An argument as a tensor with one axis. Errors call it `name`."""
    node = as_tensor(x)
    if node.ndim != 1:
        fix = "sj.vmap, for several of them" if node.ndim else "one entry is a vector, too: [x]"
        raise errors.ShapeError(f"{name} must be a vector", got=node.type, fix=fix)
    return node

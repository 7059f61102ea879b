"""The checks of arguments that are vectors of real numbers."""

from typing import Any

from scanjit import errors
from scanjit.ir import Node
from scanjit.tensor import as_tensor


def vector(x: Any, name: str) -> Node:
    """An argument as a tensor of real numbers with one axis. Errors call it `name`."""
    node = real(x, name)
    if node.ndim != 1:
        fix = "sj.vmap, for several of them" if node.ndim else "one entry is a vector, too: [x]"
        raise errors.ShapeError(f"{name} must be a vector", got=node.type, fix=fix)
    return node


def real(x: Any, name: str) -> Node:
    """An argument as a tensor of real numbers. Errors call it `name`."""
    node = as_tensor(x)
    if node.type.kind.is_complex:
        raise errors.DtypeError(f"{name} must have real numbers", got=node.type)
    return node


def number(x: Any, name: str) -> Node:
    """An argument that is a real number. Errors call it `name`."""
    node = real(x, name)
    if node.ndim:
        raise errors.ShapeError(f"{name} must be a number", got=node.type, fix="sj.vmap, for several of them")
    return node

"""The checks of arguments that are real numbers, or tensors of them."""

from math import inf
from typing import Any

from scanjit import errors
from scanjit.ir import Node
from scanjit.ops.stretch import constant_value
from scanjit.tensor.variables import as_tensor


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


def within(x: Any, name: str, low: float = 0, high: float = inf) -> Node:
    """An argument whose elements are `low` at least and `high` at most, as a tensor. Elements that a call computes are
    not checked. Errors call it `name`."""
    node = real(x, name)
    known = constant_value(node)
    if known is not None and not ((known >= low) & (known <= high)).all():
        expected = f"{low} or more" if high == inf else f"from {low} to {high}"
        raise errors.ArgumentError(f"{name} is outside of its range", got=known.tolist(), expected=expected)
    return node

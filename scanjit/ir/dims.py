"""Dimensions from nodes, and nodes from dimensions."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from scanjit import errors, types
from scanjit.ir.node import CONSTANT, ORIGINS, PART, Node, Op, constant, own_atoms
from scanjit.signatures import Value
from scanjit.types import Dim, Dimension, Type

SIZE = Op(
    "size",
    infer=lambda *, dim: Type(np.dtype("int64")),
    reference=lambda *, dim: np.int64(dim),
    doc="the value of a dimension",
    moves_data=True,
    never_fails=True,
)


def as_dim(value: object) -> Dimension:
    """The dimension that an int or a scalar integer node stands for."""
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, Dim):
        return value
    if not isinstance(value, Node) or value.ndim or not value.type.kind.integral:
        raise errors.ArgumentError("a size must be an integer or an integer scalar", got=repr(value))
    if value.op is CONSTANT:
        return int(value.params["data"].array)
    if value.op is SIZE:
        return value.params["dim"]
    rule = value.op.of_dims
    if rule is not None and all(arg.type.kind.integral for arg in value.operands):
        return rule(*map(as_dim, value.operands))
    if (number := computed(value)) is not None:
        return int(number)
    counts_steps = most_steps(value) is not None
    return types.value_dim(value, value.name or f"{value.op.name}{value.serial}", counts_steps)


def most_steps(node: Node) -> Dimension | None:
    """The length of a loop, if a node is the number of steps that it ran until a condition ended it; else None."""
    if node.op is not PART or not node.args[0].params.get("until"):
        return None
    loop = node.args[0]
    return loop.params["length"] if node.params["index"] == len(loop.types) - 1 else None


_MOST_COMPUTED = 1 << 16
"""A value with more elements than this is not computed while a graph is being built."""


def computed(node: Node, given: Mapping[Node, Value] = MappingProxyType({})) -> Value:
    """The value of a small node that depends on constants and on given values alone; None for other nodes."""
    values = dict(given)
    stack = [node]
    while stack:
        top = stack[-1]
        if top in values:
            stack.pop()
            continue
        if top.op in ORIGINS or top.op is SIZE or "body" in top.params or top.several:
            return None
        if own_atoms(top) or types.as_int(types.product(top.type.shape)) > _MOST_COMPUTED:
            return None
        missing = [arg for arg in top.args if arg not in values]
        stack.extend(missing)
        if not missing:
            try:
                with np.errstate(all="ignore"):
                    values[top] = top.op.reference(*(values[arg] for arg in top.operands), **top.params)
            except errors.ScanjitError:  # such as an index out of bounds: an error when the function runs, not now
                return None
    return values[node]


def dim_node(dim: Dimension) -> Node:
    """The int64 scalar node of a dimension."""
    if isinstance(dim, int):
        return constant(np.int64(dim))
    atom = types.as_atom(dim)
    if atom is not None and atom.kind == "value" and atom.node.dtype == np.int64:
        return atom.node
    return SIZE(dim=dim)

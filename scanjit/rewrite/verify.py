"""The verifier: after a pass, every node must still have the type that its op infers, also inside scan bodies."""

import weakref
from collections.abc import Sequence

from scanjit import errors, types
from scanjit.ir import Node, inferred_types, walk
from scanjit.types import Dimension, Type


def verify(before: Sequence[Node], after: Sequence[Node], what: str) -> None:
    """Raise an InternalError that names the pass if it broke a node or changed the type of an output."""
    if len(before) != len(after):
        raise errors.InternalError(f"{what} changed the number of outputs", got=len(after), expected=len(before))
    for old, new in zip(before, after, strict=True):
        if not _same(old.type, new.type):
            raise errors.InternalError(
                f"{what} changed the type of an output", got=new.type, expected=old.type, where=old.where
            )
    try:
        _check(after)
    except errors.ScanjitError as error:
        raise errors.InternalError(f"{what} made an invalid graph: {error}", where=error.where) from error


_valid: weakref.WeakValueDictionary[int, Node] = weakref.WeakValueDictionary()
"""Nodes that were checked before, with all that is inside them, by `id`. Nodes never change, and most passes keep most
of them."""


def _check(outputs: Sequence[Node]) -> None:
    checked: dict[int, Node] = {}
    stack = [list(outputs)]
    while stack:
        for node in walk(stack.pop()):
            if id(node) in checked or _valid.get(id(node)) is node:
                continue
            inferred = inferred_types(node)
            if len(inferred) != len(node.types) or not all(map(_same, inferred, node.types)):
                raise errors.InternalError("a node has another type than its op infers", got=node, expected=inferred)
            checked[id(node)] = node
            if "body" in node.params:
                stack.append(node.params["body"].nodes())
    _valid.update(checked)


def _same(a: Type, b: Type) -> bool:
    return a.dtype == b.dtype and a.ndim == b.ndim and all(map(_same_dim, a.shape, b.shape))


def _same_dim(a: Dimension, b: Dimension) -> bool:
    """Whether two dimensions may be equal. Different symbols may be: a condition at run time can demand it."""
    try:
        types.equate(a, b, "dimensions")
    except errors.ShapeError:
        return False
    return not (isinstance(a, int) and isinstance(b, int)) or a == b

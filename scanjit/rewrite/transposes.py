"""Elementwise ops before, between and after loops are done with axes in the order in which the loops store them.

`vmap` over the rows of a matrix computes with arrays (series, steps), but a loop reads and writes (steps, series):

    e = y - mean                        (series, steps)
    v = scan(..., e.T)                  (steps, series)
    loss = (log(v.T) + e ** 2 / v.T).sum()

Every step would read numbers that lie far apart. With one copy of `y` all is (steps, series): `e = copy(y.T) - mean.T`,
`scan(..., e)`, `log(v)`, and so on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from scanjit.ir import Node, rebuilt
from scanjit.ops import Reduction
from scanjit.ops.shape import COPY
from scanjit.ops.stretch import BROADCAST_TO
from scanjit.ops.view import DIMSHUFFLE
from scanjit.rewrite.algebra_shape import untransposed
from scanjit.rewrite.engine import Note, in_bodies, uses
from scanjit.rewrite.match import is_elementwise
from scanjit.types import Dimension

Order = tuple[int, ...]
"""The order of a dimshuffle that adds and drops no axis."""

SHORT_ROW = 8
"""The last axis keeps its place if it is known to be shorter than this: another one fills vectors better."""


def in_order_of_loops(outputs: list[Node], notes: list[Note]) -> list[Node]:
    """Do elementwise ops in the order of axes in which most of their operands and results lie. Operands in another
    order are copied."""
    outputs = in_bodies(outputs, lambda inner: in_order_of_loops(inner, notes))
    users = uses(outputs)
    orders: dict[Node, Order] = {}
    for group in _groups(users):
        order = _wanted(group, users)
        if order is not None:
            orders |= dict.fromkeys(group, order)
            notes.append(Note("transposes", group[0].where, f"{len(group)} ops are done in the order of a loop's axes"))
    if not orders:
        return outputs

    def reordered(old: Node, new: Node) -> Node | None:
        order = orders.get(old)
        if order is None:
            return None
        args = [_before(arg, new.type.shape, order) for arg in new.operands]
        return DIMSHUFFLE(new.op(*args, **new.params), order=order)

    return rebuilt(outputs, reordered)


def _groups(users: Mapping[Node, Sequence[Node]]) -> Iterator[list[Node]]:
    """Elementwise ops of large tensors of one shape that use each other's results."""
    left = {node: None for node in users if is_elementwise(node) and _is_wide(node, node.ndim)}
    while left:
        group = [next(iter(left))]
        del left[group[0]]
        for node in group:  # it grows meanwhile
            for other in (*node.operands, *users[node]):
                if other in left and other.ndim == node.ndim:
                    del left[other]
                    group.append(other)
        yield group


def _is_wide(node: Node, ndim: int) -> bool:
    return node.ndim == ndim > 1 and 1 not in node.type.shape


def _wanted(group: Sequence[Node], users: Mapping[Node, Sequence[Node]]) -> Order | None:
    """The order of the transpose through which a group reads and is read most. None if it is not worth it."""
    inside, shape = set(group), group[0].type.shape
    found: dict[Order, set[Node]] = {}
    for node in group:
        for arg in node.operands:
            if arg not in inside and _is_wide(arg, node.ndim) and arg.op is not BROADCAST_TO:
                found.setdefault(_order(arg, node.ndim), set()).add(arg)
        for user in users[node]:
            order = _order(user, node.ndim)
            last = users[user] if user is not node and order != tuple(range(node.ndim)) else [user]
            # Elementwise ops that read a transpose of this group come to it, and not it to them.
            if any(reader is node or not _is_flexible(reader) for reader in last):
                found.setdefault(_inverse(order), set()).add(node)
    straight = len(found.pop(tuple(range(len(shape))), ()))
    best = max(found, key=lambda order: len(found[order]), default=None)
    if best is None or len(found[best]) <= straight or best[-1] == len(best) - 1:
        return None
    row = shape[best.index(len(best) - 1)]
    return None if isinstance(row, int) and row < SHORT_ROW else best


def _is_flexible(reader: Node) -> bool:
    """Whether the order of axes does not matter to a reader."""
    return is_elementwise(reader) or isinstance(reader.op, Reduction)


def _order(node: Node, ndim: int) -> Order:
    """The order of a transpose; for any other node, the order that changes nothing."""
    if node.op is DIMSHUFFLE and set(node.params["order"]) == set(range(ndim)) and node.operands[0].ndim == ndim:
        return tuple(node.params["order"])
    return tuple(range(ndim))


def _inverse(order: Order) -> Order:
    return tuple(order.index(axis) for axis in range(len(order)))


def _before(arg: Node, shape: tuple[Dimension, ...], order: Order) -> Node:
    """An operand of an op with a result of this shape, as it is before the transpose."""
    wide = _is_wide(arg, len(order))
    if wide and _order(arg, len(order)) == order:
        return arg.operands[0]
    new, copied = untransposed(arg, order), wide and arg.op is not BROADCAST_TO
    return COPY(new, shape=tuple(shape[axis] for axis in _inverse(order))) if copied else new

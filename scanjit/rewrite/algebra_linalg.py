"""Local algebra of reductions and contractions.

A contraction is a sum whose order is not promised, so summing over one more axis, or over one operand first, is allowed
here; single elements keep NumPy's order of operations.
"""

from collections.abc import Callable

import numpy as np

from scanjit.ir import PART, Node
from scanjit.ops.contraction import CONTRACT, contract
from scanjit.ops.elementwise import MUL
from scanjit.ops.extremes import ALL, ANY, MAX, MIN
from scanjit.ops.reduction import Reduction
from scanjit.ops.shape import CONCATENATE, SET_SLICE, SLICE
from scanjit.ops.stretch import BROADCAST_TO, SUM, broadcast_to, full
from scanjit.ops.view import DIMSHUFFLE
from scanjit.rewrite.engine import RuleTable
from scanjit.rewrite.match import flipped, is_finite, is_whole, is_zero, reversed_axes, stretch, window_set

rules = RuleTable()


# ---- reductions ------------------------------------------------------------------------------------------------------


@rules.rule(Reduction)
def reduce_nothing(node: Node) -> Node | None:
    """sum over no axes of x -> x;  over axes of size 1 -> x without these axes"""
    (x,), axes = node.operands, node.params["axes"]
    if x.dtype != node.dtype:
        return None
    if not axes:
        return x
    ones = [a for a in axes if x.type.shape[a] == 1]
    if not ones:
        return None
    order = tuple(a for a in range(x.ndim) if a not in ones)
    return node.op(DIMSHUFFLE(x, order=order), axes=tuple(order.index(a) for a in axes if a not in ones))


@rules.rule(Reduction)
def reduce_twice(node: Node) -> Node | None:
    """sum(sum(x, a), b) -> sum(x, a and b)"""
    (x,) = node.operands
    if x.op is not node.op:
        return None
    (base,), inner = x.operands, x.params["axes"]
    kept = [a for a in range(base.ndim) if a not in inner]
    return node.op(base, axes=tuple(sorted((*inner, *(kept[a] for a in node.params["axes"])))))


@rules.nested(Reduction, of=[DIMSHUFFLE])
def reduce_dimshuffle(node: Node, view: Node) -> Node | None:
    """sum(dimshuffle(x)) -> dimshuffle(sum(x))"""
    (x,), order, axes = view.operands, view.params["order"], node.params["axes"]
    summed = sorted(a for i, a in enumerate(order) if i in axes and a is not None)
    kept = [a for a in range(x.ndim) if a not in summed]
    left = [a for i, a in enumerate(order) if i not in axes]
    total = node.op(x, axes=tuple(summed)) if summed else x
    return DIMSHUFFLE(total, order=tuple(None if a is None else kept.index(a) for a in left))


@rules.nested(MAX, MIN, ANY, ALL, of=[BROADCAST_TO])
def reduce_broadcast(node: Node, wide: Node) -> Node | None:
    """max(broadcast(x)) -> max of x's own axes, where an axis that was stretched is certainly not empty"""
    (x,) = wide.operands
    lead, axes = wide.ndim - x.ndim, node.params["axes"]
    for axis in axes:
        stretched = axis < lead or x.type.shape[axis - lead] != wide.type.shape[axis]
        size = wide.type.shape[axis]
        if stretched and not (isinstance(size, int) and size > 0):
            return None
    own = tuple(a - lead for a in axes if a >= lead)
    return stretch(node.op(x, axes=own) if own else x, node)


@rules.rule(SUM)
def sum_of_nothing_known(node: Node) -> Node | None:
    """sum(0) -> 0"""
    return full(0, node.type.shape, node.dtype) if is_zero(node.operands[0]) else None


@rules.nested(SUM, of=[SET_SLICE])
def sum_of_set_slice(node: Node, x: Node) -> Node | None:
    """sum(set(0, w, v), a) -> set(0, w, sum(v, a)), where w is whole along a"""
    (zeros, v), axes = x.operands, node.params["axes"]
    if not is_zero(zeros):
        return None
    window, shape = window_set(x), zeros.type.shape
    if not all(is_whole((window[a],), (shape[a],)) for a in axes):
        return None
    kept = [a for a in range(x.ndim) if a not in axes]
    start, step = (tuple(x.params[name][a] for a in kept) for name in ("start", "step"))
    return SET_SLICE(full(0, node.type.shape, node.dtype), node.op(v, axes=axes), start=start, step=step)


@rules.nested(Reduction, of=[SLICE])
def reduce_reversed(node: Node, view: Node) -> Node | None:
    """sum(x[::-1], 0) -> sum(x, 0)"""
    turned = reversed_axes(view) & set(node.params["axes"])
    return node.op(flipped(view, turned), axes=node.params["axes"]) if turned else None


@rules.nested(SUM, of=[CONCATENATE])
def sum_of_concatenate(node: Node, x: Node) -> Node | None:
    """sum(concatenate(x, y; i), a) -> concatenate(sum(x, a), sum(y, a); i), where i is not in a"""
    axes = node.params["axes"]
    if x.params["axis"] in axes or not any(map(is_linear_sum, x.operands)):
        return None
    axis = x.params["axis"] - sum(a < x.params["axis"] for a in axes)
    return CONCATENATE(*(node.op(part, axes=axes) for part in x.operands), axis=axis)


def is_linear_sum(node: Node) -> bool:
    """Whether a sum over this node melts into it: a contraction or zeros."""
    return node.op is CONTRACT or is_zero(node)


# ---- sums and contractions -------------------------------------------------------------------------------------------


@rules.counting(SUM)
def sum_of_contract(node: Node, used: Callable[[Node], int]) -> Node | None:
    """sum_t sum_k a_tik b_tkj -> sum_tk a_tik b_tkj;  sum_i sum_k a_ik b_kj -> sum_k (sum_i a_ik) b_kj, for constants
    b; if nothing else needs the product"""
    (product,), axes = node.operands, node.params["axes"]
    if product.op is not CONTRACT or product.dtype == np.bool_ or used(product) > 1:
        return None
    (a, b), left, right, out = _operands(product)
    summed = {out[axis] for axis in axes}
    own, others = summed - set(right), summed - set(left)
    if (own and not is_finite(b)) or (others and not is_finite(a)):
        return None
    a, left = _sum_alone(a, left, own)
    b, right = _sum_alone(b, right, others)
    return contract(a, b, left, right, tuple(label for label in out if label not in summed))


def _operands(product: Node) -> tuple[tuple[Node, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    p = product.params
    return product.operands, p["left"], p["right"], p["out"]


def _sum_alone(x: Node, labels: tuple[int, ...], alone: set[int]) -> tuple[Node, tuple[int, ...]]:
    """An operand summed over labels that only it has."""
    axes = tuple(a for a, label in enumerate(labels) if label in alone)
    if not axes:
        return x, labels
    return SUM(x, axes=axes), tuple(label for label in labels if label not in alone)


@rules.counting(SUM)
def sum_of_product(node: Node, used: Callable[[Node], int]) -> Node | None:
    """sum_k a[i, k, None] * b[None, k, j] -> sum_k a_ik b_kj: a product of matrices that is written with broadcasts"""
    (product,), axes = node.operands, node.params["axes"]
    kind = product.type.kind
    if product.op is not MUL or not (kind.floating or kind.signed) or used(product) > 1:
        return None
    wide, every = product.type.shape, tuple(range(product.ndim))
    (a, left), (b, right) = (_narrow(broadcast_to(x, wide), every) for x in product.operands)
    mine, others = set(left) - set(right), set(right) - set(left)
    out = tuple(axis for axis in range(product.ndim) if axis not in axes)
    if set(left) | set(right) != set(range(product.ndim)) or not mine & set(out) or not others & set(out):
        return None
    if not set(axes) <= set(left) & set(right):
        return None
    return contract(a, b, left, right, out)


@rules.rule(CONTRACT, among=[DIMSHUFFLE])
def contract_of_dimshuffle(node: Node) -> Node | None:
    """dimshuffle(a) @ b -> the same contraction of a, with its labels in another order"""
    (a, b), left, right, out = _operands(node)
    for x, labels, first in ((a, left, True), (b, right, False)):
        if x.op is not DIMSHUFFLE:
            continue
        (base,), order = x.operands, x.params["order"]
        if None in order or len(order) != base.ndim:
            continue
        new = tuple(labels[order.index(axis)] for axis in range(base.ndim))
        return contract(base, b, new, right, out) if first else contract(a, base, left, new, out)
    return None


@rules.rule(CONTRACT)
def contract_of_reversed(node: Node) -> Node | None:
    """sum_k a[::-1]_ki b[::-1]_kj -> sum_k a_ki b_kj;  sum_k a[::-1]_ki b_kj -> sum_k a_ki b[::-1]_kj, where a is a
    result of a loop and b is not: so the product can be computed while the loop runs"""
    (a, b), left, right, out = _operands(node)
    shared = (set(left) & set(right)) - set(out)
    mine, others = ({labels[i] for i in reversed_axes(x)} & shared for x, labels in ((a, left), (b, right)))
    turned = mine & others
    if not turned:
        turned = {
            label for x, y, some in ((a, b, mine), (b, a, others)) if _of_loop(x) and not _of_loop(y) for label in some
        }
    if not turned:
        return None
    a, b = (
        flipped(x, {i for i, label in enumerate(labels) if label in turned}) for x, labels in ((a, left), (b, right))
    )
    return contract(a, b, left, right, out)


def _of_loop(x: Node) -> bool:
    """Whether a node is a result of a loop, or a window of one."""
    return (x.operands[0] if x.op is SLICE else x).op is PART


@rules.rule(CONTRACT, among=[BROADCAST_TO, DIMSHUFFLE])
def contract_of_stretched(node: Node) -> Node | None:
    """an operand that does not vary along a label (broadcast, or a new axis of size 1) is taken without it:
    sum_k a_i b_kj -> a_i (sum_k b_kj), for constants a;  where none varies along it, the result is stretched"""
    (a, b), left, right, out = _operands(node)
    if node.dtype == np.bool_:
        return None
    (a, mine), (b, other) = _narrow(a, left), _narrow(b, right)
    if len(mine) == len(left) and len(other) == len(right):
        return None
    summed = {label for label in (*left, *right) if label not in out}
    if summed - set(mine) - set(other):  # a sum over equal values: a product with their count rounds differently
        return None
    if not (summed <= set(mine) or is_finite(a)) or not (summed <= set(other) or is_finite(b)):
        return None
    (b, other), (a, mine) = _sum_alone(b, other, summed - set(mine)), _sum_alone(a, mine, summed - set(other))
    have = {*mine, *other}
    narrow = contract(a, b, mine, other, tuple(label for label in out if label in have))
    kept = iter(range(narrow.ndim))
    return stretch(DIMSHUFFLE(narrow, order=tuple(next(kept) if label in have else None for label in out)), node)


def _narrow(x: Node, labels: tuple[int, ...]) -> tuple[Node, tuple[int, ...]]:
    """An operand without the axes along which it is certainly the same, and their labels dropped."""
    base, shape = (x.operands[0], x.type.shape) if x.op is BROADCAST_TO else (x, x.type.shape)
    lead = len(shape) - base.ndim
    new = {i for i, a in enumerate(base.params["order"]) if a is None} if base.op is DIMSHUFFLE else set()
    own = [a for a in range(base.ndim) if a not in new and (base.type.shape[a] == shape[a + lead])]
    dropped = [a for a in range(base.ndim) if a not in own]
    if len(own) == x.ndim or any(base.type.shape[a] != 1 for a in dropped):
        return x, labels
    bare = base if not dropped else DIMSHUFFLE(base, order=tuple(own))
    return bare, tuple(labels[a + lead] for a in own)


@rules.rule(CONTRACT)
def contract_without_sum(node: Node) -> Node | None:
    """a_i b_ij -> a[:, None] * b: nothing is summed, so it is an elementwise product"""
    (a, b), left, right, out = _operands(node)
    if set(left) | set(right) != set(out) or node.dtype == np.bool_:
        return None
    views = []
    for x, labels in ((a, left), (b, right)):
        order = [labels.index(label) if label in labels else None for label in out]
        while order and order[0] is None:
            order.pop(0)
        views.append(DIMSHUFFLE(x, order=tuple(order)))
    return stretch(MUL(*views), node)

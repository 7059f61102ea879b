"""Products of tensors: all are one `contract`, with labels for the axes."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from scanjit import errors, types
from scanjit.ir import Node, apply
from scanjit.ops.contraction import contract
from scanjit.ops.elementwise import MUL, where
from scanjit.ops.index import GATHER
from scanjit.ops.shape import IOTA
from scanjit.ops.stretch import SUM, broadcast_to
from scanjit.ops.view import DIMSHUFFLE
from scanjit.symbol import TensorLike
from scanjit.tensor.complex_numbers import conj
from scanjit.tensor.creation import eye
from scanjit.tensor.joining import pad, stack
from scanjit.tensor.reductions import sum as sum_
from scanjit.tensor.shapes import moveaxis, ravel, reshape, specify_shape
from scanjit.tensor.variables import DIAGONAL, as_tensor, axes_as_given, axis_of, integer, promoted

Label = Any

__all__ = [
    "cross",
    "diag",
    "diagflat",
    "diagonal",
    "dot",
    "einsum",
    "inner",
    "kron",
    "matmul",
    "matvec",
    "multi_dot",
    "outer",
    "tensordot",
    "trace",
    "vdot",
    "vecdot",
    "vecmat",
]


def dot(a: TensorLike, b: TensorLike) -> Node:
    """The sum of products over the last axis of `a` and the last but one (of a vector, the only one) of `b`.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.dot(sj.tensor(("T", "B", 3)), sj.tensor((3, 4)))
    <contract: float64(T, B, 4)>
    """
    a, b = promoted((a, b))
    if a.ndim == 0 or b.ndim == 0:
        return apply(MUL, a, b)
    summed = a.ndim - 1
    left = list(range(a.ndim))
    right = list(range(a.ndim, a.ndim + b.ndim))
    right[max(b.ndim - 2, 0)] = summed
    return contract(a, b, left, right, [*left[:-1], *(label for label in right if label != summed)])


def matmul(a: TensorLike, b: TensorLike) -> Node:
    """Matrix products, as `@` computes them. The last two axes are matrices; the axes before them are broadcast.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.matmul(sj.tensor(("B", 2, 3)), sj.tensor((3, "n")))
    <contract: float64(B, 2, n)>
    """
    a, b = promoted((a, b))
    if a.ndim == 0 or b.ndim == 0:
        raise errors.ShapeError("matmul takes no scalars", got=f"{a.type} @ {b.type}", fix="use *")
    core = [0, 1] if a.ndim > 1 else [1], [1, 2] if b.ndim > 1 else [1]
    ndim = max(a.ndim, b.ndim, 2) - 2
    lead = list(range(3, 3 + ndim))
    (a, left), (b, right) = _stretched(
        a,
        [*lead[ndim - a.ndim + len(core[0]) :], *core[0]],
        b,
        [*lead[ndim - b.ndim + len(core[1]) :], *core[1]],
        fixed=[1],
    )
    return contract(a, b, left, right, [*lead, *core[0][:-1], *core[1][1:]])


def _stretched(
    a: Node, left: Sequence[Label], b: Node, right: Sequence[Label], fixed: Sequence[Label] = ()
) -> tuple[tuple[Node, list[Label]], tuple[Node, list[Label]]]:
    """Two operands with the labels of their axes. An axis of size 1 is left out if the other operand has another size
    at its label.

    Axes with a label in `fixed` stay: their sizes must be equal.
    """
    of_a, of_b = (dict(zip(labels, x.type.shape, strict=True)) for x, labels in ((a, left), (b, right)))

    def kept(x: Node, own: dict[Label, Any], other: dict[Label, Any]) -> tuple[Node, list[Label]]:
        labels = [label for label in own if own[label] != 1 or other.get(label, 1) == 1 or label in fixed]
        if len(labels) == x.ndim:
            return x, labels
        return DIMSHUFFLE(x, order=tuple(i for i, label in enumerate(own) if label in labels)), labels

    return kept(a, of_a, of_b), kept(b, of_b, of_a)


def outer(a: TensorLike, b: TensorLike) -> Node:
    """Every element of `a` times every element of `b`, as a matrix.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.outer([1, 2], [3, 4]), mode="reference")()
    array([[3, 4],
           [6, 8]])
    """
    a, b = promoted((a, b))
    return contract(ravel(a), ravel(b), [0], [1], [0, 1])


def inner(a: TensorLike, b: TensorLike) -> Node:
    """The sum of products over the last axes of both.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.inner([1, 2], [[3, 4], [5, 6]]), mode="reference")()
    array([11, 17])
    """
    a, b = promoted((a, b))
    return apply(MUL, a, b) if a.ndim == 0 or b.ndim == 0 else tensordot(a, b, ([-1], [-1]))


def vdot(a: TensorLike, b: TensorLike) -> Node:
    """The sum of products of all elements; of complex ones, with the conjugates of those of `a`.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.vdot([[1, 2]], [[3, 4]]), mode="reference")()
    array(11)
    """
    a, b = promoted((a, b))
    return contract(ravel(conj(a)), ravel(b), [0], [0], [])


def tensordot(a: TensorLike, b: TensorLike, axes: Any = 2) -> Node:
    """The sum of products over pairs of axes.

    Parameters
    ----------
    a, b : tensor_like
    axes : int or a pair of (sequences of) ints
        A number n: the last n axes of `a` are summed with the first n axes of `b`. A pair: the axes of `a`, and the
        axes of `b` that they are summed with.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.tensordot(sj.tensor(("B", 2, 3)), sj.tensor((3, 2, 4)), ([1, 2], [1, 0]))
    <contract: float64(B, 4)>
    """
    a, b = promoted((a, b))
    if isinstance(axes, int | np.integer):
        if not 0 <= axes <= min(a.ndim, b.ndim):
            raise errors.ShapeError("tensordot sums over axes that both have", got=f"axes={axes} of {a.type}, {b.type}")
        of_a, of_b = list(range(a.ndim - axes, a.ndim)), list(range(axes))
    elif isinstance(axes, tuple | list) and len(axes) == 2:
        of_a, of_b = (list(axes_as_given(given, x.ndim)) for given, x in zip(axes, (a, b), strict=True))
    else:
        raise errors.ArgumentError("axes of tensordot are a number or a pair", got=repr(axes))
    if len(of_a) != len(of_b):
        raise errors.ArgumentError("tensordot pairs axes", got=axes)
    left, right = list(range(a.ndim)), list(range(a.ndim, a.ndim + b.ndim))
    for i, j in zip(of_a, of_b, strict=True):
        right[j] = left[i]
    free = [label for i, label in enumerate(left) if i not in of_a]
    return contract(a, b, left, right, free + [label for j, label in enumerate(right) if j not in of_b])


def _entries(x: Node, axis: int) -> list[Node]:
    """The three entries of vectors that stand along an axis."""
    axis = axis_of(axis, x.ndim)
    sizes = [3 if i == axis else None for i in range(x.ndim)]
    x = specify_shape(x, sizes, "the tensor of vectors of a cross product")
    return [x[(*[slice(None)] * axis, i)] for i in range(3)]


def cross(a: TensorLike, b: TensorLike, axis: int = -1) -> Node:
    """The cross product of vectors of 3 entries, which stand along an axis.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.cross([1, 2, 3], [4, 5, 6]), mode="reference")()
    array([-3,  6, -3])
    """
    (a1, a2, a3), (b1, b2, b3) = (_entries(as_tensor(x), axis) for x in (a, b))
    return stack([a2 * b3 - a3 * b2, a3 * b1 - a1 * b3, a1 * b2 - a2 * b1], axis)


def kron(a: TensorLike, b: TensorLike) -> Node:
    """The Kronecker product: each element of `a` times all of `b`.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.kron([1, 10], [1, 2]), mode="reference")()
    array([ 1,  2, 10, 20])
    """
    a, b = as_tensor(a), as_tensor(b)
    ndim = max(a.ndim, b.ndim)
    left, right = (reshape(x, (*[1] * (ndim - x.ndim), *x.type.shape)) for x in (a, b))
    apart = DIMSHUFFLE(left, order=tuple(i // 2 if i % 2 == 0 else None for i in range(2 * ndim)))
    beside = DIMSHUFFLE(right, order=tuple(i // 2 if i % 2 else None for i in range(2 * ndim)))
    shape = tuple(m * n for m, n in zip(left.type.shape, right.type.shape, strict=True))
    return reshape(apart * beside, shape)


def diagonal(x: TensorLike, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Node:
    """The entries whose indices along two axes are equal, along a new last axis. With an `offset`, the second index is
    larger by it.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.diagonal([[1, 2], [3, 4]]), mode="reference")()
    array([1, 4])
    """
    x = as_tensor(x)
    i, j = axis_of(axis1, x.ndim), axis_of(axis2, x.ndim)
    rest = [a for a in range(x.ndim) if a not in (i, j)]
    n, m, offset = x.type.shape[i], x.type.shape[j], integer(offset, DIAGONAL)
    count = types.maximum(types.minimum(n, m - offset) if offset >= 0 else types.minimum(n + offset, m), 0)
    at = IOTA(length=count)
    rows, columns = (at, at + offset if offset else at) if offset >= 0 else (at - offset, at)
    return GATHER(DIMSHUFFLE(x, order=(*rest, i, j)), rows, columns, axis=len(rest))


def trace(x: TensorLike, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Node:
    """The sum of a diagonal.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.trace([[1, 2], [3, 4]]), mode="reference")()
    array(5)
    """
    return sum_(diagonal(x, offset, axis1, axis2), axis=-1)


def diag(x: TensorLike, k: int = 0) -> Node:
    """The k-th diagonal of a matrix; or the matrix with a vector on its k-th diagonal.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.diag([1, 2]), mode="reference")()
    array([[1, 0],
           [0, 2]])
    """
    x = as_tensor(x)
    if x.ndim == 2:
        return diagonal(x, k)
    if x.ndim != 1:
        raise errors.ShapeError("diag takes a vector or a matrix", got=x.type)
    k = integer(k, DIAGONAL)
    n = x.type.shape[0] + abs(k)
    padded = x if k == 0 else _padded(x, max(k, 0), max(-k, 0))
    return where(eye(n, k=k, dtype="bool"), DIMSHUFFLE(padded, order=(None, 0)), 0)


def diagflat(v: TensorLike, k: int = 0) -> Node:
    """A matrix with all elements of a tensor on one of its diagonals. See `diag`.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.diagflat([[1, 2]]), mode="reference")()
    array([[1, 0],
           [0, 2]])
    """
    return diag(ravel(v), k)


def _padded(x: Node, before: int, after: int) -> Node:
    return pad(x, ((before, after),))


def einsum(subscripts: str, *operands: Any) -> Node:
    """Sums of products, in Einstein's notation: `einsum("bij,jk->bik", a, b)`. Operands are joined left to right.

    Parameters
    ----------
    subscripts : str
        As for `numpy.einsum`, with or without an arrow; `...` stands for axes that are not named.
    operands : tensor_like

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.einsum("bij,bjk->bik", sj.tensor(("B", 2, 3)), sj.tensor(("B", 3, 4)))
    <contract: float64(B, 2, 4)>
    """
    if not isinstance(subscripts, str):
        raise errors.ArgumentError(
            "the subscripts of einsum are a string", got=repr(subscripts), expected='"ij,jk->ik"'
        )
    nodes = promoted(operands)
    given, out = _subscripts(subscripts, nodes)
    nodes, labels = map(list, zip(*(_distinct(x, names) for x, names in zip(nodes, given, strict=True)), strict=True))
    total, names = nodes[0], labels[0]
    for i, (x, own) in enumerate(zip(nodes[1:], labels[1:], strict=True), start=1):
        later = {*out, *(name for rest in labels[i + 1 :] for name in rest)}
        (total, names), (x, own) = _stretched(total, names, x, own)
        total, names = _without(total, names, {*own, *later})
        x, own = _without(x, own, {*names, *later})
        kept = [name for name in dict.fromkeys([*names, *own]) if name in later]
        numbers = {name: k for k, name in enumerate(dict.fromkeys([*names, *own]))}
        total = contract(total, x, *([numbers[name] for name in part] for part in (names, own, kept)))
        names = kept
    total, names = _without(total, names, set(out))
    order = tuple(names.index(name) for name in out)
    return total if order == tuple(range(total.ndim)) else DIMSHUFFLE(total, order=order)


def _subscripts(text: str, nodes: Sequence[Node]) -> tuple[list[list[str]], list[str]]:
    """The labels of the axes of each operand, and of the result. The axes that an ellipsis stands for have numbers as
    labels: "1" is the last of them."""
    inputs, arrow, result = text.replace(" ", "").partition("->")
    parts = inputs.split(",")
    if len(parts) != len(nodes):
        raise errors.ArgumentError(
            "einsum has another number of operands than subscripts", got=f"{text!r}, {len(nodes)}"
        )
    given = []
    widest = 0
    for part, x in zip(parts, nodes, strict=True):
        free = x.ndim - len(part.replace("...", ""))
        if free < 0 or (free and "..." not in part):
            raise errors.ShapeError("the subscripts do not fit the operand", got=f"{part!r} for {x.type}")
        before, dots, after = part.partition("...")
        widest = max(widest, free) if dots else widest
        given.append([*before, *(str(k) for k in range(free, 0, -1)), *after])
    hidden = [str(k) for k in range(widest, 0, -1)]
    if not arrow:
        named = [label for labels in given for label in labels if not label.isdigit()]
        return given, [*hidden, *sorted(label for label in set(named) if named.count(label) == 1)]
    before, dots, after = result.partition("...")
    out = [*before, *(hidden if dots else []), *after]
    if len(set(out)) != len(out) or not set(out) <= {label for labels in given for label in labels}:
        raise errors.ArgumentError("the result of einsum names axes once, and only those of operands", got=text)
    return given, out


def _distinct(x: Node, names: Sequence[str]) -> tuple[Node, list[str]]:
    """An operand whose labels are all different: two axes with one label become their diagonal."""
    names = list(names)
    for name in dict.fromkeys(names):
        while names.count(name) > 1:
            i = names.index(name)
            j = names.index(name, i + 1)
            shape = list(x.type.shape)
            shape[j] = types.equate(shape[j], shape[i], f"the sizes of axes named {name!r}")
            shape[i] = shape[j]
            x = diagonal(broadcast_to(x, shape), 0, i, j)
            names = [n for k, n in enumerate(names) if k not in (i, j)] + [name]
    return x, names


def _without(x: Node, names: Sequence[str], kept: set[str]) -> tuple[Node, list[str]]:
    """An operand, summed over the axes whose labels are not in `kept`."""
    axes = tuple(i for i, name in enumerate(names) if name not in kept)
    return (SUM(x, axes=axes) if axes else x), [name for name in names if name in kept]


def vecdot(x1: TensorLike, x2: TensorLike, axis: int = -1) -> Node:
    """The sum of the products of two tensors along an axis; the first one is conjugated.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.vecdot([[1, 2], [3, 4]], [1, 10]), mode="reference")()
    array([21, 43])
    """
    first, second = conj(x1), as_tensor(x2)
    return einsum("...i,...i->...", moveaxis(first, axis, -1), moveaxis(second, axis, -1))


def matvec(x1: TensorLike, x2: TensorLike) -> Node:
    """The products of matrices (the last two axes of `x1`) and vectors (the last axis of `x2`).

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.matvec([[1, 2], [3, 4]], [1, 10]), mode="reference")()
    array([21, 43])
    """
    return einsum("...ij,...j->...i", as_tensor(x1), as_tensor(x2))


def vecmat(x1: TensorLike, x2: TensorLike) -> Node:
    """The products of vectors (the last axis of `x1`), conjugated, and matrices (the last two axes of `x2`).

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.vecmat([1, 10], [[1, 2], [3, 4]]), mode="reference")()
    array([31, 42])
    """
    return einsum("...i,...ij->...j", conj(x1), as_tensor(x2))


def multi_dot(arrays: Sequence[TensorLike]) -> Node:
    """The product of several matrices, in the order that takes the fewest multiplications.

    The first and the last one may be vectors. A size that is not known counts as 1000.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.multi_dot([[1, 2], [[3, 4], [5, 6]], [7, 8]]), mode="reference")()
    array(219)
    """
    nodes = [as_tensor(a) for a in arrays]
    if len(nodes) < 2:
        raise errors.ArgumentError("multi_dot multiplies at least two tensors", got=len(nodes))
    for place, node in enumerate(nodes):
        if node.ndim != 2 and (node.ndim != 1 or 0 < place < len(nodes) - 1):
            raise errors.ShapeError(
                "multi_dot multiplies matrices", got=node.type, expected="a vector only as the first or the last one"
            )
    inner = [node.type.shape[0] for node in nodes[1:]]
    ends = [node.type.shape[i] if node.ndim > 1 else 1 for node, i in ((nodes[0], 0), (nodes[-1], -1))]
    sizes = [size if isinstance(size, int) else 1000 for size in (ends[0], *inner, ends[1])]
    return _in_best_order(nodes, sizes)


def _in_best_order(nodes: Sequence[Node], sizes: Sequence[int]) -> Node:
    """The product of a chain: matrix i has `sizes[i]` rows and `sizes[i + 1]` columns."""

    @functools.cache
    def best(first: int, last: int) -> tuple[int, int]:
        """The fewest multiplications for the matrices from `first` to `last`, and the last matrix of the left part."""
        if first == last:
            return 0, first
        return min(
            (best(first, k)[0] + best(k + 1, last)[0] + sizes[first] * sizes[k + 1] * sizes[last + 1], k)
            for k in range(first, last)
        )

    def product(first: int, last: int) -> Node:
        if first == last:
            return nodes[first]
        k = best(first, last)[1]
        return dot(product(first, k), product(k + 1, last))

    return product(0, len(nodes) - 1)

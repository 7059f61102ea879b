"""Sorting, and functions that follow from an order: places in sorted vectors, distinct elements, counts.

All of them are made of the ops `sort` and `argsort` and of indexing, and have their derivatives from these: each
element of a sorted tensor has the derivative of the element that it was before.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from scanjit import errors, types
from scanjit.ir import Node, Op, constant, dim_node
from scanjit.ops.branch import captured
from scanjit.ops.elementwise import MINIMUM, where
from scanjit.ops.expect import expect
from scanjit.ops.index import GATHER, SCATTER
from scanjit.ops.promotion import cast
from scanjit.ops.shape import CONCATENATE, IOTA, RESHAPE, SET_SLICE, flip, window
from scanjit.ops.sorting import ARGPARTITION, ARGRANKED, ARGSORT, PARTITION, SEARCHED, SORT, entries
from scanjit.ops.stretch import broadcast_to, constant_value, full
from scanjit.symbol import TensorLike
from scanjit.tensor.cumulative import cumsum
from scanjit.tensor.places import nonzero, take
from scanjit.tensor.probes import assert_
from scanjit.tensor.reductions import count_nonzero, max as max_of
from scanjit.tensor.shapes import moveaxis, ravel, specify_shape
from scanjit.tensor.variables import along_axis, as_tensor, dimension, inexact, promoted
from scanjit.types import Dimension

__all__ = [
    "argpartition", "argsort", "bincount", "digitize", "partition", "searchsorted", "sort", "top_k", "unique"
]  # fmt: skip

PARTS = 8, 64
"""`top_k` cuts rows whose length is known only when a function runs into parts of so many elements: small ones, and
large ones if rows have more than `MANY` times as many elements as are wanted."""
MANY = 512
"""See `PARTS`."""
SHORT = 64
"""Rows that are known to have at most this many elements are sorted rather than partitioned."""
CUT = 256
"""Rows are not cut if they have fewer bytes than this for each element that is wanted."""


# ---- sorting ---------------------------------------------------------------------------------------------------------


def argsort(
    x: TensorLike, axis: int | None = -1, kind: str | None = None, *, descending: bool = False, stable: bool = True
) -> Node:
    """The places (int64) of the elements along an axis, the smallest element first. NaN comes last.

    Parameters
    ----------
    x : tensor_like
    axis : int or None
        None sorts all elements in row-major order.
    kind : str, optional
        What NumPy takes. Every order here is stable: equal elements stay in order.
    descending : bool
        Whether the largest element comes first; before it comes NaN.
    stable : bool
        As `kind`.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.argsort([3.0, float("nan"), 1.0, 3.0]), mode="reference")()
    array([2, 0, 3, 1])
    """
    x, axis = _along(x, axis)
    return moveaxis(_order(moveaxis(x, axis, -1), descending), -1, axis)


def sort(
    x: TensorLike, axis: int | None = -1, kind: str | None = None, *, descending: bool = False, stable: bool = True
) -> Node:
    """The elements in order along an axis, NaN last. Arguments as for `argsort`.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.sort([[3, 1, 2], [9, 7, 8]]), mode="reference")()
    array([[1, 2, 3],
           [7, 8, 9]])
    """
    x, axis = _along(x, axis)
    rows = moveaxis(x, axis, -1)
    found = SORT(rows)
    return moveaxis(flip(found, rows.ndim - 1) if descending else found, -1, axis)


def partition(x: TensorLike, kth: Any, axis: int | None = -1, kind: str | None = None) -> Node:
    """The elements along an axis such that those at the places `kth` are where they are in the sorted tensor, smaller
    ones before them and larger ones behind. Which of these comes first is not promised.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.partition([4, 3, 1, 2], 1)[1], mode="reference")()
    array(2)
    """
    return _partitioned(PARTITION, SORT, x, kth, axis)


def argpartition(x: TensorLike, kth: Any, axis: int | None = -1, kind: str | None = None) -> Node:
    """The places of the elements in an order such as that of `partition`. Of equal elements, or of those before or
    behind a place, any may come first.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.argpartition([4, 3, 1, 2], 1)[1], mode="reference")()
    array(3)
    """
    return _partitioned(ARGPARTITION, ARGSORT, x, kth, axis)


def top_k(x: TensorLike, k: Any, axis: int = -1) -> tuple[Node, Node]:
    """The `k` largest elements along an axis, the largest first, and their places. NaN counts as larger than all. Of
    equal elements, the first comes first.

    Parameters
    ----------
    x : tensor_like
    k : int or integer scalar
        At most the size of the axis.
    axis : int

    Examples
    --------
    >>> import scanjit as sj
    >>> values, places = sj.top_k([5.0, 1.0, 7.0], 2)
    >>> sj.function([], [values, places], mode="reference")()
    [array([7., 5.]), array([2, 0])]
    """
    x, axis = _along(x, axis)
    count = dimension(k)
    n = x.type.shape[axis]
    if isinstance(count, int) and (count < 0 or (isinstance(n, int) and count > n)):
        raise errors.ArgumentError("top_k gives some of the elements", got=f"k={count}", expected=f"0 to {n}")
    few = "top_k finds the {left} largest of an axis, which has {right} entries"
    x = expect(x, (0, count, "top_k finds the {right} largest: k must not be negative"), (count, n, few), error="shape")
    rows = moveaxis(x, axis, -1)
    order = _largest(rows, count)
    return moveaxis(entries(rows, order), -1, axis), moveaxis(order, -1, axis)


def _along(x: TensorLike, axis: int | None) -> tuple[Node, int]:
    """A tensor and one of its axes. If the axis is None, all elements are along one axis."""
    x = as_tensor(x)
    if axis is not None and not x.ndim:
        raise errors.ShapeError("a scalar has no order", got=x.type, expected="a tensor with an axis to sort along")
    return along_axis(x, axis)


def _largest(rows: Node, count: Dimension) -> Node:
    """The places of the `count` largest elements of rows.

    A row is cut into parts. The `count` parts whose largest elements are the largest hold all of these elements. So
    instead of the row, its parts are put in order, and then the elements of these few parts.
    """
    n, size = rows.type.shape[-1], rows.dtype.itemsize
    if isinstance(n, int) and isinstance(count, int):
        known = _part(n, count)
        return _by_parts(rows, count, known, _largest) if known else _first(rows, count)
    if isinstance(n, int) and n * size <= CUT:
        return _first(rows, count)
    small, large = PARTS
    part = small + (large - small) * types.minimum(n // (MANY * types.maximum(count, 1)), 1)
    found = [_by_parts(rows, count, part, _first)], [_first(rows, count)]
    return captured(dim_node(n * size) > dim_node(CUT * count), *found, at={rows})[0]


def _by_parts(rows: Node, count: Dimension, part: Dimension, largest: Callable[[Node, Dimension], Node]) -> Node:
    """The same as `_largest`, by parts of a size. `largest` finds the parts, and the elements of these."""
    *batch, n = rows.type.shape
    last, many = rows.ndim - 1, n // part
    chosen = types.minimum(count, many)
    best = max_of(RESHAPE(window(rows, last, 0, many * part), shape=(*batch, many, part)), axis=-1)
    first = SORT(largest(best, chosen))  # in the order of the row, so that equal elements stay in order
    size = dim_node(part)
    inside = RESHAPE(first[..., None] * size + IOTA(length=part), shape=(*batch, chosen * part))
    behind = window(rows, last, many * part, n - many * part)
    found = largest(CONCATENATE(entries(rows, inside), behind, axis=last), count)
    moved = (first - IOTA(length=chosen)) * size  # how far each part has come towards the start of the row
    moved = CONCATENATE(moved, broadcast_to(dim_node((many - chosen) * part), (*batch, 1)), axis=last)
    return found + entries(moved, MINIMUM(found // size, dim_node(chosen)))


def _first(rows: Node, count: Dimension) -> Node:
    """The same as `_largest`, without parts: the flipped order of flipped rows has equal elements in order."""
    end = dim_node(rows.type.shape[-1] - 1)
    return end - ARGRANKED(flip(rows, rows.ndim - 1), end - IOTA(length=count))


def _part(n: int, count: int) -> int:
    """The size of the parts of a row, so that few elements have to be sorted; 0 if the whole row is sorted."""
    if count == 0:
        return 0
    part = 1 << round(math.log2(max(n / count, 1)) / 2)
    return part if part > 1 and 3 * (n // part + part * count) <= 2 * n else 0


def _order(rows: Node, descending: bool) -> Node:
    """The places of the elements of rows. Backwards, the order of the flipped rows has equal elements in order."""
    if not descending:
        return ARGSORT(rows)
    last = rows.ndim - 1
    return dim_node(rows.type.shape[last] - 1) - flip(ARGSORT(flip(rows, last)), last)


def _partitioned(op: Op, whole: Op, x: TensorLike, kth: Any, axis: int | None) -> Node:
    """The result of `op` for the places of rows along an axis; that of `whole` for rows that are known to be short."""
    x, axis = _along(x, axis)
    x = _with_places(kth, x, axis)
    rows, n = moveaxis(x, axis, -1), x.type.shape[axis]
    places = np.unique(np.ravel(kth)).astype(np.int64)
    if isinstance(n, int) and n <= SHORT:
        return moveaxis(whole(rows), -1, axis)
    return moveaxis(op(rows, where(constant(places < 0), dim_node(n) + places, places)), -1, axis)


def _with_places(kth: Any, x: Node, axis: int) -> Node:
    """The tensor, after a check that its axis has all places of a partition."""
    n = x.type.shape[axis]
    for place in np.ravel(kth):
        if not isinstance(place, int | np.integer):
            raise errors.ArgumentError("kth of a partition must be one or more ints", got=repr(kth))
        if isinstance(n, int) and not -n <= place < n:
            raise errors.ArgumentError("a partition has no such place", got=f"kth={place}", expected=f"{-n} to {n - 1}")
        least = int(place) + 1 if place >= 0 else -int(place)
        x = expect(x, (least, n, f"a partition has no place {place} among {{right}} elements"), error="shape")
    return x


# ---- places in sorted vectors ----------------------------------------------------------------------------------------


def searchsorted(a: TensorLike, v: TensorLike, side: str = "left", sorter: TensorLike | None = None) -> Node:
    """Where elements would stand in a sorted vector: how many of its elements come before each of `v`.

    Parameters
    ----------
    a : tensor_like
        A sorted vector.
    v : tensor_like
        What to look for. NaN counts as larger than all.
    side : "left" or "right"
        Whether elements of `a` that are equal come behind, or before.
    sorter : tensor_like, optional
        The order of `a`, if it is not sorted.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.searchsorted([1.0, 2.0, 4.0], [2.0, 3.0, 9.0]), mode="reference")()
    array([1, 2, 3])
    """
    errors.check_known("side of searchsorted", side, ("left", "right"))
    a, v = promoted([a, v])
    if a.ndim != 1:
        raise errors.ShapeError("searchsorted looks into a vector", got=a.type, fix="sj.vmap, for several vectors")
    if a.type.kind.is_complex:
        raise errors.DtypeError("complex numbers have no order", got=a.type)
    if sorter is not None:
        a = take(a, specify_shape(sorter, a.type.shape, "the sorter of searchsorted"), 0)
    if a.type.kind.is_mask:
        a, v = cast(a, "int8"), cast(v, "int8")
    return SEARCHED(a, v, side=side)


def _entries(a: Node, place: Node) -> Node:
    """The elements of a vector at places. If the vector is empty, nobody uses the result."""
    n = a.type.shape[0]
    if not types.not_negative(n - 1):
        a = SET_SLICE(full(0, (types.maximum(n, 1),), a.dtype), a, start=(0,), step=(1,))
    return GATHER(a, place, axis=0)


def digitize(x: TensorLike, bins: TensorLike, right: bool = False) -> Node:
    """In which bin each element lies: how many edges it has reached. The edges rise or fall. See `numpy.digitize`.

    Parameters
    ----------
    x : tensor_like
    bins : tensor_like
        The edges. Whether they rise or fall is checked only if they are known when the function is made.
    right : bool
        Whether an edge belongs to the bin below it.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.digitize([0.2, 6.4, 3.0], [0.0, 1.0, 2.5, 4.0]), mode="reference")()
    array([1, 4, 3])
    """
    x, edges = as_tensor(x), as_tensor(bins)
    if edges.ndim != 1:
        raise errors.ShapeError("the edges of bins are a vector", got=edges.type)
    known = constant_value(edges)
    if known is not None and not ((known[1:] >= known[:-1]).all() or (known[1:] <= known[:-1]).all()):
        raise errors.ArgumentError("the edges of bins must rise or fall", got=known)
    side, n = ("left" if right else "right"), edges.type.shape[0]
    if isinstance(n, int) and n < 2:
        return searchsorted(edges, x, side)
    falls = window(edges, 0, 0, types.minimum(n, 1)) > window(edges, 0, types.maximum(n - 1, 0), types.minimum(n, 1))
    falling = falls.any()
    rising = where(falling, flip(edges, 0), edges)
    found = searchsorted(rising, x, side)
    return where(falling, dim_node(n) - found, found)


# ---- counting --------------------------------------------------------------------------------------------------------


def unique(
    x: TensorLike,
    size: Any = None,
    fill_value: Any = None,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
) -> Any:
    """The distinct elements in order, as a vector of a given size. All NaN count as one.

    Parameters
    ----------
    x : tensor_like
    size : int or integer scalar
        How many elements the result has. It is an error if there are more distinct ones.
    fill_value : number, optional
        What stands behind the distinct elements; by default the first of them.
    return_index, return_inverse, return_counts : bool
        Whether to return the place where each first occurs, the place of each element in the result (of the shape of
        `x`), and how often each occurs too. Where `fill_value` stands, the place is that of the first one, and the
        count 0.

    Examples
    --------
    >>> import scanjit as sj
    >>> values, counts = sj.unique([3, 1, 3], size=3, fill_value=-1, return_counts=True)
    >>> sj.function([], [values, counts], mode="reference")()
    [array([ 1,  3, -1]), array([1, 2, 0])]
    """
    if size is None:
        raise errors.ArgumentError(
            "unique of symbols needs the size of its result", fix="give size=, the largest number of different elements"
        )
    x, count = as_tensor(x), dimension(size)
    flat = ravel(x)
    order = ARGSORT(flat) if return_index or return_inverse else None
    found = SORT(flat) if order is None else GATHER(flat, order, axis=0)
    n = flat.type.shape[0]
    some = types.minimum(n, 1)
    here, before = window(found, 0, some, n - some), window(found, 0, 0, n - some)
    differs = (here != before) & ((here == here) | (before == before))
    new = SET_SLICE(full(True, (n,), "bool"), differs, start=(some,), step=(1,))
    (start,) = nonzero(new, size, dim_node(n))
    start = assert_(count_nonzero(new) <= dim_node(count), start, "unique found more distinct elements than its size")
    met = start < dim_node(n)
    values = _entries(found, where(met, start, 0))
    if fill_value is not None:
        values = where(met, values, cast(as_tensor(fill_value), x.dtype))
    results = [values]
    if return_index and order is not None:
        results.append(_entries(order, where(met, start, 0)))
    if return_inverse and order is not None:
        group = cumsum(cast(new, "int64")) - 1
        results.append(SCATTER(full(0, (n,), "int64"), group, order, axis=0, add=False).reshape(x.type.shape))
    if return_counts:
        some = types.minimum(count, 1)
        ends = CONCATENATE(window(start, 0, some, count - some), full(dim_node(n), (some,), "int64"), axis=0)
        results.append(ends - start)
    return results[0] if len(results) == 1 else tuple(results)


def bincount(x: TensorLike, weights: TensorLike | None = None, minlength: int = 0, *, length: Any = None) -> Node:
    """How often each of the integers 0, 1... occurs in a vector; or the sum of the weights of those that are equal.

    Parameters
    ----------
    x : tensor_like
        Integers, each at least 0 and less than `length`; others are an error.
    weights : tensor_like, optional
        A vector of the same size.
    minlength : int
        `length` must be at least this.
    length : int or integer scalar
        The size of the result.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.bincount([0, 2, 2], length=4), mode="reference")()
    array([1, 0, 2, 0])
    """
    x = as_tensor(x)
    if not (x.type.kind.integral or x.type.kind.is_mask) or x.ndim != 1:
        raise errors.ArgumentError("bincount takes a vector of integers", got=x.type)
    if length is None:
        raise errors.ArgumentError("the size of a result must be known before it is computed", fix="give length=")
    count = dimension(length)
    size: Dimension = types.maximum(count, minlength)
    counted = full(1, x.type.shape, "int64")
    if weights is not None:
        w = inexact(weights)
        if w.ndim != 1:
            raise errors.ShapeError("the weights of bincount are a vector", got=w.type)
        types.equate(w.type.shape[0], x.type.shape[0], "the size of the weights of bincount")
        counted = broadcast_to(w, x.type.shape)
    return SCATTER(full(0, (size,), counted.dtype), counted, cast(x, "int64"), axis=0, add=True)

"""Entries at places that are given as integers: `take`, `nonzero`, `take_along_axis`, and the numbers of places."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from scanjit import errors, ir, types
from scanjit.ir import Node
from scanjit.ops.elementwise import where
from scanjit.ops.index import GATHER
from scanjit.ops.promotion import cast
from scanjit.ops.shape import IOTA, RESHAPE, SET_SLICE, window
from scanjit.ops.sorting import WHERE_TRUE
from scanjit.ops.stretch import constant_value, full
from scanjit.ops.view import along
from scanjit.symbol import TensorLike
from scanjit.tensor.indexing import getitem, index_array, set_
from scanjit.tensor.variables import along_axis, as_tensor, axis_of, dimension
from scanjit.types import minimum

__all__ = ["nonzero", "put_along_axis", "ravel_multi_index", "take", "take_along_axis", "unravel_index"]


def take(x: TensorLike, indices: Any, axis: int | None = None) -> Node:
    """`x[indices]` along an axis; None: of all elements in row-major order.

    Parameters
    ----------
    x : tensor_like
    indices : integers, of any rank
    axis : int or None

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.take(sj.tensor((1000, 64)), sj.imatrix(), axis=0).ndim
    3
    """
    x, axis = along_axis(as_tensor(x), axis)
    return getitem(x, (*[slice(None)] * axis, as_tensor(indices)))


def nonzero(x: TensorLike, size: Any = None, fill_value: Any = 0) -> tuple[Any, ...]:
    """Where a tensor is not zero: for each axis the indices of these elements, in row-major order.

    Parameters
    ----------
    x : tensor_like
    size : int or integer scalar
        How many indices there are, since the size of a result does not depend on values: of more elements the first
        ones are taken. It may be left out for a tensor that is known.
    fill_value : int
        The index that stands where there are fewer elements.

    Returns
    -------
    tuple of Nodes (size,), int64

    Examples
    --------
    >>> import scanjit as sj
    >>> rows, columns = sj.nonzero([[0, 3], [4, 0]], size=3, fill_value=-1)
    >>> sj.function([], [rows, columns], mode="reference")()
    [array([ 0,  1, -1]), array([ 1,  0, -1])]
    """
    x = as_tensor(x)
    if not x.ndim:
        raise errors.ShapeError("nonzero takes tensors of one axis or more", got=x.type)
    if size is None:
        known = constant_value(x)
        if known is None:
            raise errors.NotSupportedError(
                "the number of elements that are not zero is not known",
                got=repr(x),
                fix="say how many there are at most, nonzero(size=n); or use sj.where(mask, x, other)",
            )
        return tuple(as_tensor(index) for index in np.nonzero(known))
    count = dimension(size)
    found = RESHAPE(x, shape=(types.product(x.type.shape),)) != 0
    n = found.type.shape[0]
    first = window(WHERE_TRUE(found), 0, 0, minimum(count, n))
    first = SET_SLICE(full(-1, (count,), "int64"), first, start=(0,), step=(1,))
    return tuple(where(first < 0, fill_value, index) for index in unravel_index(first, x.type.shape))


def unravel_index(indices: TensorLike, shape: Sequence[Any]) -> tuple[Node, ...]:
    """The index along each axis of a tensor of this shape, for positions in row-major order. (Positions outside of it
    are not seen: the first axis goes on.)

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], list(sj.unravel_index([5, 7], (3, 4))), mode="reference")()
    [array([1, 1]), array([1, 3])]
    """
    rest, found = _integers(indices), list[Node]()
    for size in reversed(list(shape)[1:]):
        size = ir.dim_node(ir.as_dim(size))
        found.append(rest % size)
        rest = rest // size
    return (rest, *reversed(found)) if len(shape) else ()


def ravel_multi_index(multi_index: Sequence[TensorLike], dims: Sequence[Any]) -> Node:
    """The positions in row-major order of indices, one tensor an axis, in a tensor of these sizes. (Indices outside of
    them are not seen.)

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.ravel_multi_index(([1, 1], [1, 3]), (3, 4)), mode="reference")()
    array([5, 7])
    """
    if len(multi_index) != len(dims) or not len(dims):
        raise errors.ArgumentError("an index has a tensor for each axis", got=f"{len(multi_index)} of {len(dims)}")
    found = ir.constant(np.int64(0))
    for index, size in zip(multi_index, dims, strict=True):
        found = found * ir.dim_node(ir.as_dim(size)) + _integers(index)
    return found


def _integers(x: TensorLike) -> Node:
    """Integers, as int64. (An empty list is one of floats.)"""
    x = as_tensor(x)
    if not x.type.kind.integral and 0 not in x.type.shape:
        raise errors.ArgumentError("indices must be integers", got=x.type)
    return cast(x, "int64")


def take_along_axis(x: TensorLike, indices: Any, axis: int = -1) -> Node:
    """Entries of `x` at indices along an axis that differ between the other axes. See `numpy.take_along_axis`.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.take_along_axis([[10, 20], [30, 40]], [[1], [0]], axis=1), mode="reference")()
    array([[20],
           [30]])
    """
    x = as_tensor(x)
    return GATHER(x, *_places_along(x, indices, axis), axis=0)


def put_along_axis(x: TensorLike, indices: Any, values: TensorLike, axis: int) -> Node:
    """`x` with values in place of its entries at indices along an axis, that differ between the other axes. (NumPy's
    function of this name changes an array, which symbols do not.)

    Examples
    --------
    >>> import scanjit as sj
    >>> x = [[10, 20], [30, 40]]
    >>> sj.function([], sj.put_along_axis(x, [[1], [0]], 7, axis=1), mode="reference")()
    array([[10,  7],
           [ 7, 40]])
    """
    x = as_tensor(x)
    places = _places_along(x, indices, axis)
    view = GATHER(x, *places, axis=0)
    view.base = x
    return set_(view, values)


def _places_along(x: Node, indices: Any, axis: int) -> list[Node]:
    """The index along each axis of entries of `x` at indices along one axis."""
    index = as_tensor(indices)
    axis = axis_of(axis, x.ndim)
    if index.ndim != x.ndim or not index.type.kind.integral:
        raise errors.ArgumentError("indices must be integers, with the axes of the tensor", got=index.type)
    places = []
    for a, n in enumerate(x.type.shape):
        if a == axis:
            places.append(index_array(index, n, a))
        elif n == 1 or index.type.shape[a] == 1:
            count = n if index.type.shape[a] == 1 else 1
            places.append(along(IOTA(length=count), a, x.ndim))
        else:
            n = types.equate(n, index.type.shape[a], f"dimension {a} of a tensor and of its indices")
            places.append(along(IOTA(length=n), a, x.ndim))
    return places

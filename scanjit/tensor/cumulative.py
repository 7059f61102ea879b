"""Running reductions along an axis: each is a scan."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from scanjit import errors, types
from scanjit.ir import Node, apply
from scanjit.ops.elementwise import MAXIMUM, MINIMUM, where
from scanjit.ops.extremes import ANY
from scanjit.ops.shape import CONCATENATE, window
from scanjit.ops.stretch import SUM, full
from scanjit.ops.view import moved_axis
from scanjit.symbol import TensorLike
from scanjit.tensor.elementwise import logaddexp
from scanjit.tensor.looping import check_callable, scanned
from scanjit.tensor.variables import accumulated, along_axis, as_tensor, axis_of, inexact

__all__ = [
    "accumulate", "cummax", "cummin", "cumprod", "cumsum", "cumulative_prod", "cumulative_sum", "logcumsumexp",
    "nancumprod", "nancumsum",
]  # fmt: skip


def cumsum(x: TensorLike, axis: int | None = None, dtype: DTypeLike | None = None) -> Node:
    """The sums of the elements up to each one, along an axis (None: of all in row-major order). It is a scan.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.cumsum([[1, 2], [3, 4]], axis=0), mode="reference")()
    array([[1, 2],
           [4, 6]])
    """
    x = accumulated(x, dtype)
    nothing = complex(-0.0, -0.0) if x.type.kind.is_complex else -0.0 if x.type.kind.floating else 0  # -0 + -0 is -0
    return _running(x, axis, nothing, lambda total, row: total + row)


def cumprod(x: TensorLike, axis: int | None = None, dtype: DTypeLike | None = None) -> Node:
    """The products of the elements up to each one, along an axis. See `cumsum`.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.cumprod([1, 2, 3, 4]), mode="reference")()
    array([ 1,  2,  6, 24])
    """
    return _running(accumulated(x, dtype), axis, 1, lambda total, row: total * row)


def cumulative_sum(
    x: TensorLike, axis: int | None = None, dtype: DTypeLike | None = None, include_initial: bool = False
) -> Node:
    """The sums of the elements up to each one, along an axis. With `include_initial`, 0 stands in front.

    A tensor with several axes needs the `axis`.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.cumulative_sum([1, 2, 3], include_initial=True), mode="reference")()
    array([0, 1, 3, 6])
    """
    return _cumulative(cumsum, x, axis, dtype, 0 if include_initial else None)


def cumulative_prod(
    x: TensorLike, axis: int | None = None, dtype: DTypeLike | None = None, include_initial: bool = False
) -> Node:
    """The products of the elements up to each one, along an axis. With `include_initial`, 1 stands in front.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.cumulative_prod([1, 2, 3], include_initial=True), mode="reference")()
    array([1, 1, 2, 6])
    """
    return _cumulative(cumprod, x, axis, dtype, 1 if include_initial else None)


def _cumulative(
    running: Callable[..., Node], x: TensorLike, axis: int | None, dtype: DTypeLike | None, first: int | None
) -> Node:
    x = as_tensor(x)
    if axis is None and x.ndim != 1:
        raise errors.ArgumentError("of several axes, one must be named", got=x.type)
    axis = axis_of(0 if axis is None else axis, x.ndim)
    found = running(x, axis, dtype)
    if first is None:
        return found
    start = full(first, (*x.type.shape[:axis], 1, *x.type.shape[axis + 1 :]), found.dtype)
    return CONCATENATE(start, found, axis=axis)


def nancumsum(x: TensorLike, axis: int | None = None, dtype: DTypeLike | None = None) -> Node:
    """The running sums of the elements that are not NaN. See `cumsum`.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.nancumsum([1.0, float("nan"), 2.0]), mode="reference")()
    array([1., 1., 3.])
    """
    return cumsum(_without_nan(x, 0), axis, dtype)


def nancumprod(x: TensorLike, axis: int | None = None, dtype: DTypeLike | None = None) -> Node:
    """The running products of the elements that are not NaN. See `cumsum`.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.nancumprod([2.0, float("nan"), 3.0]), mode="reference")()
    array([2., 2., 6.])
    """
    return cumprod(_without_nan(x, 1), axis, dtype)


def cummax(x: TensorLike, axis: int | None = None) -> Node:
    """The largest of the elements up to each one, along an axis; NaN from the first NaN on. See `cumsum`.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.cummax([1, 3, 2, 4]), mode="reference")()
    array([1, 3, 3, 4])
    """
    x = as_tensor(x)
    return _running(x, axis, x.type.kind.limits[0], lambda best, row: apply(MAXIMUM, best, row))


def cummin(x: TensorLike, axis: int | None = None) -> Node:
    """The smallest of the elements up to each one, along an axis; NaN from the first NaN on. See `cumsum`.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.cummin([3, 4, 1, 2]), mode="reference")()
    array([3, 3, 1, 1])
    """
    x = as_tensor(x)
    return _running(x, axis, x.type.kind.limits[1], lambda best, row: apply(MINIMUM, best, row))


def logcumsumexp(x: TensorLike, axis: int | None = None) -> Node:
    """The logarithms of the running sums of `exp(x)`, without overflow. See `cumsum`.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.logcumsumexp([1000.0, 1000.0]).round(6), mode="reference")()
    array([1000.      , 1000.693147])
    """
    return _running(inexact(x), axis, -np.inf, logaddexp)


def accumulate(function: Callable[[Node, Node], Node], x: TensorLike, axis: int = 0) -> Node:
    """The results of a function of two tensors for the first entries along an axis, one after the other: the first
    entry, `function(first, second)`, `function` of that and the third entry, and so on. This is NumPy's
    `ufunc.accumulate` for a symbol.

    Parameters
    ----------
    function : callable
        Takes its last result and the next entry; returns a tensor of the shape and dtype of an entry.
    x : tensor_like
    axis : int

    Examples
    --------
    >>> import numpy as np
    >>> import scanjit as sj
    >>> x = sj.vector("x")
    >>> sj.function([x], np.subtract.accumulate(x), mode="reference")([5.0, 1.0, 2.0])
    array([5., 4., 2.])
    """
    check_callable(function, "the function of accumulate")
    x = as_tensor(x)
    if x.ndim == 0:
        raise errors.ShapeError("accumulate goes along an axis, and a scalar has none", got=x.type)
    axis = axis_of(axis, x.ndim)
    rows = moved_axis(x, axis, 0)
    size = rows.type.shape[0]
    some = types.minimum(size, 1)
    first, rest = window(rows, 0, 0, some), window(rows, 0, some, size - some)
    start = (ANY if x.type.kind.is_mask else SUM)(first, axes=(0,))  # there may be no first entry
    others = scanned(rest, start, lambda last, entry: as_tensor(function(last, entry)))
    return moved_axis(CONCATENATE(first, others, axis=0), 0, axis)


def _without_nan(x: TensorLike, instead: int) -> Node:
    x = as_tensor(x)
    return where(x == x, x, instead) if x.type.kind.inexact else x


def _running(x: Node, axis: int | None, initial: Any, step: Callable[[Node, Node], Node]) -> Node:
    x, axis = along_axis(x, axis)
    rows = moved_axis(x, axis, 0)
    return moved_axis(scanned(rows, full(initial, rows.type.shape[1:], x.dtype), step), 0, axis)

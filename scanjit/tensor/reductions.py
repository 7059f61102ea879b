"""Reductions over axes, with NumPy's names and arguments."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike

from scanjit import errors, types
from scanjit.ir import Node, dim_node
from scanjit.ops import extremes as ops
from scanjit.ops.elementwise import where
from scanjit.ops.functions import root
from scanjit.ops.parts import size_squared
from scanjit.ops.prod import PROD
from scanjit.ops.promotion import cast, truth
from scanjit.ops.reduction import Reduction
from scanjit.ops.stretch import SUM, broadcast_to, expand
from scanjit.ops.view import DIMSHUFFLE
from scanjit.symbol import Axis, TensorLike
from scanjit.tensor.elementwise import exp, log, stop_gradient
from scanjit.tensor.names import defined
from scanjit.tensor.questions import isclose, isfinite
from scanjit.tensor.shapes import specify_shape
from scanjit.tensor.variables import accumulated, along_axis, as_tensor, axes_of, inexact


def _reduced(op: Reduction, x: Node, axis: Any, keepdims: bool) -> Node:
    axes = axes_of(axis, x.ndim)
    result = op(x, axes=axes) if axes else x
    return expand(result, axes) if keepdims else result


def sum(x: TensorLike, axis: Axis = None, dtype: DTypeLike | None = None, keepdims: bool = False) -> Node:
    """The sum over axes.

    Parameters
    ----------
    x : tensor_like
    axis : int, tuple of ints or None
        The axes to sum over; None for all.
    dtype : a dtype or its name
        What to sum in; by default int64 for bools and integers, else the dtype of `x`.
    keepdims : bool
        Whether the axes stay, with size 1.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.sum(sj.tensor((3, "n")), axis=0)
    <sum: float64(n)>
    """
    return _reduced(SUM, accumulated(x, dtype), axis, keepdims)


def prod(x: TensorLike, axis: Axis = None, dtype: DTypeLike | None = None, keepdims: bool = False) -> Node:
    """The product over axes, with derivatives that are right where there are zeros. Arguments as for `sum`.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.prod([[1, 2], [3, 4]], axis=0), mode="reference")()
    array([3, 8])
    """
    return _reduced(PROD, accumulated(x, dtype), axis, keepdims)


def max(x: TensorLike, axis: Axis = None, keepdims: bool = False) -> Node:
    """The largest over axes, NaN if there is one. Equal ones share the gradient. Arguments as for `sum`.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.max([[1, 5], [3, 4]], axis=1), mode="reference")()
    array([5, 4])
    """
    return _extreme(ops.MAX, as_tensor(x), axis, keepdims)


def min(x: TensorLike, axis: Axis = None, keepdims: bool = False) -> Node:
    """The smallest over axes, NaN if there is one. Equal ones share the gradient. Arguments as for `sum`.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.min([[1, 5], [3, 4]], axis=1), mode="reference")()
    array([1, 3])
    """
    return _extreme(ops.MIN, as_tensor(x), axis, keepdims)


def _extreme(op: Reduction, x: Node, axis: Any, keepdims: bool) -> Node:
    """The largest or smallest; bools are compared as integers."""
    if x.type.kind.is_mask:
        return cast(_reduced(op, cast(x, "int8"), axis, keepdims), "bool")
    return _reduced(op, x, axis, keepdims)


amax, amin = max, min


def any(x: TensorLike, axis: Axis = None, keepdims: bool = False) -> Node:
    """Whether any element is not 0. Arguments as for `sum`.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.any([[0, 1], [0, 0]], axis=1), mode="reference")()
    array([ True, False])
    """
    return _reduced(ops.ANY, truth(as_tensor(x)), axis, keepdims)


def all(x: TensorLike, axis: Axis = None, keepdims: bool = False) -> Node:
    """Whether no element is 0. Arguments as for `sum`.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.all([[2, 1], [0, 1]], axis=1), mode="reference")()
    array([ True, False])
    """
    return _reduced(ops.ALL, truth(as_tensor(x)), axis, keepdims)


def argmax(x: TensorLike, axis: int | None = None, keepdims: bool = False) -> Node:
    """The position (int64) of the first of the largest elements; of the first NaN if there is one.

    Parameters
    ----------
    x : tensor_like
    axis : int or None
        The axis to look along; None looks at all elements in row-major order.
    keepdims : bool
        Whether the axis (all axes) stay, with size 1.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.argmax([[1, 5, 5], [3, 2, 1]], axis=1), mode="reference")()
    array([1, 0])
    """
    return _positions(ops.ARGMAX, as_tensor(x), axis, keepdims)


def argmin(x: TensorLike, axis: int | None = None, keepdims: bool = False) -> Node:
    """The position (int64) of the first of the smallest elements. See `argmax`.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.argmin([[1, 5, 1], [3, 2, 4]], axis=1), mode="reference")()
    array([0, 1])
    """
    return _positions(ops.ARGMIN, as_tensor(x), axis, keepdims)


def _positions(op: ops.ArgReduction, x: Node, axis: int | None, keepdims: bool) -> Node:
    whole, place = along_axis(x, axis)
    found = op(cast(whole, "int8") if x.type.kind.is_mask else whole, axis=place)
    return expand(found, axes_of(axis, x.ndim)) if keepdims else found


# ---- statistics ------------------------------------------------------------------------------------------------------


def _count(x: Node, axis: Any) -> Any:
    """The number of elements that a reduction joins: an int, or a symbol of the dtype of `x`."""
    count = types.product(x.type.shape[a] for a in axes_of(axis, x.ndim))
    return count if isinstance(count, int) else cast(dim_node(count), x.dtype)


def mean(x: TensorLike, axis: Axis = None, dtype: DTypeLike | None = None, keepdims: bool = False) -> Node:
    """The mean over axes; float64 for bools and integers. Arguments as for `sum`.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.mean([[1, 2], [3, 5]], axis=0), mode="reference")()
    array([2. , 3.5])
    """
    x = inexact(x, dtype)
    if x.type.is_half:
        return cast(mean(cast(x, "float32"), axis, keepdims=keepdims), x.dtype)
    return _reduced(SUM, x, axis, keepdims) / _count(x, axis)


def var(x: TensorLike, axis: Axis = None, ddof: float | Node = 0, keepdims: bool = False) -> Node:
    """The variance over axes.

    Parameters
    ----------
    x, axis, keepdims : as for `sum`
    ddof : number
        What is subtracted from the number of elements in the divisor, which is at least 0.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.var([1.0, 3.0], ddof=1), mode="reference")()
    array(2.)
    """
    x = inexact(x)
    if x.type.is_half:
        return cast(var(cast(x, "float32"), axis, ddof, keepdims), x.dtype)
    apart = x - mean(x, axis, keepdims=True)
    squares = size_squared(apart)
    divisor = _count(squares, axis) - ddof
    if isinstance(divisor, Node) and (isinstance(ddof, Node) or ddof > 0):
        divisor = where(divisor > 0, divisor, 0)
    elif not isinstance(divisor, Node) and divisor < 0:
        divisor = 0
    return _reduced(SUM, squares, axis, keepdims) / divisor


def std(x: TensorLike, axis: Axis = None, ddof: float | Node = 0, keepdims: bool = False) -> Node:
    """The standard deviation over axes; arguments as for `var`. Where all elements are equal, the derivative is 0.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.std([1.0, 3.0]), mode="reference")()
    array(1.)
    """
    return root(var(x, axis, ddof, keepdims))


def count_nonzero(x: TensorLike, axis: Axis = None, keepdims: bool = False) -> Node:
    """How many elements are not 0. Arguments as for `sum`.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.count_nonzero([[1, 0], [2, 3]], axis=0), mode="reference")()
    array([2, 1])
    """
    return sum(truth(as_tensor(x)), axis, keepdims=keepdims)


def average(x: TensorLike, axis: Axis = None, weights: TensorLike | None = None, *, keepdims: bool = False) -> Node:
    """The weighted mean over axes.

    Parameters
    ----------
    x, axis, keepdims : as for `sum`
    weights : tensor_like, optional
        Of the shape of `x`, or with one axis, for the `axis`. Where they sum to zero, the mean is a quotient by zero:
        infinite or NaN. (NumPy raises an error then, which says nothing of the other means.)

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.average([1.0, 4.0], weights=[2.0, 1.0]), mode="reference")()
    array(2.)
    """
    x = inexact(x)
    if weights is None:
        return mean(x, axis, keepdims=keepdims)
    w = as_tensor(weights)
    axes = axes_of(axis, x.ndim)
    if w.ndim == 1 and x.ndim > 1 and len(axes) == 1:
        w = specify_shape(w, [x.type.shape[a] for a in axes], "the vector of weights")
        w = DIMSHUFFLE(w, order=tuple(0 if a in axes else None for a in range(x.ndim)))
    elif w.ndim != x.ndim:
        raise errors.ShapeError(
            "weights have the axes of the tensor, or are those of the one axis of the average",
            got=f"{w.type}, axis={axis}",
            expected=f"the shape of {x.type}",
        )
    else:
        w = specify_shape(w, x.type.shape, "the tensor of weights")
    total = sum(x * w, axis, keepdims=keepdims)
    return total / sum(broadcast_to(w, x.type.shape), axis, keepdims=keepdims)


def allclose(a: TensorLike, b: TensorLike, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Node:
    """Whether all elements of `a` and `b` are close. See `isclose`.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.allclose([1.0, 2.0], [1.0, 2.0 + 1e-9]), mode="reference")()
    array(True)
    """
    return all(isclose(a, b, rtol, atol, equal_nan))


def logsumexp(x: TensorLike, axis: Axis = None, keepdims: bool = False) -> Node:
    """`log(sum(exp(x)))` without overflow. Arguments as for `sum`. Where all of `x` is -inf, its gradient is 0.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.logsumexp([1000.0, 1000.0]).round(6), mode="reference")()
    array(1000.693147)
    """
    x = inexact(x)
    axes = axes_of(axis, x.ndim)
    top = max(x, axes, keepdims=True)
    top = stop_gradient(where(isfinite(top), top, 0))
    total = sum(exp(x - top), axes, keepdims=True)
    nothing = total == 0  # its logarithm would have a gradient of 0 * inf
    result = log(where(nothing, 1, total)) + where(nothing, -np.inf, top)
    return result if keepdims else _without(result, axes)


def _without(x: Node, axes: tuple[int, ...]) -> Node:
    return DIMSHUFFLE(x, order=tuple(a for a in range(x.ndim) if a not in axes)) if axes else x


def softmax(x: TensorLike, axis: Axis = -1) -> Node:
    """`exp(x)` divided by its sum along an axis (or over several), without overflow.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.softmax([[0.0, 0.0], [1000.0, 0.0]]), mode="reference")()
    array([[0.5, 0.5],
           [1. , 0. ]])
    """
    x = inexact(x)
    powers = exp(x - stop_gradient(max(x, axis, keepdims=True)))
    return powers / sum(powers, axis, keepdims=True)


def log_softmax(x: TensorLike, axis: Axis = -1) -> Node:
    """The logarithm of `softmax`, also where that is 0.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.log_softmax([0.0, 1000.0]), mode="reference")()
    array([-1000.,     0.])
    """
    x = inexact(x)
    lowered = x - stop_gradient(max(x, axis, keepdims=True))
    return lowered - log(sum(exp(lowered), axis, keepdims=True))


if not TYPE_CHECKING:  # they cannot compute it
    __all__ = defined(globals())

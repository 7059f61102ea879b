"""Norms of vectors and matrices, with NumPy's names and arguments."""

import math
from typing import Any

from scanjit import errors
from scanjit.ir import Node, apply
from scanjit.ops.elementwise import ABS, where
from scanjit.ops.functions import root
from scanjit.ops.parts import size_squared
from scanjit.ops.promotion import cast
from scanjit.ops.stretch import expand
from scanjit.symbol import Axis, TensorLike
from scanjit.tensor.decompositions import svdvals
from scanjit.tensor.elementwise import isnan, power
from scanjit.tensor.linalg import inv
from scanjit.tensor.reductions import any as any_, max as max_, min as min_, sum as sum_
from scanjit.tensor.shapes import moveaxis
from scanjit.tensor.variables import axes_as_given, inexact

__all__ = ["cond", "matrix_norm", "norm", "vector_norm"]


def norm(x: TensorLike, ord: float | str | None = None, axis: Axis = None, keepdims: bool = False) -> Node:
    """The norm of vectors or of matrices.

    Where a root is of 0, the derivative is 0; it is NaN for a number p below 1.

    Parameters
    ----------
    x : tensor_like
    ord : None, a number, inf, -inf, "fro" or "nuc"
        None is the root of the sum of squares, over all axes together. Of vectors: a number p is the p-norm, 0 counts
        what is not 0, inf and -inf are the largest and the smallest size. Of matrices: 1 and inf are the largest sum
        of sizes of a column and of a row, 2 the largest singular value; -1, -inf and -2 the smallest ones; "fro" is the
        root of the sum of squares, "nuc" the sum of the singular values.
    axis : int, tuple of ints or None
        One axis of vectors, or two of matrices: that of the rows and that of the columns. None for all axes.
    keepdims : bool
        Whether the axes stay, with size 1.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.norm([[3.0, 4.0], [0.0, 2.0]], axis=1), mode="reference")()
    array([5., 2.])
    >>> sj.function([], sj.norm([[3.0, 4.0], [0.0, 2.0]], 1), mode="reference")()
    array(6.)
    """
    x = inexact(x)
    axes = axes_as_given(axis, x.ndim)
    if ord is None or len(axes) == 1:
        return vector_norm(x, 2 if ord is None else ord, axis, keepdims)
    if len(axes) != 2:
        raise errors.ArgumentError(
            "a norm with `ord` is of vectors or of matrices", got=f"{len(axes)} axes", expected="an axis or two"
        )
    found = matrix_norm(moveaxis(x, axes, (-2, -1)), ord)
    return expand(found, sorted(axes)) if keepdims else found


def vector_norm(x: TensorLike, ord: float | str = 2, axis: Axis = None, keepdims: bool = False) -> Node:
    """The norm of vectors; several axes are one vector. See `norm`.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.vector_norm([[3.0, 4.0], [0.0, 2.0]], 1), mode="reference")()
    array(9.)
    """
    x = inexact(x)
    if ord == 2:
        return root(sum_(size_squared(x), axis, keepdims=keepdims))
    sizes = apply(ABS, x)
    if ord == math.inf:
        return max_(sizes, axis, keepdims)
    if ord == -math.inf:
        return min_(sizes, axis, keepdims)
    if ord == 0:
        return sum_(cast(x != 0, sizes.dtype), axis, keepdims=keepdims)
    if ord == 1:
        return sum_(sizes, axis, keepdims=keepdims)
    if not isinstance(ord, int | float):
        raise errors.ArgumentError(
            "ord of a norm of vectors is unknown", got=repr(ord), expected="a number, inf or -inf"
        )
    powers = sum_(power(sizes, ord), axis, keepdims=keepdims)
    return root(powers, ord) if ord > 0 else power(powers, 1 / ord)


def matrix_norm(x: TensorLike, ord: float | str = "fro", keepdims: bool = False) -> Node:
    """The norm of matrices, which are the last two axes. See `norm`.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.matrix_norm([[3.0, 0.0], [0.0, -2.0]], "nuc"), mode="reference")()
    array(5.)
    """
    x = inexact(x)
    if x.ndim < 2:
        raise errors.ShapeError("a matrix has two axes", got=x.type)
    found = _matrix_norms(x, ord)
    return expand(found, (x.ndim - 2, x.ndim - 1)) if keepdims else found


def _matrix_norms(x: Node, ord: Any) -> Node:
    if ord == "fro":
        return root(sum_(size_squared(x), (-2, -1)))
    if ord == "nuc":
        return sum_(svdvals(x), -1)
    if ord not in (1, -1, 2, -2, math.inf, -math.inf):
        raise errors.ArgumentError(
            "ord of a norm of matrices is unknown", got=repr(ord), expected="1, -1, 2, -2, inf, -inf, 'fro' or 'nuc'"
        )
    sizes = svdvals(x) if abs(ord) == 2 else sum_(apply(ABS, x), -2 if abs(ord) == 1 else -1)
    return (max_ if ord > 0 else min_)(sizes, -1)


def cond(x: TensorLike, p: float | str | None = None) -> Node:
    """How much solving with matrices may enlarge errors: `norm(x, p) * norm(inv(x), p)`.

    Parameters
    ----------
    x : tensor_like of shape (..., m, n)
    p : None, 1, -1, 2, -2, inf, -inf, "fro" or "nuc"
        None is 2: the largest singular value by the smallest one. The others are of square matrices.

    Returns
    -------
    Node
        Of shape (...). Infinite for singular matrices, and NaN only where an entry of the matrix is.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.cond([[4.0, 0.0], [0.0, 2.0]]), mode="reference")()
    array(2.)
    """
    x = inexact(x)
    if p is None or p in (2, -2):
        sizes = svdvals(x)
        found = sizes[..., -1] / sizes[..., 0] if p == -2 else sizes[..., 0] / sizes[..., -1]
    else:
        found = matrix_norm(x, p) * matrix_norm(inv(x), p)
    return where(isnan(found) & ~any_(isnan(x), (-2, -1)), math.inf, found)

"""Least squares and what it needs of singular values, as in `numpy.linalg`: `pinv`, `lstsq`, `matrix_rank`.

Singular values at most `rtol` times the largest one count as zeros.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from scanjit import errors, ir
from scanjit.ir import COMPLEX, Node
from scanjit.ops.custom import CUSTOM, BackwardRule
from scanjit.ops.elementwise import where
from scanjit.ops.parts import pieces, size_squared
from scanjit.ops.promotion import cast
from scanjit.ops.shape import IOTA
from scanjit.ops.systems import adjoint, product, transposed
from scanjit.symbol import TensorLike
from scanjit.tensor.decompositions import matrices, svd, svdvals
from scanjit.tensor.elementwise import maximum
from scanjit.tensor.products import matmul
from scanjit.tensor.shapes import specify_shape
from scanjit.tensor.variables import floats

__all__ = ["lstsq", "matrix_rank", "pinv"]


class Lstsq(NamedTuple):
    """A solution, the sums of the squares that are left, the rank, and the singular values."""

    x: Node
    residuals: Node
    rank: Node
    s: Node


def pinv(a: TensorLike, rcond: TensorLike | None = None, *, rtol: TensorLike | None = None) -> Node:
    """The pseudo-inverses of matrices (Moore and Penrose).

    Parameters
    ----------
    a : tensor_like of shape (..., m, n)
    rcond, rtol : tensor_like of shape (...), optional
        Two names of one argument, as in NumPy: singular values at most `rtol` times the largest one count as zeros. By
        default, the larger size times the spacing of numbers at 1. (NumPy's default is 1e-15, also for float32.)

    Returns
    -------
    Node
        Of shape (..., n, m). NaN where an entry of the matrix is not finite.

    Notes
    -----
    The gradient is that among matrices of the same rank (G. Golub and V. Pereyra, 1973): exact where small changes
    do not change the rank, also where singular values are equal.

    Examples
    --------
    >>> import scanjit as sj
    >>> a = sj.matrix("a")
    >>> sj.function([a], sj.pinv(a), mode="reference")([[2.0, 0.0], [0.0, 0.0], [0.0, 4.0]])
    array([[0.5 , 0.  , 0.  ],
           [0.  , 0.  , 0.25]])
    """
    if rcond is not None and rtol is not None:
        raise errors.ArgumentError("rcond and rtol are two names of one argument", got="both")
    x = matrices(a, "pinv")
    m, n = x.type.shape[-2:]
    if isinstance(m, int) and isinstance(n, int) and m < n:  # the rule multiplies matrices of n columns
        return transposed(_pinv(transposed(x), rtol if rcond is None else rcond))
    return _pinv(x, rtol if rcond is None else rcond)


def _pinv(x: Node, rtol: Any) -> Node:
    u, s, v = svd(x)
    none = s <= _smallest(x, s, rtol)  # NaN is no zero: a product with zeros may leave out the NaN of u and v
    inverted = where(none, 0, 1 / where(none, 1, s))
    value = pieces(product(adjoint(v) * inverted[..., None, :], adjoint(u)))
    return _whole(ir.parts(CUSTOM(*value, *pieces(x), results=len(value), rule=_OF_PINV)))


def _whole(parts: Sequence[Node]) -> Node:
    """One real tensor, or complex numbers of two parts."""
    return COMPLEX(*parts) if len(parts) == 2 else parts[0]


def _smallest(x: Node, s: Node, rtol: Any) -> Node:
    """The largest singular value that counts as zero, for each matrix."""
    if rtol is None:
        rtol = cast(maximum(*x.shape[-2:]), s.dtype) * float(np.finfo(s.dtype).eps)
    else:
        rtol = cast(_of_each(rtol, s), s.dtype)
    first = IOTA(length=s.type.shape[-1]) == 0  # there is none in an empty matrix
    return rtol * where(first, s, 0).sum(axis=-1, keepdims=True)


def _of_each(given: TensorLike, s: Node) -> Node:
    """A bound of the singular values of each matrix, or one for all."""
    (bound,) = floats(given)
    if bound.ndim >= s.ndim:
        raise errors.ShapeError(
            "a bound of singular values is a number for each matrix", got=bound.type, expected=f"{s.ndim - 1} axes"
        )
    return bound[..., None]


def _backward_of_pinv(cotangents: Sequence[Node], results: Sequence[Node], arguments: Sequence[Node]) -> Sequence[Node]:
    """The derivative of pseudo-inverses, among matrices of the same rank: the sum of three terms, for the inverse, and
    for what is outside of the columns, and of the rows."""
    p, a, g = _whole(results), _whole(arguments), adjoint(_whole(cotangents))
    across, inner = adjoint(p), product(p, g)
    outside = product(g - product(a, inner), product(p, across))
    beside = product(across, inner - product(product(inner, p), a))
    return pieces(outside + beside - product(across, product(adjoint(g), across)))


_OF_PINV = BackwardRule(_backward_of_pinv)


def lstsq(a: TensorLike, b: TensorLike, rcond: TensorLike | None = None) -> Lstsq:
    """x that makes the sum of the squares of `a @ x - b` as small as possible; of all such x, the shortest.

    Parameters
    ----------
    a : tensor_like of shape (..., m, n)
    b : tensor_like of shape (m,), or (..., m, k)
        A vector, or matrices, as for `solve`.
    rcond : tensor_like of shape (...), optional
        As for `pinv`.

    Returns
    -------
    tuple of Node
        `(x, residuals, rank, s)`: x of shape (n,) or (..., n, k); the sums of squares that are left, for each column
        (NumPy gives none if the rank is below n, or m is at most n; here they are always there); the ranks; the
        singular values.

    Notes
    -----
    The gradient is that of `pinv(a) @ b`.

    Examples
    --------
    A line through three points:

    >>> import scanjit as sj
    >>> a, b = sj.matrix("a"), sj.vector("b")
    >>> f = sj.function([a, b], sj.lstsq(a, b).x.round(3), mode="reference")
    >>> f([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]], [0.0, 1.0, 5.0])
    array([-0.5,  2.5])
    """
    x, right = floats(a, b)
    x = matrices(x, "lstsq")
    if right.ndim == 0:
        raise errors.ShapeError("the right side of lstsq is a vector or matrices", got=right.type)
    vector = right.ndim == 1
    right = right[:, None] if vector else right
    shape = (*right.type.shape[:-2], x.type.shape[-2], right.type.shape[-1])
    right = specify_shape(right, shape, "the right side of lstsq")
    s = svdvals(x)
    rank = cast(s > _smallest(x, s, rcond), "int64").sum(axis=-1)
    found = matmul(pinv(x, rcond), right)
    residuals = size_squared(matmul(x, found) - right).sum(axis=-2)
    return Lstsq(found[..., 0], residuals[..., 0], rank, s) if vector else Lstsq(found, residuals, rank, s)


def matrix_rank(a: TensorLike, tol: TensorLike | None = None, *, rtol: TensorLike | None = None) -> Node:
    """The ranks of matrices: how many singular values are larger than `tol`.

    Parameters
    ----------
    a : tensor_like of shape (..., m, n)
    tol : tensor_like of shape (...), optional
        By default, `rtol` times the largest singular value.
    rtol : tensor_like of shape (...), optional
        By default, the larger size times the spacing of numbers at 1.

    Examples
    --------
    >>> import scanjit as sj
    >>> a = sj.matrix("a")
    >>> sj.function([a], sj.matrix_rank(a), mode="reference")([[1.0, 2.0], [2.0, 4.0]])
    array(1)
    """
    x = matrices(a, "matrix_rank")
    s = svdvals(x)
    limit = _smallest(x, s, rtol) if tol is None else _of_each(tol, s)
    return cast(s > limit, "int64").sum(axis=-1)

"""Spreads, covariances and correlations, with NumPy's names and arguments."""

from numpy.typing import DTypeLike

from scanjit import errors
from scanjit.ir import Node, dim_node
from scanjit.ops.elementwise import where
from scanjit.ops.promotion import cast
from scanjit.symbol import Axis, TensorLike
from scanjit.tensor.complex_numbers import conj, real
from scanjit.tensor.elementwise import sqrt
from scanjit.tensor.joining import concatenate
from scanjit.tensor.products import diagonal, matmul
from scanjit.tensor.reductions import max as max_, min as min_, sum as sum_
from scanjit.tensor.shapes import atleast_2d, specify_shape, squeeze
from scanjit.tensor.variables import as_tensor, inexact, promoted

__all__ = ["corrcoef", "cov", "ptp"]


def ptp(x: TensorLike, axis: Axis = None, keepdims: bool = False) -> Node:
    """The largest element minus the smallest one. Arguments as for `max`.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.ptp([[1, 5], [2, 9]], axis=1), mode="reference")()
    array([4, 7])
    """
    return max_(x, axis, keepdims) - min_(x, axis, keepdims)


def cov(
    m: TensorLike,
    y: TensorLike | None = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: int | None = None,
    fweights: TensorLike | None = None,
    aweights: TensorLike | None = None,
    *,
    dtype: DTypeLike | None = None,
) -> Node:
    """The covariances of variables, as `numpy.cov` gives them.

    Parameters
    ----------
    m : tensor_like
        A vector: one variable. A matrix: a variable in each row.
    y : tensor_like, optional
        More variables.
    rowvar : bool
        Whether variables are rows; else they are columns.
    bias : bool
        Whether to divide by the number of observations; else by one less.
    ddof : int, optional
        What is subtracted from the number of observations in the divisor, in place of what `bias` says.
    fweights, aweights : tensor_like of the number of observations, optional
        How often each observation was made, and how much it counts.
    dtype : a dtype or its name
        What to compute in; by default that of the variables, if they are floats. (NumPy takes float64 then.)

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.cov([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]]), mode="reference")()
    array([[ 1., -1.],
           [-1.,  1.]])
    """
    x = _variables(m, rowvar)
    if y is not None:
        x = concatenate(promoted([x, _variables(y, rowvar)]), 0)
    x = inexact(x, dtype)
    lost = ddof if ddof is not None else 0 if bias else 1
    weights, total, left = _weights(x, lost, fweights, aweights)
    apart = x - (sum_(x if weights is None else x * weights, 1) / total)[:, None]
    found = matmul(apart if weights is None else apart * weights, conj(apart).T) / left
    return squeeze(found, tuple(a for a in (0, 1) if found.type.shape[a] == 1))


def corrcoef(
    x: TensorLike, y: TensorLike | None = None, rowvar: bool = True, *, dtype: DTypeLike | None = None
) -> Node:
    """The correlations of variables: their covariances by their standard deviations. Arguments as for `cov`.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.corrcoef([0.0, 1.0, 2.0], [3.0, 1.0, -1.0]), mode="reference")().round(6)
    array([[ 1., -1.],
           [-1.,  1.]])
    """
    found = cov(x, y, rowvar, dtype=dtype)
    if found.ndim == 0:
        return found / found
    spread = sqrt(real(diagonal(found)))
    return found / spread[:, None] / spread


def _variables(x: TensorLike, rowvar: bool) -> Node:
    """A matrix with a variable in each row."""
    x = as_tensor(x)
    if x.ndim > 2:
        raise errors.ShapeError("variables are vectors or a matrix", got=x.type)
    flat = x.ndim < 2
    x = atleast_2d(x)
    return x if rowvar or flat else x.T


def _weights(
    x: Node, lost: int, fweights: TensorLike | None, aweights: TensorLike | None
) -> tuple[Node | None, Node, Node]:
    """The weights of observations, the sum of all weights, and the divisor."""
    dtype = real(x).dtype
    n = cast(dim_node(x.type.shape[1]), dtype)
    if fweights is None and aweights is None:
        return None, n, _positive(n - lost)
    parts = [cast(as_tensor(w), dtype) for w in (fweights, aweights) if w is not None]
    if any(w.ndim != 1 for w in parts):
        raise errors.ShapeError("weights are vectors", got=", ".join(str(w.type) for w in parts))
    parts = [specify_shape(w, x.type.shape[1:], "the vector of weights") for w in parts]
    weights = parts[0] if len(parts) == 1 else parts[0] * parts[1]
    total = sum_(weights)
    if aweights is None or lost == 0:
        return weights, total, _positive(total - lost)
    return weights, total, _positive(total - lost * sum_(weights * parts[-1]) / total)


def _positive(divisor: Node) -> Node:
    return where(divisor > 0, divisor, 0)

"""Polynomials by their coefficients, the highest power first, as NumPy has them."""

from typing import Any

from scanjit import errors, types
from scanjit.ir import Node, is_number
from scanjit.ops.promotion import cast
from scanjit.symbol import TensorLike
from scanjit.tensor.creation import arange, ones_like
from scanjit.tensor.cumulative import cumprod
from scanjit.tensor.curves import convolve
from scanjit.tensor.joining import append, concatenate, flip, stack
from scanjit.tensor.least_squares import lstsq
from scanjit.tensor.norms import vector_norm
from scanjit.tensor.shapes import broadcast_to, specify_shape, swapaxes
from scanjit.tensor.variables import as_tensor, inexact, integer, promoted

__all__ = ["polyder", "polyfit", "polyint", "polymul", "polyval", "vander"]


def polyval(p: TensorLike, x: TensorLike) -> Node:
    """The value of a polynomial at `x`. Its coefficients stand along the first axis, the highest power first.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.polyval([3, 0, 1], 5), mode="reference")()
    array(76)
    """
    p, x = as_tensor(p), as_tensor(x)
    count = p.type.shape[0] if p.ndim else None
    if not isinstance(count, int):
        raise errors.NotSupportedError(
            "the number of coefficients must be known", got=p.type, fix="sj.scan(lambda c, y: y * x + c, p, y0)[-1]"
        )
    found = x * 0
    for i in range(count):
        found = found * x + p[i]
    return found


def polyder(p: TensorLike, m: int = 1) -> Node:
    """The coefficients of the `m`-th derivative of a polynomial.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.polyder([3, 2, 1]), mode="reference")()
    array([6, 2])
    """
    p = _wide(_coefficients(p, "polyder"))
    for _ in range(_times(m)):
        p = p[:-1] * cast(arange(p.shape[0] - 1, 0, -1), p.dtype)
    return p


def polyint(p: TensorLike, m: int = 1, k: TensorLike = 0.0) -> Node:
    """The coefficients of a polynomial whose `m`-th derivative is `p`. `k` is the constant of each integral.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.polyint([6.0, 2.0], k=5.0), mode="reference")()
    array([3., 2., 5.])
    """
    p = inexact(_coefficients(p, "polyint"))
    p, constant = promoted([p, as_tensor(k, types.promote([p.dtype], [k])) if is_number(k) else k])
    constants = [constant[i] for i in range(_times(m))] if constant.ndim else [constant] * _times(m)
    for end in constants:
        p = append(p / cast(arange(p.shape[0], 0, -1), p.dtype), end)
    return p


def polymul(a: TensorLike, b: TensorLike) -> Node:
    """The coefficients of the product of two polynomials.

    Zeros in front stay, which `numpy.polymul` leaves out: the length does not depend on values.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.polymul([1, -1], [1, 1]), mode="reference")()
    array([ 1,  0, -1])
    """
    return convolve(_coefficients(a, "polymul"), _coefficients(b, "polymul"))


def vander(x: TensorLike, N: int | None = None, increasing: bool = False) -> Node:
    """The powers of the entries of a vector, from N - 1 down to 0, each a column. By default N is the vector's length.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.vander([2, 3], 3), mode="reference")()
    array([[4, 2, 1],
           [9, 3, 1]])
    """
    x = _wide(_coefficients(x, "vander"))
    count = x.type.shape[0] if N is None else integer(N, "the number of powers", least=0)
    if not isinstance(count, int):
        raise errors.NotSupportedError("the number of powers must be known", got=x.type, fix="give it: vander(x, 3)")
    if count > _MANY_POWERS:
        each = concatenate([ones_like(x)[None], broadcast_to(x, (count - 1, x.shape[0]))])
        powers = swapaxes(cumprod(each, 0, x.dtype), 0, 1)
        return powers if increasing else flip(powers, 1)
    columns = [ones_like(x)]
    for _ in range(count - 1):
        columns.append(columns[-1] * x)
    if not count:
        return stack(columns, -1)[:, :0]
    return stack(columns if increasing else columns[::-1], -1)


_MANY_POWERS = 32
"""So many powers and fewer are written one after the other. More are a loop."""


def polyfit(x: TensorLike, y: TensorLike, deg: int, w: TensorLike | None = None) -> Node:
    """The coefficients of the polynomial of degree `deg` that is nearest to points: the sum of squares is least.

    Parameters
    ----------
    x : tensor_like of shape (n,)
    y : tensor_like of shape (n,) or (n, k)
        One curve, or one in each column.
    deg : int
    w : tensor_like of shape (n,), optional
        What each difference is multiplied with before it is squared.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.polyfit([0.0, 1.0, 2.0], [1.0, 3.0, 9.0], 2), mode="reference")().round(6)
    array([2., 0., 1.])
    """
    x, y = promoted([inexact(_coefficients(x, "polyfit")), y])
    rows = vander(x, integer(deg, "the degree of a polynomial", least=0) + 1)
    if w is not None:
        weights = specify_shape(cast(as_tensor(w), x.dtype), x.type.shape, "the vector of weights")
        rows, y = rows * weights[:, None], y * (weights if y.ndim == 1 else weights[:, None])
    sizes = vector_norm(rows, axis=0)
    found = lstsq(rows / sizes, y)[0]
    return found / (sizes if y.ndim == 1 else sizes[:, None])


def _coefficients(p: Any, name: str) -> Node:
    p = as_tensor(p)
    if p.ndim != 1:
        raise errors.ShapeError(f"{name} takes a vector", got=p.type)
    return p


def _wide(p: Node) -> Node:
    """Integers as int64, in which NumPy multiplies them."""
    return cast(p, "int64") if p.type.kind.integral or p.dtype == bool else p


_MOST_TIMES = 1000


def _times(m: int) -> int:
    times = integer(m, "a number of times", least=0)
    if times > _MOST_TIMES:
        raise errors.ArgumentError(f"a number of times must be at most {_MOST_TIMES}", got=times)
    return times

"""Functions that make tensors from sizes and numbers."""

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike

from scanjit import errors, types
from scanjit.config import config
from scanjit.ir import Node, as_dim, is_symbol
from scanjit.kinds import kind_of
from scanjit.ops.elementwise import DIV, FLOOR, where
from scanjit.ops.functions import power
from scanjit.ops.parts import pieces
from scanjit.ops.promotion import cast
from scanjit.ops.shape import IOTA
from scanjit.ops.stretch import BROADCAST_TO, broadcast_to
from scanjit.ops.view import DIMSHUFFLE
from scanjit.symbol import TensorLike
from scanjit.tensor.names import defined
from scanjit.tensor.variables import DIAGONAL, as_tensor, constant, dimension, dimensions, integer, of_numbers
from scanjit.types import Dimension


def full(shape: Any, fill_value: TensorLike, dtype: DTypeLike | None = None) -> Node:
    """A tensor of one value.

    Parameters
    ----------
    shape : int, integer scalar or a sequence of them
    fill_value : tensor_like
        A number, or what broadcasts to the shape.
    dtype : a dtype or its name
        By default the value's own; `config.floatX` for a Python float.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.full(sj.tensor(("n", 2)).shape, 1.5, "float32")
    <broadcast_to: float32(n, 2)>
    """
    value = as_tensor(fill_value, dtype or of_numbers(fill_value))
    sizes = dimensions(shape)
    return value if value.type.shape == sizes else BROADCAST_TO(value, shape=sizes)


def zeros(shape: Any, dtype: DTypeLike | None = None) -> Node:
    """A tensor of zeros; of `config.floatX`, if no dtype is given.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.zeros((2, 3), "int64"), mode="reference")()
    array([[0, 0, 0],
           [0, 0, 0]])
    """
    return full(shape, 0, dtype or config.floatX)


def ones(shape: Any, dtype: DTypeLike | None = None) -> Node:
    """A tensor of ones; of `config.floatX`, if no dtype is given.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.ones(3), mode="reference")()
    array([1., 1., 1.])
    """
    return full(shape, 1, dtype or config.floatX)


def full_like(x: TensorLike, fill_value: TensorLike, dtype: DTypeLike | None = None) -> Node:
    """A tensor of one value, with the shape of `x`, and its dtype if none is given.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.full_like([[1, 2], [3, 4]], 7), mode="reference")()
    array([[7, 7],
           [7, 7]])
    """
    x = as_tensor(x)
    return broadcast_to(as_tensor(fill_value, dtype or x.dtype), x.type.shape)


def zeros_like(x: TensorLike, dtype: DTypeLike | None = None) -> Node:
    """Zeros with the shape of `x`, and its dtype if none is given.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.zeros_like([1.0, 2.0]), mode="reference")()
    array([0., 0.])
    """
    return full_like(x, 0, dtype)


def ones_like(x: TensorLike, dtype: DTypeLike | None = None) -> Node:
    """Ones with the shape of `x`, and its dtype if none is given.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.ones_like([1.0, 2.0], "bool"), mode="reference")()
    array([ True,  True])
    """
    return full_like(x, 1, dtype)


def arange(start: Any, stop: Any = None, step: Any = 1, dtype: DTypeLike | None = None) -> Node:
    """`start`, `start + step`... before `stop`; `arange(n)` is 0 to n - 1.

    Parameters
    ----------
    start, stop : ints or integer scalars, or (both known) floats
    step : int or float
    dtype : a dtype or its name
        By default int64, or `config.floatX` if one of them is a float.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.arange(sj.tensor("n").shape[0])
    <iota: int64(n)>
    """
    if stop is None:
        start, stop = 0, start
    if any(isinstance(v, float | np.floating) for v in (start, stop, step)):
        if any(isinstance(v, Node) for v in (start, stop, step)):
            raise errors.NotSupportedError("a range of floats must be known", got=(start, stop, step))
        try:
            return constant(np.arange(start, stop, step), dtype or of_numbers(start, stop, step))
        except (ValueError, ZeroDivisionError) as error:  # of NaN, infinity, and a step of 0.0
            raise errors.ArgumentError(f"this is no range ({error})", got=(start, stop, step)) from None
    first, end, pace = as_dim(start), as_dim(stop), as_dim(step)
    if not isinstance(pace, int):
        raise errors.NotSupportedError("the step of a range must be known", got=step)
    if pace == 0:
        raise errors.ArgumentError("the step of a range must not be 0")
    steps = ((end - first if pace > 0 else first - end) + abs(pace) - 1) // abs(pace)
    positions = IOTA(length=types.maximum(steps, 0))
    result = positions if pace == 1 else positions * pace
    if not (isinstance(first, int) and first == 0):
        result = result + start
    return cast(result, dtype or "int64")


def linspace(
    start: TensorLike, stop: TensorLike, num: int = 50, endpoint: bool = True, dtype: DTypeLike | None = None
) -> Node:
    """`num` evenly spaced numbers from `start` to `stop`, along a new first axis.

    Parameters
    ----------
    start, stop : tensor_like
        They broadcast with each other.
    num : int
    endpoint : bool
        Whether `stop` is the last number; else it would be the next one.
    dtype : a dtype or its name
        By default that of `start` and `stop`; `config.floatX` for Python numbers. Of integers: the next ones below the
        numbers, as in NumPy.

    Examples
    --------
    >>> import scanjit as sj
    >>> x = sj.scalar("x")
    >>> sj.function([x], sj.linspace(0, x, 5), mode="reference")(1.0)
    array([0.  , 0.25, 0.5 , 0.75, 1.  ])
    """
    num = integer(num, "the number of numbers", least=0)
    whole = dtype is not None and kind_of(types.dtype_of(dtype)).integral
    if not is_symbol(start) and not is_symbol(stop):
        numbers = np.linspace(start, stop, num, endpoint)
        return constant(np.floor(numbers) if whole else numbers, dtype or of_numbers(start, stop, 1.0))
    first, last = DIV.prepare((start, stop))
    way = last - first
    place = IOTA(length=num)[(slice(None), *(None,) * way.ndim)]
    found = first + cast(place, pieces(way)[0].dtype) * (way / max(num - 1 if endpoint else num, 1))
    if endpoint and num > 1:
        found = where(place == num - 1, last, found)
    return found if dtype is None else cast(FLOOR(found) if whole else found, dtype)


def logspace(
    start: TensorLike,
    stop: TensorLike,
    num: int = 50,
    endpoint: bool = True,
    base: TensorLike = 10.0,
    dtype: DTypeLike | None = None,
) -> Node:
    """`num` numbers from `base**start` to `base**stop`, whose exponents are evenly spaced. See `linspace`.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.logspace(0, 2, 3), mode="reference")()
    array([  1.,  10., 100.])
    """
    num = integer(num, "the number of numbers", least=0)
    if not (np.ndim(base) or any(map(is_symbol, (start, stop, base)))):
        return constant(np.logspace(start, stop, num, endpoint, base), dtype or of_numbers(start, stop, base, 1.0))
    found = power(base, linspace(start, stop, num, endpoint))
    return found if dtype is None else cast(found, dtype)


def geomspace(
    start: TensorLike, stop: TensorLike, num: int = 50, endpoint: bool = True, dtype: DTypeLike | None = None
) -> Node:
    """`num` numbers from `start` to `stop`, each the same multiple of the one before. Both have one sign.

    With `dtype=int`, what lies behind the point is cut off, as NumPy does. The last bit of a number of symbols may be
    another one than NumPy's, and 128 may become 127.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.geomspace(1.0, 8.0, 4), mode="reference")().round(6)
    array([1., 2., 4., 8.])
    """
    dtype = dtype or of_numbers(start, stop, 1.0)
    num = integer(num, "the number of numbers", least=0)
    first, last = DIV.prepare((start, stop))
    if not is_symbol(start) and not is_symbol(stop):
        return constant(np.geomspace(start, stop, num, endpoint), dtype or first.dtype)
    share = linspace(0.0, as_tensor(1.0, pieces(first)[0].dtype), num, endpoint)
    share = share[(slice(None), *(None,) * max(first.ndim, last.ndim))]
    found = first * power(last / first, share)
    if endpoint and num > 1:
        found = where(share == 1, last, found)
    return found if dtype is None else cast(found, dtype)


def _diagonal(n: Dimension, m: Dimension, offset: int) -> tuple[Node, Node]:
    """The number of each column, and for each row the column of its entry on the diagonal."""
    offset = integer(offset, DIAGONAL)
    rows = DIMSHUFFLE(IOTA(length=n), order=(0, None))
    return DIMSHUFFLE(IOTA(length=m), order=(None, 0)), rows + offset if offset else rows


def eye(n: Any, m: Any = None, k: int = 0, dtype: DTypeLike | None = None) -> Node:
    """A matrix with ones on its k-th diagonal, else zeros.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.eye(2, 3, k=1), mode="reference")()
    array([[0., 1., 0.],
           [0., 0., 1.]])
    """
    rows = dimension(n)
    columns = rows if m is None else dimension(m)
    column, on = _diagonal(rows, columns, k)
    return cast(column == on, dtype or config.floatX)


def identity(n: Any, dtype: DTypeLike | None = None) -> Node:
    """The identity matrix of n rows.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.identity(2, "int64"), mode="reference")()
    array([[1, 0],
           [0, 1]])
    """
    return eye(n, dtype=dtype)


def tril(x: TensorLike, k: int = 0) -> Node:
    """The part of matrices (the last two axes) on and below the k-th diagonal; zeros above.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.tril([[1, 2], [3, 4]]), mode="reference")()
    array([[1, 0],
           [3, 4]])
    """
    return _triangle(x, k, operator.le)


def triu(x: TensorLike, k: int = 0) -> Node:
    """The part of matrices (the last two axes) on and above the k-th diagonal; zeros below.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.triu([[1, 2], [3, 4]]), mode="reference")()
    array([[1, 2],
           [0, 4]])
    """
    return _triangle(x, k, operator.ge)


def _triangle(x: Any, k: int, stays: Callable[[Node, Node], Node]) -> Node:
    """Matrices in which only the columns stay for which `stays` is true of the column and the k-th diagonal; zeros
    elsewhere."""
    x = as_tensor(x)
    if x.ndim < 2:
        raise errors.ShapeError("a triangle is part of a matrix", got=x.type)
    n, m = x.type.shape[-2:]
    column, on = _diagonal(n, m, k)
    return where(stays(column, on), x, full_like(x, 0))


def diag_indices(n: Any, ndim: int = 2) -> tuple[Node, ...]:
    """The indices of the diagonal of a tensor with `ndim` axes of size `n`.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.zeros((2, 2))[sj.diag_indices(2)].set([1.0, 2.0]), mode="reference")()
    array([[1., 0.],
           [0., 2.]])
    """
    return (IOTA(length=dimension(n)),) * integer(ndim, "the number of axes", least=0)


def tril_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Node, ...]:
    """The indices of the entries on and below the k-th diagonal of a matrix of known sizes, n by m.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], list(sj.tril_indices(2)), mode="reference")()
    [array([0, 1, 1]), array([0, 0, 1])]
    """
    return _triangle_indices(np.tril_indices, n, k, m)


def triu_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Node, ...]:
    """The indices of what lies on and above the k-th diagonal of a matrix of known sizes, n by m.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], list(sj.triu_indices(2)), mode="reference")()
    [array([0, 0, 1]), array([0, 1, 1])]
    """
    return _triangle_indices(np.triu_indices, n, k, m)


def _triangle_indices(indices: Callable[..., Any], n: Any, k: int, m: Any) -> tuple[Node, ...]:
    if not isinstance(n, int | np.integer) or not isinstance(m, int | np.integer | None):
        raise errors.NotSupportedError(
            "the sizes of a triangle's matrix must be known", got=f"{n!r}, {m!r}", fix="sj.tril(x), sj.triu(x)"
        )
    return tuple(constant(index) for index in indices(n, integer(k, DIAGONAL), m))


def one_hot(x: TensorLike, num_classes: Any, dtype: DTypeLike | None = None) -> Node:
    """For each integer i a vector of `num_classes` zeros with a one at position i (only zeros, if there is no such
    position).

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.one_hot(sj.ivector(), 10, "float32")
    <cast: float32(n..., 10)>
    """
    x = as_tensor(x)
    if not x.type.kind.integral:
        raise errors.DtypeError("one_hot takes integers", got=x.dtype)
    count = dimension(num_classes)
    places = IOTA(length=count)
    return cast(DIMSHUFFLE(cast(x, "int64"), order=(*range(x.ndim), None)) == places, dtype or config.floatX)


if not TYPE_CHECKING:  # they cannot compute it
    __all__ = defined(globals())

"""NaN left out of reductions, or replaced by a number, with NumPy's names and arguments. Integers have none."""

from __future__ import annotations

import math

from numpy.typing import DTypeLike

from scanjit.ir import COMPLEX, Node
from scanjit.ops.elementwise import where
from scanjit.ops.functions import root
from scanjit.ops.parts import is_complex, size_squared
from scanjit.ops.promotion import cast
from scanjit.symbol import Axis, TensorLike
from scanjit.tensor import reductions
from scanjit.tensor.probes import assert_
from scanjit.tensor.reductions import count_nonzero
from scanjit.tensor.variables import as_tensor, inexact

__all__ = [
    "nan_to_num",
    "nanargmax",
    "nanargmin",
    "nanmax",
    "nanmean",
    "nanmin",
    "nanprod",
    "nanstd",
    "nansum",
    "nanvar",
]


def nansum(x: TensorLike, axis: Axis = None, dtype: DTypeLike | None = None, keepdims: bool = False) -> Node:
    """The sum of the elements that are not NaN. Arguments as for `sum`.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.nansum([1.0, float("nan"), 2.0]), mode="reference")()
    array(3.)
    """
    x = as_tensor(x)
    return reductions.sum(_instead(x, 0), axis, dtype, keepdims)


def nanmean(x: TensorLike, axis: Axis = None, dtype: DTypeLike | None = None, keepdims: bool = False) -> Node:
    """The mean of the elements that are not NaN; NaN if all are. Arguments as for `sum`.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.nanmean([1.0, float("nan"), 2.0]), mode="reference")()
    array(1.5)
    """
    x = inexact(x, dtype)
    return nansum(x, axis, keepdims=keepdims) / cast(count_nonzero(x == x, axis, keepdims), x.dtype)


def nanprod(x: TensorLike, axis: Axis = None, dtype: DTypeLike | None = None, keepdims: bool = False) -> Node:
    """The product of the elements that are not NaN. Arguments as for `sum`.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.nanprod([3.0, float("nan"), 2.0]), mode="reference")()
    array(6.)
    """
    return reductions.prod(_instead(as_tensor(x), 1), axis, dtype, keepdims)


def nanmax(x: TensorLike, axis: Axis = None, keepdims: bool = False) -> Node:
    """The largest of the elements that are not NaN; NaN if all are. Arguments as for `sum`.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.nanmax([1.0, float("nan"), 2.0]), mode="reference")()
    array(2.)
    """
    x = as_tensor(x)
    return _or_nan(reductions.max(_instead(x, -math.inf), axis, keepdims), x, axis, keepdims)


def nanmin(x: TensorLike, axis: Axis = None, keepdims: bool = False) -> Node:
    """The smallest of the elements that are not NaN; NaN if all are. Arguments as for `sum`.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.nanmin([1.0, float("nan"), 2.0]), mode="reference")()
    array(1.)
    """
    x = as_tensor(x)
    return _or_nan(reductions.min(_instead(x, math.inf), axis, keepdims), x, axis, keepdims)


def nanargmax(x: TensorLike, axis: int | None = None, keepdims: bool = False) -> Node:
    """Where the largest of the elements that are not NaN is; an error if all are. Arguments as for `argmax`.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.nanargmax([1.0, float("nan"), 2.0]), mode="reference")()
    array(2)
    """
    x = as_tensor(x)
    return reductions.argmax(_some(_instead(x, -math.inf), x, axis), axis, keepdims)


def nanargmin(x: TensorLike, axis: int | None = None, keepdims: bool = False) -> Node:
    """Where the smallest of the elements that are not NaN is; an error if all are. Arguments as for `argmin`.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.nanargmin([float("nan"), 1.0, 2.0]), mode="reference")()
    array(1)
    """
    x = as_tensor(x)
    return reductions.argmin(_some(_instead(x, math.inf), x, axis), axis, keepdims)


def nanvar(x: TensorLike, axis: Axis = None, ddof: int = 0, keepdims: bool = False) -> Node:
    """The variance of the elements that are not NaN; NaN if at most `ddof` are left. Arguments as for `var`.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.nanvar([1.0, float("nan"), 3.0]), mode="reference")()
    array(1.)
    """
    x = inexact(x)
    squares = size_squared(where(x == x, x - nanmean(x, axis, keepdims=True), 0))
    left = cast(count_nonzero(x == x, axis, keepdims), squares.dtype) - ddof
    return reductions.sum(squares, axis, keepdims=keepdims) / where(left > 0, left, math.nan)


def nanstd(x: TensorLike, axis: Axis = None, ddof: int = 0, keepdims: bool = False) -> Node:
    """The standard deviation of the elements that are not NaN; arguments as for `var`.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.nanstd([1.0, float("nan"), 3.0]), mode="reference")()
    array(1.)
    """
    return root(nanvar(x, axis, ddof, keepdims))


def _instead(x: Node, value: float) -> Node:
    """A number in place of NaN."""
    return where(x == x, x, value) if x.type.kind.inexact else x


def _or_nan(found: Node, x: Node, axis: Axis, keepdims: bool) -> Node:
    """NaN where all elements are."""
    return where(reductions.all(x != x, axis, keepdims), math.nan, found) if x.type.kind.inexact else found


def _some(found: Node, x: Node, axis: int | None) -> Node:
    """An error where all elements are NaN."""
    if not x.type.kind.inexact:
        return found
    return assert_(reductions.all(reductions.any(x == x, axis)), found, "all elements are NaN: none has a place")


def nan_to_num(x: TensorLike, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None) -> Node:
    """`x` with numbers in place of NaN and infinities; by default 0, and the largest and smallest finite number.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.nan_to_num([float("nan"), float("inf"), 2.0], posinf=9.0), mode="reference")()
    array([0., 9., 2.])
    """
    x = as_tensor(x)
    if is_complex(x):
        return COMPLEX(*(nan_to_num(part, nan, posinf, neginf) for part in x.args))
    if not x.type.kind.floating:
        return x
    largest = x.type.kind.largest
    high, low = largest if posinf is None else posinf, -largest if neginf is None else neginf
    finite = where(x == math.inf, high, where(x == -math.inf, low, x))
    return where(x == x, finite, nan)

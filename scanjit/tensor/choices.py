"""Functions that choose among values by conditions, places or sets, with NumPy's names and arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from scanjit import errors
from scanjit.ir import Node, dim_node, is_number
from scanjit.ops.promotion import cast, common_dtype
from scanjit.symbol import TensorLike
from scanjit.tensor.creation import zeros, zeros_like
from scanjit.tensor.elementwise import where
from scanjit.tensor.joining import broadcast_arrays, concatenate, stack
from scanjit.tensor.order import searchsorted, sort
from scanjit.tensor.places import take, take_along_axis
from scanjit.tensor.reductions import all as all_of
from scanjit.tensor.shapes import expand_dims, ravel, specify_shape
from scanjit.tensor.variables import as_tensor, promoted

__all__ = ["array_equal", "choose", "isin", "piecewise", "select"]


def array_equal(a: TensorLike, b: TensorLike) -> Node:
    """Whether two tensors have equal elements; False for shapes that are known to differ.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.array_equal([1, 2], [1, 2]), mode="reference")()
    array(True)
    """
    a, b = as_tensor(a), as_tensor(b)
    pairs = list(zip(a.type.shape, b.type.shape, strict=False))
    if a.ndim != b.ndim or any(isinstance(m - n, int) and m - n != 0 for m, n in pairs):
        return as_tensor(False)
    return all_of(a == b)


def choose(a: TensorLike, choices: Sequence[TensorLike]) -> Node:
    """At each place, the entry of one of several tensors: the one whose number is in `a`. They are broadcast
    together. A number that is negative or too large is an error.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.choose([1, 0, 1], [[1, 2, 3], [10, 20, 30]]), mode="reference")()
    array([10,  2, 30])
    """
    number = as_tensor(a)
    if not number.type.kind.integral or not len(choices):
        raise errors.ArgumentError("choose takes integers, and at least one choice", got=number.type)
    dtype = common_dtype([c if is_number(c) else as_tensor(c) for c in choices])
    places, *parts = broadcast_arrays(cast(number, "int64"), *(cast(as_tensor(c), dtype) for c in choices))
    places = where(places < 0, len(parts), places)  # not counted from the end
    return take_along_axis(stack(parts), expand_dims(places, 0), 0)[0]


def piecewise(x: TensorLike, condlist: Sequence[TensorLike], funclist: Sequence[Any]) -> Node:
    """A function that is given piece by piece.

    Parameters
    ----------
    x : tensor_like
    condlist : sequence of tensor_like
        Conditions of the shape of `x`. Where several hold, the last one counts.
    funclist : sequence of functions and numbers
        For each condition, the value: a number, or a function of `x`, which is computed for all entries. One more is
        for where no condition holds; by default that is 0.

    Returns
    -------
    Node
        Of the dtype of `x`, as with NumPy.

    Examples
    --------
    >>> import scanjit as sj
    >>> x = sj.vector("x")
    >>> f = sj.function([x], sj.piecewise(x, [x < 0, x > 1], [lambda v: -v, 1.0]), mode="reference")
    >>> f([-2.0, 0.5, 3.0])
    array([2., 0., 1.])
    """
    x = as_tensor(x)
    if len(funclist) not in (len(condlist), len(condlist) + 1):
        raise errors.ArgumentError(
            "piecewise takes a function for each condition, and perhaps one more",
            got=f"{len(condlist)} conditions, {len(funclist)} functions",
        )
    values = [_value(f, x) for f in funclist]
    found = values.pop() if len(values) > len(condlist) else zeros_like(x)
    for condition, value in zip(condlist, values, strict=True):
        condition = as_tensor(condition)
        if condition.ndim:
            condition = specify_shape(condition, x.type.shape, "a condition of piecewise")
        found = where(condition, value, found)
    return found


def _value(function: Callable[[Node], Any] | float, x: Node) -> Node:
    return cast(as_tensor(function(x) if callable(function) else function), x.dtype)


def isin(element: TensorLike, test_elements: TensorLike, invert: bool = False) -> Node:
    """Whether each element is among `test_elements`. NaN never is.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.isin([1, 5, 2], [2, 3, 5]), mode="reference")()
    array([False,  True,  True])
    """
    x, others = promoted([element, test_elements])
    known = sort(ravel(others))
    n = known.type.shape[0]
    place = searchsorted(known, x)
    padded = concatenate([known, zeros(1, x.dtype)])
    found = (place < dim_node(n)) & (take(padded, place) == x)
    return ~found if invert else found


def select(conditions: Sequence[TensorLike], choices: Sequence[TensorLike], default: TensorLike = 0) -> Node:
    """The first of several values whose condition holds; `default` where none does. See `numpy.select`.

    Examples
    --------
    >>> import scanjit as sj
    >>> x = sj.vector("x")
    >>> f = sj.function([x], sj.select([x < 0, x < 1], [-x, x * x], default=1.0), mode="reference")
    >>> f([-2.0, 0.5, 3.0])
    array([2.  , 0.25, 1.  ])
    """
    if len(conditions) != len(choices) or not len(choices):
        raise errors.ArgumentError(
            "select takes a choice for each condition", got=f"{len(conditions)} conditions, {len(choices)} choices"
        )
    found = default
    for condition, choice in zip(reversed(conditions), reversed(choices), strict=True):
        found = where(condition, choice, found)
    return as_tensor(found)

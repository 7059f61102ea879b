"""Functions that cut tensors, turn them, take entries out or insert some, with NumPy's names and arguments."""

from typing import Any

import numpy as np

from scanjit import errors
from scanjit.ir import Node, dim_node
from scanjit.ops.elementwise import where
from scanjit.ops.promotion import cast
from scanjit.symbol import TensorLike
from scanjit.tensor import sizes
from scanjit.tensor.creation import arange
from scanjit.tensor.joining import concatenate, flip, split
from scanjit.tensor.places import take
from scanjit.tensor.probes import assert_
from scanjit.tensor.shapes import broadcast_to, expand_dims, moveaxis, swapaxes
from scanjit.tensor.variables import along_axis, as_tensor, axis_of, has_symbol, integer

__all__ = ["array_split", "delete", "dsplit", "fliplr", "flipud", "hsplit", "insert", "rot90", "vsplit"]


def array_split(x: TensorLike, indices_or_sections: Any, axis: int = 0) -> list[Node]:
    """The parts of a tensor along an axis: as `split`, but parts of a number may differ in length by one.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.array_split([1, 2, 3, 4, 5], 2), mode="reference")()
    [array([1, 2, 3]), array([4, 5])]
    """
    x = as_tensor(x)
    if not isinstance(indices_or_sections, int | np.integer):
        return split(x, indices_or_sections, axis)
    parts = int(indices_or_sections)
    if parts < 1:
        raise errors.ArgumentError("a tensor is split into at least one part", got=parts)
    n = x.type.shape[axis_of(axis, x.ndim)]
    length, longer = n // parts, n % parts
    if not isinstance(longer, int):
        raise errors.NotSupportedError(
            "an axis of unknown length has parts of unknown lengths",
            got=x.type,
            fix="sj.split(x, parts), if they are equal; or sj.split(x, [first, second]) at these places",
        )
    return split(x, [dim_node(i * length + min(i, longer)) for i in range(1, parts)], axis)


def hsplit(x: TensorLike, indices_or_sections: Any) -> list[Node]:
    """The parts of a tensor along its second axis, or of a vector. See `split`.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.hsplit([[1, 2], [3, 4]], 2), mode="reference")()
    [array([[1],
           [3]]), array([[2],
           [4]])]
    """
    return _split(x, indices_or_sections, "hsplit", 1 if as_tensor(x).ndim > 1 else 0)


def vsplit(x: TensorLike, indices_or_sections: Any) -> list[Node]:
    """The parts of a tensor along its first axis. See `split`.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.vsplit([[1, 2], [3, 4]], 2), mode="reference")()
    [array([[1, 2]]), array([[3, 4]])]
    """
    return _split(x, indices_or_sections, "vsplit", 0, least=2)


def dsplit(x: TensorLike, indices_or_sections: Any) -> list[Node]:
    """The parts of a tensor along its third axis. See `split`.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.dsplit([[[1, 2]]], 2), mode="reference")()
    [array([[[1]]]), array([[[2]]])]
    """
    return _split(x, indices_or_sections, "dsplit", 2, least=3)


def _split(x: TensorLike, indices_or_sections: Any, name: str, axis: int, least: int = 1) -> list[Node]:
    x = as_tensor(x)
    if x.ndim < least:
        raise errors.ShapeError(f"{name} takes tensors with more axes", got=x.type, expected=f"at least {least} axes")
    return split(x, indices_or_sections, axis)


# ---- turned ----------------------------------------------------------------------------------------------------------


def flipud(x: TensorLike) -> Node:
    """`x` with its first axis reversed.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.flipud([[1, 2], [3, 4]]), mode="reference")()
    array([[3, 4],
           [1, 2]])
    """
    return flip(x, 0)


def fliplr(x: TensorLike) -> Node:
    """`x` with its second axis reversed.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.fliplr([[1, 2], [3, 4]]), mode="reference")()
    array([[2, 1],
           [4, 3]])
    """
    return flip(x, 1)


def rot90(x: TensorLike, k: int = 1, axes: tuple[int, int] = (0, 1)) -> Node:
    """`x` turned `k` times by 90 degrees, from the first one of two axes towards the second one.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.rot90([[1, 2], [3, 4]]), mode="reference")()
    array([[2, 4],
           [1, 3]])
    """
    x = as_tensor(x)
    first, second = (axis_of(a, x.ndim) for a in axes)
    if first == second:
        raise errors.ArgumentError("a turn is between two axes", got=axes)
    turns = integer(k, "the number of turns") % 4
    if turns == 2:
        return flip(x, (first, second))
    if turns == 1:
        return swapaxes(flip(x, second), first, second)
    return flip(swapaxes(x, first, second), second) if turns else x


# ---- entries out and in ----------------------------------------------------------------------------------------------


def delete(x: TensorLike, obj: Any, axis: int | None = None) -> Node:
    """`x` without some entries along an axis (None: of all in row-major order).

    Parameters
    ----------
    x : tensor_like
    obj : int, slice, sequence of ints or bools, or an integer scalar
        A scalar may be computed, in a step too. A sequence needs an axis of known length.
    axis : int, optional

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.delete([10, 11, 12, 13], [0, 2]), mode="reference")()
    array([11, 13])
    """
    x, axis = along_axis(as_tensor(x), axis)
    n = x.type.shape[axis]
    if np.ndim(obj) == 0 and not isinstance(obj, slice):
        place = _place(obj, dim_node(n - 1), dim_node(n), "delete")
        rows = arange(dim_node(n - 1))
        return take(x, where(rows < place, rows, rows + 1), axis)
    length = sizes.at_hand(n)
    if length is None:
        raise errors.NotSupportedError(
            "delete of several entries needs an axis of known length",
            got=x.type,
            fix="delete one entry, or use a slice",
        )
    if has_symbol(obj):
        raise errors.NotSupportedError(
            "delete of several entries needs places that are known: the size of the result depends on them",
            got=repr(obj),
            fix="delete one entry at a time",
        )
    try:
        kept = np.delete(np.arange(length), obj)
    except (IndexError, ValueError) as error:
        raise errors.OutOfBoundsError(
            "delete takes places inside of the axis, or a bool for each of its entries",
            got=f"{obj!r} for an axis of {length} entries ({error})",
        ) from None
    return take(x, kept, axis)


def insert(x: TensorLike, obj: Any, values: TensorLike, axis: int | None = None) -> Node:
    """`x` with entries put in before a place along an axis (None: of all in row-major order).

    Parameters
    ----------
    x : tensor_like
    obj : int or integer scalar
        The place, which may be computed, in a step too.
    values : tensor_like
        One entry; or several, which go in one after the other.
    axis : int, optional

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.insert([10, 11, 12], 1, [1, 2]), mode="reference")()
    array([10,  1,  2, 11, 12])
    """
    x, axis = along_axis(as_tensor(x), axis)
    if np.ndim(obj) != 0 or isinstance(obj, slice):
        raise errors.NotSupportedError(
            "insert puts entries in at one place only", got=repr(obj), fix="call insert for each place"
        )
    n = dim_node(x.type.shape[axis])
    place = _place(obj, n, n, "insert")
    new = cast(as_tensor(values), x.dtype)
    if new.ndim > x.ndim:
        raise errors.ShapeError("what is put in has more axes than the tensor", got=new.type, expected=x.type)
    new = moveaxis(expand_dims(new, tuple(range(x.ndim - new.ndim))), 0, axis)
    count = new.type.shape[axis]
    new = broadcast_to(new, (*x.type.shape[:axis], count, *x.type.shape[axis + 1 :]))
    rows = arange(n + dim_node(count))
    order = where(rows < place, rows, where(rows < place + dim_node(count), rows - place + n, rows - dim_node(count)))
    return take(concatenate([x, new], axis), order, axis)


def _place(obj: Any, last: Node, n: Node, name: str) -> Node:
    """A place counted from the front, at most `last`. Places below 0 count from the end `n`."""
    place = as_tensor(obj)
    if not place.type.kind.integral or place.ndim:
        raise errors.ArgumentError(f"{name} takes a place as an integer", got=place.type)
    place = cast(place, "int64")
    inside = (place >= -n) & (place <= last)
    return assert_(inside, where(place < 0, place + n, place), f"{name}: the place is out of bounds")

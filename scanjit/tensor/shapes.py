"""Functions that change the shape of a tensor or the order of its axes, with NumPy's names and arguments."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np

from scanjit import errors, types
from scanjit.ir import Node, dim_node
from scanjit.ops.expect import SPECIFY_SHAPE
from scanjit.ops.shape import RESHAPE
from scanjit.ops.stretch import BROADCAST_TO
from scanjit.ops.view import reordered
from scanjit.symbol import Axis, TensorLike
from scanjit.tensor.names import defined
from scanjit.tensor.variables import as_tensor, axes_of, axis_of, dimensions, integer
from scanjit.types import Dimension


def shape(x: TensorLike) -> tuple[Any, ...]:
    """The sizes of the axes: ints where they are known, else int64 scalars.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.shape(sj.tensor(("n", 3)))
    (<size: int64()>, 3)
    """
    return tuple(size if isinstance(size, int) else dim_node(size) for size in as_tensor(x).type.shape)


def size(x: TensorLike, axis: SupportsIndex | None = None) -> Any:
    """The number of elements: an int where it is known, else an int64 scalar.

    If an axis is given, it is the size of this axis.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.size([[1, 2, 3], [4, 5, 6]]), mode="reference")()
    array(6)
    """
    lengths = as_tensor(x).type.shape
    count = types.product(lengths) if axis is None else lengths[axis_of(axis, len(lengths))]
    return count if isinstance(count, int) else dim_node(count)


def ndim(x: TensorLike) -> int:
    """The number of axes.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.ndim(sj.matrix("x"))
    2
    """
    return as_tensor(x).ndim


def reshape(x: TensorLike, shape: Any, ndim: int | None = None, order: str = "C") -> Node:
    """The same elements in another shape.

    Parameters
    ----------
    x : tensor_like
    shape : int, integer scalar, a sequence of them, or an integer vector
        One size may be -1: it becomes what the number of elements asks for. No element of a vector may be.
    ndim : int, optional
        How many sizes there are: needed for a vector whose length is not known.
    order : "C" or "F"
        The order in which elements are read and put: row by row, or column by column as Fortran has them.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.reshape(sj.tensor(("T", 2, 3)), (-1, 3))
    <reshape: float64(2*T, 3)>
    """
    x = as_tensor(x)
    shape = _listed(shape, ndim)
    if _is_by_columns(order):
        backwards = shape[::-1] if isinstance(shape, tuple | list) or bool(getattr(shape, "ndim", 0)) else shape
        return transpose(reshape(transpose(x), backwards))
    sizes = list(shape) if isinstance(shape, tuple | list) else shape
    listed = sizes if isinstance(sizes, list) else [sizes]
    unknown = [i for i, size in enumerate(listed) if isinstance(size, int | np.integer) and size == -1]
    if len(unknown) > 1:
        raise errors.ShapeError("only one size can be -1", got=shape)
    if not unknown:
        new = dimensions(shape)
    else:
        known = dimensions(tuple(size for i, size in enumerate(listed) if i != unknown[0]))
        new = (*known[: unknown[0]], _missing(x.type.shape, known), *known[unknown[0] :])
    return x if new == x.type.shape else RESHAPE(x, shape=new)


def _is_by_columns(order: str) -> bool:
    """Whether elements are in Fortran's order."""
    if order not in ("C", "F"):
        raise errors.ArgumentError("the order of elements is not known", got=repr(order), expected="'C' or 'F'")
    return order == "F"


def _listed(shape: Any, ndim: int | None) -> Any:
    """The sizes of a shape; those of a vector of `ndim` elements one by one."""
    if ndim is None:
        return shape
    if isinstance(shape, Node) and shape.ndim == 1:
        vector = specify_shape(shape, (ndim,), "the shape that reshape gets")
        return tuple(vector[k] for k in range(ndim))
    count = len(shape) if isinstance(shape, tuple | list) else 1
    if count != ndim:
        raise errors.ArgumentError("ndim of reshape is the number of sizes", got=f"ndim={ndim} for {shape!r}")
    return shape


def _missing(whole: Sequence[Dimension], known: Sequence[Dimension]) -> Dimension:
    """The size that makes the number of elements right. Sizes that are on both sides cancel."""
    rest, divisors = list(whole), []
    for size in known:
        same = [i for i, other in enumerate(rest) if other == size]
        if same:
            del rest[same[0]]
        else:
            divisors.append(size)
    divisor = types.product(divisors)
    if divisor == 0:
        raise errors.ShapeError("the size -1 is not defined beside a size of 0", got=f"{whole} to {known}")
    return types.product(rest) // divisor


def ravel(x: TensorLike, order: str = "C") -> Node:
    """All elements as a vector: row by row, or with `order="F"` column by column.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.ravel([[1, 2], [3, 4]]), mode="reference")()
    array([1, 2, 3, 4])
    """
    return reshape(x, -1, order=order)


def flatten(x: TensorLike, ndim: int | str = 1, order: str = "C") -> Node:
    """All elements as a vector; or with `ndim` axes, of which the last one joins all that are too many. `order` is as
    for `reshape`. It may stand first, as in NumPy: `x.flatten("F")`.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.flatten(sj.tensor(("B", "T", 3)), 2)
    <reshape: float64(B, 3*T)>
    """
    x = as_tensor(x)
    if isinstance(ndim, str):
        order, ndim = ndim, 1
    if not 1 <= integer(ndim, "ndim of flatten") <= builtin_max(x.ndim, 1):
        raise errors.ShapeError("ndim of flatten is out of range", got=ndim, expected=f"1 to {x.ndim}")
    if _is_by_columns(order):
        return reshape(x, (*x.shape[: ndim - 1], -1), order=order)
    kept = x.type.shape[: ndim - 1]
    return RESHAPE(x, shape=(*kept, types.product(x.type.shape[ndim - 1 :]))) if x.ndim != ndim else x


builtin_max = max


def transpose(x: TensorLike, axes: Any = None) -> Node:
    """`x` with its axes in another order; reversed if none is given.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.transpose(sj.tensor(("T", "B", 3)), (1, 0, 2))
    <dimshuffle: float64(B, T, 3)>
    """
    x = as_tensor(x)
    if axes is None:
        return reordered(x, range(x.ndim)[::-1])
    order = [axis_of(a, x.ndim) for a in (axes if isinstance(axes, tuple | list) else (axes,))]
    if sorted(order) != list(range(x.ndim)):
        raise errors.ShapeError("the axes of a transpose must be all axes, once each", got=axes)
    return reordered(x, order)


def dimshuffle(x: TensorLike, *pattern: Any) -> Node:
    """`x` with its axes in the order of a pattern, in which "x" (or None) is a new axis of size 1.

    Axes may be left out if their size is 1.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.dimshuffle(sj.tensor(("T", "B")), 1, "x", 0)
    <dimshuffle: float64(B, 1, T)>
    """
    x = as_tensor(x)
    given = pattern[0] if len(pattern) == 1 and isinstance(pattern[0], tuple | list) else pattern
    return reordered(x, [None if a is None or (isinstance(a, str) and a == "x") else axis_of(a, x.ndim) for a in given])


def swapaxes(x: TensorLike, axis1: int, axis2: int) -> Node:
    """`x` with two axes exchanged.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.swapaxes(sj.tensor(("T", "B", 3)), 0, -1)
    <dimshuffle: float64(3, B, T)>
    """
    x = as_tensor(x)
    order = list(range(x.ndim))
    a, b = axis_of(axis1, x.ndim), axis_of(axis2, x.ndim)
    order[a], order[b] = b, a
    return reordered(x, order)


def moveaxis(x: TensorLike, source: Any, destination: Any) -> Node:
    """`x` with axes moved to other places, the others in order.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.moveaxis(sj.tensor(("T", "B", 3)), 0, -1)
    <dimshuffle: float64(B, 3, T)>
    """
    x = as_tensor(x)
    sources, targets = (
        [axis_of(a, x.ndim) for a in (given if isinstance(given, tuple | list) else (given,))]
        for given in (source, destination)
    )
    if len(sources) != len(targets) or len(set(sources)) != len(sources) or len(set(targets)) != len(targets):
        raise errors.ArgumentError("each axis is moved to one place", got=f"{source} to {destination}")
    order = [a for a in range(x.ndim) if a not in sources]
    for target, a in sorted(zip(targets, sources, strict=True)):
        order.insert(target, a)
    return reordered(x, order)


def expand_dims(x: TensorLike, axis: Axis) -> Node:
    """`x` with new axes of size 1 at these places of the result.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.expand_dims(sj.tensor(("T", "B")), (0, 2))
    <dimshuffle: float64(1, T, 1, B)>
    """
    x = as_tensor(x)
    given = axis if isinstance(axis, tuple | list) else (axis,)
    new = axes_of(tuple(given), x.ndim + len(given))
    kept = iter(range(x.ndim))
    return reordered(x, [None if a in new else next(kept) for a in range(x.ndim + len(new))])


def squeeze(x: TensorLike, axis: Axis = None) -> Node:
    """`x` without axes of size 1: those given, or all that are known to have it.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.squeeze(sj.tensor((1, "T", 1)), axis=0)
    <dimshuffle: float64(T, 1)>
    """
    x = as_tensor(x)
    dropped = [a for a, n in enumerate(x.type.shape) if n == 1] if axis is None else axes_of(axis, x.ndim)
    for a in dropped:
        if isinstance(x.type.shape[a], int) and x.type.shape[a] != 1:
            raise errors.ShapeError("only axes of size 1 can be squeezed", got=f"axis {a} of {x.type}")
    return reordered(x, [a for a in range(x.ndim) if a not in dropped])


def _at_least(x: Any, ndim: int) -> Node:
    x = as_tensor(x)
    return x if x.ndim >= ndim else reordered(x, [*[None] * (ndim - x.ndim), *range(x.ndim)])


def atleast_1d(x: TensorLike) -> Node:
    """`x`, with an axis if it has none.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.atleast_1d(5), mode="reference")()
    array([5])
    """
    return _at_least(x, 1)


def atleast_2d(x: TensorLike) -> Node:
    """`x`, with new axes in front so that there are two.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.atleast_2d([1, 2]), mode="reference")()
    array([[1, 2]])
    """
    return _at_least(x, 2)


def atleast_3d(x: TensorLike) -> Node:
    """`x`, with new axes so that there are three; a matrix gets one behind, as in NumPy.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.atleast_3d(sj.tensor(("n", "m")))
    <dimshuffle: float64(n, m, 1)>
    """
    x = as_tensor(x)
    return (
        reordered(x, [0, 1, None]) if x.ndim == 2 else reordered(x, [None, 0, None]) if x.ndim == 1 else _at_least(x, 3)
    )


def broadcast_to(x: TensorLike, shape: Any) -> Node:
    """`x` stretched to a shape.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.broadcast_to([1, 2], (2, 2)), mode="reference")()
    array([[1, 2],
           [1, 2]])
    """
    x, new = as_tensor(x), dimensions(shape)
    return x if x.type.shape == new else BROADCAST_TO(x, shape=new)


def specify_shape(x: TensorLike, shape: Sequence[Any], what: str = "a tensor") -> Node:
    """`x`, with the condition that it has this shape. An error now if it cannot have it, or when a function runs and it
    has not.

    Parameters
    ----------
    x : tensor_like
    shape : sequence of ints, integer scalars and None
        None for what is as it may be.
    what : str
        How the error names `x`.

    Returns
    -------
    Node
        In whose type these sizes are known.

    Raises
    ------
    ShapeError
        With both shapes.

    Examples
    --------
    >>> import numpy as np
    >>> import scanjit as sj
    >>> x, weights = sj.matrix("x"), sj.vector("weights")
    >>> scores = x @ sj.specify_shape(weights, x.shape[1:], "the vector of weights")
    >>> sj.function([x, weights], scores, mode="reference")(np.ones((3, 5)), np.ones(4))
    Traceback (most recent call last):
    scanjit.errors.ShapeError: the vector of weights has another shape than it should
      got:      (4,)
      expected: (5,)
      ...
    """
    x = as_tensor(x)
    if len(shape) != x.ndim:
        raise types.other_shape(what, (x.type.shape, shape))
    new = dimensions(tuple(own if size is None else size for size, own in zip(shape, x.type.shape, strict=True)))
    return x if x.type.shape == new else SPECIFY_SHAPE(x, shape=new, what=what)


def matrix_transpose(x: TensorLike) -> Node:
    """Matrices with rows for columns: the last two axes exchanged.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.matrix_transpose(sj.tensor((5, 2, 3)))
    <dimshuffle: float64(5, 3, 2)>
    """
    return swapaxes(x, -2, -1)


if not TYPE_CHECKING:  # they cannot compute it
    __all__ = defined(globals())

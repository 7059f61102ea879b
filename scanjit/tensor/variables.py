"""Symbols: inputs of functions, constants, and other values that users give, as tensors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import DTypeLike

from scanjit import errors, ir, types
from scanjit.config import config
from scanjit.ir import Node
from scanjit.ops.parts import symbol
from scanjit.ops.promotion import cast
from scanjit.ops.shape import CONCATENATE, RESHAPE
from scanjit.ops.view import as_row
from scanjit.symbol import TensorLike
from scanjit.types import Dimension, Type


def tensor(
    shape: Sequence[Any] | Dimension | str | None, dtype: DTypeLike | None = None, name: str | None = None
) -> Node:
    """A new symbol, to be an input of a function.

    Parameters
    ----------
    shape : int, str, None or a sequence of them
        The sizes: a number; `None` for any size; or a name. Equal names are equal sizes, across all symbols.
    dtype : a dtype or its name
        By default `config.floatX`.
    name : str, optional
        Its name in prints and in errors, and as a keyword argument.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.tensor(("T", "B", 64), "float32", name="x")
    <x: float32(T, B, 64)>
    """
    check_name(name)
    sizes = shape if isinstance(shape, tuple | list) else (shape,)
    dims = tuple(_dimension(size, name, axis) for axis, size in enumerate(sizes))
    return symbol(Type(types.dtype_of(dtype or config.floatX), dims), name)


def check_name(name: Any) -> None:
    """Raise an error if a name that a user gave is no string."""
    if name is not None and not isinstance(name, str):
        raise errors.ArgumentError("a name must be a string", got=repr(name))


def _dimension(size: Any, tensor: str | None, axis: int) -> Dimension:
    if size is None:
        return types.axis_size(tensor, axis)
    if isinstance(size, str):
        return types.size(size)
    if isinstance(size, types.Dim):
        return size
    if isinstance(size, int | np.integer) and not isinstance(size, bool) and size >= 0:
        return int(size)
    raise errors.ArgumentError(
        "a size of a symbol must be a number, a name, or None", got=repr(size), expected="int >= 0, str or None"
    )


class _Maker(Protocol):
    """A function that makes a new symbol of a certain rank."""

    def __call__(self, name: str | None = None, dtype: DTypeLike | None = None) -> Node:
        """A new symbol, of the rank and dtype that the name of the function says. See `tensor`."""
        ...


def _maker(ndim: int, fixed: str | None = None) -> _Maker:
    """A short form of `tensor` for a rank, and perhaps a dtype."""
    kind = ("scalar", "vector", "matrix")[ndim] if ndim < 3 else f"{ndim}-d tensor"

    def make(name: str | None = None, dtype: DTypeLike | None = None) -> Node:
        return tensor((None,) * ndim, fixed if dtype is None else dtype, name)

    make.__doc__ = f"A new symbol: a {kind} of {fixed or '`config.floatX`, or of `dtype`'}. See `tensor`."
    return make


_EXAMPLE = """

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.{name}("x").ndim, sj.{name}("x").dtype
    ({ndim}, dtype('{dtype}'))
    """


scalar, vector, matrix, tensor3, tensor4 = map(_maker, range(5))


def _makers(dtype: str) -> list[_Maker]:
    return [_maker(ndim, dtype) for ndim in range(5)]


bscalar, bvector, bmatrix, btensor3, btensor4 = _makers("int8")
wscalar, wvector, wmatrix, wtensor3, wtensor4 = _makers("int16")
iscalar, ivector, imatrix, itensor3, itensor4 = _makers("int32")
lscalar, lvector, lmatrix, ltensor3, ltensor4 = _makers("int64")
fscalar, fvector, fmatrix, ftensor3, ftensor4 = _makers("float32")
dscalar, dvector, dmatrix, dtensor3, dtensor4 = _makers("float64")
for _prefix in ("", *"bwilfd"):
    for _ndim, _kind in enumerate(("scalar", "vector", "matrix", "tensor3", "tensor4")):
        _make, _name = globals()[_prefix + _kind], _prefix + _kind
        _make.__name__ = _make.__qualname__ = _name
        _make.__doc__ += _EXAMPLE.format(name=_name, ndim=_ndim, dtype=_make().dtype)


def constant(value: TensorLike, dtype: DTypeLike | None = None) -> Node:
    """A symbol whose value is known.

    Parameters
    ----------
    value : array_like
    dtype : a dtype or its name
        By default the array's own.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.constant([1.0, 2.0])
    <constant: float64(2)>
    """
    if isinstance(value, Node):
        raise errors.ArgumentError("the value of a symbol is not known while a function is built", got=repr(value))
    return as_tensor(value, dtype)


def as_tensor(x: TensorLike, dtype: DTypeLike | None = None) -> Node:
    """A symbol for anything: symbols, shared variables, arrays, numbers, and lists of them (which are stacked).

    Parameters
    ----------
    x : the value.
    dtype : a dtype or its name
        What to convert to; by default the value's own.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.as_tensor([sj.scalar(), 1])
    <concatenate: float64(2)>
    """
    if isinstance(x, tuple | list) and any(map(has_symbol, x)):
        node = _stacked([as_tensor(item) for item in x])
    else:
        node = ir.as_node(x)
    return node if dtype is None else cast(node, dtype)


def of_numbers(*values: Any) -> np.dtype[Any] | None:
    """The dtype of what is made of Python numbers, also in lists: `config.floatX` if one is a float, and the complex
    numbers of its precision if one is complex. `config.floatX` also for no number. None for integers, and if a value
    has a dtype of its own."""
    leaves = list(_numbers_in(values))
    if not all(map(ir.is_number, leaves)) or (leaves and not any(isinstance(leaf, float | complex) for leaf in leaves)):
        return None
    return np.result_type(config.floatX, *[np.complex64 for leaf in leaves if isinstance(leaf, complex)])


def _numbers_in(value: Any) -> Iterator[Any]:
    if isinstance(value, tuple | list):
        for item in value:
            yield from _numbers_in(item)
    else:
        yield value


def accumulated(x: Any, dtype: Any) -> Node:
    """A tensor, cast to the dtype of sums and products: int64 for bools and integers, else its own."""
    x = as_tensor(x)
    return cast(x, dtype or (x.dtype if x.type.kind.inexact else "int64"))


def inexact(x: Any, dtype: DTypeLike | None = None) -> Node:
    """A tensor of floats or complex numbers; bools and integers become float64."""
    x = as_tensor(x)
    return cast(x, dtype or (x.dtype if x.type.kind.inexact else "float64"))


def floats(*values: Any) -> list[Node]:
    """The values as tensors of one dtype, of floats or complex numbers."""
    return [inexact(node) for node in promoted(values)]


def has_symbol(x: Any) -> bool:
    """Whether a value is a symbol, or a (nested) list with one in it."""
    return any(map(has_symbol, x)) if isinstance(x, tuple | list) else ir.is_symbol(x)


def _stacked(rows: Sequence[Node]) -> Node:
    return CONCATENATE(*(as_row(x) for x in promoted(rows)), axis=0)


def promoted(values: Sequence[Any]) -> list[Node]:
    """The values as symbols of the dtype that they promote to."""
    nodes = [as_tensor(value) for value in values]
    dtype = types.promote([node.dtype for node in nodes])
    return [cast(node, dtype) for node in nodes]


def dimensions(shape: Any) -> tuple[Dimension, ...]:
    """A shape that a user gave (ints and integer scalars) as dimensions."""
    if isinstance(shape, Node) and shape.ndim == 1 and isinstance(shape.type.shape[0], int):
        shape = tuple(shape)
    sizes = shape if isinstance(shape, tuple | list) else shape.tolist() if isinstance(shape, np.ndarray) else (shape,)
    sizes = sizes if isinstance(sizes, tuple | list) else (sizes,)
    found = tuple(ir.as_dim(as_tensor(s) if ir.is_symbol(s) else s) for s in sizes)
    for size in found:
        if isinstance(size, int) and size < 0:
            raise errors.ShapeError("a size must not be negative", got=shape)
    return found


def dimension(size: Any) -> Dimension:
    """A size that a user gave (an int or an integer scalar) as a dimension."""
    sizes = dimensions(size)
    if len(sizes) != 1:
        raise errors.ArgumentError("a size must be an integer or an integer scalar", got=repr(size))
    return sizes[0]


DIAGONAL = "the number of a diagonal"


def integer(value: Any, what: str, least: int | None = None) -> int:
    """An integer that a user gave, which is at least `least`; `what` names it in the error."""
    if ir.is_symbol(value):
        raise errors.ArgumentError(
            f"{what} must be a number that is known while a function is built",
            got=repr(value),
            fix="pass an int; if it is an argument of a jitted function, give its position in static_argnums",
        )
    if not isinstance(value, int | np.integer) or isinstance(value, bool):
        raise errors.ArgumentError(f"{what} must be an integer", got=repr(value))
    if least is not None and value < least:
        raise errors.ArgumentError(f"{what} must be at least {least}", got=value)
    return int(value)


def axis_of(axis: Any, ndim: int) -> int:
    """An axis that a user gave, counted from the front."""
    axis = integer(axis, "an axis")
    if not -ndim <= axis < ndim:
        raise errors.ShapeError(
            f"axis {axis} is out of bounds for a tensor of {ndim} dimensions", expected=f"{-ndim} <= axis < {ndim}"
        )
    return axis % ndim


def along_axis(x: Node, axis: Any) -> tuple[Node, int]:
    """A tensor and one of its axes; if no axis is given, all elements in row-major order along one axis."""
    if axis is None:
        return RESHAPE(x, shape=(types.product(x.type.shape),)), 0
    return x, axis_of(axis, x.ndim)


def axes_of(axis: Any, ndim: int) -> tuple[int, ...]:
    """Axes that a user gave (None: all) as a sorted tuple, counted from the front."""
    return tuple(sorted(axes_as_given(axis, ndim)))


def axes_as_given(axis: Any, ndim: int) -> tuple[int, ...]:
    """Axes that a user gave (None: all) in their order, counted from the front."""
    if axis is None:
        return tuple(range(ndim))
    found = tuple(axis_of(a, ndim) for a in (axis if isinstance(axis, tuple | list) else (axis,)))
    if len(set(found)) != len(found):
        raise errors.ArgumentError("an axis is given twice", got=axis)
    return found


NAMES = [
    "as_tensor",
    "constant",
    "tensor",
    *(p + k for p in ("", *"bwilfd") for k in ("scalar", "vector", "matrix", "tensor3", "tensor4")),
]
if not TYPE_CHECKING:  # type checkers cannot compute it; without it they see all that is here
    __all__ = NAMES

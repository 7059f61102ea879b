"""Functions that join tensors, cut them, and repeat or move their entries, with NumPy's names and arguments."""

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from scanjit import errors, types
from scanjit.ir import Node, as_dim, dim_node
from scanjit.ops.expect import expect
from scanjit.ops.index import GATHER
from scanjit.ops.promotion import cast
from scanjit.ops.shape import CONCATENATE, IOTA, RESHAPE, SET_SLICE, flip as flip_axis, window
from scanjit.ops.stretch import BROADCAST_TO, full
from scanjit.ops.view import reordered
from scanjit.symbol import Axis, Symbol, TensorLike
from scanjit.tensor.indexing import getitem
from scanjit.tensor.names import defined
from scanjit.tensor.places import take
from scanjit.tensor.shapes import (
    atleast_1d,
    atleast_2d,
    atleast_3d,
    broadcast_to,
    expand_dims,
    moveaxis,
    ravel,
    reshape,
)
from scanjit.tensor.variables import along_axis, as_tensor, axes_of, axis_of, dimension, dimensions, promoted
from scanjit.types import Dimension

# ---- several tensors -------------------------------------------------------------------------------------------------


def concatenate(tensors: Sequence[TensorLike] | Symbol[Node], axis: int | None = 0) -> Node:
    """Tensors one after the other along an axis, promoted to one dtype. Without an axis (None), the elements of all.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.concatenate([sj.tensor(("n", 3)), sj.tensor((2, 3))])
    <concatenate: float64(n + 2, 3)>
    """
    nodes = _several(tensors, "concatenate")
    if axis is None:
        nodes, axis = [along_axis(node, None)[0] for node in nodes], 0
    if nodes[0].ndim == 0:
        raise errors.ShapeError("scalars cannot be concatenated", fix="use stack")
    axis = axis_of(axis, nodes[0].ndim)
    return CONCATENATE(*nodes, axis=axis) if len(nodes) > 1 else nodes[0]


def _several(tensors: Any, what: str) -> list[Node]:
    if isinstance(tensors, Node):
        tensors = list(tensors)
    if not isinstance(tensors, tuple | list) or not tensors:
        raise errors.ArgumentError(f"{what} takes a sequence of tensors", got=repr(tensors))
    return promoted(tensors)


def stack(tensors: Sequence[TensorLike] | Symbol[Node], axis: int = 0) -> Node:
    """Tensors of one shape along a new axis.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.stack([[1, 2], [3, 4]], axis=1), mode="reference")()
    array([[1, 3],
           [2, 4]])
    """
    return concatenate([expand_dims(x, axis) for x in _several(tensors, "stack")], axis)


def vstack(tensors: Sequence[TensorLike] | Symbol[Node]) -> Node:
    """Tensors below one another.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.vstack([[1, 2], [3, 4]]), mode="reference")()
    array([[1, 2],
           [3, 4]])
    """
    return concatenate([atleast_2d(x) for x in _several(tensors, "vstack")], 0)


def hstack(tensors: Sequence[TensorLike] | Symbol[Node]) -> Node:
    """Tensors beside one another.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.hstack([[1, 2], [3, 4]]), mode="reference")()
    array([1, 2, 3, 4])
    """
    nodes = [atleast_1d(x) for x in _several(tensors, "hstack")]
    return concatenate(nodes, 0 if nodes[0].ndim == 1 else 1)


def split(x: TensorLike, indices_or_sections: Any, axis: int = 0) -> list[Node]:
    """The parts of a tensor along an axis.

    Parameters
    ----------
    x : tensor_like
    indices_or_sections : int or sequence
        The number of equal parts; or the indices at which to cut (out of bounds they count as NumPy's slices do).
    axis : int

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.split([1, 2, 3, 4, 5], [2, 3]), mode="reference")()
    [array([1, 2]), array([3]), array([4, 5])]
    """
    x = as_tensor(x)
    axis = axis_of(axis, x.ndim)
    n = x.type.shape[axis]
    if not isinstance(indices_or_sections, int | np.integer):
        places = indices_or_sections
        if not isinstance(places, tuple | list):
            places = np.asarray(places).tolist()
        if not isinstance(places, tuple | list):
            raise errors.ArgumentError("split takes a number of parts, or the places of cuts", got=repr(places))
        cuts = [None, *places, None]
        before = (slice(None),) * axis
        return [getitem(x, (*before, slice(a, b))) for a, b in itertools.pairwise(cuts)]
    parts = int(indices_or_sections)
    if parts < 1 or (isinstance(n, int) and n % parts):
        raise errors.ShapeError(
            "a tensor cannot be split into so many equal parts", got=f"{n} entries in {parts} parts"
        )
    length = n // parts
    x = expect(x, (n, length * parts, f"an axis of {{left}} entries has no {parts} equal parts"), error="shape")
    return [window(x, axis, i * length, length) for i in range(parts)]


# ---- repeated, turned, moved -----------------------------------------------------------------------------------------


def tile(x: TensorLike, reps: Any) -> Node:
    """`x` repeated as a whole, `reps` times along each axis (the last one, if it is a number).

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.tile([1, 2], (2, 2)), mode="reference")()
    array([[1, 2, 1, 2],
           [1, 2, 1, 2]])
    """
    x, counts = as_tensor(x), dimensions(reps)
    x = reordered(x, [*[None] * (len(counts) - x.ndim), *range(x.ndim)])
    counts = (*[1] * (x.ndim - len(counts)), *counts)
    spread = [None if i % 2 == 0 else i // 2 for i in range(2 * x.ndim)]
    shape = [n for pair in zip(counts, x.type.shape, strict=True) for n in pair]
    if all(isinstance(c, int) and c == 1 for c in counts):
        return x
    wide = BROADCAST_TO(reordered(x, spread), shape=tuple(shape))
    return RESHAPE(wide, shape=tuple(c * n for c, n in zip(counts, x.type.shape, strict=True)))


def append(x: TensorLike, values: TensorLike, axis: int | None = None) -> Node:
    """`x` with entries behind it along an axis (None: all elements of both, in row-major order).

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.append([1, 2], [[3], [4]]), mode="reference")()
    array([1, 2, 3, 4])
    """
    if axis is None:
        return concatenate([ravel(as_tensor(x)), ravel(as_tensor(values))])
    return concatenate([x, values], axis)


def block(arrays: Any) -> Node:
    """Nested lists of tensors as one tensor: the innermost lists are joined along the last axis, those around them
    along the axis before. See `numpy.block`.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.block([[sj.eye(2), sj.zeros((2, 1))], [2 * sj.ones(2), 3.0]]), mode="reference")()
    array([[1., 0., 0.],
           [0., 1., 0.],
           [2., 2., 3.]])
    """
    depth = _depth(arrays)
    return _blocks(arrays, depth, max(depth, _largest_rank(arrays)))


def _depth(arrays: Any) -> int:
    """How deep lists are nested."""
    if not isinstance(arrays, list):
        return 0
    depths = {_depth(part) for part in arrays}
    if len(depths) != 1:
        raise errors.ArgumentError("blocks are nested equally deep, in lists that are not empty", got=sorted(depths))
    return 1 + depths.pop()


def _largest_rank(arrays: Any) -> int:
    return max(map(_largest_rank, arrays)) if isinstance(arrays, list) else as_tensor(arrays).ndim


def _blocks(arrays: Any, depth: int, rank: int) -> Node:
    if not isinstance(arrays, list):
        x = as_tensor(arrays)
        return expand_dims(x, tuple(range(rank - x.ndim)))
    return concatenate([_blocks(part, depth - 1, rank) for part in arrays], axis=-depth)


def broadcast_arrays(*arrays: TensorLike) -> list[Node]:
    """Tensors in the shape to which they broadcast together.

    Examples
    --------
    >>> import scanjit as sj
    >>> [a.type.shape for a in sj.broadcast_arrays([[1], [2]], [3, 4, 5])]
    [(2, 3), (2, 3)]
    """
    nodes = [as_tensor(a) for a in arrays]
    whole = types.broadcast([node.type.shape for node in nodes], "arrays")
    return [node if node.type.shape == whole else BROADCAST_TO(node, shape=whole) for node in nodes]


def unstack(x: TensorLike, axis: int = 0) -> tuple[Node, ...]:
    """The entries along an axis, whose size is known.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], list(sj.unstack([[1, 2], [3, 4]], axis=1)), mode="reference")()
    [array([1, 3]), array([2, 4])]
    """
    return tuple(moveaxis(x, axis, 0))


def dstack(tensors: Sequence[TensorLike] | Symbol[Node]) -> Node:
    """Tensors behind one another, along the third axis.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.dstack([[1, 2], [3, 4]]), mode="reference")()
    array([[[1, 3],
            [2, 4]]])
    """
    return concatenate([atleast_3d(x) for x in _several(tensors, "dstack")], 2)


def column_stack(tensors: Sequence[TensorLike]) -> Node:
    """Vectors and matrices side by side: each vector is a column.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.column_stack([[1, 2], [3, 4]]), mode="reference")()
    array([[1, 3],
           [2, 4]])
    """
    nodes = _several(tensors, "column_stack")
    return concatenate([x if x.ndim > 1 else expand_dims(ravel(x), 1) for x in nodes], 1)


def meshgrid(*vectors: TensorLike, indexing: str = "xy") -> list[Node]:
    """A tensor for each vector, which holds its entries along one axis. See `numpy.meshgrid`.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.meshgrid([1, 2, 3], [4, 5]), mode="reference")()
    [array([[1, 2, 3],
           [1, 2, 3]]), array([[4, 4, 4],
           [5, 5, 5]])]
    """
    errors.check_known("indexing of meshgrid", indexing, ("xy", "ij"))
    nodes = [ravel(as_tensor(x)) for x in vectors]
    places = list(range(len(nodes)))
    if indexing == "xy" and len(nodes) > 1:
        places[:2] = 1, 0
    shape = tuple(nodes[places.index(a)].type.shape[0] for a in range(len(nodes)))
    orders = [tuple(0 if a == place else None for a in range(len(nodes))) for place in places]
    return [broadcast_to(reordered(x, order), shape) for x, order in zip(nodes, orders, strict=True)]


def repeat(x: TensorLike, repeats: Any, axis: int | None = None) -> Node:
    """`x` with each entry repeated along an axis (None: all elements in row-major order).

    Parameters
    ----------
    x : tensor_like
    repeats : int, integer scalar, or a sequence of ints
        How often each entry comes.
    axis : int or None

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.repeat([1, 2, 3], [2, 0, 1]), mode="reference")()
    array([1, 1, 3])
    """
    x, axis = along_axis(as_tensor(x), axis)
    n = x.type.shape[axis]
    if not isinstance(repeats, Node | int | types.Dim) and np.ndim(repeats):
        counts = np.asarray(repeats)
        if counts.ndim != 1 or not np.can_cast(counts.dtype, np.int64) or (counts < 0).any():
            raise errors.ArgumentError("repeats are numbers, none of them negative", got=repr(repeats))
        if counts.shape != (1,):
            x = broadcast_to(x, (*x.type.shape[:axis], len(counts), *x.type.shape[axis + 1 :]))  # as many, or an error
            return take(x, np.repeat(np.arange(len(counts)), counts), axis)
        repeats = counts[0]
    count = dimension(repeats)
    order = [*range(axis + 1), None, *range(axis + 1, x.ndim)]
    shape = list(x.type.shape)
    wide = BROADCAST_TO(reordered(x, order), shape=(*shape[: axis + 1], count, *shape[axis + 1 :]))
    return RESHAPE(wide, shape=(*shape[:axis], n * count, *shape[axis + 1 :]))


def flip(x: TensorLike, axis: Axis = None) -> Node:
    """`x` with axes (None: all) reversed.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.flip([1, 2, 3]), mode="reference")()
    array([3, 2, 1])
    """
    x = as_tensor(x)
    for a in axes_of(axis, x.ndim):
        x = flip_axis(x, a)
    return x


def roll(x: TensorLike, shift: Any, axis: Axis = None) -> Node:
    """`x` with its entries moved along axes; entries that leave at one end come in at the other one. See `numpy.roll`.

    The shift may be computed, in a step too.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.roll([1, 2, 3, 4], 1), mode="reference")()
    array([4, 1, 2, 3])
    """
    x = as_tensor(x)
    if axis is None:
        return reshape(roll(ravel(x), shift, 0), x.shape)
    shifts, axes = (list(given) if isinstance(given, tuple | list) else [given] for given in (shift, axis))
    count = max(len(shifts), len(axes))
    if not count or {len(shifts), len(axes)} - {1, count}:
        raise errors.ArgumentError("roll takes a shift for each axis", got=f"{len(shifts)} for {len(axes)} axes")
    for a, s in zip(axes * (count // len(axes)), shifts * (count // len(shifts)), strict=True):
        a = axis_of(a, x.ndim)
        n = x.type.shape[a]
        if isinstance(s, Node) and any(atom.kind == "value" for atom in types.atoms(as_dim(s))):
            size = dim_node(types.maximum(n, 1))
            x = GATHER(x, (IOTA(length=n) - cast(s, "int64") % size) % size, axis=a)
            continue
        moved = as_dim(s) % types.maximum(n, 1)
        if not (isinstance(moved, int) and moved == 0):
            x = CONCATENATE(window(x, a, n - moved, moved), window(x, a, 0, n - moved), axis=a)
    return x


def pad(x: TensorLike, pad_width: Any, mode: str = "constant", constant_values: Any = 0) -> Node:
    """`x` with entries before and after those along each axis.

    Parameters
    ----------
    x : tensor_like
    pad_width : int, (before, after), or such a pair an axis
        How many entries; integer scalars are allowed.
    mode : "constant", "edge", "reflect", "symmetric" or "wrap"
        What they are, as for `numpy.pad`; a reflection must be shorter than what it reflects.
    constant_values : number
        For "constant".

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.pad([1, 2, 3], (1, 2), "reflect"), mode="reference")()
    array([2, 1, 2, 3, 2, 1])
    """
    x = as_tensor(x)
    widths = _pad_widths(pad_width, x.ndim)
    if mode == "constant":
        start = tuple(before for before, _ in widths)
        whole = tuple(b + n + a for (b, a), n in zip(widths, x.type.shape, strict=True))
        value = cast(as_tensor(constant_values), x.dtype)
        if value.ndim:
            raise errors.ArgumentError("constant_values of pad is one number", got=repr(constant_values))
        return SET_SLICE(full(value, whole), x, start=start, step=(1,) * x.ndim)
    errors.check_known("mode of pad", mode, ("constant", "edge", "reflect", "symmetric", "wrap"))
    for axis, (before, after) in enumerate(widths):
        n = x.type.shape[axis]
        parts = []
        for count, first in ((before, True), (after, False)):
            if isinstance(count, int) and count == 0:
                part = None
            elif mode == "edge":
                one = window(x, axis, 0 if first else n - 1, 1)
                part = BROADCAST_TO(one, shape=(*x.type.shape[:axis], count, *x.type.shape[axis + 1 :]))
            elif mode == "wrap":
                part = window(x, axis, n - count if first else 0, count)
            else:
                skipped = 1 if mode == "reflect" else 0
                part = window(x, axis, count - 1 + skipped if first else n - 1 - skipped, count, -1)
            parts.append(part)
        joined = [part for part in (parts[0], x, parts[1]) if part is not None]
        x = CONCATENATE(*joined, axis=axis) if len(joined) > 1 else x
    return x


def _pad_widths(given: Any, ndim: int) -> list[tuple[Dimension, Dimension]]:
    given = given.tolist() if isinstance(given, np.ndarray) else given
    if not isinstance(given, tuple | list):
        given = (given, given)
    if len(given) == 1 and not isinstance(given[0], tuple | list):
        given = (given[0], given[0])
    if given and not isinstance(given[0], tuple | list):
        given = (given,) * ndim
    if len(given) == 1:
        given = tuple(given) * ndim
    if len(given) != ndim or any(len(pair) != 2 for pair in given):
        raise errors.ArgumentError("padding is a number, a pair, or a pair an axis", got=given)
    widths = [(as_dim(before), as_dim(after)) for before, after in given]
    if any(isinstance(w, int) and w < 0 for pair in widths for w in pair):
        raise errors.ArgumentError("padding must not be negative", got=given)
    return widths


if not TYPE_CHECKING:  # they cannot compute it
    __all__ = defined(globals())

"""Indexing by integer tensors: `gather` and `scatter`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from scanjit import errors, types
from scanjit.ir import Node, Op
from scanjit.ops.elementwise import ADD, LESS, SUB, WHERE, where
from scanjit.ops.promotion import CAST
from scanjit.ops.samples import ANY_DTYPE, sample
from scanjit.ops.shape import IOTA, RESHAPE
from scanjit.ops.stretch import all_over_batch, full, or_zeros, zeros_like
from scanjit.ops.view import DIMSHUFFLE, View, moved_axis
from scanjit.signatures import Array, Parameter, Samples
from scanjit.types import Dimension, Type


def _gathered(x: Type, indices: Sequence[Type], axis: int) -> tuple[Dimension, ...]:
    """The shape of the result: the shape of the indices replaces the axes that they index."""
    shape = indices[0].shape
    for other in indices:
        if other.dtype != np.int64:
            raise errors.InternalError("indices are int64", got=other)
        shape = types.broadcast([shape, other.shape], "indices")
    if axis + len(indices) > x.ndim:
        raise errors.ShapeError("too many indices", got=f"{len(indices)} from axis {axis}", expected=f"axes of {x}")
    return (*x.shape[:axis], *shape, *x.shape[axis + len(indices) :])


def _outside(
    x: Array, indices: Sequence[Array], axis: int, nodes: Sequence[Node | None]
) -> errors.OutOfBoundsError | None:
    """The error of the first index that is out of bounds; None if none is."""
    for k, (index, node) in enumerate(zip(indices, nodes, strict=True)):
        size = x.shape[axis + k]
        if index.min() < 0 or index.max() >= size:
            bad = _as_given(node, index[(index < 0) | (index >= size)].flat[0], size)
            return errors.OutOfBoundsError(f"index {bad} is out of bounds for axis {axis + k} with size {size}")
    return None


def _as_given(index: Node | None, place: int, size: int) -> int:
    """The number that became a place by `where(k < 0, k + size, k)`, which counts from the end; or by
    `where(k < 0, k - size, k)`, by which a negative number is out of bounds. The first element of a window
    `x[t : t + 3]` is at `where(t < 0, t + size, t) + 0`. Other indices do not count from the end."""
    counted = False
    while index is not None:
        if isinstance(index.op, View) or index.op is CAST or (index.op is ADD and not counted):
            index = index.args[0]
            continue
        if index.op is not WHERE or index.args[0].op is not LESS:
            break
        condition, moved, k = index.args
        if condition.args[0] is not k or moved.op not in (ADD, SUB) or k not in moved.args:
            break
        if place < 0:
            place += size if moved.op is SUB else -size
        index, counted = k, True
    return place


def outside(node: Node, operands: Sequence[Array]) -> errors.OutOfBoundsError | None:
    """The error of a `gather` or `scatter` whose index is out of bounds. It says the number that the user gave, as far
    as the nodes tell it."""
    first = 1 if node.op is GATHER else 2
    return _outside(operands[0], operands[first:], node.params["axis"], node.operands[first:])


def _check(x: Array, indices: Sequence[Array], axis: int) -> None:
    """Raise an error if one of the indices is out of bounds."""
    if error := _outside(x, indices, axis, [None] * len(indices)):
        raise error


def _gather_reference(x: Array, *indices: Array, axis: int) -> Array:
    shape = (*x.shape[:axis], *np.broadcast_shapes(*map(np.shape, indices)), *x.shape[axis + len(indices) :])
    if 0 in shape:  # an index that reads no entry may be out of bounds
        return np.empty(shape, x.dtype)
    _check(x, indices, axis)
    return x[(slice(None),) * axis + tuple(indices)]


_CASES: tuple[tuple[tuple[int, ...], int, tuple[object, ...]], ...] = (
    ((5,), 0, ([0, 3, 3],)),
    ((4, 3), 0, (2,)),
    ((4, 3), 1, ([[0, 2], [1, 1]],)),
    ((3, 4, 2), 0, ([[0], [2]], [1, 3])),
    ((2, 3, 4), 1, ([2, 0], 3)),
    ((3, 2), 0, ([],)),
    ((1, 0), 0, ([0, 0],)),
)


def _gather_samples(rng: np.random.Generator, dtype: str) -> Samples:
    for shape, axis, indices in _CASES:
        yield (sample(rng, shape, dtype), *(np.asarray(i, np.int64) for i in indices)), {"axis": axis}


def _batch_axis(index: Node, batched: bool, ndim: int) -> Node:
    """An index with its batch axis in front of `ndim` others; one without a batch axis stays as it is."""
    if not batched:
        return index
    return DIMSHUFFLE(index, order=(0, *[None] * (ndim - index.ndim + 1), *range(1, index.ndim)))


def _paired(indices: Sequence[Node], batched: Sequence[bool], size: Dimension) -> list[Node]:
    """The indices with one more index in front: the position in the batch."""
    ndim = max(i.ndim - b for i, b in zip(indices, batched, strict=True))
    position = DIMSHUFFLE(IOTA(length=size), order=(0, *[None] * ndim))
    return [position, *(_batch_axis(i, b, ndim) for i, b in zip(indices, batched, strict=True))]


def _gather_batch(args: Sequence[Node], batched: Sequence[bool], size: Dimension, *, axis: int) -> tuple[Node, bool]:
    (x, *indices), (whole, *each) = args, batched
    if not any(each):
        return GATHER(x, *indices, axis=axis + 1), True
    paired = _paired(indices, each, size)
    if whole:
        found = GATHER(moved_axis(x, 0, axis), *paired, axis=axis)
    else:
        found = GATHER(x, *paired[1:], axis=axis)
    return moved_axis(found, axis, 0), True


GATHER: Op = Op(
    "gather",
    infer=lambda x, *indices, axis: x.with_shape(_gathered(x, indices, axis)),
    reference=_gather_reference,
    vjp=lambda g, y, x, *indices, axis: (
        SCATTER(zeros_like(x), g, *indices, axis=axis, add=True),
        *[None] * len(indices),
    ),
    batch=_gather_batch,
    samples=_gather_samples,
    dtypes=ANY_DTYPE,
    by_parts=True,
    reads_memory="first",
    goes_anywhere=True,
    doc="`x[..., i, j, ...]`: entries at int64 indices (never negative) of consecutive axes from `axis` on",
)


def _scatter_infer(x: Type, v: Type, *indices: Type, axis: int, add: bool) -> Type:
    shape = _gathered(x, indices, axis)
    if v.dtype != x.dtype or v.ndim != len(shape) or (add and x.dtype == np.bool_):
        raise errors.InternalError("scatter takes a value of the gathered type", got=f"{v} into {x}")
    for a, b in zip(v.shape, shape, strict=True):
        types.equate(a, b, "a dimension of a value to scatter")
    return x


def _scatter_reference(x: Array, v: Array, *indices: Array, axis: int, add: bool) -> Array:
    x = x.copy()
    if not np.size(v):
        return x
    _check(x, indices, axis)
    place: Parameter = (slice(None),) * axis + tuple(indices)
    if add:
        np.add.at(x, place, v)
    else:
        x[place] = v
    return x


def _last_written(x: Node, v: Node, indices: Sequence[Node], axis: int) -> Node | None:
    """Which entries of `v` stay, when later ones replace earlier ones; None if all do."""
    shape = v.type.shape[axis : axis + v.ndim - (x.ndim - len(indices))]
    if not shape:
        return None
    order = RESHAPE(IOTA(length=types.product(shape)), shape=shape)
    indexed = full(0, x.type.shape[axis : axis + len(indices)], "int64")
    last = GATHER(SCATTER(indexed, order, *indices, axis=0, add=False), *indices, axis=0) == order
    return DIMSHUFFLE(last, order=(*range(last.ndim), *[None] * (v.ndim - axis - last.ndim)))


def _scatter_vjp(g: Node, y: Node, x: Node, v: Node, *indices: Node, axis: int, add: bool) -> tuple[Node | None, ...]:
    of_v = GATHER(g, *indices, axis=axis)
    if add:
        return g, of_v, *[None] * len(indices)
    stays = _last_written(x, v, indices, axis)
    of_x = SCATTER(g, zeros_like(v), *indices, axis=axis, add=False)
    return of_x, of_v if stays is None else where(stays, of_v, 0), *[None] * len(indices)


def _scatter_jvp(
    tangents: Sequence[Node | None], y: Node, x: Node, v: Node, *indices: Node, **params: Parameter
) -> Node:
    return SCATTER(or_zeros(tangents[0], x), or_zeros(tangents[1], v), *indices, **params)


def _scatter_batch(
    args: Sequence[Node], batched: Sequence[bool], size: Dimension, *, axis: int, add: bool
) -> tuple[Node, bool]:
    x, v = all_over_batch(args[:2], batched[:2], size)
    indices, each = args[2:], batched[2:]
    if not any(each):
        return SCATTER(x, v, *indices, axis=axis + 1, add=add), True
    paired = _paired(indices, each, size)
    changed = SCATTER(moved_axis(x, 0, axis), moved_axis(v, 0, axis), *paired, axis=axis, add=add)
    return moved_axis(changed, axis, 0), True


def _scatter_samples(rng: np.random.Generator, dtype: str) -> Samples:
    for (x, *indices), params in _gather_samples(rng, dtype):
        v = sample(rng, _gather_reference(x, *indices, **params).shape, dtype)
        for add in (False, True) if dtype != "bool" else (False,):
            yield (x, v, *indices), {**params, "add": add}


SCATTER: Op = Op(
    "scatter",
    infer=_scatter_infer,
    reference=_scatter_reference,
    vjp=_scatter_vjp,
    jvp=_scatter_jvp,
    batch=_scatter_batch,
    samples=_scatter_samples,
    dtypes=ANY_DTYPE,
    by_parts=True,
    takes_halves=False,
    doc="`x` with `v` added to (or, one after the other, put in place of) its entries at int64 indices",
)

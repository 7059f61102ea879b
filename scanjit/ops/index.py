"""Indexing by integer tensors: `gather` and `scatter`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from scanjit import errors, types
from scanjit.ir import Node, Op
from scanjit.ops.shape import zeros_like
from scanjit.types import Type


def _gathered(x: Type, indices: Sequence[Type], axis: int) -> tuple:
    """The shape of what is gathered: the indices' shape in place of the axes that they index."""
    shape = indices[0].shape
    for other in indices:
        if other.dtype != np.int64:
            raise errors.InternalError("indices are int64", got=other)
        shape = types.broadcast([shape, other.shape], "indices")
    if axis + len(indices) > x.ndim:
        raise errors.ShapeError("too many indices", got=f"{len(indices)} from axis {axis}", expected=f"axes of {x}")
    return (*x.shape[:axis], *shape, *x.shape[axis + len(indices) :])


def _checked(x: np.ndarray, indices: Sequence[np.ndarray], axis: int) -> None:
    for k, index in enumerate(indices):
        size = x.shape[axis + k]
        if index.size and not (0 <= index.min() and index.max() < size):
            bad = index[(index < 0) | (index >= size)].flat[0]
            raise errors.OutOfBoundsError(f"index {bad} is out of bounds for axis {axis + k} with size {size}")


def _gather_reference(x: np.ndarray, *indices: np.ndarray, axis: int) -> np.ndarray:
    _checked(x, indices, axis)
    return x[(slice(None),) * axis + tuple(indices)]


GATHER = Op(
    "gather",
    infer=lambda x, *indices, axis: x.with_shape(_gathered(x, indices, axis)),
    reference=_gather_reference,
    vjp=lambda g, y, x, *indices, axis: (
        SCATTER(zeros_like(x), g, *indices, axis=axis, add=True),
        *[None] * len(indices),
    ),
    jvp=lambda tangents, y, x, *indices, axis: (
        None if tangents[0] is None else GATHER(tangents[0], *indices, axis=axis)
    ),
    doc="`x[..., i, j, ...]`: entries at int64 indices (never negative) of consecutive axes from `axis` on",
)


def _scatter_infer(x: Type, v: Type, *indices: Type, axis: int, add: bool) -> Type:
    shape = _gathered(x, indices, axis)
    if v.dtype != x.dtype or v.ndim != len(shape):
        raise errors.InternalError("scatter takes a value of the gathered type", got=f"{v} into {x}")
    for a, b in zip(v.shape, shape, strict=True):
        types.equate(a, b, "a dimension of a value to scatter")
    return x


def _scatter_reference(x: np.ndarray, v: np.ndarray, *indices: np.ndarray, axis: int, add: bool) -> np.ndarray:
    _checked(x, indices, axis)
    x = x.copy()
    where = (slice(None),) * axis + tuple(indices)
    if add:
        np.add.at(x, where, v)
    else:
        x[where] = v
    return x


SCATTER = Op(
    "scatter",
    infer=_scatter_infer,
    reference=_scatter_reference,
    doc="`x` with `v` added to (or, one after the other, put in place of) its entries at int64 indices",
)

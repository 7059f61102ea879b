"""`windows`: all the windows of a tensor along some axes, as a view. A convolution is a `contract` with it.

Nothing is copied: an element of a window is read at `step * place + dilation * offset`, which is affine. The transpose
adds the overlapping windows. In the gradient of a convolution the windows are a product of two factors: one varies with
the place, the other one with the offset. The sum of such windows is computed as a convolution too.
"""

import numpy as np

from scanjit import errors, types
from scanjit.ir import Node
from scanjit.ops.elementwise import ADD
from scanjit.ops.index import SCATTER
from scanjit.ops.linalg import CONTRACT, contract
from scanjit.ops.samples import ANY_DTYPE, sampled
from scanjit.ops.shape import IOTA, SET_SLICE, flip
from scanjit.ops.stretch import full
from scanjit.ops.view import DIMSHUFFLE, Access, View
from scanjit.signatures import Array
from scanjit.types import Dimension, Type

Sizes = tuple[Dimension, ...]
Ints = tuple[int, ...]


def extent(size: Dimension, dilation: int) -> Dimension:
    """The length of axis that a window covers: `size` entries that are `dilation` apart."""
    return (size - 1) * dilation + 1


def _infer(x: Type, *, axes: Ints, size: Sizes, step: Ints, dilation: Ints) -> Type:
    if not len(axes) == len(size) == len(step) == len(dilation) or len(set(axes)) != len(axes):
        raise errors.InternalError("windows have a size, a step and a dilation for each of their axes", got=axes)
    if any(k < 1 for k in (*step, *dilation)):
        raise errors.InternalError("windows and their entries lie at least 1 apart", got=f"{step}, {dilation}")
    shape = list(x.shape)
    for axis, k, s, d in zip(axes, size, step, dilation, strict=True):
        types.require(1, k, f"a window along axis {axis} must have {{left}} entry or more, not {{right}}", _ERROR)
        types.require(extent(k, d), x.shape[axis], _TOO_LARGE.replace("{axis}", str(axis)), _ERROR)
        shape[axis] = (x.shape[axis] - extent(k, d)) // s + 1
    return x.with_shape((*shape, *size))


_ERROR = errors.ShapeError
_TOO_LARGE = "a filter or window that reaches over {left} entries does not fit into the {right} entries of axis {axis}"


def _reference(x: Array, *, axes: Ints, size: Ints, step: Ints, dilation: Ints) -> Array:
    whole = tuple((k - 1) * d + 1 for k, d in zip(size, dilation, strict=True))
    seen = np.lib.stride_tricks.sliding_window_view(x, whole, axes)
    places = tuple(slice(None, None, step[axes.index(a)] if a in axes else 1) for a in range(x.ndim))
    return seen[(*places, *(slice(None, None, d) for d in dilation))]


def _access(shape: Sizes, *, axes: Ints, size: Sizes, step: Ints, dilation: Ints) -> list[Access]:
    read: list[Access] = [(0, ((axis, 1),)) for axis in range(len(shape))]
    for k, axis in enumerate(axes):
        read[axis] = (0, ((axis, step[k]), (len(shape) + k, dilation[k])))
    return read


def _vjp(g: Node, y: Node, x: Node, *, axes: Ints, size: Sizes, step: Ints, dilation: Ints) -> tuple[Node]:
    return (overlap_add(g, x.type.shape, axes, step, dilation),)


WINDOWS = View(
    "windows",
    infer=_infer,
    reference=_reference,
    access=_access,
    shows_all=False,
    repeats=True,
    vjp=_vjp,
    batch_params=lambda count, *, axes, **params: {"axes": tuple(axis + 1 for axis in axes), **params},
    samples=sampled(
        ((5,), {"axes": (0,), "size": (3,), "step": (1,), "dilation": (1,)}),
        ((8,), {"axes": (0,), "size": (2,), "step": (2,), "dilation": (3,)}),
        ((2, 5, 4), {"axes": (1, 2), "size": (2, 3), "step": (3, 1), "dilation": (1, 1)}),
        ((3, 2, 1), {"axes": (2, 0), "size": (1, 3), "step": (2, 1), "dilation": (1, 1)}),
        ((0, 3), {"axes": (1,), "size": (2,), "step": (1,), "dilation": (1,)}),
        ((2, 3), {"axes": (), "size": (), "step": (), "dilation": ()}),
    ),
    dtypes=ANY_DTYPE,
    doc="windows along `axes`: in place of each of these how many there are, `step` apart; their entries, `dilation` "
    "apart, along new last axes",
)


# ---- the transpose ---------------------------------------------------------------------------------------------------


def overlap_add(g: Node, shape: Sizes, axes: Ints, step: Ints, dilation: Ints) -> Node:
    """The tensor of `shape` that is the sum of the windows `g`, each added at its place."""
    terms = _terms(g)
    if not all(_apart(term, len(shape), axes) for term in terms):
        return _scattered(g, shape, axes, step, dilation)
    total = _convolved(terms[0], shape, axes, step, dilation)
    for term in terms[1:]:
        total = total + _convolved(term, shape, axes, step, dilation)
    return total


def _terms(g: Node) -> list[Node]:
    """The summands of a sum of tensors of one shape."""
    if g.op is ADD and all(x.type == g.type for x in g.operands):
        return [term for x in g.operands for term in _terms(x)]
    return [g]


def _apart(g: Node, ndim: int, axes: Ints) -> bool:
    """Whether `g` is a product of two factors: one varies only with the places of windows, the other one only with the
    offsets inside of them."""
    if g.op is not CONTRACT or g.type.kind.is_mask:
        return False
    out = g.params["out"]
    places, offsets = {out[axis] for axis in axes}, set(out[ndim:])
    return any(
        places.isdisjoint(g.params[b]) and offsets.isdisjoint(g.params[a])
        for a, b in (("left", "right"), ("right", "left"))
    )


def _convolved(g: Node, shape: Sizes, axes: Ints, step: Ints, dilation: Ints) -> Node:
    """The sum of windows that are such a product. `padded` is the first factor spread by the step, with zeros between
    and around:
    `sum_k padded[place + dilation * (size - 1 - k)] * second[k]`."""
    (a, b), out = g.operands, g.params["out"]
    mine, other = g.params["left"], g.params["right"]
    if not set(out[len(shape) :]).isdisjoint(mine):
        a, b, mine, other = b, a, other, mine
    where = [mine.index(out[axis]) for axis in axes]
    size = g.type.shape[len(shape) :]
    start: list[Dimension] = [0] * a.ndim
    apart, whole = [1] * a.ndim, list(a.type.shape)
    for axis, at, k, s, d in zip(axes, where, size, step, dilation, strict=True):
        reach = (k - 1) * d
        start[at], apart[at], whole[at] = reach, s, shape[axis] + reach
    padded = SET_SLICE(full(0, whole, a.dtype), a, start=tuple(start), step=tuple(apart))
    seen = WINDOWS(padded, axes=tuple(where), size=size, step=(1,) * len(axes), dilation=dilation)
    for label in out[len(shape) :]:
        b = flip(b, other.index(label))
    return contract(seen, b, (*mine, *out[len(shape) :]), other, out[: len(shape)])


def _scattered(g: Node, shape: Sizes, axes: Ints, step: Ints, dilation: Ints) -> Node:
    """The sum of any windows, one axis after the other."""
    for axis, s, d in reversed(list(zip(axes, step, dilation, strict=True))):
        places, offsets = IOTA(length=g.type.shape[axis]), IOTA(length=g.type.shape[-1])
        index = DIMSHUFFLE(places, order=(0, None)) * s + offsets * d
        rows = DIMSHUFFLE(g, order=(*range(axis + 1), g.ndim - 1, *range(axis + 1, g.ndim - 1)))
        whole = (*g.type.shape[:axis], shape[axis], *g.type.shape[axis + 1 : -1])
        g = SCATTER(full(0, whole, g.dtype), rows, index, axis=axis, add=True)
    return g

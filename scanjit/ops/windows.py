"""`windows`: all the windows of a tensor along some axes, as a view. A convolution is a `contract` with it.

Nothing is copied: an element of a window is read at `step * place + dilation * offset`, which is affine. The transpose
adds the overlapping windows. In the gradient of a convolution the windows are a product of two factors: one varies with
the place, the other one with the offset. The sum of such windows is computed as a convolution too.
"""

from collections.abc import Mapping

import numpy as np

from scanjit import errors, types
from scanjit.ir import Node
from scanjit.ops.contraction import CONTRACT, contract
from scanjit.ops.elementwise import ADD
from scanjit.ops.index import SCATTER
from scanjit.ops.samples import ANY_DTYPE, sampled
from scanjit.ops.shape import IOTA, RESHAPE, SET_SLICE, SLICE, flip, row
from scanjit.ops.stretch import full
from scanjit.ops.view import DIMSHUFFLE, Access, View
from scanjit.signatures import Array
from scanjit.types import Dimension, Type

Sizes = tuple[Dimension, ...]
Ints = tuple[int, ...]


def extent(size: Dimension, dilation: int) -> Dimension:
    """The length of the part of an axis that a window covers: `size` entries that are `dilation` apart."""
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
    sizes = g.type.shape[len(shape) :]
    if all(d == 1 for d in dilation) and all(
        k == s and shape[axis] == g.type.shape[axis] * s for axis, k, s in zip(axes, sizes, step, strict=True)
    ):
        return _joined_windows(g, shape, axes)
    terms = _terms(g)
    if not all(_is_separable(term, len(shape), axes) for term in terms):
        return _scattered(g, shape, axes, step, dilation)
    total = _convolved(terms[0], shape, axes, step, dilation)
    for term in terms[1:]:
        total = total + _convolved(term, shape, axes, step, dilation)
    return total


def _joined_windows(g: Node, shape: Sizes, axes: Ints) -> Node:
    """The tensor that consists of the windows `g`, which do not overlap."""
    order = [k for axis in range(len(shape)) for k in (axis, *(len(shape) + axes.index(a) for a in axes if a == axis))]
    if g.op is CONTRACT:  # lanes run along the labels of the second factor, which come last
        out, inner = g.params["out"], set(g.params["left"])
        if not inner.isdisjoint(out[len(shape) :]):
            inner = set(g.params["right"])
        labels = tuple(sorted(out, key=lambda label: label not in inner))
        a, b = g.operands
        g = contract(a, b, g.params["left"], g.params["right"], labels)
        order = [labels.index(out[k]) for k in order]
    return RESHAPE(DIMSHUFFLE(g, order=tuple(order)), shape=shape)


def _terms(g: Node) -> list[Node]:
    """The summands of a sum of tensors of one shape."""
    if g.op is ADD and all(x.type == g.type for x in g.operands):
        return [term for x in g.operands for term in _terms(x)]
    return [g]


def _is_separable(g: Node, ndim: int, axes: Ints) -> bool:
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
    """The sum of windows that are such a product.

    Along an axis, `total[i] = sum_k padded[i + dilation * (size - 1 - k)] * second[k]`: a convolution of the first
    factor, spread by the step, with zeros between and around. Between neighbours that are `step` apart nearly all would
    be zeros. So offsets are split, `k = step * q + r`, and so are places: `total[step * p + r]` is a convolution of the
    first factor, as it is, with `second[step * q + r]` over q.
    """
    (a, b), out = g.operands, g.params["out"]
    mine, other = g.params["left"], g.params["right"]
    if not set(out[len(shape) :]).isdisjoint(mine):
        a, b, mine, other = b, a, other, mine
    where = [mine.index(out[axis]) for axis in axes]
    total, size = list(shape), list(g.type.shape[len(shape) :])
    fine: dict[int, int] = {}  # for an axis that is split, the label of r
    start: list[Dimension] = [0] * a.ndim
    apart, whole = [1] * a.ndim, list(a.type.shape)
    for k, (axis, at, s) in enumerate(zip(axes, where, step, strict=True)):
        label = out[len(shape) + k]
        if s > 1 and dilation[k] == 1 and isinstance(size[k], int):
            b = _in_blocks(b, other.index(label), s)
            fine[axis] = max(*mine, *other) + 1
            other = (*other[: other.index(label) + 1], fine[axis], *other[other.index(label) + 1 :])
            total[axis], size[k] = (shape[axis] + s - 1) // s, b.type.shape[other.index(label)]
        else:
            apart[at] = s
        b = flip(b, other.index(label))
        start[at] = (size[k] - 1) * dilation[k]
        whole[at] = total[axis] + start[at]
    padded = SET_SLICE(full(0, whole, a.dtype), a, start=tuple(start), step=tuple(apart))
    seen = WINDOWS(padded, axes=tuple(where), size=tuple(size), step=(1,) * len(axes), dilation=tuple(dilation))
    y = contract(seen, b, (*mine, *out[len(shape) :]), other, (*fine.values(), *out[: len(shape)]))
    return _interleaved(y, {axis: step[axes.index(axis)] for axis in fine}, shape) if fine else y


def _interleaved(y: Node, step: Mapping[int, int], shape: Sizes) -> Node:
    """A tensor of `shape` from its parts, in which entries along some axes are `step` apart. The first axes of `y` say
    which part, one for each of these axes."""
    last = len(shape) - 1
    count = len(step)
    order: list[int] = [k for k, axis in enumerate(step) if axis == last]
    for axis in range(len(shape)):
        order += [count + axis, *(k for k, other in enumerate(step) if other == axis != last)]
    sizes = [y.type.shape[count + axis] * (step.get(axis, 1) if axis != last else 1) for axis in range(len(shape))]
    y = DIMSHUFFLE(y, order=tuple(order))
    if last not in step:
        return _first(RESHAPE(y, shape=tuple(sizes)), shape)
    parts = RESHAPE(y, shape=(step[last], *sizes))
    total = full(0, shape, y.dtype)
    for k in range(step[last]):  # lanes run along the last axis: each part is made in one piece, then written apart
        n = (shape[last] - k + step[last] - 1) // step[last]
        part = _first(row(parts, k), (*shape[:last], n))
        total = SET_SLICE(total, part, start=(*[0] * last, k), step=(*[1] * last, step[last]))
    return total


def _first(x: Node, shape: Sizes) -> Node:
    """The first entries along each axis."""
    return x if x.type.shape == shape else SLICE(x, start=(0,) * x.ndim, length=shape, step=(1,) * x.ndim)


def _in_blocks(b: Node, axis: int, size: int) -> Node:
    """An axis as two axes: blocks of entries, the last one filled up with zeros, and the places in each block."""
    before, n, after = b.type.shape[:axis], types.as_int(b.type.shape[axis]), b.type.shape[axis + 1 :]
    blocks = -(-n // size)
    if n % size:
        b = SET_SLICE(full(0, (*before, blocks * size, *after), b.dtype), b, start=(0,) * b.ndim, step=(1,) * b.ndim)
    return RESHAPE(b, shape=(*before, blocks, size, *after))


def _scattered(g: Node, shape: Sizes, axes: Ints, step: Ints, dilation: Ints) -> Node:
    """The sum of any windows, one axis after the other."""
    for axis, s, d in reversed(list(zip(axes, step, dilation, strict=True))):
        places, offsets = IOTA(length=g.type.shape[axis]), IOTA(length=g.type.shape[-1])
        index = DIMSHUFFLE(places, order=(0, None)) * s + offsets * d
        rows = DIMSHUFFLE(g, order=(*range(axis + 1), g.ndim - 1, *range(axis + 1, g.ndim - 1)))
        whole = (*g.type.shape[:axis], shape[axis], *g.type.shape[axis + 1 : -1])
        g = SCATTER(full(0, whole, g.dtype), rows, index, axis=axis, add=True)
    return g

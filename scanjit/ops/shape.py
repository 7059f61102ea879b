"""Shapes: views (no value is computed or moved), `reshape`, `concatenate`, `set_slice`, `iota`."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from scanjit import errors, types
from scanjit.ir import Node, Op, apply, as_node, constant
from scanjit.types import Dimension, Type, not_negative

Access = tuple[Dimension, tuple[tuple[int, Dimension], ...]]
"""Where an axis of a view's operand is read: an offset, and for some axes of the view, the stride."""


class View(Op):
    """An op whose result is its operand, read at an affine index.

    `access(shape, **params)` says, for each axis of the operand (of that shape), at which index it is read:
    `offset + sum(stride * index of the view's axis)`. `shows_all` says whether every element of the operand is in the
    view: a slice and windows may leave some out.
    """

    kind: ClassVar[str] = "view"
    moves_data = never_fails = is_linear = True

    def __init__(self, name: str, *, access: Callable[..., list[Access]], shows_all: bool = True, **rest: Any) -> None:
        super().__init__(name, aligned=self._aligned, **rest)
        self.access, self.shows_all = access, shows_all

    def _aligned(self, position: int, operand: Type, result: Type, **params: Any) -> dict[int, int]:
        """The axes that are read whole, in their order, by just one axis of the view."""
        found = {}
        for axis, (start, terms) in enumerate(self.access(operand.shape, **params)):
            whole = len(terms) == 1 and terms[0][1] == 1 and isinstance(start, int) and start == 0
            if whole and operand.shape[axis] == result.shape[terms[0][0]] and operand.shape[axis] != 1:
                found[axis] = terms[0][0]
        return found


def _linear(tangents: Sequence[Node | None], y: Node, x: Node, **params: Any) -> Node | None:
    """The jvp of a linear op with one operand: the op itself, on the tangent."""
    return None if tangents[0] is None else y.op(tangents[0], **params)


Sample = tuple[tuple[Any, ...], dict[str, Any]]


def _numbered(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """An array whose elements (but for bools) are different (for tests)."""
    return (np.arange(np.prod(shape, dtype=int)).reshape(shape) + 1).astype(dtype)


def _sampled(*cases: tuple[tuple[int, ...], dict[str, Any]]) -> Callable[[Any, Any], list[Sample]]:
    """Samples of an op with one operand, of these shapes and with these parameters."""
    return lambda rng, dtype: [((_numbered(shape, dtype),), params) for shape, params in cases]


ANY_DTYPE = tuple(map(str, types.DTYPES))


# ---- dimshuffle: transposes, new axes of size 1, axes of size 1 dropped ----------------------------------------------


def _dimshuffle_infer(x: Type, *, order: tuple[int | None, ...]) -> Type:
    used = [axis for axis in order if axis is not None]
    if len(set(used)) != len(used) or any(not 0 <= axis < x.ndim for axis in used):
        raise errors.ShapeError("axes must be distinct and exist", got=order, expected=f"axes of a {x.ndim}-d tensor")
    for axis in set(range(x.ndim)) - set(used):
        types.equate(x.shape[axis], 1, f"the size of axis {axis}, which is dropped, and 1")
    return x.with_shape([1 if axis is None else x.shape[axis] for axis in order])


def _dimshuffle_vjp(g: Node, y: Node, x: Node, *, order: tuple[int | None, ...]) -> tuple[Node]:
    back = tuple(order.index(axis) if axis in order else None for axis in range(x.ndim))
    return (DIMSHUFFLE(g, order=back),)


def _dimshuffle_reference(x: np.ndarray, *, order: tuple[int | None, ...]) -> np.ndarray:
    dropped = tuple(axis for axis in range(x.ndim) if axis not in order)
    kept = [axis for axis in range(x.ndim) if axis in order]
    moved = np.squeeze(x, dropped).transpose([kept.index(axis) for axis in order if axis is not None])
    return np.expand_dims(moved, tuple(i for i, axis in enumerate(order) if axis is None))


def _dimshuffle_batch(
    args: Sequence[Node], batched: Sequence[bool], size: Dimension, *, order: tuple[int | None, ...]
) -> Any:
    return DIMSHUFFLE(args[0], order=(0, *(None if axis is None else axis + 1 for axis in order))), True


DIMSHUFFLE = View(
    "dimshuffle",
    infer=_dimshuffle_infer,
    reference=_dimshuffle_reference,
    access=lambda shape, *, order: [
        (0, ((order.index(axis), 1),)) if axis in order else (0, ()) for axis in range(len(shape))
    ],
    vjp=_dimshuffle_vjp,
    jvp=_linear,
    batch=_dimshuffle_batch,
    samples=_sampled(
        ((2, 3), {"order": (1, 0)}),
        ((2, 3), {"order": (None, 0, None, 1)}),
        ((1, 3, 1), {"order": (1,)}),
        ((2, 1, 3), {"order": (2, None, 0)}),
        ((), {"order": (None, None)}),
        ((0, 2), {"order": (1, 0)}),
    ),
    dtypes=ANY_DTYPE,
    doc="axes in another order; `None` makes a new axis of size 1; axes of size 1 may be left out",
)


# ---- broadcast_to ----------------------------------------------------------------------------------------------------


def _broadcast_infer(x: Type, *, shape: tuple[Dimension, ...]) -> Type:
    if x.ndim > len(shape):
        raise errors.ShapeError("a broadcast cannot drop axes", got=f"{x} to {shape}")
    for axis, dim in enumerate(x.shape, start=len(shape) - x.ndim):
        if dim != 1:
            types.equate(dim, shape[axis], f"dimension {axis} of a broadcast")
    _require_sizes(shape)
    return x.with_shape(shape)


def _require_sizes(shape: Sequence[Dimension]) -> None:
    """Sizes that are computed values must not be negative; sizes of tensors never are."""
    for dim in shape:
        if any(atom.kind == "value" for atom in types.atoms(dim)):
            types.require(0, dim, "a size must not be negative: {right}", errors.ShapeError)


def _broadcast_batch(
    args: Sequence[Node], batched: Sequence[bool], size: Dimension, *, shape: tuple[Dimension, ...]
) -> Any:
    (x,) = args
    ones = [None] * (len(shape) - (x.ndim - 1))
    x = DIMSHUFFLE(x, order=(0, *ones, *range(1, x.ndim)))
    return BROADCAST_TO(x, shape=(size, *shape)), True


BROADCAST_TO = View(
    "broadcast_to",
    infer=_broadcast_infer,
    reference=lambda x, *, shape: np.broadcast_to(x, shape),
    access=lambda given, *, shape: [
        (0, ()) if dim == 1 else (0, ((axis, 1),)) for axis, dim in enumerate(given, start=len(shape) - len(given))
    ],
    vjp=lambda g, y, x, *, shape: (sum_to(g, x.type.shape),),
    jvp=_linear,
    batch=_broadcast_batch,
    samples=_sampled(
        ((3,), {"shape": (2, 3)}),
        ((2, 1), {"shape": (2, 4)}),
        ((), {"shape": (2, 2)}),
        ((1, 1), {"shape": (3, 0, 2)}),
        ((2,), {"shape": (2,)}),
    ),
    dtypes=ANY_DTYPE,
    doc="a tensor stretched to a shape, by NumPy's rule",
)


def broadcast_to(x: Node, shape: Sequence[Dimension]) -> Node:
    """`x` stretched to `shape`; `x` itself where it has that shape."""
    shape = tuple(shape)
    return x if x.type.shape == shape else BROADCAST_TO(x, shape=shape)


def sum_to(x: Node, shape: Sequence[Dimension]) -> Node:
    """The transpose of broadcasting: sum `x` over the axes along which something of `shape` was stretched."""
    lead = x.ndim - len(shape)
    stretched = [a for a, dim in enumerate(shape, start=lead) if dim == 1 and x.type.shape[a] != 1]
    axes = (*range(lead), *stretched)
    if not axes:
        return x
    from scanjit.ir import OPS

    total = OPS["sum"](x, axes=axes)
    kept = [a for a in range(x.ndim) if a not in axes]
    return (
        total
        if not stretched
        else DIMSHUFFLE(total, order=tuple(kept.index(a) if a in kept else None for a in range(lead, x.ndim)))
    )


def full(value: Any, shape: Sequence[Dimension], dtype: Any = None) -> Node:
    """A tensor of one value."""
    scalar = value if isinstance(value, Node) else constant(value, dtype)
    return broadcast_to(scalar, shape)


def zeros_like(x: Node) -> Node:
    """Zeros of the same type."""
    return full(0, x.type.shape, x.dtype)


# ---- slice: a window of every axis, with a step ----------------------------------------------------------------------


def _slice_infer(x: Type, *, start: tuple, length: tuple, step: tuple) -> Type:
    if not len(start) == len(length) == len(step) == x.ndim:
        raise errors.InternalError("a slice has a start, a length and a step for each axis", got=f"{start} of {x}")
    for axis, window in enumerate(zip(start, length, step, strict=True)):
        _require_inside(axis, x.shape[axis], *window)
    return x.with_shape(length)


def _require_inside(axis: int, size: Dimension, start: Dimension, length: Dimension, step: Dimension) -> None:
    """A window must lie inside its axis (unless it is empty): certain, or checked at run time."""
    types.require(0, length, f"the length of a slice of axis {axis} is negative: {{right}}")
    if length == 0:
        return
    # If there is any entry, then `max(n, 0)` of them are n.
    atom = types.as_atom(length)
    count = length
    if atom is not None and atom.kind == "max" and atom.args[1] == 0:
        count = atom.args[0]
    ends = start, start + step * (count - 1)
    first, last = ends if not_negative(step) else ends[::-1]
    if not not_negative(step) and not not_negative(-step):
        raise errors.InternalError("the sign of a step must be known", got=step)
    outside = _OUTSIDE.format(types.escaped(str(start)), axis, types.escaped(str(size)))
    some = 1 if not_negative(length - 1) else types.minimum(length, 1)
    if not not_negative(first):
        least, rest = _apart(first)
        types.require(some * least, some * rest, outside)
    if not not_negative(size - 1 - last):
        types.require(some * (last + 1), some * size, outside)


_OUTSIDE = "index {} is out of bounds for axis {} with size {}: {{left}} entries are needed, there are {{right}}"


def _apart(dim: Dimension) -> tuple[Dimension, Dimension]:
    """`0 <= dim` with its constant on the other side."""
    constant = dict(dim.terms).get((), 0) if isinstance(dim, types.Dim) else dim
    return -constant, dim - constant


def _slice_reference(x: np.ndarray, *, start: tuple, length: tuple, step: tuple) -> np.ndarray:
    for axis, (a, n, s) in enumerate(zip(start, length, step, strict=True)):
        last = a + s * (n - 1)
        if n < 0 or (n and not (0 <= a < x.shape[axis] and 0 <= last < x.shape[axis])):
            raise errors.OutOfBoundsError(f"slice {a}:{last}:{s} of axis {axis} leaves its size {x.shape[axis]}")
        x = np.take(x, a + s * np.arange(n), axis)
    return x


def _slice_batch(
    args: Sequence[Node], batched: Sequence[bool], size: Dimension, *, start: Any, length: Any, step: Any
) -> Any:
    return SLICE(args[0], start=(0, *start), length=(size, *length), step=(1, *step)), True


SLICE = View(
    "slice",
    infer=_slice_infer,
    reference=_slice_reference,
    access=lambda shape, *, start, length, step: [
        (a, ((axis, s),)) for axis, (a, s) in enumerate(zip(start, step, strict=True))
    ],
    shows_all=False,
    vjp=lambda g, y, x, *, start, length, step: (SET_SLICE(zeros_like(x), g, start=start, step=step),),
    jvp=_linear,
    batch=_slice_batch,
    samples=_sampled(
        ((5,), {"start": (1,), "length": (3,), "step": (1,)}),
        ((5,), {"start": (4,), "length": (3,), "step": (-2,)}),
        ((3, 4), {"start": (2, 0), "length": (3, 2), "step": (-1, 3)}),
        ((3,), {"start": (-1,), "length": (0,), "step": (-1,)}),
        ((0, 2), {"start": (0, 1), "length": (0, 1), "step": (1, 1)}),
        ((), {"start": (), "length": (), "step": ()}),
    ),
    dtypes=ANY_DTYPE,
    doc="`length[k]` entries of each axis k, from `start[k]`, `step[k]` apart; never outside the tensor",
)


def window(x: Node, axis: int, start: Dimension, length: Dimension, step: int = 1) -> Node:
    """A slice of one axis. The caller knows that it lies inside."""
    if start == 0 and step == 1 and length == x.type.shape[axis]:
        return x
    starts, lengths, steps = [0] * x.ndim, list(x.type.shape), [1] * x.ndim
    starts[axis], lengths[axis], steps[axis] = start, length, step
    return SLICE(x, start=tuple(starts), length=tuple(lengths), step=tuple(steps))


def flip(x: Node, axis: int) -> Node:
    """`x` with one axis reversed."""
    n = x.type.shape[axis]
    return window(x, axis, n - 1, n, -1)


# ---- set_slice: a tensor with a window of it replaced ----------------------------------------------------------------


def _set_slice_infer(x: Type, v: Type, *, start: tuple, step: tuple) -> Type:
    if x.dtype != v.dtype or x.ndim != v.ndim:
        raise errors.InternalError("set_slice takes a value of the tensor's dtype and rank", got=f"{x} and {v}")
    for axis, window in enumerate(zip(start, v.shape, step, strict=True)):
        _require_inside(axis, x.shape[axis], *window)
    return x


def _set_slice_reference(x: np.ndarray, v: np.ndarray, *, start: tuple, step: tuple) -> np.ndarray:
    x = x.copy()
    x[np.ix_(*(a + s * np.arange(n) for a, s, n in zip(start, step, v.shape, strict=True)))] = v
    return x


def _set_slice_vjp(g: Node, y: Node, x: Node, v: Node, *, start: tuple, step: tuple) -> tuple[Node, Node]:
    return (
        SET_SLICE(g, zeros_like(v), start=start, step=step),
        SLICE(g, start=start, length=v.type.shape, step=step),
    )


def _set_slice_batch(args: Sequence[Node], batched: Sequence[bool], size: Dimension, *, start: Any, step: Any) -> Any:
    x, v = (a if b else broadcast_to(a, (size, *a.type.shape)) for a, b in zip(args, batched, strict=True))
    return SET_SLICE(x, v, start=(0, *start), step=(1, *step)), True


def _set_slice_jvp(tangents: Sequence[Node | None], y: Node, x: Node, v: Node, **params: Any) -> Node | None:
    if all(t is None for t in tangents):
        return None
    dx, dv = (zeros_like(a) if t is None else t for a, t in zip((x, v), tangents, strict=True))
    return SET_SLICE(dx, dv, **params)


SET_SLICE: Op = Op(
    "set_slice",
    infer=_set_slice_infer,
    reference=_set_slice_reference,
    vjp=_set_slice_vjp,
    jvp=_set_slice_jvp,
    batch=_set_slice_batch,
    samples=lambda rng, dtype: [
        ((_numbered(whole, dtype), (50 * _numbered(part, dtype)).astype(dtype)), {"start": start, "step": step})
        for whole, part, start, step in (
            ((5,), (2,), (1,), (2,)),
            ((3, 4), (3, 2), (2, 1), (-1, 2)),
            ((3,), (0,), (3,), (1,)),
            ((2, 2), (2, 2), (0, 0), (1, 1)),
            ((), (), (), ()),
        )
    ],
    dtypes=ANY_DTYPE,
    moves_data=True,
    never_fails=True,
    is_linear=True,
    doc="a tensor with the window at `start`, `step` replaced by a value (its shape is the window's)",
)


# ---- reshape ---------------------------------------------------------------------------------------------------------


def _reshape_infer(x: Type, *, shape: tuple[Dimension, ...]) -> Type:
    types.equate(types.product(x.shape), types.product(shape), "the number of elements before and after a reshape")
    return x.with_shape(shape)


def _reshape_aligned(position: int, operand: Type, result: Type, *, shape: tuple[Dimension, ...]) -> dict[int, int]:
    """The first axes, as far as their sizes stay."""
    pairs = zip(operand.shape, shape, strict=False)
    return {axis: axis for axis, _ in enumerate(itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))}


RESHAPE: Op = Op(
    "reshape",
    infer=_reshape_infer,
    reference=lambda x, *, shape: x.reshape(shape),
    vjp=lambda g, y, x, *, shape: (RESHAPE(g, shape=x.type.shape),),
    jvp=_linear,
    batch=lambda args, batched, size, *, shape: (RESHAPE(args[0], shape=(size, *shape)), True),
    samples=_sampled(
        ((2, 3), {"shape": (3, 2)}),
        ((4,), {"shape": (2, 1, 2)}),
        ((), {"shape": (1, 1)}),
        ((1,), {"shape": ()}),
        ((0, 3), {"shape": (3, 0, 5)}),
    ),
    dtypes=ANY_DTYPE,
    moves_data=True,
    never_fails=True,
    is_linear=True,
    reads_memory="first",
    aligned=_reshape_aligned,
    doc="the same elements, in row-major order, in another shape",
)


# ---- concatenate -----------------------------------------------------------------------------------------------------


def _concatenate_infer(*xs: Type, axis: int) -> Type:
    first = xs[0]
    shape = list(first.shape)
    for x in xs[1:]:
        if x.ndim != first.ndim or x.dtype != first.dtype:
            raise errors.ShapeError("tensors to concatenate must agree in rank and dtype", got=f"{first} and {x}")
        for k in range(first.ndim):
            if k != axis:
                shape[k] = types.equate(shape[k], x.shape[k], f"dimension {k} of tensors to concatenate")
        shape[axis] = shape[axis] + x.shape[axis]
    return first.with_shape(shape)


def _concatenate_vjp(g: Node, y: Node, *xs: Node, axis: int) -> tuple[Node, ...]:
    result, at = [], 0
    for x in xs:
        result.append(window(g, axis, at, x.type.shape[axis]))
        at = at + x.type.shape[axis]
    return tuple(result)


def _concatenate_jvp(tangents: Sequence[Node | None], y: Node, *xs: Node, axis: int) -> Node | None:
    if all(t is None for t in tangents):
        return None
    return CONCATENATE(*(zeros_like(x) if t is None else t for x, t in zip(xs, tangents, strict=True)), axis=axis)


def _concatenate_batch(args: Sequence[Node], batched: Sequence[bool], size: Dimension, *, axis: int) -> Any:
    xs = [a if b else broadcast_to(a, (size, *a.type.shape)) for a, b in zip(args, batched, strict=True)]
    return CONCATENATE(*xs, axis=axis + 1), True


CONCATENATE = Op(
    "concatenate",
    infer=_concatenate_infer,
    reference=lambda *xs, axis: np.concatenate(xs, axis),
    vjp=_concatenate_vjp,
    jvp=_concatenate_jvp,
    batch=_concatenate_batch,
    samples=lambda rng, dtype: [
        (tuple((50 * i + _numbered(shape, dtype)).astype(dtype) for i, shape in enumerate(shapes)), {"axis": axis})
        for shapes, axis in (
            (((2,), (3,)), 0),
            (((2, 3), (2, 1), (2, 0)), 1),
            (((1, 2),), 0),
            (((0, 2), (3, 2)), 0),
        )
    ],
    dtypes=ANY_DTYPE,
    moves_data=True,
    never_fails=True,
    is_linear=True,
    goes_anywhere=True,
    aligned=lambda position, operand, result, *, axis: {a: a for a in range(operand.ndim) if a != axis},
    doc="tensors one after the other along an axis",
)


# ---- iota ------------------------------------------------------------------------------------------------------------


def _iota_infer(*, length: Dimension) -> Type:
    _require_sizes((length,))
    return Type(np.dtype("int64"), (length,))


IOTA = Op(
    "iota",
    infer=_iota_infer,
    reference=lambda *, length: np.arange(length),
    samples=lambda rng, dtype: [((), {"length": n}) for n in (0, 1, 5)],
    dtypes=("int64",),
    moves_data=True,
    never_fails=True,
    doc="0, 1, ... length - 1",
)

__all__ = [
    "BROADCAST_TO",
    "CONCATENATE",
    "DIMSHUFFLE",
    "IOTA",
    "RESHAPE",
    "SET_SLICE",
    "SLICE",
    "View",
    "apply",
    "as_node",
    "broadcast_to",
    "flip",
    "full",
    "sum_to",
    "window",
    "zeros_like",
]

"""Shapes: views (no value is computed or moved), `reshape`, `concatenate`, `set_slice`, `iota`."""

import itertools

import numpy as np

from scanjit import errors, types
from scanjit.ir import Node, Op
from scanjit.ops.samples import ANY_DTYPE, numbered, sampled
from scanjit.ops.stretch import require_sizes, zeros_like
from scanjit.ops.view import View, only_row
from scanjit.signatures import Array
from scanjit.types import Dimension, Type, not_negative

# ---- slice: a window of every axis, with a step ----------------------------------------------------------------------


def _slice_infer(
    x: Type, *, start: tuple[Dimension, ...], length: tuple[Dimension, ...], step: tuple[Dimension, ...]
) -> Type:
    if not len(start) == len(length) == len(step) == x.ndim:
        raise errors.InternalError("a slice has a start, a length and a step for each axis", got=f"{start} of {x}")
    for axis, window in enumerate(zip(start, length, step, strict=True)):
        if window != (0, x.shape[axis], 1) or not not_negative(window[1]):
            _require_inside(axis, x.shape[axis], *window)
    return x.with_shape(length)


def _require_inside(axis: int, size: Dimension, start: Dimension, length: Dimension, step: Dimension) -> None:
    """Require that a window that is not empty lies inside its axis. If that is not certain, it is checked at run
    time."""
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
        least, rest = _constant_and_rest(first)
        types.require(some * least, some * rest, outside)
    if not not_negative(size - 1 - last):
        types.require(some * (last + 1), some * size, outside)


_OUTSIDE = "index {} is out of bounds for axis {} with size {}: {{left}} entries are needed, there are {{right}}"


def _constant_and_rest(dim: Dimension) -> tuple[Dimension, Dimension]:
    """`0 <= dim` with its constant on the other side."""
    constant = dict(dim.terms).get((), 0) if isinstance(dim, types.Dim) else dim
    return -constant, dim - constant


def _slice_reference(x: Array, *, start: tuple[int, ...], length: tuple[int, ...], step: tuple[int, ...]) -> Array:
    window = []
    for axis, (a, n, s) in enumerate(zip(start, length, step, strict=True)):
        last = a + s * (n - 1)
        if n < 0 or (n and not (0 <= a < x.shape[axis] and 0 <= last < x.shape[axis])):
            raise errors.OutOfBoundsError(f"slice {a}:{last}:{s} of axis {axis} leaves its size {x.shape[axis]}")
        window.append(slice(a, last + s if last + s >= 0 else None, s) if n else slice(0))
    return x[(*window, ...)]  # an array also without axes


SLICE = View(
    "slice",
    infer=_slice_infer,
    reference=_slice_reference,
    access=lambda shape, *, start, length, step: [
        (a, ((axis, s),)) for axis, (a, s) in enumerate(zip(start, step, strict=True))
    ],
    shows_all=False,
    vjp=lambda g, y, x, *, start, length, step: (SET_SLICE(zeros_like(x), g, start=start, step=step),),
    batch_params=lambda size, *, start, length, step: {
        "start": (0, *start),
        "length": (size, *length),
        "step": (1, *step),
    },
    samples=sampled(
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
    starts: list[Dimension] = [0] * x.ndim
    lengths, steps = list(x.type.shape), [1] * x.ndim
    starts[axis], lengths[axis], steps[axis] = start, length, step
    return SLICE(x, start=tuple(starts), length=tuple(lengths), step=tuple(steps))


def row(x: Node, index: Dimension) -> Node:
    """One row of a tensor. The caller knows that there is one."""
    return only_row(window(x, 0, index, 1))


def flip(x: Node, axis: int) -> Node:
    """`x` with one axis reversed."""
    n = x.type.shape[axis]
    return window(x, axis, n - 1, n, -1)


# ---- set_slice: a tensor with a window of it replaced ----------------------------------------------------------------


def _set_slice_infer(x: Type, v: Type, *, start: tuple[Dimension, ...], step: tuple[Dimension, ...]) -> Type:
    if x.dtype != v.dtype or x.ndim != v.ndim:
        raise errors.InternalError("set_slice takes a value of the tensor's dtype and rank", got=f"{x} and {v}")
    for axis, window in enumerate(zip(start, v.shape, step, strict=True)):
        _require_inside(axis, x.shape[axis], *window)
    return x


def _set_slice_reference(x: Array, v: Array, *, start: tuple[int, ...], step: tuple[int, ...]) -> Array:
    x = x.copy()
    x[np.ix_(*(a + s * np.arange(n) for a, s, n in zip(start, step, v.shape, strict=True)))] = v
    return x


def _set_slice_vjp(
    g: Node, y: Node, x: Node, v: Node, *, start: tuple[Dimension, ...], step: tuple[Dimension, ...]
) -> tuple[Node, Node]:
    return (
        SET_SLICE(g, zeros_like(v), start=start, step=step),
        SLICE(g, start=start, length=v.type.shape, step=step),
    )


SET_SLICE: Op = Op(
    "set_slice",
    infer=_set_slice_infer,
    reference=_set_slice_reference,
    vjp=_set_slice_vjp,
    batch_params=lambda size, *, start, step: {"start": (0, *start), "step": (1, *step)},
    samples=lambda rng, dtype: [
        ((numbered(whole, dtype), (50 * numbered(part, dtype)).astype(dtype)), {"start": start, "step": step})
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
    require_sizes(shape)  # the product of two negative ones is positive
    return x.with_shape(shape)


def _reshape_aligned(position: int, operand: Type, result: Type, *, shape: tuple[Dimension, ...]) -> dict[int, int]:
    """Maps the leading axes to themselves, up to the first one whose size changes."""
    pairs = zip(operand.shape, shape, strict=False)
    return {axis: axis for axis, _ in enumerate(itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))}


RESHAPE: Op = Op(
    "reshape",
    infer=_reshape_infer,
    reference=lambda x, *, shape: x.reshape(shape),
    vjp=lambda g, y, x, *, shape: (RESHAPE(g, shape=x.type.shape),),
    batch_params=lambda size, *, shape: {"shape": (size, *shape)},
    samples=sampled(
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


# ---- copy: memory of its own -----------------------------------------------------------------------------------------

COPY: Op = Op(
    "copy",
    infer=lambda x, *, shape: x.with_shape(shape),
    reference=lambda x, *, shape: np.array(x),
    vjp=lambda g, y, x, *, shape: (COPY(g, shape=x.type.shape),),
    batch_params=lambda size, *, shape: {"shape": (size, *shape)},
    samples=sampled(((2, 3), {"shape": (2, 3)}), ((), {"shape": ()}), ((0, 3), {"shape": (0, 3)})),
    dtypes=ANY_DTYPE,
    moves_data=True,
    never_fails=True,
    is_linear=True,
    reads_memory="first",
    aligned=lambda position, operand, result, *, shape: {axis: axis for axis in range(result.ndim)},
    doc="the same elements, in memory of their own, in row-major order; `shape` gives the sizes by other names",
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
    result: list[Node] = []
    at: Dimension = 0
    for x in xs:
        result.append(window(g, axis, at, x.type.shape[axis]))
        at = at + x.type.shape[axis]
    return tuple(result)


CONCATENATE = Op(
    "concatenate",
    infer=_concatenate_infer,
    reference=lambda *xs, axis: np.concatenate(xs, axis),
    vjp=_concatenate_vjp,
    batch_params=lambda size, *, axis: {"axis": axis + 1},
    samples=lambda rng, dtype: [
        (tuple((50 * i + numbered(shape, dtype)).astype(dtype) for i, shape in enumerate(shapes)), {"axis": axis})
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
    require_sizes((length,))
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

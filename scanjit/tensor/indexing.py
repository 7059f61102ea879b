"""Indexing as in NumPy: `x[...]`, `x[...].set(v)`, `x[...].inc(v)`, `take`.

An index becomes at most four steps: a gather for axes whose slices move, a slice of every axis, a dimshuffle that
drops, adds and orders axes, and a gather at integer arrays. Each step can be reversed: that is how `set` and `inc` find
the entries to change.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from scanjit import errors, ir, tracing, types
from scanjit.ir import COMPLEX, Node
from scanjit.ops.elementwise import where
from scanjit.ops.index import GATHER, SCATTER
from scanjit.ops.parts import is_complex
from scanjit.ops.promotion import cast
from scanjit.ops.shape import IOTA, SET_SLICE, SLICE
from scanjit.ops.stretch import BROADCAST_TO, constant_value
from scanjit.ops.view import DIMSHUFFLE, along
from scanjit.symbol import TensorLike
from scanjit.tensor.variables import as_tensor, has_symbol
from scanjit.types import Dimension, maximum, minimum, not_negative

__all__ = ["dynamic_slice"]


class AxisSlice(NamedTuple):
    """A slice of one axis."""

    start: Dimension
    length: Dimension
    step: int


# ---- one axis --------------------------------------------------------------------------------------------------------


def _wrapped_dim(k: Dimension, n: Dimension, step: int) -> Dimension:
    """A bound of a slice, counted from the front if it is negative (the result may still be negative)."""
    if not_negative(k):
        return k
    if not_negative(-1 - k):
        return k + n
    least = -2 if step > 0 else -1
    if isinstance(gap := k - n, int) and gap >= least:  # where this is negative, it is a bound like 0 anyway
        return k
    return k + n * minimum(maximum(0 - k, 0), 1)


def _window(key: slice, n: Dimension) -> AxisSlice:
    """A slice of an axis of n entries, clipped as in NumPy.

    An empty slice may start anywhere, so only the end that can matter is clipped. This keeps sizes simple.
    """
    start, stop, step = (None if part is None else _bound(part) for part in (key.start, key.stop, key.step))
    step = 1 if step is None else step
    if not isinstance(step, int):
        raise errors.NotSupportedError("the step of a slice must be known", got=step)
    if step == 0:
        raise errors.ArgumentError("the step of a slice must not be 0")
    if step > 0:
        first = 0 if start is None else _wrapped_dim(start, n, step)
        end = n if stop is None else minimum(_wrapped_dim(stop, n, step), n)
        begin = maximum(first, 0)
        span = end - first if begin == first else minimum(end - first, end)
    else:
        first = n - 1 if start is None else minimum(_wrapped_dim(start, n, step), n - 1)
        end = -1 if stop is None else maximum(_wrapped_dim(stop, n, step), -1)
        begin, span = first, end - first
    return AxisSlice(begin, maximum(_per(span, step), 0), step)


def _moving_places(key: slice, n: Dimension) -> Node | None:
    """The places in an axis of n entries that a slice like `x[t : t + 3]` selects, if `t` is computed and sizes cannot
    depend on values, as in a step or in an example of a batch. There, all three entries must exist. None for other
    slices."""
    start, stop, step = key.start, key.stop, 1 if key.step is None else key.step
    if not tracing.active() or not isinstance(start, Node) or not isinstance(stop, Node) or not isinstance(step, int):
        return None
    first = _bound(start)
    span = _bound(stop) - first
    moving = {*types.atoms(first)}
    if not step or not moving or not moving.isdisjoint(types.atoms(span)):
        return None
    return _places(start, maximum(_per(span, step), 0), step, n)


def _places(start: Node, length: Dimension, step: int, n: Dimension) -> Node:
    """The places of `length` entries in an axis of n entries, from a computed one on."""
    return index_array(start, n, 0) + IOTA(length=length) * step


def _per(span: Dimension, step: int) -> Dimension:
    """How many steps lead through a span."""
    return ((span if step > 0 else -1 * span) + abs(step) - 1) // abs(step)


def _bound(value: Any) -> Dimension:
    bound = value if isinstance(value, types.Dim | int | np.integer) else as_tensor(value)
    if isinstance(value, bool | np.bool_) or (isinstance(bound, Node) and (bound.ndim or not bound.type.kind.integral)):
        raise errors.ArgumentError("the bounds of a slice must be integers", got=repr(value))
    return ir.as_dim(bound)


def _position(index: int, n: Dimension, axis: int) -> AxisSlice:
    """One entry. The type rule of a slice checks that it exists, at run time if necessary."""
    start = index if index >= 0 else index + n
    if isinstance(n, int) and not -n <= index < n:
        raise errors.OutOfBoundsError(f"index {index} is out of bounds for axis {axis} with size {n}")
    return AxisSlice(start, 1, 1)


def index_array(index: Node, n: Dimension, axis: int, reads: bool = True) -> Node:
    """An int64 index along an axis, counted from the front. Without `reads`, it may be out of bounds."""
    known = constant_value(index)
    if known is not None:
        if reads and isinstance(n, int) and known.size and (known.min() < -n or known.max() >= n):
            bad = known[(known < -n) | (known >= n)].flat[0]
            raise errors.OutOfBoundsError(f"index {bad} is out of bounds for axis {axis} with size {n}")
        if not known.size or known.min() >= 0:
            return cast(index, "int64")
        if isinstance(n, int):
            return ir.constant(np.where(known < 0, known + n, known), "int64")
    if not index.type.kind.signed or index.op is IOTA:
        return cast(index, "int64")
    index = cast(index, "int64")
    return where(index < 0, index + ir.dim_node(n), index)


# ---- the whole index -------------------------------------------------------------------------------------------------


class _Indexed(NamedTuple):
    """The effect of one item of an index: the axis of the operand that it reads, and how it reads it."""

    kind: str  # "slice", "drop", "array", "new" or "apart"
    axis: int = -1
    window: AxisSlice | None = None
    places: Node | None = None  # of an array, or of a slice that moves


def _items(key: Any, x: Node) -> list[Any]:
    """The items of an index of a tensor: one for each axis, and one for each new axis."""
    items = list(key) if isinstance(key, tuple) else [key]
    known: list[Any] = []
    for item in items:
        known += _mask_indices(item) if _is_mask(item) else [item]
    dots = [i for i, item in enumerate(known) if item is Ellipsis]
    if len(dots) > 1:
        raise errors.ArgumentError("an index can have one '...'", got=key)
    taken = len(known) - len(dots) - len([item for item in known if item is None])
    if taken > x.ndim:
        raise errors.OutOfBoundsError(
            f"too many indices: the tensor has {x.ndim} axes, {taken} were indexed",
            got=repr(x),
            fix="in a step, first come the rows of the sequences, then the states" if tracing.active() else None,
        )
    at = dots[0] if dots else len(known)
    # even where it stands for nothing, it keeps apart
    filled: list[Any] = [slice(None)] * (x.ndim - taken) or [Ellipsis] * len(dots)
    return [*known[:at], *filled, *known[at + 1 :]]


def _is_mask(item: Any) -> bool:
    if isinstance(item, Node):
        return item.type.kind.is_mask
    if item is None or item is Ellipsis or (isinstance(item, slice | int) and not isinstance(item, bool)):
        return False
    return not isinstance(item, types.Dim) and not has_symbol(item) and np.asarray(item).dtype == np.bool_


def _mask_indices(item: Any) -> list[np.ndarray]:
    mask = constant_value(item) if isinstance(item, Node) else np.asarray(item)
    if mask is None or not mask.ndim:
        raise errors.NotSupportedError(
            "an index that is a mask must be known: the size of the result depends on it",
            got=repr(item),
            fix="use sj.where(mask, x, other)",
        )
    return list(np.nonzero(mask))


def _parts(x: Node, key: Any) -> list[_Indexed]:
    parts: list[_Indexed] = []
    axis, items = 0, _items(key, x)
    reads = not any(map(_is_empty, items))
    for item in items:
        if item is None or item is Ellipsis:
            parts.append(_Indexed("new" if item is None else "apart"))
            continue
        n = x.type.shape[axis]
        if isinstance(item, slice):
            places = _moving_places(item, n)
            parts.append(_Indexed("slice", axis, None if places is not None else _window(item, n), places))
        elif isinstance(item, int | np.integer):
            parts.append(_Indexed("drop", axis, _position(int(item), n, axis)))
        else:
            parts.append(_of_array(item, axis, n, reads))
        axis += 1
    return parts


def _is_empty(item: Any) -> bool:
    """Whether an item is an array without entries. The arrays beside it then select nothing either, and NumPy lets them
    be out of bounds."""
    if isinstance(item, Node):
        return 0 in item.type.shape
    return isinstance(item, list | tuple | np.ndarray) and not has_symbol(item) and not np.size(item)


def _of_array(item: Any, axis: int, n: Dimension, reads: bool) -> _Indexed:
    if isinstance(item, list | tuple) and _is_empty(item):
        item = np.asarray(item, np.int64)
    if isinstance(item, types.Dim):
        item = ir.dim_node(item)
    plain = not has_symbol(item)
    if not np.issubdtype((np.asarray(item) if plain else as_tensor(item)).dtype, np.integer):
        raise errors.ArgumentError(
            "only integers, slices, '...', None and integer arrays are indices", got=f"{item!r} for axis {axis}"
        )
    index = as_tensor(item)
    if index.ndim == 0:
        known = ir.as_dim(index)
        if isinstance(known, int):
            return _Indexed("drop", axis, _position(known, n, axis))
        if isinstance(known - n, int) and known - n == -1:  # x[x.shape[0] - 1]
            return _Indexed("drop", axis, AxisSlice(known, 1, 1))
        if not_negative(known) and all(atom.kind == "size" for atom in types.atoms(known)):
            return _Indexed("drop", axis, AxisSlice(known, 1, 1))
    return _Indexed("array", axis, places=index_array(index, n, axis, reads))


def getitem(x: Node, key: Any) -> Node:
    """`x[key]`."""
    if is_complex(x):
        found = COMPLEX(*(getitem(part, key) for part in x.args))
        found.base = x
        return found
    found = _read(x, _parts(x, key))
    if found is x or (found.base is not None and found.base is not x):
        # `x[:]` is not `x` itself, as only what an index gave can be set. And the same node may be what another index
        # of another tensor gave. A slice of everything tells them apart.
        whole = SLICE(x, start=(0,) * x.ndim, length=x.type.shape, step=(1,) * x.ndim)
        found = _read(whole, _parts(whole, key))
    found.base = x
    return found


def _read(x: Node, parts: Sequence[_Indexed]) -> Node:
    for axis, places in _moving_runs(parts):
        x = GATHER(x, *(along(index, k, len(places)) for k, index in enumerate(places)), axis=axis)
    windows = {p.axis: p.window for p in parts if p.window is not None}
    whole = [windows.get(a) or AxisSlice(0, n, 1) for a, n in enumerate(x.type.shape)]
    if any(w != (0, n, 1) for w, n in zip(whole, x.type.shape, strict=True)):
        start, length, step = (tuple(column) for column in zip(*whole, strict=True))
        x = SLICE(x, start=start, length=length, step=step)
    arrays = [p for p in parts if p.kind == "array"]
    order, at = _order(parts)
    if order != tuple(range(x.ndim)):
        x = DIMSHUFFLE(x, order=order)
    return GATHER(x, *(p.places for p in arrays if p.places is not None), axis=at) if arrays else x


def _moving_runs(parts: Sequence[_Indexed]) -> list[tuple[int, list[Node]]]:
    """Slices that move, in runs of neighbouring axes: the first axis of each run, and the places along each of its
    axes. One gather reads a run."""
    runs: list[tuple[int, list[Node]]] = []
    for part in parts:
        if part.kind == "slice" and part.places is not None:
            if runs and part.axis == runs[-1][0] + len(runs[-1][1]):
                runs[-1][1].append(part.places)
            else:
                runs.append((part.axis, [part.places]))
    return runs


def _order(parts: Sequence[_Indexed]) -> tuple[tuple[int | None, ...], int]:
    """The order of axes before the gather, and the first axis that it indexes.

    As in NumPy, the axes of index arrays stay in place if all index arrays stand side by side; otherwise they come
    first. Integers count as index arrays if there is one.
    """
    several = any(p.kind == "array" and p.places is not None and p.places.ndim for p in parts)
    group = [i for i, p in enumerate(parts) if p.kind == "array" or (p.kind == "drop" and several)]
    indexed = tuple(p.axis for p in parts if p.kind == "array")
    rest = [(i, None if p.kind == "new" else p.axis) for i, p in enumerate(parts) if p.kind in ("slice", "new")]
    together = bool(group) and group[-1] - group[0] + 1 == len(group)
    before = [axis for i, axis in rest if together and i < group[0]]
    after = [axis for i, axis in rest if not (together and i < group[0])]
    return (*before, *indexed, *after), len(before)


# ---- set and inc -----------------------------------------------------------------------------------------------------


def set_(self: Node, value: TensorLike) -> Node:
    """`x[key].set(v)`: `x`, with `v` in place of what `key` selects.

    `x` itself is not changed. Where the index names an entry several times, the last value stays.

    Parameters
    ----------
    value : tensor_like
        What broadcasts to `x[key]`; converted to the dtype of `x`, but not from float to integer.

    Returns
    -------
    tensor
        Of the type of `x`.

    Examples
    --------
    >>> import scanjit as sj
    >>> x = sj.tensor((3, 4))
    >>> x[1:, 0].set(5)
    <set_slice: float64(3, 4)>
    """
    return _written(self, _value_for(self, value), add=False)


def inc(self: Node, value: TensorLike) -> Node:
    """`x[key].inc(v)`: `x`, with `v` added to the entries that `key` selects; several times, if an index names an entry
    several times. See `set`.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.zeros(3)[[0, 2, 2]].inc(1.0), mode="reference")()
    array([1., 0., 2.])
    """
    return _written(self, _value_for(self, value), add=True)


def _value_for(view: Node, value: Any) -> Node:
    if view.base is None:
        raise errors.ArgumentError("only what an index gave can be set", got=repr(view), expected="x[...].set(value)")
    node = as_tensor(value)
    if node.type.kind.order > view.type.kind.order:
        raise errors.DtypeError("the value to set does not fit the dtype", got=node.dtype, expected=view.dtype)
    node = cast(node, view.dtype)
    if node.ndim > view.ndim:
        raise errors.ShapeError("the value to set has too many axes", got=node.type, expected=view.type)
    return node if node.type.shape == view.type.shape else BROADCAST_TO(node, shape=view.type.shape)


def _written(view: Node, value: Node, add: bool) -> Node:
    """The base of a view, with the view's part of it replaced (or added to)."""
    if is_complex(view):
        return COMPLEX(*(_written(part, new, add) for part, new in zip(view.args, value.args, strict=True)))
    base, node = view.base, view
    while node is not base:
        x, params = node.args[0], node.params
        if node.op is GATHER:
            value, add = SCATTER(x, value, *node.operands[1:], axis=params["axis"], add=add), False
        elif node.op is DIMSHUFFLE:
            order = params["order"]
            value = DIMSHUFFLE(value, order=tuple(order.index(a) if a in order else None for a in range(x.ndim)))
        else:
            value, add = SET_SLICE(x, node + value if add else value, start=params["start"], step=params["step"]), False
        node = x
    return node + value if add else value


# ---- blocks ----------------------------------------------------------------------------------------------------------


def dynamic_slice(x: TensorLike, start: Any, size: Any) -> Node:
    """A block of `x` that begins at computed places: so many entries of each axis.

    Parameters
    ----------
    x : tensor_like
    start : int or integer scalar, or a sequence of them, one an axis
        Where the block begins. A negative number counts from the end.
    size : int, or a sequence of ints, one an axis
        How many entries it has; integer scalars are allowed.

    Returns
    -------
    tensor
        Of the shape `size`. `.set(v)` and `.inc(v)` give `x` with the block changed.

    Notes
    -----
    A block that does not lie in `x` is an error. (JAX's function of this name moves it.) In a step of a scan,
    `x[t : t + 3]` does the same as `dynamic_slice(x, t, 3)`. Outside of steps it is clipped, as in NumPy.

    Examples
    --------
    >>> import scanjit as sj
    >>> x, t = sj.vector("x"), sj.lscalar("t")
    >>> f = sj.function([x, t], sj.dynamic_slice(x, t, 2), mode="reference")
    >>> f([1.0, 2.0, 3.0, 4.0], 1)
    array([2., 3.])
    """
    x = as_tensor(x)
    starts, sizes = (list(v) if isinstance(v, list | tuple) else [v] for v in (start, size))
    if len(starts) != x.ndim or len(sizes) != x.ndim:
        raise errors.ArgumentError(
            "a block has a start and a size for each axis",
            got=f"{len(starts)} starts and {len(sizes)} sizes",
            expected=f"{x.ndim} each",
        )
    parts = [
        _Indexed("slice", axis, places=_places(ir.dim_node(_bound(first)), ir.as_dim(count), 1, n))
        for axis, (first, count, n) in enumerate(zip(starts, sizes, x.type.shape, strict=True))
    ]
    found = _read(x, parts)
    found.base = x
    return found

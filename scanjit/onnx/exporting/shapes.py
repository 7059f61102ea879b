"""Shapes, slices, indices, reductions and windows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from scanjit.ir import Node
from scanjit.onnx.exporting.writer import Rule, Writer
from scanjit.ops.stretch import constant_value
from scanjit.types import Dimension, maximum, minimum, not_negative

_FAR = 2**62
"""A bound of a slice that means the last entry; its negative means the first one, in a slice that runs backwards."""


def dimshuffle(w: Writer, node: Node, x: str) -> str:
    """Drops axes, reorders the others, and makes new ones."""
    order, ndim = node.params["order"], node.operands[0].ndim
    kept = [axis for axis in range(ndim) if axis in order]
    if len(kept) < ndim:
        x = w.op("Squeeze", x, w.ints(*(axis for axis in range(ndim) if axis not in order)))
    x = w.transpose(x, [kept.index(axis) for axis in order if axis is not None])
    return w.unsqueeze(x, *(i for i, axis in enumerate(order) if axis is None))


def reshape(w: Writer, node: Node, x: str) -> str:
    """A tensor in another shape. A size 0 means 0: without `allowzero`, ONNX would copy the size."""
    empty = any(not not_negative(dim - 1) for dim in node.type.shape)
    return w.op("Reshape", x, w.vector(node.type.shape), allowzero=1 if empty and w.opset >= 14 else None)


# ---- slices ----------------------------------------------------------------------------------------------------------


def slice_(w: Writer, node: Node, x: str) -> str:
    """A slice, written for the axes that it changes."""
    whole = node.operands[0].type.shape
    each = zip(node.params["start"], node.params["length"], node.params["step"], strict=True)
    return window(w, x, [(axis, *cut) for axis, cut in enumerate(each) if cut != (0, whole[axis], 1)], whole)


def window(
    w: Writer, x: str, windows: Sequence[tuple[int, Dimension, Dimension, Dimension]], whole: Sequence[Dimension] = ()
) -> str:
    """A slice, from (axis, start, length, step) for each axis that it changes. `whole` is the shape of `x`, if known.

    A window that runs backwards, and may be empty or end in front of the first entry, is two slices: the same entries
    forwards, then all of them backwards. From one slice with a computed end, readers would not learn the size.
    """
    forwards, backwards = [], []
    for axis, start, length, step in windows:
        end = start + step * length
        if not_negative(step) or (not_negative(length - 1) and not_negative(end)):
            forwards.append((axis, start, end, step))
        elif not_negative(length - 1) and isinstance(end, int):
            forwards.append((axis, start, -_FAR, step))
        else:
            if not whole or (end - step, start + 1, step) != (0, whole[axis], -1):
                forwards.append((axis, end - step, start + 1, -step))
            backwards.append((axis, _FAR, -_FAR, -1))
    return _sliced(w, _sliced(w, x, forwards), backwards)


def _sliced(w: Writer, x: str, cuts: Sequence[tuple[int, Dimension, Dimension, Dimension]]) -> str:
    """A slice, from (axis, start, end, step) for each axis that it changes."""
    if not cuts:
        return x
    axes, starts, ends, steps = zip(*cuts, strict=True)
    # Only an empty slice has a start in front of the first entry. ONNX would count it from the end of the axis.
    first = [start if _is_known(end - start) else maximum(start, 0) for start, end in zip(starts, ends, strict=True)]
    last = [n if n == -_FAR else maximum(n, 0) for n in ends]
    return w.op("Slice", x, w.vector(first), w.vector(last), w.ints(*axes), w.vector(steps))


def _is_known(length: Dimension) -> bool:
    """Whether a slice has a known number of entries, so that readers can find it as the distance of its ends."""
    return isinstance(length, int) and length > 0


def set_slice(w: Writer, node: Node, x: str, v: str) -> str:
    """A tensor with a window replaced by `v`: along one axis after the other, `v` is put between the rest of `x`."""
    whole, part = (operand.type.shape for operand in node.operands)
    windows = list(zip(range(len(whole)), node.params["start"], part, node.params["step"], strict=True))
    cut = [each for each in windows if each[1:] != (0, whole[each[0]], 1)]
    for done in range(len(cut), 0, -1):
        around = window(w, x, cut[: done - 1], whole)  # x within the windows of the axes before
        v = _placed(w, around, v, node, cut[done - 1])
    return v


def _placed(w: Writer, x: str, v: str, node: Node, place: tuple[int, Dimension, Dimension, Dimension]) -> str:
    """A tensor with a window of one axis replaced."""
    axis, start, length, step = place
    size = node.type.shape[axis]
    known = constant_value(node.operands[0])
    if step == 1 and known is not None and not known.ndim:
        # Of a slice with computed ends, readers know no more than bounds of its size.
        begin = minimum(maximum(start, 0), size)  # a window without entries may be anywhere
        outer, inner = node.operands[1].type.shape[:axis], node.type.shape[axis + 1 :]
        first, last = (w.full(known, (*outer, count, *inner)) for count in (begin, size - begin - length))
        return w.op("Concat", first, v, last, axis=axis)
    if step == 1:
        end = start + length
        before = window(w, x, [(axis, 0, start, 1)])
        after = window(w, x, [(axis, end, size - end, 1)])
        return w.op("Concat", before, v, after, axis=axis)
    places = counted(w, size)
    ahead, stride = w.op("Sub", places, w.dim(start)), w.dim(step)
    number = w.op("Div", ahead, stride)  # exact where it matters
    exact = w.op("Equal", w.op("Mul", number, stride), ahead)
    inside = w.op("And", w.op("GreaterOrEqual", number, w.constant(0, np.int64)), w.op("Less", number, w.dim(length)))
    met = w.op("And", exact, inside)
    # one more entry, for the places outside of the window
    padded = w.op("Concat", v, window(w, x, [(axis, 0, 1, 1)]), axis=axis)
    spread = w.op("Gather", padded, w.op("Where", met, number, w.dim(length)), axis=axis)
    return w.where(w.unsqueeze(met, *range(1, node.ndim - axis)), spread, x, node.dtype)


# ---- indices ---------------------------------------------------------------------------------------------------------


def gather(w: Writer, node: Node, x: str, *indices: str) -> str:
    """Entries at indices of consecutive axes."""
    axis, ndim, count = node.params["axis"], node.operands[0].ndim, len(indices)
    if count == 1:
        return w.op("Gather", x, indices[0], axis=axis)
    indexed, rest = range(axis, axis + count), [a for a in range(ndim) if not axis <= a < axis + count]
    places, width = _places(w, node, node.type.shape, indices)
    y = w.op("GatherND", w.transpose(x, [*indexed, *rest]), places)
    return w.transpose(y, _back(axis, width, node.ndim))


def _back(axis: int, width: int, ndim: int) -> list[int]:
    """The order that brings the first `width` axes to where `axis` is."""
    return [*range(width, width + axis), *range(width), *range(width + axis, ndim)]


def _places(w: Writer, node: Node, shape: Sequence[Dimension], indices: Sequence[str]) -> tuple[str, int]:
    """The indices, stacked along a new last axis, and how many axes they had. `shape` is that of the result."""
    axis, nodes = node.params["axis"], node.operands[-len(indices) :]
    width = max(index.ndim for index in nodes)
    whole = w.vector(shape[axis : axis + width])
    parts = [
        w.unsqueeze(
            name if index.type.shape == tuple(shape[axis : axis + width]) else w.op("Expand", name, whole), width
        )
        for name, index in zip(indices, nodes, strict=True)
    ]
    return (w.op("Concat", *parts, axis=width) if len(parts) > 1 else parts[0]), width


def order(w: Writer, node: Node, x: str) -> str:
    """The places of the elements of rows, the smallest first. `TopK` does not define the order of NaN. So NaN is
    replaced by infinity, and the places of numbers are then put before those of NaN."""
    operand = node.operands[0]
    last = operand.ndim - 1
    size = w.vector(operand.type.shape[-1:])

    def places(name: str) -> str:
        return w.several("TopK", [name, size], 2, axis=last, largest=0, sorted=1)[1]

    if not operand.type.kind.floating:
        wide = x if operand.dtype in (np.int32, np.int64) else w.cast(x, np.dtype("int32"))
        return places(wide)
    bad = w.op("IsNaN", x)
    found = places(w.where(bad, w.constant(np.inf, operand.dtype), x, operand.dtype))
    flags = w.op("GatherElements", w.cast(bad, np.dtype("int32")), found, axis=last)
    return w.op("GatherElements", found, places(flags), axis=last)


def ordered(w: Writer, node: Node, x: str) -> str:
    """The elements of rows, the smallest first."""
    return w.op("GatherElements", x, order(w, node, x), axis=node.ndim - 1)


def ranked_places(w: Writer, node: Node, x: str, ranks: str) -> str:
    """The places of the elements that have the given ranks in each row."""
    return _ranked_entries(w, node, order(w, node, x), ranks)


def ranked(w: Writer, node: Node, x: str, ranks: str) -> str:
    """The elements that have the given ranks in each row."""
    return _ranked_entries(w, node, ordered(w, node, x), ranks)


def where_true(w: Writer, node: Node, x: str) -> str:
    """The places of what is true in rows, and then -1."""
    places = order(w, node, w.op("Not", x))
    return w.where(w.op("GatherElements", x, places, axis=node.ndim - 1), places, w.constant(-1, np.int64), np.int64)


def _ranked_entries(w: Writer, node: Node, rows: str, ranks: str) -> str:
    """Entries of rows: the same of all, or those that the first axes of the ranks say."""
    given = node.operands[1]
    if given.ndim == 1:
        return w.op("Gather", rows, ranks, axis=node.ndim - 1)
    ranks = w.unsqueeze(ranks, *range(given.ndim - 1, node.ndim - 1))
    ranks = w.op("Expand", ranks, w.vector(node.type.shape))
    return w.op("GatherElements", rows, ranks, axis=node.ndim - 1)


def scatter(w: Writer, node: Node, x: str, v: str, *indices: str) -> str:
    """A tensor with entries at indices replaced, or added to."""
    axis, ndim, count = node.params["axis"], node.ndim, len(indices)
    value = node.operands[1]
    indexed, rest = range(axis, axis + count), [a for a in range(ndim) if not axis <= a < axis + count]
    places, width = _places(w, node, value.type.shape, indices)
    order = [*range(axis, axis + width), *(a for a in range(value.ndim) if not axis <= a < axis + width)]
    if node.params["add"] and w.opset < 16:
        raise w.refuse(node, "adding at indices needs op set 16 or newer")
    reduction = "add" if node.params["add"] else None
    y = w.op("ScatterND", w.transpose(x, [*indexed, *rest]), places, w.transpose(v, order), reduction=reduction)
    return w.transpose(y, _back(axis, count, ndim))


def windows(w: Writer, node: Node, x: str) -> str:
    """Windows along axes. New last axes hold the entries of each window: they are gathered at its place plus
    offsets."""
    ndim = node.operands[0].ndim
    place = list(range(ndim))  # where each axis of the operand is
    for axis, count, step, dilation in zip(
        *(node.params[k] for k in ("axes", "size", "step", "dilation")), strict=True
    ):
        there = node.type.shape[axis]
        rows, offsets = counted(w, there, step), counted(w, count, dilation)
        x = w.op("Gather", x, w.op("Add", w.unsqueeze(rows, 1), w.unsqueeze(offsets, 0)), axis=place[axis])
        total = ndim + 1
        at = place[axis] + 1
        x = w.transpose(x, [*(a for a in range(total) if a != at), at])
        ndim = total
    return x


def counted(w: Writer, count: Dimension, step: int = 1) -> str:
    """0, step, 2 * step, ..."""
    each = w.op("Range", w.constant(0, np.int64), w.dim(count), w.constant(1, np.int64))
    return each if step == 1 else w.op("Mul", each, w.constant(step, np.int64))


# ---- reductions ------------------------------------------------------------------------------------------------------

_AXES_ARE_INPUTS = {"ReduceSum": 13}
"""The first op set in which the axes of a reduction are an input; 18 for reductions that are not listed."""


def reduction(kind: str) -> Rule:
    """A reduction over some axes; they are dropped."""

    def rule(w: Writer, node: Node, x: str) -> str:
        axes, dtype = node.params["axes"], node.dtype
        if not axes:
            return x
        narrow = not node.type.kind.floating and dtype.itemsize < 4
        x = w.cast(x, np.int32) if narrow else x
        if w.opset >= _AXES_ARE_INPUTS.get(kind, 18):
            y = w.op(kind, x, w.ints(*axes), keepdims=0)
        else:
            y = w.op(kind, x, axes=list(axes), keepdims=0)
        return w.cast(y, dtype) if narrow else y

    return rule


def any_(w: Writer, node: Node, x: str) -> str:
    """Whether any element is True. They are counted: a maximum of no elements would not be defined."""
    axes = node.params["axes"]
    if not axes:
        return x
    count = w.op("ReduceSum", w.cast(x, np.int32), w.ints(*axes), keepdims=0)
    return w.op("Greater", count, w.constant(0, np.int32))


def all_(w: Writer, node: Node, x: str) -> str:
    """Whether all elements are True: not any of them is False."""
    return w.op("Not", any_(w, node, w.op("Not", x))) if node.params["axes"] else x


def position(kind: str) -> Rule:
    """The place of the largest or the smallest element."""
    return lambda w, node, x: w.op(kind, x, axis=node.params["axis"], keepdims=0)

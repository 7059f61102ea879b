"""Ops along axes: reductions, the places of extrema, running sums, Fourier transforms."""

from __future__ import annotations

from collections.abc import Callable

from scanjit import ir
from scanjit.ir import Node
from scanjit.onnx import functions as tensor
from scanjit.onnx.importing.call import Call
from scanjit.ops import Reduction, extremes as ops
from scanjit.ops.promotion import cast
from scanjit.ops.shape import IOTA
from scanjit.ops.stretch import expand, full
from scanjit.ops.view import along
from scanjit.tensor.variables import axes_of, axis_of


def over_axes(function: Callable[[Node, tuple[int, ...], bool], Node]) -> Callable[[Call], Node]:
    """`function(x, axes, keepdims)`, for the axes that a reduction names."""

    def rule(call: Call) -> Node:
        x = call.input(0)
        return function(x, *_axes(call, x))

    return rule


def reduction(
    op: Reduction,
    before: Callable[[Node], Node] = lambda x: x,
    after: Callable[[Node], Node] = lambda x: x,
) -> Callable[[Call], Node]:
    """A reduction of a function of the elements."""
    return over_axes(lambda x, axes, keep: after(reduced(op, before(x), axes, keep)))


def _axes(call: Call, x: Node) -> tuple[tuple[int, ...], bool]:
    """The axes to reduce, and whether they stay, with size 1. Without axes to reduce, what a reduction does before and
    after still changes each element: ReduceL2 takes the absolute value."""
    keep, nothing = call.flag("keepdims", True), call.flag("noop_with_empty_axes")
    given = call.ints("axes", 1, ())
    return axes_of(given if given or nothing else None, x.ndim), keep


def reduced(op: Reduction, x: Node, axes: tuple[int, ...], keep: bool = True) -> Node:
    """A reduction in the dtype of the operand."""
    if x.type.kind.is_mask and op in (ops.MAX, ops.MIN):
        op = ops.ANY if op is ops.MAX else ops.ALL
    if not axes:
        return x
    # of no elements, the result is the number that changes nothing: 0 for a sum
    if 0 in [x.type.shape[axis] for axis in axes if isinstance(x.type.shape[axis], int)]:
        y = full(op.initial(x.dtype), [dim for axis, dim in enumerate(x.type.shape) if axis not in axes], x.dtype)
    else:
        y = op(x, axes=axes)
    return expand(y, axes) if keep else y


def mean_of(x: Node, axes: tuple[int, ...], keep: bool) -> Node:
    """The mean over axes; that of integers is rounded towards zero."""
    return cast(tensor.mean(x, axes, keepdims=keep), x.dtype)


def position(op: ops.ArgReduction) -> Callable[[Call], Node]:
    """The place of the largest (or the smallest) element; of equal ones the first, or the last."""

    def rule(call: Call) -> Node:
        x = call.input(0)
        axis = call.axis(x, 0)
        keep, last = call.flag("keepdims", True), call.flag("select_last_index")
        found = op(tensor.flip(x, axis) if last else x, axis=axis)
        if last:
            found = ir.dim_node(x.type.shape[axis]) - 1 - found
        return tensor.expand_dims(found, axis) if keep else found

    return rule


def softmax(function: Callable[..., Node]) -> Callable[[Call], Node]:
    """Softmax, or its logarithm, along an axis. Before version 13 it is over this axis and all axes after it."""

    def rule(call: Call) -> Node:
        x = call.input(0)
        axis = call.axis(x, 1 if call.version < 13 else -1)
        return function(x, axis if call.version >= 13 else tuple(range(axis, x.ndim)))

    return rule


def hardmax(call: Call) -> Node:
    """1 at the first of the largest elements of an axis, else 0."""
    x = call.input(0)
    axis = call.axis(x, 1 if call.version < 13 else -1)
    if call.version < 13 and axis != x.ndim - 1:
        raise call.refuse("several axes at once, as before version 13")
    places = tensor.expand_dims(ops.ARGMAX(x, axis=axis), axis)
    return cast(places == along(IOTA(length=x.type.shape[axis]), axis, x.ndim), x.dtype)


def top_k(call: Call) -> list[Node]:
    """The largest or smallest elements along an axis, and their places. They are in order, also if the attribute
    `sorted` is 0."""
    x, axis = call.input(0), call.axis(call.input(0), -1)
    sizes = call.dims("k", 1, None)
    if sizes is None:
        sizes = (call.integer("k", 0),)
    call.integer("sorted", 1)
    negative, few = "TopK of a negative number: {right}", "TopK of {left} elements, of which there are {right}"
    x = call.expect(x, (0, sizes[0], negative), (sizes[0], x.type.shape[axis], few))
    places = tensor.argsort(x, axis, descending=bool(call.integer("largest", 1)))
    places = places[(*[slice(None)] * axis, slice(0, sizes[0]))]
    return [tensor.take_along_axis(x, places, axis), places]


def cumulative(function: Callable[..., Node], start: int) -> Callable[[Call], Node]:
    """Running sums or products along an axis."""

    def rule(call: Call) -> Node:
        x = call.input(0)
        axis = axis_of(int(call.scalar_input(1)), x.ndim)
        reverse, exclusive = call.flag("reverse"), call.flag("exclusive")
        x = tensor.flip(x, axis) if reverse else x
        if exclusive:
            n = x.type.shape[axis]
            first = tensor.full((*x.type.shape[:axis], 1, *x.type.shape[axis + 1 :]), start, x.dtype)
            before = (slice(None),) * axis
            x = tensor.concatenate([first, x], axis)[(*before, slice(0, n))]
        y = cast(function(x, axis, dtype=x.dtype), x.dtype)
        return tensor.flip(y, axis) if reverse else y

    return rule


def dft(call: Call) -> Node:
    """A Fourier transform of real numbers, or of pairs, along an axis: the last one holds the parts."""
    x = call.input(0)
    usual = 1 if call.version < 20 else -2
    axis = axis_of(int(call.integer("axis", usual) if call.optional(2) is None else call.scalar_input(2)), x.ndim)
    inverse, half = call.flag("inverse"), call.flag("onesided")
    given = call.optional(1)
    parts = x.type.shape[-1]
    if axis == x.ndim - 1 or parts not in (1, 2) or (half and parts == 1 + (not inverse)):
        raise call.refuse("a transform of real numbers or pairs; a one-sided one of real numbers, or back", got=x.type)
    z = x[..., 0] if parts == 1 else x[..., 0] + 1j * x[..., 1]
    function = ((tensor.fft, tensor.ifft), (tensor.rfft, tensor.irfft))[half][inverse]
    found = function(z, None if given is None else given.reshape(()), axis)
    return tensor.stack([found] if half and inverse else [tensor.real(found), tensor.imag(found)], axis=-1)

"""Products, reductions, normalizations and convolutions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from scanjit import errors, ir, types
from scanjit.ir import BOUND, INPUT, Node
from scanjit.onnx import functions as tensor
from scanjit.onnx.importing.call import Call, like
from scanjit.ops import Reduction, reduce as ops
from scanjit.ops.elementwise import ADD
from scanjit.ops.linalg import CONTRACT, contract
from scanjit.ops.promotion import cast
from scanjit.ops.shape import IOTA, RESHAPE
from scanjit.ops.stretch import expand, full
from scanjit.ops.view import along
from scanjit.ops.windows import WINDOWS
from scanjit.tensor.transposed import spread
from scanjit.tensor.variables import axes_of, axis_of
from scanjit.types import Dimension

# ---- products --------------------------------------------------------------------------------------------------------


def gemm(call: Call) -> Node:
    """`alpha * a @ b + beta * c`."""
    a, b = call.pair()
    if a.ndim != 2 or b.ndim != 2:
        raise errors.ShapeError("Gemm takes matrices", got=f"{a.type} and {b.type}")
    alpha, beta = call.number("alpha", 1.0), call.number("beta", 1.0)
    a, b = (x.T if call.flag(name) else x for x, name in ((a, "transA"), (b, "transB")))
    call.ignore("broadcast")
    y, c = tensor.dot(a, b), call.optional(2)
    y = y if alpha == 1 else y * like(alpha, y)
    if c is None:
        return y
    return y + (c if beta == 1 else c * like(beta, c))


# ---- reductions ------------------------------------------------------------------------------------------------------


def over_axes(function: Callable[[Node, tuple[int, ...], bool], Node]) -> Callable[[Call], Node]:
    """`function(x, axes, keepdims)`, for the axes that a reduction names."""

    def rule(call: Call) -> Node:
        x = call.input(0)
        axes, keep = _axes(call, x)
        return x if axes is None else function(x, axes, keep)

    return rule


def reduction(
    op: Reduction,
    before: Callable[[Node], Node] = lambda x: x,
    after: Callable[[Node], Node] = lambda x: x,
) -> Callable[[Call], Node]:
    """A reduction of a function of the elements."""
    return over_axes(lambda x, axes, keep: after(reduced(op, before(x), axes, keep)))


def _axes(call: Call, x: Node) -> tuple[tuple[int, ...] | None, bool]:
    """The axes to reduce, None for no reduction at all; and whether they stay, with size 1."""
    keep, nothing = call.flag("keepdims", True), call.flag("noop_with_empty_axes")
    given = call.ints("axes", 1, ())
    if not given and nothing:
        return None, keep
    return axes_of(given or None, x.ndim), keep


def reduced(op: Reduction, x: Node, axes: tuple[int, ...], keep: bool = True) -> Node:
    """A reduction in the dtype of the operand."""
    if x.type.kind.is_mask and op in (ops.MAX, ops.MIN):
        op = ops.ANY if op is ops.MAX else ops.ALL
    if not axes:
        return x
    if 0 in [
        x.type.shape[axis] for axis in axes if isinstance(x.type.shape[axis], int)
    ]:  # the result is the number that changes nothing: 0 for a sum
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
    axis = axis_of(int(call.integer("axis", 1) if call.optional(2) is None else call.scalar_input(2)), x.ndim)
    inverse, half = call.flag("inverse"), call.flag("onesided")
    given = call.optional(1)
    parts = x.type.shape[-1]
    if axis == x.ndim - 1 or parts not in (1, 2) or (half and parts == 1 + (not inverse)):
        raise call.refuse("a transform of real numbers or pairs; a one-sided one of real numbers, or back", got=x.type)
    z = x[..., 0] if parts == 1 else x[..., 0] + 1j * x[..., 1]
    function = ((tensor.fft, tensor.ifft), (tensor.rfft, tensor.irfft))[half][inverse]
    found = function(z, None if given is None else given.reshape(()), axis)
    return tensor.stack([found] if half and inverse else [tensor.real(found), tensor.imag(found)], axis=-1)


# ---- normalizations --------------------------------------------------------------------------------------------------


def _deviation(call: Call, centred: Node, axes: tuple[int, ...]) -> Node:
    """The root of the mean square over some axes, and of the attribute `epsilon`."""
    return tensor.sqrt(tensor.mean(centred * centred, axes, keepdims=True) + call.number("epsilon", 1e-5))


def layer_norm(call: Call) -> list[Node]:
    """Mean 0 and variance 1 over an axis and all that follow, then scaled and shifted; the mean; 1 / the deviation."""
    x, scale, bias = call.input(0), call.input(1), call.optional(2)
    call.ignore("stash_type")
    axes = tuple(range(call.axis(x, -1), x.ndim))
    mean = tensor.mean(x, axes, keepdims=True)
    inverse = 1.0 / _deviation(call, x - mean, axes)
    y = (x - mean) * inverse * scale
    return [y if bias is None else y + bias, mean, inverse]


def rms_norm(call: Call) -> Node:
    """Divided by the root of the mean square over an axis and all that follow."""
    x, scale = call.input(0), call.input(1)
    call.ignore("stash_type")
    return x / _deviation(call, x, tuple(range(call.axis(x, -1), x.ndim))) * scale


def channels(x: Node, ndim: int) -> Node:
    """A vector with an element for each channel, along axis 1 of `ndim`."""
    return along(x, 1, ndim)


def instance_norm(call: Call) -> Node:
    """Mean 0 and variance 1 over all axes after the channels, then scaled and shifted for each channel."""
    x, scale, bias = (call.input(i) for i in range(3))
    axes = tuple(range(2, x.ndim))
    centred = x - tensor.mean(x, axes, keepdims=True)
    return centred / _deviation(call, centred, axes) * channels(scale, x.ndim) + channels(bias, x.ndim)


def batch_norm(call: Call) -> Node:
    """`(x - mean) / sqrt(var + epsilon) * scale + bias`, for each channel; mean and var are inputs."""
    if call.flag("training_mode"):
        raise call.refuse("statistics that are updated")
    call.ignore("momentum", "spatial")
    x, scale, bias, mean, var = (call.input(i) for i in range(5))
    factor = scale / tensor.sqrt(var + call.number("epsilon", 1e-5))
    scaled, ndim = _scaled(x, factor) if _is_fixed(factor) else None, max(x.ndim, 2)
    y = x * channels(factor, ndim) if scaled is None else scaled
    return y + channels(bias - mean * factor, ndim)


def _scaled(x: Node, factor: Node) -> Node | None:
    """`x`, each of its channels times a factor; None if it is no convolution with filters that no input changes.

    The filters are multiplied instead, which is done once and not in every call. Those of a channel that learned
    nothing are often subnormal, which makes processors a hundred times slower; its factor makes zeros of them."""
    if x.op is ADD and _is_fixed(x.operands[1]):
        inner = _scaled(x.operands[0], factor)
        return None if inner is None else inner + x.operands[1] * channels(factor, x.ndim)
    inner = x.operands[0] if x.op is RESHAPE else x
    if inner.op is not CONTRACT or inner.operands[0].op is not WINDOWS or not _is_fixed(inner.operands[1]):
        return None
    (terms, filters), sides = inner.operands, [inner.params[side] for side in ("left", "right", "out")]
    first = 2 if x.op is RESHAPE else 1  # groups, and filters of each
    if sides[1][:first] != sides[2][1 : 1 + first] or x.type.shape[2:] != inner.type.shape[1 + first :]:
        return None
    factor = tensor.reshape(factor, (*filters.type.shape[:first], *[1] * (filters.ndim - first)))
    made = contract(terms, filters * factor, *sides)
    return made if x is inner else tensor.reshape(made, x.type.shape)


def _is_fixed(node: Node) -> bool:
    """Whether a node depends on weights and constants alone."""
    return not any(n.op in (INPUT, BOUND) for n in ir.walk([node]))


# ---- convolutions and pools ------------------------------------------------------------------------------------------

_PADS = ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER")
_CORRELATIONS: dict[int, Any] = {1: tensor.conv1d, 2: tensor.conv2d, 3: tensor.conv3d}


def conv(call: Call) -> Node:
    """A correlation over one, two or three axes, and a bias."""
    y, bias = correlation(call, *call.pair()), call.optional(2)
    return y if bias is None else y + channels(bias, y.ndim)


def correlation(call: Call, x: Node, w: Node) -> Node:
    """A correlation with the strides, pads and groups that the attributes say."""
    ndim = x.ndim - 2
    if ndim not in _CORRELATIONS:
        raise call.refuse("over other than one, two or three axes", got=x.type)
    sizes = call.integers("kernel_shape", None)
    if sizes is not None:
        w = tensor.specify_shape(w, (None, None, *sizes), "the filters of Conv")
    steps, dilations = (tuple(call.integers(name, [1] * ndim)) for name in ("strides", "dilations"))
    zeros = _padding(call, x.type.shape[2:], w.type.shape[2:], steps, dilations)
    return _CORRELATIONS[ndim](
        x,
        w,
        border_mode=tuple(zeros),
        subsample=steps,
        filter_dilation=dilations,
        filter_flip=False,
        num_groups=call.integer("group", 1),
    )


def _padding(
    call: Call, sizes: Sequence[Dimension], filters: Sequence[Dimension], steps: Sequence[int], dilations: Sequence[int]
) -> list[tuple[int, int]]:
    """The number of zeros added before and after each axis."""
    ndim, kind = len(sizes), call.choice("auto_pad", "NOTSET", _PADS)
    if len(steps) != ndim or len(dilations) != ndim:
        raise errors.FormatError(f"{call.op} has a stride and a dilation an axis", got=f"{steps} and {dilations}")
    pads = call.integers("pads", [0] * (2 * ndim))
    if len(pads) != 2 * ndim:
        raise errors.FormatError(f"{call.op} has two pads an axis", got=pads)
    if kind == "NOTSET":
        return list(zip(pads[:ndim], pads[ndim:], strict=True))
    if kind == "VALID":
        return [(0, 0)] * ndim
    found = []
    for n, k, step, dilation in zip(sizes, filters, steps, dilations, strict=True):
        reach = (k - 1) * dilation + 1
        total = reach - 1 if step == 1 else None
        if step != 1 and isinstance(n, int):
            total = types.maximum((math.ceil(n / step) - 1) * step + reach - n, 0)
        if not isinstance(total, int):
            raise call.refuse(f"auto_pad={kind} with strides and a size that is not known", got=f"size {n}")
        small = total // 2
        found.append((small, total - small) if kind == "SAME_UPPER" else (total - small, small))
    return found


def conv_transpose(call: Call) -> Node:
    """The gradient of a correlation with respect to its input, and a bias."""
    x, w = call.pair()
    ndim = x.ndim - 2
    if ndim < 1 or w.ndim != x.ndim:
        raise errors.ShapeError("ConvTranspose takes images, and filters with as many axes", got=f"{x.type}, {w.type}")
    sizes = call.integers("kernel_shape", None) or [None] * ndim
    w = tensor.specify_shape(w, (x.type.shape[1], None, *sizes), "the filters of ConvTranspose")
    steps, dilations = (tuple(call.integers(name, [1] * ndim)) for name in ("strides", "dilations"))
    more = call.integers("output_padding", [0] * ndim)
    if not len(steps) == len(dilations) == len(more) == ndim:
        raise errors.FormatError("ConvTranspose has a stride, a dilation and an output_padding an axis", got=more)
    reach = [(k - 1) * d + 1 for k, d in zip(w.type.shape[2:], dilations, strict=True)]
    whole = [(n - 1) * s + r + m for n, s, r, m in zip(x.type.shape[2:], steps, reach, more, strict=True)]
    kept = _kept(call, x.type.shape[2:], whole, steps)
    whole = [types.maximum(n, last) for n, (_, last) in zip(whole, kept, strict=True)]
    y = spread(x, w, whole, steps, dilations, call.integer("group", 1))
    y = y[(slice(None), slice(None), *(slice(first, last) for first, last in kept))]
    bias = call.optional(2)
    return y if bias is None else y + channels(bias, y.ndim)


def _kept(
    call: Call, sizes: Sequence[Dimension], whole: Sequence[Dimension], steps: Sequence[int]
) -> list[tuple[Dimension, Dimension]]:
    """The range of entries of each axis that ConvTranspose keeps of the `whole` result: the first one, and the one
    after the last."""
    ndim, kind = len(whole), call.choice("auto_pad", "NOTSET", _PADS)
    pads, shape = call.integers("pads", [0] * (2 * ndim)), call.integers("output_shape", None)
    if len(pads) != 2 * ndim or (shape is not None and len(shape) != ndim):
        raise errors.FormatError("ConvTranspose has two pads, and a size, for each axis", got=shape or pads)
    if kind.startswith("SAME") and shape is None:
        shape = [n * s for n, s in zip(sizes, steps, strict=True)]
    if shape is None:
        return [(before, n - after) for n, before, after in zip(whole, pads[:ndim], pads[ndim:], strict=True)]
    kept = []
    for n, wanted, step in zip(whole, shape, steps, strict=True):
        types.require(
            wanted, n + step - 1, "ConvTranspose makes {right} entries at most, not {left}", errors.ShapeError
        )
        total = types.maximum(n - wanted, 0)
        first = total // 2 if kind == "SAME_UPPER" else total - total // 2
        kept.append((first, first + wanted))
    return kept


def pool(largest: bool) -> Callable[[Call], list[Node]]:
    """The maximum, or the mean, of windows along the axes after the channels."""

    def rule(call: Call) -> list[Node]:
        x = call.input(0)
        sizes = tuple(call.integers("kernel_shape"))
        ndim = len(sizes)
        if x.ndim != ndim + 2 or call.integer("storage_order", 0):
            raise call.refuse("with storage_order, or another rank than its windows", got=x.type)
        steps, dilations = (tuple(call.integers(name, [1] * ndim)) for name in ("strides", "dilations"))
        zeros = _padding(call, x.type.shape[2:], sizes, steps, dilations)
        mean = "average_inc_pad" if call.flag("count_include_pad") else "average_exc_pad"
        mode, borders = "max" if largest else mean, not call.flag("ceil_mode")
        return [tensor.pool(x, sizes, steps, zeros, borders, mode, dilations)]

    return rule


def global_pool(op: str) -> Callable[[Call], Node]:
    """The maximum, or the mean, over all axes after the channels."""

    def rule(call: Call) -> Node:
        x = call.input(0)
        axes = tuple(range(2, x.ndim))
        return tensor.mean(x, axes, keepdims=True) if op == "mean" else reduced(ops.MAX, x, axes)

    return rule


def dropout(call: Call) -> list[Node]:
    """The input: Dropout drops entries only while a model is trained."""
    call.ignore("ratio", "seed", "is_test")
    training = call.optional(2)
    if training is not None and call.scalar_input(2):
        raise call.refuse("in training mode")
    x = call.input(0)
    return [x, tensor.ones_like(x, "bool")]

"""Convolutions, pools, and what they share with normalizations: numbers for each channel."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from scanjit import errors, types
from scanjit.ir import Node
from scanjit.onnx import functions as tensor
from scanjit.onnx.importing.call import Call
from scanjit.onnx.importing.reductions import reduced
from scanjit.ops import extremes as ops
from scanjit.ops.view import along
from scanjit.tensor.transposed import spread
from scanjit.types import Dimension


def channels(x: Node, ndim: int) -> Node:
    """A vector with an element for each channel, along axis 1 of `ndim`."""
    return along(x, 1, ndim)


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
    x = call.expect(x, *((first, last, "the pads of ConvTranspose leave {left} to {right}") for first, last in kept))
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
    if len(pads) != 2 * ndim or min(pads, default=0) < 0 or (shape is not None and len(shape) != ndim):
        raise errors.FormatError("ConvTranspose has two pads >= 0, and a size, for each axis", got=shape or pads)
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

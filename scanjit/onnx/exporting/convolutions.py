"""Convolutions and pooling: a product of filters and windows of a tensor becomes Conv, their maximum MaxPool, and their
sum AveragePool."""

import math
from collections.abc import Sequence

from scanjit import types
from scanjit.ir import Node
from scanjit.onnx.exporting.shapes import reduction
from scanjit.onnx.exporting.writer import Rule, Writer
from scanjit.ops.windows import WINDOWS


def conv(w: Writer, node: Node, filters: str) -> str | None:
    """A product written as Conv; None if it is not a convolution over one, two or three axes."""
    seen, weights = node.operands
    if seen.op is not WINDOWS or not node.type.kind.floating:
        return None
    count = len(seen.params["axes"])
    x = seen.operands[0]
    grouped = x.ndim - count - 2
    if count not in (1, 2, 3) or grouped not in (0, 1) or seen.params["axes"] != tuple(range(2 + grouped, x.ndim)):
        return None
    left, right, out = (node.params[key] for key in ("left", "right", "out"))
    batch, lead, channel = left[0], left[1 : 1 + grouped], left[1 + grouped]
    places, offsets = left[2 + grouped : x.ndim], left[x.ndim :]
    outputs = [label for label in right if label not in left]
    if len(outputs) != 1 or out != (batch, *lead, *outputs, *places) or not set(lead) <= set(right):
        return None
    order = (*lead, *outputs, channel, *offsets)
    if sorted(right) != sorted(order):
        return None
    filters = w.transpose(filters, [right.index(label) for label in order])
    images, shape = w.value(x), x.type.shape
    groups = shape[1] if grouped else 1
    if not isinstance(groups, int):
        return None
    if grouped:
        images = w.op("Reshape", images, w.vector((shape[0], types.product(shape[1:3]), *shape[3:])))
        sizes = [weights.type.shape[right.index(label)] for label in order]
        filters = w.op("Reshape", filters, w.vector((types.product(sizes[:2]), *sizes[2:])))
    steps, dilations = list(seen.params["step"]), list(seen.params["dilation"])
    y = w.op("Conv", images, filters, strides=steps, dilations=dilations, group=groups)
    return w.op("Reshape", y, w.vector(node.type.shape)) if grouped else y


def pooled(kind: str) -> Rule:
    """A reduction: ReduceMax, or ReduceSum. Of windows it is a pool."""
    otherwise = reduction(kind)

    def rule(w: Writer, node: Node, x: str) -> str | Sequence[str]:
        y = _pool(w, node, kind)
        return otherwise(w, node, x) if y is None else y

    return rule


def _pool(w: Writer, node: Node, kind: str) -> str | None:
    """A reduction written as a pool; None if it is not one of windows behind two axes."""
    (seen,) = node.operands
    if seen.op is not WINDOWS or not node.type.kind.floating:
        return None
    x, sizes, dilations = seen.operands[0], seen.params["size"], list(seen.params["dilation"])
    count = len(sizes)
    whole = node.params["axes"] == tuple(range(x.ndim, x.ndim + count)) and seen.params["axes"] == tuple(
        range(2, x.ndim)
    )
    if not whole or count not in (1, 2, 3) or not all(isinstance(n, int) for n in sizes):
        return None
    shape, steps = [types.as_int(n) for n in sizes], list(seen.params["step"])
    if kind == "ReduceMax":
        return w.op("MaxPool", w.value(x), kernel_shape=shape, strides=steps, dilations=dilations)
    if any(d > 1 for d in dilations):
        return None
    mean = w.op("AveragePool", w.value(x), kernel_shape=shape, strides=steps)
    return w.op("Mul", mean, w.constant(math.prod(shape), node.dtype))

"""Convolutions: a product of filters and windows of a tensor becomes Conv."""

from scanjit import types
from scanjit.ir import Node
from scanjit.onnx.exporting.writer import Writer
from scanjit.ops.windows import WINDOWS


def conv(w: Writer, node: Node, filters: str) -> str | None:
    """A product written as Conv; None if it is not a convolution over one or two axes."""
    seen, weights = node.operands
    if seen.op is not WINDOWS or not node.type.kind.floating:
        return None
    count = len(seen.params["axes"])
    x = seen.operands[0]
    grouped = x.ndim - count - 2
    if count not in (1, 2) or grouped not in (0, 1) or seen.params["axes"] != tuple(range(2 + grouped, x.ndim)):
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

"""Gradients of filters are computed with lanes along the channels of the convolution's output.

The gradient of the filters of a convolution is a product of the windows of its input with the gradient of its output,
summed over examples and places:

    dw[o, c, k] = sum_bp windows(x)[b, c, p, k] * dy[b, o, p]

Lanes along k would hold only a few numbers, which lie apart in memory if windows overlap in part. Lanes along o need a
copy of `dy` with its channels last: `dw[c, k, o] = sum_bp windows(x)[b, c, p, k] * copy(dy)[b, p, o]`. Each number of x
is then read alone, so that the distance between windows does not matter.
"""

from scanjit.ir import Node, rebuilt
from scanjit.ops.contraction import CONTRACT, contract
from scanjit.ops.shape import COPY, SLICE
from scanjit.ops.view import DIMSHUFFLE
from scanjit.ops.windows import WINDOWS
from scanjit.rewrite.engine import Note, in_bodies
from scanjit.types import product

FEW_CHANNELS = 8
"""Fewer channels than this do not fill half a vector. Windows that are 1 apart need twice as many: lanes along places
are as good for them."""


def filters_in_lanes(outputs: list[Node], notes: list[Note]) -> list[Node]:
    """Compute gradients of filters, which are sums over all places of windows, with lanes along the channels of the
    convolution's output."""
    outputs = in_bodies(outputs, lambda inner: filters_in_lanes(inner, notes))
    return rebuilt(outputs, lambda old, new: _channels_last(new))


def _channels_last(node: Node) -> Node | None:
    """The same sum of products of windows, with the channels as its last axis; None if the node is something else."""
    if node.op is not CONTRACT or node.type.kind.is_mask:
        return None
    (a, b), left, right, out = node.operands, node.params["left"], node.params["right"], node.params["out"]
    if _windows(a) is None:
        a, b, left, right = b, a, right, left
    windows = _windows(a)
    if windows is None or _windows(b) is not None:
        return None
    if not {left[axis] for axis in windows.params["axes"]} <= {*right}.difference(out):
        return None
    channels = tuple(label for label in out if label not in left)
    size = product(b.type.shape[right.index(label)] for label in channels)
    few = FEW_CHANNELS if any(step > 1 for step in windows.params["step"]) else 2 * FEW_CHANNELS
    if isinstance(size, int) and size < few:
        return None
    rows = tuple(label for label in out if label in left)
    last = (*(label for label in left if label in right), *channels)
    if last != right:
        b = DIMSHUFFLE(b, order=tuple(right.index(label) for label in last))
        b = COPY(b, shape=b.type.shape)
    made = contract(a, b, left, last, (*rows, *channels))
    return DIMSHUFFLE(made, order=tuple((*rows, *channels).index(label) for label in out))


def _windows(node: Node) -> Node | None:
    """The windows that a node is, or is a slice of: those of a convolution that flips its filters lie backwards."""
    node = node.operands[0] if node.op is SLICE else node
    return node if node.op is WINDOWS else None

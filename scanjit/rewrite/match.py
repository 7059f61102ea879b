"""Questions that rules ask about nodes: about constants, windows, and how dimensions compare."""

from collections.abc import Collection, Sequence

import numpy as np

from scanjit import types
from scanjit.ir import CONSTANT, Node, constant
from scanjit.ops.promotion import Elementwise
from scanjit.ops.shape import SLICE
from scanjit.ops.stretch import broadcast_to, constant_value, full
from scanjit.ops.view import View
from scanjit.types import Dimension

Window = tuple[tuple[Dimension, Dimension, int], ...]
"""A slice of every axis: `(start, length, step)` each."""


def scalar(node: Node) -> float | None:
    """The value that all elements of a constant share, as a NumPy scalar; None if they differ or the node is no
    constant."""
    array = constant_value(node)
    if array is None or array.size == 0:
        return None
    first = array.reshape(-1)[0]
    return first if array.size == 1 or (array.size <= 4096 and bool((array == first).all())) else None


def is_filled(node: Node, number: float) -> bool:
    """Whether the node is a constant with this value everywhere."""
    value = scalar(node)
    return value is not None and bool(value == number)


def is_zero(node: Node) -> bool:
    """Whether the node is a constant zero."""
    return is_filled(node, 0)


def is_elementwise(node: Node) -> bool:
    """Whether the node's op is applied to each element."""
    return isinstance(node.op, Elementwise)


def like(node: Node, value: float) -> Node:
    """A constant of a node's type."""
    return full(value, node.type.shape, node.dtype)


def stretch(x: Node, node: Node) -> Node:
    """`x` as a replacement of `node`: broadcast to its shape."""
    return broadcast_to(x, node.type.shape)


def at_most(a: Dimension, b: Dimension) -> bool:
    """Whether `a <= b` is certain."""
    return types.not_negative(b - a)


def window_of(node: Node) -> Window:
    """The window of a slice node."""
    p = node.params
    return tuple(zip(p["start"], p["length"], p["step"], strict=True))


def window_set(node: Node) -> Window:
    """The window that a set_slice node replaces."""
    p = node.params
    return tuple(zip(p["start"], node.operands[1].type.shape, p["step"], strict=True))


def cut(x: Node, window: Window) -> Node:
    """The slice of `x` at a window; `x` itself where that is all of it."""
    if is_whole(window, x.type.shape):
        return x
    start, length, step = zip(*window, strict=True)
    return SLICE(x, start=start, length=length, step=step)


def is_whole(window: Window, shape: Sequence[Dimension]) -> bool:
    """Whether a window is all of a tensor of this shape, in its order."""
    return all(_all_of(w, n) for w, n in zip(window, shape, strict=True))


def _all_of(window: tuple[Dimension, Dimension, int], size: Dimension) -> bool:
    start, length, step = window
    return isinstance(start, int) and start == 0 and length == size and (step == 1 or length == 1)


def reversed_axes(node: Node) -> set[int]:
    """The axes along which a node is another one in reverse order."""
    if node.op is not SLICE:
        return set()
    sizes = node.operands[0].type.shape
    windows = zip(window_of(node), sizes, strict=True)
    return {axis for axis, ((_, length, step), n) in enumerate(windows) if step == -1 and length == n}


def flipped(x: Node, axes: Collection[int]) -> Node:
    """A tensor with these axes reversed."""
    if x.op is not SLICE:
        whole = tuple((n - 1, n, -1) if axis in axes else (0, n, 1) for axis, n in enumerate(x.type.shape))
        return cut(x, whole)
    window = [(a + (n - 1) * s, n, -s) if i in axes else (a, n, s) for i, (a, n, s) in enumerate(window_of(x))]
    return cut(x.operands[0], tuple(window))


def inside(inner: tuple[Dimension, Dimension, int], start: Dimension, length: Dimension) -> bool:
    """Whether one axis of a window certainly lies in `start .. start + length`."""
    a, n, step = inner
    first, last = (a, a + (n - 1) * step) if step > 0 else (a + (n - 1) * step, a)
    return at_most(start, first) and at_most(last + 1, start + length)


def apart(a: tuple[Dimension, Dimension, int], b: tuple[Dimension, Dimension, int]) -> bool:
    """Whether one axis of two windows certainly has no index in common."""
    (a0, a1), (b0, b1) = _span(a), _span(b)
    return at_most(a1, b0) or at_most(b1, a0)


def _span(window: tuple[Dimension, Dimension, int]) -> tuple[Dimension, Dimension]:
    start, length, step = window
    return (start, start + (length - 1) * step + 1) if step > 0 else (start + (length - 1) * step, start + 1)


def is_finite(node: Node) -> bool:
    """Whether the node is a constant without NaN and infinities. Only such a factor may be moved into a sum (`inf * (1
    - 2)` is `-inf`, `inf - 2 * inf` is NaN)."""
    array = constant_value(node)
    return array is not None and bool(np.isfinite(array).all())


def is_free(node: Node) -> bool:
    """Whether the node costs nothing in the body of a loop: a small constant, or an op that needs sizes alone, such as
    `iota`."""
    if node.op is CONSTANT:
        return bool(node.params["data"].array.nbytes <= 4096)
    return node.op.moves_data and not node.operands


def shows_all(node: Node) -> bool:
    """Whether the node is a view that leaves out no element of its operand."""
    return isinstance(node.op, View) and node.op.shows_all


def number(value: float, node: Node) -> Node:
    """A scalar constant of a node's dtype."""
    return constant(np.asarray(value).astype(node.dtype))

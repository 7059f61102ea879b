"""Stretching and its transpose, summing: `broadcast_to` and `sum`. The derivative of each is the other."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import DTypeLike

from scanjit import errors, types
from scanjit.ir import CONSTANT, Node, constant
from scanjit.ops.reduction import Reduction
from scanjit.ops.samples import ANY_DTYPE, sampled
from scanjit.ops.view import DIMSHUFFLE, View
from scanjit.signatures import Array
from scanjit.types import Dimension, Type


def require_sizes(shape: Sequence[Dimension]) -> None:
    """Require that sizes are not negative, as `n - 2` would be for a tensor of one row."""
    for dim in shape:
        types.require(0, dim, "a size must not be negative: {right}", errors.ShapeError)


def _broadcast_infer(x: Type, *, shape: tuple[Dimension, ...]) -> Type:
    if x.ndim > len(shape):
        raise errors.ShapeError("a broadcast cannot drop axes", got=f"{x} to {shape}")
    for axis, dim in enumerate(x.shape, start=len(shape) - x.ndim):
        if dim != 1:
            types.equate(dim, shape[axis], f"dimension {axis} of a broadcast")
    require_sizes(shape)
    return x.with_shape(shape)


def _broadcast_batch(
    args: Sequence[Node], batched: Sequence[bool], size: Dimension, *, shape: tuple[Dimension, ...]
) -> tuple[Node, bool]:
    (x,) = args
    ones = [None] * (len(shape) - (x.ndim - 1))
    x = DIMSHUFFLE(x, order=(0, *ones, *range(1, x.ndim)))
    return BROADCAST_TO(x, shape=(size, *shape)), True


BROADCAST_TO = View(
    "broadcast_to",
    infer=_broadcast_infer,
    reference=lambda x, *, shape: np.broadcast_to(x, shape),
    access=lambda given, *, shape: [
        (0, ()) if dim == 1 else (0, ((axis, 1),)) for axis, dim in enumerate(given, start=len(shape) - len(given))
    ],
    repeats=True,
    vjp=lambda g, y, x, *, shape: (sum_to(g, x.type.shape),),
    batch=_broadcast_batch,
    samples=sampled(
        ((3,), {"shape": (2, 3)}),
        ((2, 1), {"shape": (2, 4)}),
        ((), {"shape": (2, 2)}),
        ((1, 1), {"shape": (3, 0, 2)}),
        ((2,), {"shape": (2,)}),
    ),
    dtypes=ANY_DTYPE,
    doc="a tensor stretched to a shape, by NumPy's rule",
)


def broadcast_to(x: Node, shape: Sequence[Dimension]) -> Node:
    """`x` stretched to `shape`; `x` itself if it has that shape."""
    shape = tuple(shape)
    return x if x.type.shape == shape else BROADCAST_TO(x, shape=shape)


def sum_to(x: Node, shape: Sequence[Dimension]) -> Node:
    """The transpose of broadcasting a tensor of `shape` to that of `x`: sum `x` over the axes that were stretched."""
    lead = x.ndim - len(shape)
    stretched = [a for a, dim in enumerate(shape, start=lead) if dim == 1 and x.type.shape[a] != 1]
    axes = (*range(lead), *stretched)
    if not axes:
        return x

    total = SUM(x, axes=axes)
    kept = [a for a in range(x.ndim) if a not in axes]
    return (
        total
        if not stretched
        else DIMSHUFFLE(total, order=tuple(kept.index(a) if a in kept else None for a in range(lead, x.ndim)))
    )


def over_batch(x: Node, batched: bool, size: Dimension) -> Node:
    """`x` with the axis of a batch as its first axis: `x` itself if it has that axis, else `x` stretched."""
    return x if batched else broadcast_to(x, (size, *x.type.shape))


def all_over_batch(nodes: Sequence[Node], batched: Sequence[bool], size: Dimension) -> list[Node]:
    """The nodes, all with the axis of a batch as their first axis. `batched` says which of them have it already."""
    return [over_batch(node, has, size) for node, has in zip(nodes, batched, strict=True)]


def constant_value(node: Node) -> Array | None:
    """The array of a constant (seen through broadcasts of it), or None."""
    while node.op is BROADCAST_TO:
        node = node.args[0]
    return node.params["data"].array if node.op is CONSTANT else None


def full(value: object, shape: Sequence[Dimension], dtype: DTypeLike | None = None) -> Node:
    """A tensor of one value."""
    scalar = value if isinstance(value, Node) else constant(value, dtype)
    return broadcast_to(scalar, shape)


def zeros_like(x: Node) -> Node:
    """Zeros of the same type."""
    return full(0, x.type.shape, x.dtype)


def or_zeros(derivative: Node | None, x: Node) -> Node:
    """A derivative as a node: None becomes zeros of the type of `x`."""
    return zeros_like(x) if derivative is None else derivative


# ---- sum -------------------------------------------------------------------------------------------------------------


def expand(x: Node, axes: Sequence[int]) -> Node:
    """`x` with axes of size 1 where a reduction dropped `axes`."""
    if not axes:
        return x
    kept = iter(range(x.ndim))
    return DIMSHUFFLE(x, order=tuple(None if a in axes else next(kept) for a in range(x.ndim + len(axes))))


SUM: Reduction = Reduction(
    "sum",
    join=lambda a, b: a + b,
    combine="{0} + {1}",
    horizontal="reduce_add",
    initial=lambda dtype: 0,
    function=lambda x, axis: np.add.reduce(x, axis=axis, dtype=x.dtype),
    vjp=lambda g, y, x, *, axes: (broadcast_to(expand(g, axes), x.type.shape),),
    is_linear=True,
    doc="the sum over axes, in the dtype of the operand",
)

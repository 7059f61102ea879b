"""Pooling: the largest element, the sum or the mean of each window of the last axes."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from scanjit import errors, types
from scanjit.ir import Node
from scanjit.kinds import kind_of
from scanjit.ops.windows import WINDOWS, extent
from scanjit.symbol import TensorLike
from scanjit.tensor.convolution import numbers_per_axis, zeros_per_axis
from scanjit.tensor.creation import ones
from scanjit.tensor.elementwise import cast
from scanjit.tensor.joining import pad as padded
from scanjit.tensor.reductions import max as largest, sum as sum_over
from scanjit.tensor.shapes import expand_dims
from scanjit.tensor.variables import as_tensor
from scanjit.types import Dimension

__all__ = ["pool"]

_MODES = ("max", "sum", "average_inc_pad", "average_exc_pad")


def pool(
    input: TensorLike,
    size: Any,
    stride: Any = None,
    pad: Any = 0,
    ignore_border: bool = True,
    mode: str = "max",
    dilation: Any = 1,
) -> Node:
    """One number of each window of the last axes: its largest element, its sum or its mean.

    Parameters
    ----------
    input : tensor_like
    size : int or tuple of ints
        The size of windows along the last axis, or along so many last axes.
    stride : int, tuple of ints or None
        How far apart windows are; None for `size`: side by side.
    pad : int, or a tuple of ints or of pairs (before, after)
        How many places are added around these axes: fewer than a window covers. A maximum leaves them out, sums and
        means take them as zeros.
    ignore_border : bool
        Whether elements at the end that do not fill a window are left out. If not, a last window holds those that there
        are.
    mode : "max", "sum", "average_inc_pad" or "average_exc_pad"
        What is computed. A mean is divided by how many elements the window has: with the added places, or without.
    dilation : int or tuple of ints
        How far apart the elements of a window are.

    Returns
    -------
    Node
        In the gradient of a maximum, elements that are equally large share.

    Raises
    ------
    ShapeError
        If no window fits; when the function is called, if only then sizes are known.

    Examples
    --------
    >>> import numpy as np
    >>> import scanjit as sj
    >>> x = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    >>> sj.function([], [sj.pool(x, (2, 2), ignore_border=False), sj.pool(x, 2, 1, mode="sum")], mode="reference")()
    [array([[5., 6.]]), array([[ 3.,  5.],
           [ 9., 11.]])]
    """
    x = as_tensor(input)
    count = len(size) if isinstance(size, tuple | list) else 1
    if not 1 <= count <= x.ndim:
        raise errors.ShapeError(f"the windows of pool have {count} axes, its input has {x.ndim}", got=x.type)
    errors.check_known("mode of pool", mode, _MODES)
    axes = list(_windowed(x.type.shape[x.ndim - count :], size, stride, pad, ignore_border, dilation))
    inner = tuple(range(x.ndim, x.ndim + count))
    if mode == "max":
        return largest(_windows(x, axes, kind_of(x.dtype).limits[0]), inner)
    total = sum_over(_windows(x, axes, 0), inner)
    if mode == "sum":
        return total
    if not any(_some(a.beyond) or (_some(*a.added) and mode == "average_exc_pad") for a in axes):
        return total / math.prod(a.size for a in axes)
    counts = _counts([a.with_zeros() for a in axes] if mode == "average_inc_pad" else axes)
    return total / (cast(counts, total.dtype) if total.type.kind.floating else counts)


@dataclass(frozen=True)
class _Axis:
    """Windows along one axis.

    Parameters
    ----------
    length : the number of elements.
    added : how many places the user added before and after them.
    beyond : how many places the last window reaches beyond the end of these.
    """

    length: Dimension
    size: int
    stride: int
    dilation: int
    added: tuple[int, int]
    beyond: Dimension

    @property
    def around(self) -> tuple[Dimension, Dimension]:
        """All places before and after."""
        return self.added[0], self.added[1] + self.beyond

    def with_zeros(self) -> "_Axis":
        """The same windows, for which the places that the user added count as elements."""
        return _Axis(self.length + sum(self.added), self.size, self.stride, self.dilation, (0, 0), self.beyond)


def _windowed(
    lengths: Sequence[Dimension], size: Any, stride: Any, pad: Any, ignore_border: bool, dilation: Any
) -> Iterator[_Axis]:
    count = len(lengths)
    sizes = numbers_per_axis("pool", "size", size, count)
    strides = sizes if stride is None else numbers_per_axis("pool", "stride", stride, count)
    dilations = numbers_per_axis("pool", "dilation", dilation, count)
    pads = zeros_per_axis("pool", "pad", pad, count)
    for n, k, s, d, added in zip(lengths, sizes, strides, dilations, pads, strict=True):
        reach = extent(k, d)
        assert isinstance(reach, int)
        if max(added) >= reach:
            raise errors.ArgumentError("pool adds fewer places than a window covers", got=f"pad={added}, {reach}")
        yield _Axis(n, k, s, d, added, 0 if ignore_border else _beyond(n, reach, s, added))


def _beyond(length: Dimension, reach: int, stride: int, added: tuple[int, int]) -> Dimension:
    """How many places the last window reaches beyond the end. It begins at an element, and exists only if the window
    before it does not reach the end."""
    before, after = added
    if stride + after >= reach:
        last = (length + before - 1) // stride
    else:
        last = types.maximum(length + before + after - reach + stride - 1, 0) // stride
    return types.maximum(last * stride + reach - (length + before + after), 0)


def _some(*sizes: Dimension) -> bool:
    return any(isinstance(n, types.Dim) or n > 0 for n in sizes)


def _windows(x: Node, axes: Sequence[_Axis], value: Any) -> Node:
    """The windows of the last axes along new axes; added places hold a value."""
    lead = x.ndim - len(axes)
    if any(_some(*a.around) for a in axes):
        x = padded(x, [*[(0, 0)] * lead, *(a.around for a in axes)], constant_values=value)
    return WINDOWS(
        x,
        axes=tuple(range(lead, x.ndim)),
        size=tuple(a.size for a in axes),
        step=tuple(a.stride for a in axes),
        dilation=tuple(a.dilation for a in axes),
    )


def _counts(axes: Sequence[_Axis]) -> Node:
    """How many elements each window holds."""
    along = [sum_over(_windows(ones((a.length,), "int64"), [a], 0), 1) for a in axes]
    total = along[0]
    for more in along[1:]:
        total = expand_dims(total, -1) * more
    return total

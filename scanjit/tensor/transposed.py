"""Transposed convolutions: the computation of the gradient of a convolution with respect to its input."""

from collections.abc import Sequence
from typing import Any

from scanjit import errors, types
from scanjit.ir import Node
from scanjit.ops.contraction import contract
from scanjit.ops.shape import RESHAPE, flip
from scanjit.ops.windows import extent, overlap_add
from scanjit.symbol import TensorLike
from scanjit.tensor.convolution import numbers_per_axis, with_centre, zeros_around
from scanjit.tensor.shapes import specify_shape
from scanjit.tensor.variables import dimensions, promoted
from scanjit.types import Dimension

__all__ = ["conv_transpose"]


def conv_transpose(
    input: TensorLike,
    filters: TensorLike,
    border_mode: Any = "valid",
    subsample: Any = 1,
    filter_dilation: Any = 1,
    filter_flip: bool = True,
    num_groups: int = 1,
    output_size: Any = None,
) -> Node:
    """The transpose of a convolution: each entry of the input times the filters, added up where these overlap.

    The arguments are those of the convolution that it transposes, over as many axes (see `conv1d`). The input has the
    shape of the output of that convolution, and the result the shape of its input.

    Parameters
    ----------
    input : tensor_like (batch, channels, sizes...)
    filters : tensor_like (channels, outputs / num_groups, filter sizes...)
    border_mode
        What is cut off at the ends; the convolution adds as many zeros there.
    subsample
        How far apart the places of filters in the result are.
    filter_dilation, filter_flip, num_groups
        See `conv1d`.
    output_size : int, integer scalar, or a tuple of them, optional
        The sizes of the result, from which the convolution would make the sizes of the input: with `subsample` there
        are several. By default the smallest.

    Returns
    -------
    Node (batch, outputs, sizes...)

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.conv_transpose([[[1.0, 2.0]]], [[[1.0, 10.0, 100.0]]], subsample=2), mode="reference")()
    array([[[100.,  10., 201.,  20.,   2.]]])
    >>> x, w = sj.tensor(("B", 4, "n")), sj.tensor((4, 3, 2))
    >>> sj.conv_transpose(x, w, subsample=2)
    <slice: float64(B, 3, 2*n)>
    """
    name = "conv_transpose"
    x, w = promoted((input, filters))
    ndim = x.ndim - 2
    if ndim < 1 or w.ndim != x.ndim:
        raise errors.ShapeError(f"{name} takes images, and filters with as many axes", got=f"{x.type} and {w.type}")
    (groups,) = numbers_per_axis(name, "num_groups", num_groups, 1)
    steps = numbers_per_axis(name, "subsample", subsample, ndim)
    dilations = numbers_per_axis(name, "filter_dilation", filter_dilation, ndim)
    batch, channels, *sizes = x.type.shape
    x = specify_shape(x, (batch, channels // groups * groups, *sizes), f"the input of {name} with num_groups={groups}")
    w = specify_shape(w, (channels, *w.type.shape[1:]), f"the tensor of filters of {name}")
    w = with_centre(name, w, dilations) if isinstance(border_mode, str) and border_mode == "same" else w
    reach = [extent(k, d) for k, d in zip(w.type.shape[2:], dilations, strict=True)]
    zeros = zeros_around(name, border_mode, reach)
    cut = [r - a - b for r, (a, b) in zip(reach, zeros, strict=True)]
    if output_size is None:
        wanted = tuple((n - 1) * s + c for n, s, c in zip(sizes, steps, cut, strict=True))
    else:
        wanted = dimensions(output_size)
        if len(wanted) != ndim:
            raise errors.ArgumentError(f"output_size of {name} is {ndim} sizes", got=repr(output_size))
        sizes = [(n - c) // s + 1 for n, s, c in zip(wanted, steps, cut, strict=True)]
        x = specify_shape(x, (batch, channels, *sizes), f"the input of {name} for this output_size")
    ends = [(a, a + n) for n, (a, _) in zip(wanted, zeros, strict=True)]
    whole = [types.maximum((n - 1) * s + r, b) for n, s, r, (_, b) in zip(sizes, steps, reach, ends, strict=True)]
    for axis in range(2, ndim + 2) if filter_flip else ():
        w = flip(w, axis)
    y = spread(x, w, whole, steps, dilations, groups)
    return y[(slice(None), slice(None), *(slice(a, b) for a, b in ends))]


def spread(
    x: Node, w: Node, whole: Sequence[Dimension], steps: tuple[int, ...], dilations: tuple[int, ...], groups: int
) -> Node:
    """Each entry of the input times the filters, added up at the places of the result that the filters cover."""
    ndim, (batch, channels, *counts) = len(whole), x.type.shape
    n, group, inside, out, *rest = range(4 + 2 * ndim)
    places, offsets = rest[:ndim], rest[ndim:]
    outputs = w.type.shape[1]
    x = RESHAPE(x, shape=(batch, groups, channels // groups, *counts))
    w = RESHAPE(w, shape=(groups, channels // groups, *w.type.shape[1:]))
    terms = contract(
        x, w, (n, group, inside, *places), (group, inside, out, *offsets), (n, group, out, *places, *offsets)
    )
    shape = (batch, groups, outputs, *whole)
    y = overlap_add(terms, shape, tuple(range(3, 3 + ndim)), steps, dilations)
    return RESHAPE(y, shape=(batch, groups * outputs, *whole))

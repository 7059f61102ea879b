"""Convolutions over one to three axes: a `contract` of filters with the windows of the input."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from scanjit import errors, types
from scanjit.ir import Node
from scanjit.ops.contraction import contract
from scanjit.ops.shape import RESHAPE, flip
from scanjit.ops.windows import WINDOWS, extent
from scanjit.tensor.joining import pad
from scanjit.tensor.shapes import specify_shape
from scanjit.tensor.variables import promoted
from scanjit.types import Dimension

__all__ = ["conv1d", "conv2d", "conv3d"]


def conv1d(
    input: Any,
    filters: Any,
    border_mode: Any = "valid",
    subsample: Any = 1,
    filter_dilation: Any = 1,
    filter_flip: bool = True,
    num_groups: int = 1,
) -> Node:
    """The convolution of a batch of sequences with filters.

    Parameters
    ----------
    input : tensor_like (batch, channels, length)
    filters : tensor_like (outputs, channels / num_groups, width)
    border_mode : "valid", "full", "half", "same", int or (before, after)
        How many zeros are put around the input: none, so that filters lie inside; one less than a filter reaches
        over, so that each touches it; half of that reach, rounded down; the same, for filters that reach over an odd
        number of entries, so that the length stays; or that many, on both sides or on each.
    subsample : int
        How far apart the places of filters are.
    filter_dilation : int
        How far apart the entries of filters are.
    filter_flip : bool
        True for a convolution, where filters are read from their end; False for a correlation.
    num_groups : int
        Channels and outputs are split into this many groups; each group of outputs sees its group of channels only.

    Returns
    -------
    Node (batch, outputs, length + zeros - reach, divided by `subsample`, + 1)
        `y[b, o, i] = sum_ck input[b, c, i * subsample + k * filter_dilation] * filters[o, c, -1 - k]`.

    Raises
    ------
    ShapeError
        If the filters do not fit into the input with its zeros, or channels do not agree; when the function is called,
        if only then sizes are known.

    Examples
    --------
    >>> import scanjit as sj
    >>> x, w = sj.tensor(("B", 3, 10)), sj.tensor((4, 3, 5))
    >>> sj.conv1d(x, w), sj.conv1d(x, w, "half", subsample=2)
    (<contract: float64(B, 4, 6)>, <contract: float64(B, 4, 5)>)
    >>> sj.function([], sj.conv1d([[[1.0, 2.0, 3.0]]], [[[1.0, 10.0]]], "full"), mode="reference")()
    array([[[ 1., 12., 23., 30.]]])
    """
    return _convolution("conv1d", 1, input, filters, border_mode, subsample, filter_dilation, filter_flip, num_groups)


def conv2d(
    input: Any,
    filters: Any,
    border_mode: Any = "valid",
    subsample: Any = (1, 1),
    filter_dilation: Any = (1, 1),
    filter_flip: bool = True,
    num_groups: int = 1,
) -> Node:
    """The convolution of a batch of images with filters.

    Parameters
    ----------
    input : tensor_like (batch, channels, rows, columns)
    filters : tensor_like (outputs, channels / num_groups, filter rows, filter columns)
    border_mode : "valid", "full", "half", "same", int, or a pair of ints or of pairs (before, after)
        See `conv1d`; of a pair, the first is for the rows and the second for the columns.
    subsample, filter_dilation : int or (int, int)
        See `conv1d`; for both axes, or for rows and columns.
    filter_flip, num_groups
        See `conv1d`.

    Returns
    -------
    Node (batch, outputs, rows, columns)

    Examples
    --------
    >>> import scanjit as sj
    >>> x, w = sj.tensor(("B", 3, 10, "n")), sj.tensor((4, 3, 5, 3))
    >>> sj.conv2d(x, w), sj.conv2d(x, w, "same"), sj.conv2d(x, w, (2, 0), subsample=(2, 1))
    (<contract: float64(B, 4, 6, n - 2)>, <contract: float64(B, 4, 10, n)>, <contract: float64(B, 4, 5, n - 2)>)
    """
    return _convolution("conv2d", 2, input, filters, border_mode, subsample, filter_dilation, filter_flip, num_groups)


def conv3d(
    input: Any,
    filters: Any,
    border_mode: Any = "valid",
    subsample: Any = (1, 1, 1),
    filter_dilation: Any = (1, 1, 1),
    filter_flip: bool = True,
    num_groups: int = 1,
) -> Node:
    """The convolution of a batch of volumes with filters.

    Parameters
    ----------
    input : tensor_like (batch, channels, depth, rows, columns)
    filters : tensor_like (outputs, channels / num_groups, filter depth, filter rows, filter columns)
    border_mode, subsample, filter_dilation
        See `conv2d`, for three axes.
    filter_flip, num_groups
        See `conv1d`.

    Returns
    -------
    Node (batch, outputs, depth, rows, columns)

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.conv3d(sj.tensor(("B", 3, 8, 10, "n")), sj.tensor((4, 3, 3, 5, 3)), (1, 0, 1))
    <contract: float64(B, 4, 8, 6, n)>
    """
    return _convolution("conv3d", 3, input, filters, border_mode, subsample, filter_dilation, filter_flip, num_groups)


def _convolution(
    name: str, ndim: int, input: Any, filters: Any, border: Any, step: Any, dilation: Any, flipped: bool, groups: Any
) -> Node:
    x, w = promoted((input, filters))
    for node, what in ((x, "input"), (w, "filters")):
        if node.ndim != ndim + 2:
            raise errors.ShapeError(f"the {what} of {name} must have {ndim + 2} axes", got=node.type)
    steps = numbers_per_axis(name, "subsample", step, ndim)
    dilations = numbers_per_axis(name, "filter_dilation", dilation, ndim)
    (groups,) = numbers_per_axis(name, "num_groups", groups, 1)
    x, w = _agreeing(name, x, w, groups)
    if border == "same":
        w = with_centre(name, w, dilations)
    zeros = zeros_around(name, border, [extent(k, d) for k, d in zip(w.type.shape[2:], dilations, strict=True)])
    if any(isinstance(n, types.Dim) or n != 0 for pair in zeros for n in pair):
        x = pad(x, ((0, 0), (0, 0), *zeros))
    for axis in range(2, ndim + 2) if flipped else ():
        w = flip(w, axis)
    if groups > 1:
        x, w = _grouped(x, 1, groups), _grouped(w, 0, groups)
    return _product(x, w, steps, dilations)


def with_centre(name: str, w: Node, dilations: tuple[int, ...]) -> Node:
    """Check that filters reach over odd numbers of entries."""
    sizes = [k if d % 2 == 0 else k // 2 * 2 + 1 for k, d in zip(w.type.shape[2:], dilations, strict=True)]
    return specify_shape(w, (*w.type.shape[:2], *sizes), f'the tensor of filters of {name} with border_mode="same"')


def _agreeing(name: str, x: Node, w: Node, groups: int) -> tuple[Node, Node]:
    """Check input and filters: `groups` must divide the channels and the outputs, and filters must have the channels of
    one group."""
    split = f" with num_groups={groups}" if groups > 1 else ""
    of_x, of_w = f"the input of {name}{split}", f"the tensor of filters of {name}{split}"
    batch, channels, *sizes = x.type.shape
    x = specify_shape(x, (batch, channels // groups * groups, *sizes), of_x)
    outputs, inside, *sizes = w.type.shape
    w = specify_shape(w, (outputs // groups * groups, inside, *sizes), of_w)
    if isinstance(channels, int):
        return x, specify_shape(w, (w.type.shape[0], channels // groups, *sizes), of_w)
    return specify_shape(x, (batch, inside * groups, *x.type.shape[2:]), of_x), w


def _grouped(x: Node, axis: int, groups: int) -> Node:
    """A tensor with an axis split into groups."""
    shape = x.type.shape
    return RESHAPE(x, shape=(*shape[:axis], groups, shape[axis] // groups, *shape[axis + 1 :]))


def _product(x: Node, w: Node, steps: tuple[int, ...], dilations: tuple[int, ...]) -> Node:
    """The sum over channels and offsets."""
    ndim = len(steps)
    batch, group, channel, output, *rest = range(4 + 2 * ndim)
    lead = (group,) if x.ndim > ndim + 2 else ()
    places, offsets = rest[:ndim], rest[ndim:]
    axes = tuple(range(x.ndim - ndim, x.ndim))
    seen = WINDOWS(x, axes=axes, size=w.type.shape[-ndim:], step=steps, dilation=dilations)
    y = contract(
        seen,
        w,
        (batch, *lead, channel, *places, *offsets),
        (*lead, output, channel, *offsets),
        (batch, *lead, output, *places),
    )
    if not lead:
        return y
    n, groups, each, *sizes = y.type.shape
    return RESHAPE(y, shape=(n, groups * each, *sizes))


def numbers_per_axis(name: str, what: str, given: Any, count: int) -> tuple[int, ...]:
    """A positive int an axis."""
    found = tuple(given) if isinstance(given, tuple | list) else (given,) * count
    if len(found) != count or not all(_is_int(n) and n >= 1 for n in found):
        each = "a positive int" + ("" if count == 1 else f", or {count} of them")
        raise errors.ArgumentError(f"{what} of {name} is {each}", got=repr(given))
    return tuple(map(int, found))


def _is_int(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def zeros_around(name: str, border: Any, reach: Sequence[Dimension]) -> list[tuple[Dimension, Dimension]]:
    """The number of zeros before and after each axis, for filters that cover `reach` entries."""
    if isinstance(border, str):
        return [(n, n) for n in (_named_zeros(name, border, r) for r in reach)]
    return [*zeros_per_axis(name, "border_mode", border, len(reach), _NAMES)]


def zeros_per_axis(name: str, what: str, given: Any, count: int, else_: str = "") -> list[tuple[int, int]]:
    """The numbers of places before and after each axis: an int; or for each axis an int or a pair. `else_` names in
    errors the other values that are allowed."""
    each = list(given) if isinstance(given, tuple | list) else [given] * count
    if count == 1 and len(each) == 2 and all(map(_is_int, each)):
        each = [tuple(each)]
    pairs = [tuple(n) if isinstance(n, tuple | list) else (n, n) for n in each]
    if len(pairs) != count or not all(len(p) == 2 and all(_is_int(n) and n >= 0 for n in p) for p in pairs):
        raise errors.ArgumentError(
            f"{what} of {name} does not say how many places are added",
            got=repr(given),
            expected=f"{else_}ints >= 0: one, one an axis, or (before, after) an axis",
        )
    return [(int(before), int(after)) for before, after in pairs]


_NAMES = '"valid", "full", "half", "same"; or '


def _named_zeros(name: str, border: str, reach: Dimension) -> Dimension:
    zeros: dict[str, Dimension] = {"valid": 0, "full": reach - 1, "half": reach // 2, "same": (reach - 1) // 2}
    if border not in zeros:
        raise errors.ArgumentError(
            f"there is no border_mode {border!r} of {name}", expected=", ".join(map(repr, zeros))
        )
    if isinstance(found := zeros[border], int) and found < 0:
        raise errors.ShapeError(f"border_mode {border!r} of {name} needs filters that are not empty", got="width 0")
    return found

"""NumPy's functions for samples: differences, integrals, polynomials, convolutions, curves through points, counts."""

import math
from typing import Any

import numpy as np

from scanjit import errors, types
from scanjit.ir import COMPLEX, Node, dim_node, is_number
from scanjit.ops.elementwise import DIV, FLOOR, where
from scanjit.ops.expect import expect
from scanjit.ops.parts import is_complex
from scanjit.ops.promotion import cast
from scanjit.ops.shape import window
from scanjit.ops.stretch import constant_value
from scanjit.symbol import Axis, TensorLike
from scanjit.tensor.complex_numbers import imag, real
from scanjit.tensor.convolution import conv1d
from scanjit.tensor.creation import arange, zeros
from scanjit.tensor.cumulative import cumsum
from scanjit.tensor.elementwise import clip
from scanjit.tensor.joining import concatenate, flip
from scanjit.tensor.order import searchsorted
from scanjit.tensor.probes import assert_
from scanjit.tensor.questions import isfinite
from scanjit.tensor.reductions import max as max_, min as min_, sum as sum_
from scanjit.tensor.shapes import broadcast_to, expand_dims, moveaxis, ravel, specify_shape
from scanjit.tensor.variables import as_tensor, axes_as_given, axis_of, inexact, integer, promoted
from scanjit.types import Dimension

__all__ = ["convolve", "correlate", "diff", "ediff1d", "gradient", "histogram", "interp", "trapezoid", "unwrap"]


def diff(
    x: TensorLike, n: int = 1, axis: int = -1, prepend: TensorLike | None = None, append: TensorLike | None = None
) -> Node:
    """The differences of neighbours along an axis, `n` times.

    Parameters
    ----------
    x : tensor_like
    n, axis : int
    prepend, append : tensor_like, optional
        What is put before and after `x`; a scalar is one entry.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.diff([1, 2, 4, 8], prepend=0), mode="reference")()
    array([1, 1, 2, 4])
    """
    x = as_tensor(x)
    axis = axis_of(axis, x.ndim)
    n = integer(n, "the number of times that diff takes differences", least=0)
    if prepend is not None or append is not None:
        parts = [_entries(part, x, axis) for part in (prepend, x, append) if part is not None]
        x = concatenate(parts, axis)
    for _ in range(n):
        if x.dtype == bool:
            x = _neighbours(x, axis, 1) != _neighbours(x, axis, 0)
        else:
            x = _neighbours(x, axis, 1) - _neighbours(x, axis, 0)
    return x


def _entries(part: TensorLike, x: Node, axis: int) -> Node:
    """The entries to put beside `x`; a scalar is stretched along the other axes of `x`."""
    node = as_tensor(part)
    shape = (*x.type.shape[:axis], 1, *x.type.shape[axis + 1 :])
    return node if node.ndim else broadcast_to(node, shape)


def _neighbours(x: Node, axis: int, first: int) -> Node:
    """All entries but the last (`first` = 0), or all but the first (1)."""
    return x[(*[slice(None)] * axis, slice(first, None if first else -1))]


def ediff1d(x: TensorLike, to_end: TensorLike | None = None, to_begin: TensorLike | None = None) -> Node:
    """The differences of neighbours among all elements, in row-major order, with more put before and after them.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.ediff1d([1, 2, 4, 7], to_begin=0), mode="reference")()
    array([0, 1, 2, 3])
    """
    x = ravel(x)
    ends = [None if end is None else cast(ravel(end), x.dtype) for end in (to_begin, to_end)]
    return concatenate([part for part in (ends[0], diff(x), ends[1]) if part is not None])


def gradient(f: TensorLike, *spacing: Any, axis: Axis = None, edge_order: int = 1) -> Any:
    """The slopes of samples along axes: from the neighbours on both sides, at the ends from those on one side.

    (The derivative of a computation is `grad`.)

    Parameters
    ----------
    f : tensor_like
    *spacing : tensor_like, optional
        One number for all axes, or for each axis a number or the places of the samples (a vector). By default 1.
    axis : int, tuple of ints or None
        None for all.
    edge_order : {1, 2}
        How exact the ends are: 2 takes three samples there.

    Returns
    -------
    Node, or list of Node
        One for each axis.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.gradient([0.0, 1.0, 4.0, 9.0]), mode="reference")()
    array([1., 2., 4., 5.])
    """
    f = inexact(f)
    if f.ndim == 0:
        raise errors.ShapeError("gradient takes samples along an axis", got=f.type)
    axes = axes_as_given(axis, f.ndim)
    if edge_order not in (1, 2):
        raise errors.ArgumentError("edge_order is 1 or 2", got=repr(edge_order))
    if len(spacing) not in (0, 1, len(axes)) or (len(spacing) == 1 < len(axes) and as_tensor(spacing[0]).ndim):
        raise errors.ArgumentError("gradient takes a spacing for each axis", got=f"{len(spacing)} for {len(axes)} axes")
    steps = [as_tensor(h, f.dtype if is_number(h) else None) for h in spacing or (1.0,)]
    steps = steps if len(steps) == len(axes) else steps * len(axes)
    found = [moveaxis(_slopes(moveaxis(f, a, -1), h, edge_order), -1, a) for a, h in zip(axes, steps, strict=True)]
    found = [cast(slopes, f.dtype) for slopes in found]
    return found if len(found) != 1 else found[0]


def _slopes(f: Node, h: Node, edge_order: int) -> Node:
    """The slopes along the last axis, from the widths before and behind each sample."""
    if h.ndim > 1:
        raise errors.ShapeError("places of samples are a vector", got=h.type)
    if h.ndim:
        h = specify_shape(h, f.type.shape[-1:], "the places of samples, which gradient takes for each of them,")
    fewest = edge_order + 1
    enough = (fewest, f.type.shape[-1], f"gradient needs at least {fewest} samples along each axis")
    f = expect(f, enough, error="shape")
    widths = diff(h) if h.ndim else None
    rises = diff(f)
    if widths is None:
        middle = (f[..., 2:] - f[..., :-2]) / (2 * h)
    else:
        before, behind = widths[:-1], widths[1:]
        middle = (rises[..., 1:] * before / behind + rises[..., :-1] * behind / before) / (before + behind)

    def end(near: int, further: int) -> Node:
        """The slope at one end, from the rise there and the next one."""
        first, second = (h, h) if widths is None else (widths[near], widths[further])
        slope = rises[..., near] / first
        if edge_order == 2:
            slope = slope + (slope - rises[..., further] / second) * first / (first + second)
        return expand_dims(slope, -1)

    return concatenate([end(0, 1), middle, end(-1, -2)], -1)


def unwrap(p: TensorLike, discont: float | None = None, axis: int = -1, period: float = 2 * math.pi) -> Node:
    """Angles without jumps: whole periods are added where neighbours differ by more than half of one.

    Parameters
    ----------
    p : tensor_like
    discont : float, optional
        The difference that counts as a jump; at least, and by default, half of a period.
    axis : int
    period : float

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.unwrap([0, 1, 2, -1, 0], period=4), mode="reference")()
    array([0, 1, 2, 3, 4])
    """
    p = as_tensor(p)
    axis = axis_of(axis, p.ndim)
    if not isinstance(period, int):
        p = inexact(p)
    steps = diff(p, axis=axis)
    half = period // 2 if p.type.kind.integral else period / 2
    low = -half
    inside = (steps - low) % period + low
    if not p.type.kind.integral or period % 2 == 0:
        inside = where((inside == low) & (steps > 0), half, inside)
    more = where(abs(steps) < max(half, half if discont is None else discont), 0, inside - steps)
    start = p[(*[slice(None)] * axis, slice(0, 1))]
    return p + concatenate([start * 0, cumsum(more, axis)], axis)


def trapezoid(y: TensorLike, x: TensorLike | None = None, dx: TensorLike = 1.0, axis: int = -1) -> Node:
    """The integral of samples along an axis, by straight lines between them.

    Parameters
    ----------
    y : tensor_like
    x : tensor_like, optional
        Where the samples are: of the shape of `y`, or with one axis. By default they are `dx` apart.
    dx : tensor_like
    axis : int

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.trapezoid([0.0, 1.0, 4.0], x=[0.0, 1.0, 3.0]), mode="reference")()
    array(5.5)
    """
    y = as_tensor(y)
    axis = axis_of(axis, y.ndim)
    width = dx if is_number(dx) else as_tensor(dx)
    if x is not None:
        places = as_tensor(x)
        if places.ndim == 1 and y.ndim > 1:
            width = diff(places)[(..., *[None] * (y.ndim - 1 - axis))]
        else:
            width = diff(places, axis=axis)
    return sum_(width * (_neighbours(y, axis, 1) + _neighbours(y, axis, 0)) / 2.0, axis)


def convolve(a: TensorLike, v: TensorLike, mode: str = "full") -> Node:
    """The convolution of two vectors: wherever they touch ("full"), as many entries as the longer one has ("same"), or
    only where the shorter one lies inside ("valid"). See `numpy.convolve`.

    Notes
    -----
    Outside of `a` lie zeros, whose products with infinity or NaN in `v` are NaN. NumPy leaves these products out.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.convolve([1.0, 2.0, 3.0], [0.0, 1.0, 0.5]), mode="reference")()
    array([0. , 1. , 2.5, 4. , 1.5])
    """
    a, v = _two_vectors(a, v)
    _, short = _lengths(a, v)
    return _convolved(a, v, mode, (short - 1) // 2)


def correlate(a: TensorLike, v: TensorLike, mode: str = "valid") -> Node:
    """The correlation of two vectors: the convolution of `a` with `v` read backwards. See `numpy.correlate`.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.correlate([1.0, 2.0, 3.0], [0.0, 1.0, 0.5]), mode="reference")()
    array([3.5])
    """
    a, v = _two_vectors(a, v)
    long, short = _lengths(a, v)
    swapped = types.minimum(long - a.type.shape[0], 1)  # NumPy reads both backwards if `v` is the longer one
    return _convolved(a, flip(v), mode, (short - 1 + swapped) // 2)


def _two_vectors(a: TensorLike, v: TensorLike) -> tuple[Node, Node]:
    a, v = promoted([as_tensor(a), as_tensor(v)])
    if a.ndim != 1 or v.ndim != 1:
        raise errors.ShapeError("a convolution here is of two vectors", got=f"{a.type}, {v.type}", fix="sj.conv1d")
    return a, v


def _lengths(a: Node, v: Node) -> tuple[Dimension, Dimension]:
    """The larger and the smaller one."""
    n, m = a.type.shape[0], v.type.shape[0]
    return types.maximum(n, m), types.minimum(n, m)


def _convolved(a: Node, v: Node, mode: str, same: Dimension) -> Node:
    """The part of the convolution that a mode asks for. "same" begins at entry number `same`."""
    long, short = _lengths(a, v)
    parts = {"full": (0, long + short - 1), "same": (same, long), "valid": (short - 1, long - short + 1)}
    errors.check_known("mode of convolve", mode, parts)
    start, count = parts[mode]
    return window(conv1d(expand_dims(a, (0, 1)), expand_dims(v, (0, 1)), border_mode="full")[0, 0], 0, start, count)


def interp(
    x: TensorLike, xp: TensorLike, fp: TensorLike, left: TensorLike | None = None, right: TensorLike | None = None
) -> Node:
    """The curve of straight lines through points, at `x`.

    Parameters
    ----------
    x : tensor_like
    xp, fp : tensor_like
        The points; `xp` increases.
    left, right : tensor_like, optional
        The values before the first point and beyond the last one; by default the values there.

    Notes
    -----
    The result is of the dtype of all that is given; NumPy's is always float64. `fp` may be complex.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.interp([0.5, 2.0, 9.0], [0.0, 1.0, 3.0], [10.0, 20.0, 40.0]), mode="reference")()
    array([15., 30., 40.])
    """
    if is_complex(fp := as_tensor(fp)):
        ends = [[None if end is None else part(end) for part in (real, imag)] for end in (left, right)]
        return COMPLEX(*(interp(x, xp, *of_part) for of_part in zip(fp.args, *ends, strict=True)))
    x, xp, fp = DIV.prepare((x, xp, fp))
    if xp.ndim != 1 or fp.ndim != 1:
        raise errors.ShapeError("a curve goes through points of two vectors", got=f"xp: {xp.type}, fp: {fp.type}")
    fp = specify_shape(fp, xp.type.shape, "the vector fp of interp, which has a value for each of xp,")
    count = fp.type.shape[0]
    some = (1, count, "interp needs at least one point: xp and fp are empty")
    xp, fp = expect(xp, some, error="shape"), expect(fp, some, error="shape")
    before = clip(searchsorted(xp, x, "right") - 1, 0, dim_node(types.maximum(count - 2, 0)))
    after = clip(before + 1, None, dim_node(count - 1))
    x0, x1, f0, f1 = xp[before], xp[after], fp[before], fp[after]
    wide = x1 != x0
    inside = where(wide, f0 + (f1 - f0) * ((x - x0) / where(wide, x1 - x0, 1)), f0)
    undefined = inside != inside  # beside a point where the curve is infinite
    exact = where(undefined & (x == x0), f0, where(undefined & (x == x1), f1, inside))
    found = where(
        x < xp[0], fp[0] if left is None else left, where(x > xp[-1], fp[-1] if right is None else right, exact)
    )
    return where(x == x, found, x)


def histogram(
    a: TensorLike,
    bins: int | TensorLike = 10,
    range: tuple[TensorLike, TensorLike] | None = None,
    density: bool = False,
    weights: TensorLike | None = None,
) -> tuple[Node, Node]:
    """How many elements lie in each bin, and the edges of the bins. See `numpy.histogram`.

    Parameters
    ----------
    a : tensor_like
    bins : int or tensor_like
        How many bins of one width there are, or their edges, which increase.
    range : pair of tensor_like, optional
        Where the first bin begins and the last one ends, by default at the extremes of `a`. What is outside is not
        counted.
    density : bool
        Whether the counts are divided by their sum and the width of their bin.
    weights : tensor_like, optional
        What an element counts, in the shape of `a`. The counts have a gradient by it.

    Examples
    --------
    >>> import scanjit as sj
    >>> counts, edges = sj.histogram([0.0, 0.5, 0.6, 2.0], bins=2)
    >>> sj.function([], [counts, edges], mode="reference")()
    [array([3, 1]), array([0., 1., 2.])]
    """
    a = as_tensor(a)
    if weights is not None:
        weights = specify_shape(weights, a.type.shape, "the array of weights of a histogram")
    a = ravel(a)
    a = a if a.type.kind.floating else cast(a, "float64")
    edges = _edges(a, bins, range) if isinstance(bins, int | np.integer) else cast(_rising(bins), a.dtype)
    inside = (a >= edges[0]) & (a <= edges[-1])
    count = edges.type.shape[0] - 1
    if isinstance(bins, int | np.integer):
        width = (edges[-1] - edges[0]) / dim_node(count)
        place = clip(cast(FLOOR(where(inside, (a - edges[0]) / width, 0)), "int64"), 0, dim_node(count - 1))
        place = place - (a < edges[place])  # rounding may have moved it to a neighbour
        place = place + (a >= edges[place + 1])
    else:
        place = searchsorted(edges, a, "right") - 1
    place = clip(place, 0, dim_node(count - 1))  # the last edge belongs to the last bin
    share = cast(inside, "int64") if weights is None else where(inside, ravel(weights), 0)
    counts = zeros(dim_node(count), share.dtype)[place].inc(share)
    return counts / sum_(counts) / diff(edges) if density else counts, edges


def _rising(bins: TensorLike) -> Node:
    """The given edges of bins, none of which may be above the next one."""
    edges, message = as_tensor(bins), "the edges of the bins of a histogram must rise"
    if edges.ndim != 1:
        raise errors.ShapeError("the edges of bins are a vector", got=edges.type)
    edges = expect(edges, (2, edges.type.shape[0], "a bin has two edges, but there are {right}"), error="shape")
    known = constant_value(edges)
    if known is None:
        return assert_(~(edges[:-1] > edges[1:]).any(), edges, message)
    if (known[:-1] > known[1:]).any():
        raise errors.ArgumentError(message, got=known)
    return edges


def _edges(a: Node, bins: Any, span: tuple[TensorLike, TensorLike] | None) -> Node:
    """The edges of bins of one width; half a unit to both sides of a single value, as in NumPy."""
    bins = integer(bins, "the number of bins", least=1)
    low, high = promoted([inexact(v) for v in ((min_(a), max_(a)) if span is None else span)])
    message = "the range of a histogram is finite and goes up"
    first, last = constant_value(low), constant_value(high)
    if first is None or last is None:
        low = assert_((low <= high) & isfinite(low) & isfinite(high), low, message)
    elif not (np.isfinite([first, last]).all() and first <= last):
        raise errors.ArgumentError(message, got=span)
    flat = low == high
    low, high = where(flat, low - 0.5, low), where(flat, high + 0.5, high)
    places = cast(arange(bins + 1), low.dtype)
    return cast(where(places == bins, high, low + places * ((high - low) / bins)), a.dtype)

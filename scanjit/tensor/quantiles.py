"""Medians and quantiles: entries of sorted tensors."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from scanjit import errors, types
from scanjit.ir import Node, dim_node, is_number
from scanjit.ops.elementwise import where
from scanjit.ops.expect import expect
from scanjit.ops.promotion import cast
from scanjit.ops.sorting import RANKED
from scanjit.ops.stretch import constant_value, expand
from scanjit.signatures import DType
from scanjit.symbol import Axis, TensorLike
from scanjit.tensor.elementwise import ceil, clip, floor, maximum, rint
from scanjit.tensor.joining import stack
from scanjit.tensor.order import sort
from scanjit.tensor.places import take_along_axis
from scanjit.tensor.probes import assert_
from scanjit.tensor.reductions import any as any_of, count_nonzero
from scanjit.tensor.shapes import moveaxis, ravel, reshape
from scanjit.tensor.variables import as_tensor, axes_of
from scanjit.types import Dimension

__all__ = ["median", "nanmedian", "nanpercentile", "nanquantile", "percentile", "quantile"]

CONTINUOUS = {
    "linear": (1.0, 1.0),
    "hazen": (0.5, 0.5),
    "weibull": (0.0, 0.0),
    "median_unbiased": (1 / 3, 1 / 3),
    "normal_unbiased": (3 / 8, 3 / 8),
    "interpolated_inverted_cdf": (0.0, 1.0),
}
"""NumPy's methods that interpolate, each with its alpha and beta (as Hyndman and Fan call them)."""
STEPS = ("lower", "higher", "nearest", "midpoint")
"""The methods that take entries near the place of the method "linear"."""


def median(x: TensorLike, axis: Axis = None, keepdims: bool = False) -> Node:
    """The median over axes: the middle element, or the mean of the two in the middle; NaN if there is one.

    Parameters
    ----------
    x : tensor_like
    axis : int, tuple of ints or None
        The axes to look along; None for all.
    keepdims : bool
        Whether the axes stay, with size 1.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.median([[1.0, 5.0, 2.0], [4.0, 3.0, 9.0]], axis=1), mode="reference")()
    array([2., 4.])
    """
    axes, rows, n = _rows(as_tensor(x), None, axis, "median")
    found = RANKED(rows, stack([dim_node((n - 1) // 2), dim_node(n // 2)]))
    found = _or_nan(_middle(found[..., 0], found[..., 1]), rows)
    return expand(found, axes) if keepdims else found


def quantile(x: TensorLike, q: TensorLike, axis: Axis = None, method: str = "linear", keepdims: bool = False) -> Node:
    """The value below which a share `q` of the elements lies, over axes; NaN if there is one.

    Parameters
    ----------
    x : tensor_like
    q : tensor_like
        Shares from 0 to 1. Their axes are the first ones of the result.
    axis : int, tuple of ints or None
        The axes to look along; None for all.
    method : str
        As for `numpy.quantile`: "linear" and the others that interpolate, "lower", "higher", "nearest", "midpoint".
    keepdims : bool
        Whether the axes stay, with size 1.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.quantile([4.0, 1.0, 3.0], [0.0, 0.25, 1.0]), mode="reference")()
    array([1., 2., 4.])
    """
    shares, dtype, method = _shares(x, q, method)
    axes, rows, n = _rows(as_tensor(x), dtype, axis, "quantile")
    count = dim_node(n)
    place = _place(shares, count, method)
    found = _between(place, count, method, dtype, lambda first, second: _ranked(rows, first, second))
    return _placed(_or_nan(found, rows, shares.ndim), rows.ndim - 1, shares.ndim, axes, keepdims)


def percentile(x: TensorLike, q: TensorLike, axis: Axis = None, method: str = "linear", keepdims: bool = False) -> Node:
    """The `quantile` for shares in percent.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.percentile([4.0, 1.0, 3.0], 50), mode="reference")()
    array(3.)
    """
    return quantile(x, q / 100 if is_number(q) else as_tensor(q) / 100, axis, method, keepdims)


def nanmedian(x: TensorLike, axis: Axis = None, keepdims: bool = False) -> Node:
    """The median of the elements that are not NaN; NaN if all are. Arguments as for `median`.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.nanmedian([1.0, float("nan"), 5.0, 2.0]), mode="reference")()
    array(2.)
    """
    return _middle(*(nanquantile(x, 0.5, axis, method, keepdims) for method in ("lower", "higher")))


def nanquantile(
    x: TensorLike, q: TensorLike, axis: Axis = None, method: str = "linear", keepdims: bool = False
) -> Node:
    """The `quantile` of the elements that are not NaN; NaN if all are.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.nanquantile([4.0, float("nan"), 1.0, 3.0], [0.0, 0.25]), mode="reference")()
    array([1., 2.])
    """
    shares, dtype, method = _shares(x, q, method)
    axes, rows, _ = _rows(as_tensor(x), dtype, axis, "nanquantile")
    ordered = sort(rows)  # NaN comes last
    count = count_nonzero(rows == rows, -1)
    count = reshape(count, (*count.shape, *(1,) * shares.ndim))
    place = _place(shares, count, method)

    def entries(first: Node, second: Node) -> tuple[Node, Node]:
        pair = stack([first, second], axis=-1)
        places = reshape(cast(pair, "int64"), (*rows.shape[:-1], -1))
        found = reshape(take_along_axis(ordered, places, -1), pair.shape)
        return found[..., 0], found[..., 1]

    found = _between(place, count, method, dtype, entries)
    return _placed(found, rows.ndim - 1, shares.ndim, axes, keepdims)


def nanpercentile(
    x: TensorLike, q: TensorLike, axis: Axis = None, method: str = "linear", keepdims: bool = False
) -> Node:
    """The `nanquantile` for shares in percent.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.nanpercentile([4.0, float("nan"), 3.0], 50), mode="reference")()
    array(3.5)
    """
    return nanquantile(x, q / 100 if is_number(q) else as_tensor(q) / 100, axis, method, keepdims)


def _shares(x: TensorLike, q: TensorLike, method: str) -> tuple[Node, np.dtype[Any], str]:
    """The shares in float64, from 0 to 1, the dtype of the result, and the method. As in NumPy, the integers 0 and 1
    are the places of the smallest and the largest entry, whatever lies beside them."""
    node, q = as_tensor(x), q if is_number(q) else as_tensor(q)
    dtype = node.dtype if node.type.kind.floating else np.dtype("float64")
    if isinstance(q, Node):
        dtype = types.promote([dtype, q.dtype])
    given = as_tensor(q)
    if method == "linear" and given.type.kind.integral:
        method = "lower"
    shares = cast(given, "float64")
    known = constant_value(shares)
    message = "the shares of quantiles are from 0 to 1, those of percentiles from 0 to 100"
    if known is not None and not ((known >= 0) & (known <= 1)).all():
        raise errors.ArgumentError(message, got=f"{known}, which is {100 * known} percent")
    if known is None:
        shares = assert_(((shares >= 0) & (shares <= 1)).all(), shares, message)
    return shares, dtype, method


def _rows(x: Node, dtype: DType | None, axis: Axis, name: str) -> tuple[tuple[int, ...], Node, Dimension]:
    """The axes to look along, the elements along one last axis in place of them, and how many they are."""
    if x.type.kind.is_complex:
        raise errors.DtypeError("complex numbers have no order", got=x.type)
    x = cast(x, dtype or (x.dtype if x.type.kind.floating else "float64"))
    axes = axes_of(axis, x.ndim)
    kept = [a for a in range(x.ndim) if a not in axes]
    n = types.product(x.type.shape[a] for a in axes)
    if isinstance(n, int) and n == 0:
        raise errors.ShapeError(f"{name} of no elements", got=x.type, expected="at least one")
    x = expect(x, (1, n, f"{name} of no elements: at least one is needed"), error="shape")
    rows = reshape(x.transpose((*kept, *axes)) if x.ndim else x, (*(x.shape[a] for a in kept), dim_node(n)))
    return axes, rows, n


def _ranked(rows: Node, first: Node, second: Node) -> tuple[Node, Node]:
    """The entries of sorted rows at two tensors of places, which are the last axes of the results."""
    ranks = ravel(cast(stack([first, second], axis=-1), "int64"))
    found = reshape(RANKED(rows, ranks), (*rows.shape[:-1], *first.shape, 2))
    return found[..., 0], found[..., 1]


def _between(
    place: Node, n: Node, method: str, dtype: np.dtype[Any], entries: Callable[[Node, Node], tuple[Node, Node]]
) -> Node:
    """The quantile by a method, from the entries of sorted rows of `n` elements near a place. As in NumPy, what lies
    between infinite entries is NaN, and so is the place of an entry itself if it or the next one is infinite."""
    last = maximum(n - 1, 0)
    if method in ("lower", "higher", "nearest"):
        only = {"lower": floor, "higher": ceil, "nearest": rint}[method](clip(place, 0, last))
        return entries(only, only)[0]
    if method == "midpoint":
        place = (floor(place) + ceil(place)) * 0.5
    first = floor(place)
    below, above = entries(clip(first, 0, last), clip(first + 1, 0, last))
    weight, gap = cast(place - first, dtype), above - below
    return where(weight < 0.5, below + gap * weight, above - gap * (1 - weight))


def _placed(found: Node, rows: int, shares: int, axes: Sequence[int], keepdims: bool) -> Node:
    """The axes of the shares in front of those of the rows."""
    found = moveaxis(found, tuple(range(rows, rows + shares)), tuple(range(shares)))
    return expand(found, [a + shares for a in axes]) if keepdims else found


def _place(shares: Node, n: Node, method: str) -> Node:
    """Where quantiles lie between the entries of a sorted vector."""
    if method not in CONTINUOUS and method not in STEPS:
        raise errors.NotSupportedError(
            "method of quantiles is unknown", got=repr(method), expected=", ".join([*CONTINUOUS, *STEPS])
        )
    if method in ("linear", *STEPS):
        return (n - 1) * shares
    alpha, beta = CONTINUOUS[method]
    return n * shares + (alpha + shares * (1 - alpha - beta)) - 1


def _middle(below: Node, above: Node) -> Node:
    """The mean of two numbers; their own value if they are equal, infinities too."""
    return where(below == above, below, (below + above) * 0.5)


def _or_nan(found: Node, rows: Node, more: int = 0) -> Node:
    """NaN for the rows that have one. `found` has `more` axes behind those of the rows."""
    bad = any_of(rows != rows, axis=-1)
    return where(reshape(bad, (*bad.shape, *(1,) * more)), np.nan, found)

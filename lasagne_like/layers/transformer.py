"""Spatial transformers: pictures that are read at places which another network computes."""

import math
from abc import ABC, abstractmethod
from typing import Any

import numpy as np

import scanjit as sj
from lasagne_like.checks import check_choice
from lasagne_like.layers.base import Incoming, MergeLayer
from lasagne_like.utils import Shape, as_tuple

__all__ = ["TPSTransformerLayer", "TransformerLayer"]


class _Transformer(MergeLayer, ABC):
    """The base of the transformers. A place in a picture is a pair of coordinates from -1 to 1."""

    def __init__(
        self,
        incoming: Incoming,
        localization_network: Incoming,
        numbers: int,
        downsample_factor: Any,
        border_mode: str,
        name: str | None,
    ) -> None:
        super().__init__([incoming, localization_network], name)
        self.downsample_factor = as_tuple(downsample_factor, 2, (int, float), f"downsample_factor of {self}")
        if not all(0 < factor < np.inf for factor in self.downsample_factor):
            raise ValueError(
                f"downsample_factor of {self} must be greater than 0 and finite, got {downsample_factor!r}"
            )
        check_choice(border_mode, f"border_mode of {self}", ("nearest", "mirror", "wrap"))
        self.border_mode = border_mode
        pictures, places = self.input_shapes
        if len(pictures) != 4:
            raise ValueError(f"{self} takes an input of shape (batch, channels, rows, columns), got {pictures}")
        if len(places) != 2 or places[1] != numbers:
            raise ValueError(
                f"localization_network of {self} must have the output shape (batch, {numbers}), got {places}"
            )

    def get_output_shape_for(self, input_shapes: Any) -> Shape:
        shape = input_shapes[0]
        axes = zip(shape[2:], self.downsample_factor, strict=True)
        return (*shape[:2], *(None if n is None else _fewer(n, factor) for n, factor in axes))

    @abstractmethod
    def _sources(self, numbers: sj.Node, rows: sj.Node, columns: sj.Node) -> tuple[sj.Node, sj.Node]:
        """The place at which each value of the output is read: its row and its column, each of shape (batch, rows,
        columns)."""

    def get_output_for(self, inputs: Any, **kwargs: Any) -> sj.Node:
        pictures, numbers = inputs
        sizes = [_fewer(n, factor) for n, factor in zip(pictures.shape[2:], self.downsample_factor, strict=True)]
        rows, columns = (_from_minus_one_to_one(n, numbers.dtype) for n in sizes)
        return _interpolated(pictures, *self._sources(numbers, rows, columns), self.border_mode)


def _fewer(size: Any, factor: Any) -> Any:
    """`size / factor`, rounded down."""
    if isinstance(size, int):
        return math.floor(size / factor)
    if float(factor).is_integer():
        return size // int(factor)
    return sj.cast(sj.floor(sj.cast(size, "float64") / factor), "int64")


def _from_minus_one_to_one(count: Any, dtype: Any) -> sj.Node:
    """`count` numbers from -1 to 1, at equal distances. A single number is -1."""
    steps = sj.maximum(sj.cast(sj.as_tensor(count), dtype) - 1, 1)
    return sj.cast(sj.arange(count), dtype) * 2 / steps - 1


def _interpolated(pictures: Any, rows: sj.Node, columns: sj.Node, border_mode: str) -> sj.Node:
    """The values of pictures at some places: weighted means of the four nearest values."""
    batch, channels, height, width = pictures.shape
    parts = []
    for places, size in ((rows, height), (columns, width)):
        last = sj.as_tensor(size) - 1
        at = (places + 1) / 2 * sj.cast(last, places.dtype)
        below = sj.floor(at)
        share = at - below
        first = sj.cast(below, "int64")
        parts.append([(_inside(first, last, border_mode), 1 - share), (_inside(first + 1, last, border_mode), share)])
    flat = sj.reshape(pictures, (batch, channels, height * width))
    total: Any = 0
    for row, row_share in parts[0]:
        for column, column_share in parts[1]:
            index = sj.reshape(row * width + column, (batch, 1, -1))
            index = sj.broadcast_to(index, (batch, channels, index.shape[2]))
            values = sj.reshape(sj.take_along_axis(flat, index, axis=2), (batch, channels, *rows.shape[1:]))
            total = total + values * sj.expand_dims(row_share * column_share, 1)
    return total


def _inside(index: sj.Node, last: sj.Node, border_mode: str) -> sj.Node:
    """An index from 0 to `last` for an index that may be beyond the border."""
    if border_mode == "nearest":
        return sj.clip(index, 0, last)
    if border_mode == "wrap":
        return index % (last + 1)
    period = sj.maximum(2 * last, 1)
    index = index % period
    return sj.minimum(index, period - index)


class TransformerLayer(_Transformer):
    """A spatial transformer: moves, turns, stretches and skews pictures by an affine map that another network computes.

    Parameters
    ----------
    incoming : Layer or tuple
        Its output has shape (batch, channels, rows, columns).
    localization_network : Layer or tuple
        Its output has shape (batch, 6): the numbers a, b, c, d, e, f. The value of the output at column x and row y,
        both from -1 to 1, is read at column `a * x + b * y + c` and row `d * x + e * y + f` of the input.
    downsample_factor : float, or a tuple of two
        The number of rows (columns) of the input divided by that of the output.
    border_mode : "nearest", "mirror" or "wrap"
        The values beyond the border: the value at the border, the mirror image of the picture, or the picture again.
    name : str, optional

    References
    ----------
    Jaderberg et al., "Spatial transformer networks", NIPS 2015.

    Examples
    --------
    A network that changes nothing before it is trained:

    >>> import numpy as np
    >>> import lasagne_like as lasagne
    >>> from lasagne_like.layers import DenseLayer, InputLayer, TransformerLayer
    >>> l_in = InputLayer((None, 3, 28, 28))
    >>> b = np.array([1.0, 0, 0, 0, 1, 0])
    >>> l_loc = DenseLayer(l_in, 6, W=lasagne.init.Constant(0.0), b=b, nonlinearity=None)
    >>> TransformerLayer(l_in, l_loc, downsample_factor=2).output_shape
    (None, 3, 14, 14)
    """

    def __init__(
        self,
        incoming: Incoming,
        localization_network: Incoming,
        downsample_factor: Any = 1,
        border_mode: str = "nearest",
        *,
        name: str | None = None,
    ) -> None:
        super().__init__(incoming, localization_network, 6, downsample_factor, border_mode, name)

    def _sources(self, numbers: sj.Node, rows: sj.Node, columns: sj.Node) -> tuple[sj.Node, sj.Node]:
        a, b, c, d, e, f = (numbers[:, k].dimshuffle(0, "x", "x") for k in range(6))
        x, y = columns, rows.dimshuffle(0, "x")
        return d * x + e * y + f, a * x + b * y + c


class TPSTransformerLayer(_Transformer):
    """A spatial transformer with a thin plate spline: another network moves a grid of control points.

    Parameters
    ----------
    incoming : Layer or tuple
        Its output has shape (batch, channels, rows, columns).
    localization_network : Layer or tuple
        Its output has shape (batch, 2 * control_points): the distances by which control points are moved along columns,
        and then those along rows. The picture goes from -1 to 1 along both axes. Zeros change nothing.
    downsample_factor : float, or a tuple of two
        See `TransformerLayer`.
    control_points : int
        The number of control points, a square number of 4 or more. They are a grid over the picture.
    precompute_grid : "auto" or bool
        Whether the terms of the spline are computed once for all calls. Rows and columns must be fixed for this. "auto"
        computes them once if rows and columns are fixed.
    border_mode : "nearest", "mirror" or "wrap"
        See `TransformerLayer`.
    name : str, optional

    References
    ----------
    Bookstein, "Principal warps: thin-plate splines and the decomposition of deformations", 1989.

    Examples
    --------
    >>> from lasagne_like.layers import TPSTransformerLayer
    >>> TPSTransformerLayer((None, 3, 28, 28), (None, 18), control_points=9).output_shape
    (None, 3, 28, 28)
    """

    def __init__(
        self,
        incoming: Incoming,
        localization_network: Incoming,
        downsample_factor: Any = 1,
        control_points: int = 16,
        precompute_grid: Any = "auto",
        border_mode: str = "nearest",
        *,
        name: str | None = None,
    ) -> None:
        if control_points < 4 or math.isqrt(control_points) ** 2 != control_points:
            raise ValueError(
                f"control_points of TPSTransformerLayer must be a square number of 4 or more, got {control_points}"
            )
        super().__init__(incoming, localization_network, 2 * control_points, downsample_factor, border_mode, name)
        self.control_points = control_points
        known = None not in self.output_shape[2:]
        if not isinstance(precompute_grid, bool | str) or precompute_grid not in ("auto", True, False):
            raise ValueError(f"precompute_grid of {self} is 'auto', True or False, got {precompute_grid!r}")
        if precompute_grid is True and not known:
            raise ValueError(
                f"precompute_grid=True of {self} needs an input with fixed rows and columns, got {self.input_shapes[0]}"
            )
        self.precompute_grid = known if precompute_grid == "auto" else bool(precompute_grid)
        side = np.linspace(-1, 1, math.isqrt(control_points))
        self._points = np.stack([np.tile(side, len(side)), np.repeat(side, len(side))])

    def _sources(self, numbers: sj.Node, rows: sj.Node, columns: sj.Node) -> tuple[sj.Node, sj.Node]:
        count = self.control_points
        moved = sj.constant(self._points, dtype=numbers.dtype) + sj.reshape(numbers, (-1, 2, count))
        weights = moved @ sj.constant(_solution(self._points), dtype=numbers.dtype)
        if self.precompute_grid:
            height, width = self.output_shape[2:]
            y, x = (_grid_line(n) for n in (height, width))
            terms = sj.constant(np.stack(_terms(self._points, y[:, None], x, np)), dtype=numbers.dtype)
        else:
            terms = sj.stack(_terms(self._points, rows.dimshuffle(0, "x"), columns, sj))
        places = sj.tensordot(weights, terms, ([2], [0]))
        return places[:, 1], places[:, 0]


def _grid_line(count: Any) -> np.ndarray:
    return np.arange(count) * 2 / max(count - 1, 1) - 1


def _terms(points: np.ndarray, y: Any, x: Any, library: Any) -> list[Any]:
    """The terms of a spline at each place: 1, x, y, and `r**2 * log(r**2)` for each control point, where r is its
    distance."""
    terms = [x * 0 + y * 0 + 1, x + y * 0, x * 0 + y]
    for px, py in points.T:
        squared = (x - float(px)) ** 2 + (y - float(py)) ** 2
        terms.append(squared * library.log(library.where(squared > 0, squared, 1)))
    return terms


def _solution(points: np.ndarray) -> np.ndarray:
    """The matrix (points, terms) that maps the places to which points are moved to the weights of the spline's
    terms."""
    count = points.shape[1]
    system = np.zeros((count + 3, count + 3))
    values = np.stack(_terms(points, points[1], points[0], np))
    system[:, 3:] = values
    system[3:, :3] = values[:3].T
    return np.linalg.inv(system)[3:]

"""Pooling: one value for each window of places, or for each group of channels."""

from abc import ABC
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

import scanjit as sj
from lasagne_like.checks import check_choice, is_count
from lasagne_like.layers.base import Incoming, Layer, axis_of, check_axes, check_function
from lasagne_like.shown import NamedFunction
from lasagne_like.utils import Shape, as_tuple, int_types

__all__ = [
    "FeaturePoolLayer",
    "FeatureWTALayer",
    "GlobalPoolLayer",
    "MaxPool1DLayer",
    "MaxPool2DLayer",
    "MaxPool3DLayer",
    "Pool1DLayer",
    "Pool2DLayer",
    "Pool3DLayer",
    "SpatialPyramidPoolingLayer",
    "pool_output_length",
]


def pool_output_length(
    input_length: int | None, pool_size: int | None, stride: int, pad: int = 0, ignore_border: bool = True
) -> int | None:
    """The number of windows along one axis.

    Parameters
    ----------
    input_length, pool_size : int or None
    stride, pad : int
    ignore_border : bool
        See `Pool1DLayer`.

    Returns
    -------
    int or None
        None if `input_length` or `pool_size` is None.

    Examples
    --------
    >>> from lasagne_like.layers import pool_output_length
    >>> pool_output_length(7, 2, 2), pool_output_length(7, 2, 2, ignore_border=False), pool_output_length(None, 2, 2)
    (3, 4, None)
    """
    if input_length is None or pool_size is None:
        return None
    if ignore_border:
        return (input_length + 2 * pad - pool_size) // stride + 1
    if stride >= pool_size:
        return (input_length - 1) // stride + 1
    return max(0, (input_length - pool_size + stride - 1) // stride) + 1


class _Pool(Layer, ABC):
    """Pooling of windows over the last axes."""

    count: ClassVar[int]

    def __init__(
        self,
        incoming: Incoming,
        pool_size: Any,
        stride: Any = None,
        pad: Any = 0,
        ignore_border: bool = True,
        mode: str = "max",
        *,
        name: str | None = None,
    ) -> None:
        super().__init__(incoming, name=name)
        check_axes(self, self.count)
        self.pool_size = as_tuple(pool_size, self.count, int_types, f"pool_size of {self}")
        stride = pool_size if stride is None else stride
        self.stride = as_tuple(stride, self.count, int_types, f"stride of {self}")
        self.pad = as_tuple(pad, self.count, int_types, f"pad of {self}")
        self.ignore_border, self.mode = ignore_border, mode
        if min(*self.pool_size, *self.stride) < 1 or min(self.pad) < 0:
            raise ValueError(
                f"{self} needs windows and strides of 1 or more, and padding of 0 or more, got "
                f"pool_size={pool_size!r}, stride={stride!r}, pad={pad!r}"
            )
        if any(p >= k for p, k in zip(self.pad, self.pool_size, strict=True)):
            raise ValueError(f"{self} needs padding that is smaller than its windows, got {pad!r} for {pool_size!r}")
        if any(self.pad) and not ignore_border:
            raise ValueError(f"{self} pads only with ignore_border=True, got pad={pad!r}")
        check_choice(mode, f"mode of {self}", ("max", "sum", "average_inc_pad", "average_exc_pad"))
        self._check_input(self.output_shape, "output_shape")

    def get_output_shape_for(self, input_shape: Shape) -> Shape:
        axes = zip(input_shape[2:], self.pool_size, self.stride, self.pad, strict=True)
        return (*input_shape[:2], *(pool_output_length(*axis, self.ignore_border) for axis in axes))

    def get_output_for(self, input: Any, **kwargs: Any) -> sj.Node:
        return sj.pool(input, self.pool_size, self.stride, self.pad, self.ignore_border, self.mode)


class Pool1DLayer(_Pool):
    """The largest value, the sum or the mean of each window along the last axis.

    Parameters
    ----------
    incoming : Layer or tuple
        Its output has shape (batch, channels, length).
    pool_size : int, or a tuple of one
        The length of a window.
    stride : int, a tuple of one, or None
        The distance between the starts of neighbouring windows. None is `pool_size`: windows do not overlap.
    pad : int, or a tuple of one
        The number of places that are added on each side, less than `pool_size`.
    ignore_border : bool
        Whether places at the end that do not fill a window are left out. Otherwise they make a last, smaller window,
        and `pad` must be 0.
    mode : "max", "sum", "average_inc_pad" or "average_exc_pad"
        The value of a window. "average_inc_pad" counts the added places as zeros, and "average_exc_pad" leaves them
        out.
    name : str, optional

    Notes
    -----
    If several values of a window are the largest, the gradient is divided among them.

    Examples
    --------
    >>> from lasagne_like.layers import Pool1DLayer
    >>> Pool1DLayer((None, 8, 21), 5, stride=2, pad=2, mode="average_exc_pad").output_shape
    (None, 8, 11)
    """

    count = 1


class Pool2DLayer(_Pool):
    """The largest value, the sum or the mean of each window of the last two axes.

    Parameters
    ----------
    incoming : Layer or tuple
        Its output has shape (batch, channels, rows, columns).
    pool_size, stride, pad : int, or a tuple of two
        For both axes, or for rows and columns. See `Pool1DLayer`.
    ignore_border, mode : see `Pool1DLayer`
    name : str, optional

    Examples
    --------
    >>> from lasagne_like.layers import Pool2DLayer
    >>> Pool2DLayer((None, 8, 21, 30), (2, 3), ignore_border=False, mode="average_exc_pad").output_shape
    (None, 8, 11, 10)
    """

    count = 2


class Pool3DLayer(_Pool):
    """The largest value, the sum or the mean of each window of the last three axes.

    Parameters
    ----------
    incoming : Layer or tuple
        Its output has shape (batch, channels, depth, rows, columns).
    pool_size, stride, pad : int, or a tuple of three
        See `Pool1DLayer`.
    ignore_border, mode : see `Pool1DLayer`
    name : str, optional

    Examples
    --------
    >>> from lasagne_like.layers import Pool3DLayer
    >>> Pool3DLayer((None, 8, 4, 20, 20), (1, 2, 2), mode="average_exc_pad").output_shape
    (None, 8, 4, 10, 10)
    """

    count = 3


class _MaxPool(_Pool, ABC):
    """Pooling with the mode "max"."""

    def __init__(
        self,
        incoming: Incoming,
        pool_size: Any,
        stride: Any = None,
        pad: Any = 0,
        ignore_border: bool = True,
        *,
        name: str | None = None,
    ) -> None:
        super().__init__(incoming, pool_size, stride, pad, ignore_border, name=name)


class MaxPool1DLayer(_MaxPool, Pool1DLayer):
    """The largest value of each window along the last axis: `Pool1DLayer` with `mode="max"`.

    Parameters
    ----------
    incoming, pool_size, stride, pad, ignore_border, name : see `Pool1DLayer`

    Examples
    --------
    >>> from lasagne_like.layers import MaxPool1DLayer
    >>> MaxPool1DLayer((None, 8, 20), 2).output_shape
    (None, 8, 10)
    """


class MaxPool2DLayer(_MaxPool, Pool2DLayer):
    """The largest value of each window of the last two axes: `Pool2DLayer` with `mode="max"`.

    Parameters
    ----------
    incoming, pool_size, stride, pad, ignore_border, name : see `Pool2DLayer`

    Examples
    --------
    >>> import numpy as np
    >>> import scanjit as sj
    >>> from lasagne_like.layers import InputLayer, MaxPool2DLayer, get_output
    >>> layer = MaxPool2DLayer(InputLayer((None, 1, None, None)), 2)
    >>> sj.function([], get_output(layer, np.arange(8.0).reshape(1, 1, 2, 4)), mode="reference")()
    array([[[[5., 7.]]]])
    """


class MaxPool3DLayer(_MaxPool, Pool3DLayer):
    """The largest value of each window of the last three axes: `Pool3DLayer` with `mode="max"`.

    Parameters
    ----------
    incoming, pool_size, stride, pad, ignore_border, name : see `Pool3DLayer`

    Examples
    --------
    >>> from lasagne_like.layers import MaxPool3DLayer
    >>> MaxPool3DLayer((None, 8, 4, 20, 20), 2).output_shape
    (None, 8, 2, 10, 10)
    """


class _Groups(Layer, ABC):
    """Groups of neighbouring features along one axis."""

    def __init__(self, incoming: Incoming, pool_size: Any, axis: int = 1, *, name: str | None = None) -> None:
        super().__init__(incoming, name=name)
        self.pool_size, self.axis = pool_size, axis_of(self, axis, self.input_shape)
        size = self.input_shape[self.axis]
        if not isinstance(pool_size, int_types) or pool_size < 1 or (size is not None and size % pool_size):
            raise ValueError(
                f"pool_size of {self} must be a positive int that divides the size of axis {axis} of its input "
                f"{self.input_shape}, got {pool_size!r}"
            )

    def _grouped(self, input: Any) -> sj.Node:
        """The input with one axis for the groups and one, behind it, for the members of a group."""
        shape, axis = input.shape, self.axis
        return sj.reshape(input, (*shape[:axis], shape[axis] // self.pool_size, self.pool_size, *shape[axis + 1 :]))


class FeaturePoolLayer(_Groups):
    """The largest value of each group of neighbouring features: maxout.

    Parameters
    ----------
    incoming : Layer or tuple
    pool_size : int
        The number of features in a group. It divides the number of features.
    axis : int
        The axis of the features.
    pool_function : callable
        A function that reduces an axis: `pool_function(x, axis=1)`.
    name : str, optional

    Examples
    --------
    >>> from lasagne_like.layers import DenseLayer, FeaturePoolLayer
    >>> FeaturePoolLayer(DenseLayer((None, 5), 12), pool_size=3).output_shape
    (None, 4)
    """

    def __init__(
        self,
        incoming: Incoming,
        pool_size: int,
        axis: int = 1,
        pool_function: Callable[..., Any] = NamedFunction(sj.max),
        *,
        name: str | None = None,
    ) -> None:
        super().__init__(incoming, pool_size, axis, name=name)
        check_function(self, pool_function, "pool_function")
        self.pool_function = pool_function

    def get_output_shape_for(self, input_shape: Shape) -> Shape:
        size = input_shape[self.axis]
        pooled = None if size is None else size // self.pool_size
        return (*input_shape[: self.axis], pooled, *input_shape[self.axis + 1 :])

    def get_output_for(self, input: Any, **kwargs: Any) -> Any:
        return self.pool_function(self._grouped(input), axis=self.axis + 1)


class FeatureWTALayer(_Groups):
    """Sets all but the largest value of each group of neighbouring features to zero: the winner takes all.

    If several values are the largest, the first of them stays.

    Parameters
    ----------
    incoming : Layer or tuple
    pool_size : int
        The number of features in a group. It divides the number of features.
    axis : int
        The axis of the features.
    name : str, optional

    Examples
    --------
    >>> import scanjit as sj
    >>> from lasagne_like.layers import FeatureWTALayer, InputLayer, get_output
    >>> layer = FeatureWTALayer(InputLayer((None, 4)), pool_size=2)
    >>> sj.function([], get_output(layer, [[3.0, 1.0, 2.0, 2.0]]), mode="reference")()
    array([[3., 0., 2., 0.]])
    """

    def get_output_for(self, input: Any, **kwargs: Any) -> sj.Node:
        groups = self._grouped(input)
        axis = self.axis + 1
        first = sj.expand_dims(sj.argmax(groups, axis=axis), axis)
        members = sj.arange(self.pool_size).dimshuffle(0, *["x"] * (input.ndim - axis))
        return sj.reshape(sj.where(members == first, groups, 0), input.shape)


class GlobalPoolLayer(Layer):
    """One value for each channel: by default, the mean over all axes behind the second.

    Parameters
    ----------
    incoming : Layer or tuple
        Its output has shape (batch, channels, ...).
    pool_function : callable
        A function that reduces an axis: `pool_function(x, axis=1)`.
    name : str, optional

    Examples
    --------
    >>> from lasagne_like.layers import GlobalPoolLayer
    >>> GlobalPoolLayer((None, 16, None, 7)).output_shape
    (None, 16)
    """

    def __init__(
        self, incoming: Incoming, pool_function: Callable[..., Any] = NamedFunction(sj.mean), *, name: str | None = None
    ) -> None:
        super().__init__(incoming, name=name)
        if len(self.input_shape) < 3:
            raise ValueError(f"{self} takes an input of shape (batch, channels, ...), got {self.input_shape}")
        check_function(self, pool_function, "pool_function")
        self.pool_function = pool_function

    def get_output_shape_for(self, input_shape: Shape) -> Shape:
        return input_shape[:2]

    def get_output_for(self, input: Any, **kwargs: Any) -> Any:
        return self.pool_function(sj.flatten(input, 3), axis=2)


class SpatialPyramidPoolingLayer(Layer):
    """Pools each channel of a picture over grids of windows, from fine to coarse.

    The size of a window depends on the size of the picture, so the number of values does not:
    `sum(n * n for n in pool_dims)` for each channel.

    Parameters
    ----------
    incoming : Layer or tuple
        Its output has shape (batch, channels, rows, columns).
    pool_dims : sequence of ints
        The number of windows of each grid along an axis. A grid with n has n * n windows.
    mode : "max", "average_inc_pad" or "average_exc_pad"
        The value of a window: the largest one, or the mean. The two means are the same here.
    implementation : "fast" or "kaiming"
        The places of the n windows of a grid along an axis of `size` places. With "fast", each window has
        `ceil(size / n)` places, and window i starts at `i * (size // n)`. With "kaiming", window i goes from
        `floor(i * size / n)` to `ceil((i + 1) * size / n)`.
    name : str, optional

    References
    ----------
    He et al., "Spatial pyramid pooling in deep convolutional networks for visual recognition", 2015.

    Examples
    --------
    >>> from lasagne_like.layers import SpatialPyramidPoolingLayer
    >>> SpatialPyramidPoolingLayer((None, 8, None, None), pool_dims=[4, 2, 1]).output_shape
    (None, 8, 21)
    """

    def __init__(
        self,
        incoming: Incoming,
        pool_dims: Sequence[int] = (4, 2, 1),
        mode: str = "max",
        implementation: str = "fast",
        *,
        name: str | None = None,
    ) -> None:
        super().__init__(incoming, name=name)
        check_axes(self, 2)
        check_choice(mode, f"mode of {self}", ("max", "average_inc_pad", "average_exc_pad"))
        check_choice(implementation, f"implementation of {self}", ("fast", "kaiming"))
        dims: Any = pool_dims
        given = list(dims) if np.iterable(dims) else []
        self.pool_dims, self.mode, self.implementation = given, mode, implementation
        if not given or not all(map(is_count, given)):
            raise ValueError(f"pool_dims of {self} must be ints of 1 or more, at least one; got {pool_dims!r}")

    def get_output_shape_for(self, input_shape: Shape) -> Shape:
        return (*input_shape[:2], sum(n * n for n in self.pool_dims))

    def get_output_for(self, input: Any, **kwargs: Any) -> sj.Node:
        return sj.concatenate([self._grid(input, n) for n in self.pool_dims], axis=2)

    def _grid(self, input: Any, count: int) -> sj.Node:
        """The values of one grid, (batch, channels, count * count)."""
        columns = sj.stack([self._pooled(input[:, :, :, part]) for part in self._parts(input.shape[3], count)], 3)
        turned = sj.swapaxes(columns, 2, 3)
        rows = sj.stack([self._pooled(turned[:, :, :, part]) for part in self._parts(input.shape[2], count)], 2)
        return sj.flatten(rows, 3)

    def _pooled(self, window: Any) -> sj.Node:
        return sj.max(window, axis=3) if self.mode == "max" else sj.mean(window, axis=3)

    def _parts(self, size: Any, count: int) -> Iterator[slice]:
        """The windows along an axis."""
        for i in range(count):
            if self.implementation == "fast":
                yield slice(i * (size // count), i * (size // count) + (size + count - 1) // count)
            else:
                yield slice(i * size // count, ((i + 1) * size + count - 1) // count)

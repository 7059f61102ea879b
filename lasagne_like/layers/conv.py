"""Convolutions."""

from abc import ABC
from typing import Any, ClassVar

import scanjit as sj
from lasagne_like import init, nonlinearities
from lasagne_like.layers.base import Incoming, Layer, check_axes
from lasagne_like.layers.dense import channel_bias, with_channel_bias
from lasagne_like.shapes import known_sizes
from lasagne_like.utils import Nonlinearity, Parameter, Shape, as_tuple, int_types, is_expression

__all__ = [
    "Conv1DLayer",
    "Conv2DLayer",
    "Conv3DLayer",
    "Deconv2DLayer",
    "Deconv3DLayer",
    "DilatedConv2DLayer",
    "TransposedConv2DLayer",
    "TransposedConv3DLayer",
    "conv_input_length",
    "conv_output_length",
]


def _padding(pad: Any, filter_size: int) -> int:
    """The number of zeros on each side of an axis."""
    if isinstance(pad, int_types):
        return int(pad)
    if pad not in ("valid", "full", "same"):
        raise ValueError(f"pad is an int, 'valid', 'full' or 'same', got {pad!r}")
    return {"valid": 0, "full": filter_size - 1, "same": filter_size // 2}[pad]


def conv_output_length(input_length: int | None, filter_size: int, stride: int, pad: Any = 0) -> int | None:
    """The length of the output of a convolution.

    Parameters
    ----------
    input_length : int or None
    filter_size, stride : int
    pad : int, "valid", "full" or "same"
        See `Conv1DLayer`.

    Returns
    -------
    int or None
        None if `input_length` is None.

    Examples
    --------
    >>> from lasagne_like.layers import conv_output_length
    >>> conv_output_length(10, 3, 2), conv_output_length(10, 3, 1, "same"), conv_output_length(None, 3, 1)
    (4, 10, None)
    """
    zeros = _padding(pad, filter_size)
    if input_length is None:
        return None
    covered = input_length if pad == "same" else input_length + 2 * zeros - filter_size + 1
    return (covered + stride - 1) // stride


def conv_input_length(output_length: int | None, filter_size: int, stride: int, pad: Any = 0) -> int | None:
    """The smallest input length for an output length of a convolution.

    Parameters
    ----------
    output_length : int or None
    filter_size, stride, pad : as for `conv_output_length`

    Returns
    -------
    int or None
        None if `output_length` is None.

    Examples
    --------
    >>> from lasagne_like.layers import conv_input_length
    >>> conv_input_length(4, 3, 2)
    9
    """
    zeros = _padding(pad, filter_size)
    return None if output_length is None else (output_length - 1) * stride - 2 * zeros + filter_size


class BaseConvLayer(Layer, ABC):
    """A convolution over the last axes, with filters, a bias and a nonlinearity."""

    count: ClassVar[int]
    """The number of axes that filters have."""

    def __init__(
        self,
        incoming: Incoming,
        num_filters: int,
        filter_size: Any,
        stride: Any = 1,
        pad: Any = 0,
        untie_biases: bool = False,
        W: Parameter = init.GlorotUniform(),
        b: Parameter | None = init.Constant(0.0),
        nonlinearity: Nonlinearity = nonlinearities.rectify,
        flip_filters: bool = True,
        num_groups: int = 1,
        *,
        name: str | None = None,
    ) -> None:
        super().__init__(incoming, name=name)
        check_axes(self, self.count)
        channels = self.input_shape[1]
        if channels is None:
            raise ValueError(f"{self} needs a fixed number of channels (axis 1), got shape {self.input_shape}")
        self._channels = channels
        self.nonlinearity = nonlinearities.or_identity(nonlinearity)
        self.num_filters, self.untie_biases, self.flip_filters = num_filters, untie_biases, flip_filters
        self.filter_size = as_tuple(filter_size, self.count, int_types, f"filter_size of {self}")
        self.stride = as_tuple(stride, self.count, int_types, f"stride of {self}")
        if min(*self.filter_size, *self.stride) < 1:
            raise ValueError(f"{self} needs filters and strides of 1 or more, got {filter_size!r} and {stride!r}")
        self._set_padding(pad)
        if num_groups <= 0 or num_filters % num_groups or channels % num_groups:
            raise ValueError(
                f"num_groups={num_groups} must be positive and divide both the channels of the input ({channels}) and "
                f"of the output ({num_filters})"
            )
        self.num_groups = num_groups
        self.W = self.add_param(W, self.get_W_shape(), name="W")
        self._check_input(self.output_shape, "output_shape")
        self.b = channel_bias(self, b, num_filters, untie_biases)

    def _set_padding(self, pad: Any) -> None:
        """Check `pad` and store it: as "full" or "same", or as a tuple of ints."""
        if isinstance(pad, str) and pad == "same" and any(size % 2 == 0 for size in self.filter_size):
            raise NotImplementedError(
                f"pad='same' of {self} needs an odd filter_size, got {', '.join(map(str, self.filter_size))}"
            )
        if isinstance(pad, str) and pad not in ("valid", "full", "same"):
            raise ValueError(f"pad of {self} is an int, {self.count} ints, 'valid', 'full' or 'same', got {pad!r}")
        given = 0 if isinstance(pad, str) and pad == "valid" else pad
        self.pad = given if isinstance(given, str) else as_tuple(given, self.count, int_types, f"pad of {self}")
        if not isinstance(self.pad, str) and min(self.pad) < 0:
            raise ValueError(f"pad of {self} must be 0 or more, got {pad!r}")

    def _zeros(self) -> tuple[int, ...]:
        """The number of zeros on each side of each axis."""
        each = (self.pad,) * self.count if isinstance(self.pad, str) else self.pad
        return tuple(_padding(pad, size) for pad, size in zip(each, self.filter_size, strict=True))

    def get_W_shape(self) -> tuple[int, ...]:
        """The shape of the filters."""
        return self.num_filters, self._channels // self.num_groups, *self.filter_size

    def get_output_shape_for(self, input_shape: Shape) -> Shape:
        axes = zip(input_shape[2:], self.filter_size, self.stride, self._zeros(), strict=True)
        return (input_shape[0], self.num_filters, *(conv_output_length(*axis) for axis in axes))

    def convolve(self, input: Any, **kwargs: Any) -> sj.Node:
        """The convolution itself."""
        function = {1: sj.conv1d, 2: sj.conv2d, 3: sj.conv3d}[self.count]
        flip, groups = self.flip_filters, self.num_groups
        return function(input, self.W, self._zeros(), self.stride, filter_flip=flip, num_groups=groups)

    def get_output_for(self, input: Any, **kwargs: Any) -> sj.Node:
        return self.nonlinearity(with_channel_bias(self.convolve(input, **kwargs), self.b, self.untie_biases))


class Conv1DLayer(BaseConvLayer):
    """A convolution over the last axis.

    Parameters
    ----------
    incoming : Layer or tuple
        Its output has shape (batch, channels, length).
    num_filters : int
        The number of channels of the output.
    filter_size, stride : int, or a tuple of one
    pad : int (or a tuple of one), "valid", "full" or "same"
        The number of zeros on each side of the input. "valid" is 0, "full" is `filter_size - 1`. "same" is
        `filter_size // 2`: with stride 1 the output is as long as the input. It needs an odd filter size.
    untie_biases : bool
        Whether each place of the output has its own bias.
    W : initializer, array, shared variable or expression
        Of shape (num_filters, channels / num_groups, filter_size).
    b : initializer, array, shared variable, expression or None
        Of shape (num_filters,), or (num_filters, length of the output) for `untie_biases`.
    nonlinearity : callable or None
    flip_filters : bool
        True for a convolution, False for a correlation, as most other libraries compute it.
    num_groups : int
        The number of groups into which channels are split. Each group has its own filters.
    name : str, optional

    Examples
    --------
    >>> import numpy as np
    >>> import scanjit as sj
    >>> from lasagne_like.layers import Conv1DLayer, InputLayer, get_output
    >>> layer = Conv1DLayer(InputLayer((None, 1, None)), 1, 2, W=np.array([[[1.0, 10.0]]]), nonlinearity=None)
    >>> sj.function([], get_output(layer, np.array([[[1.0, 2.0, 3.0]]])), mode="reference")()
    array([[[12., 23.]]])
    """

    count = 1


class Conv2DLayer(BaseConvLayer):
    """A convolution over the last two axes.

    Parameters
    ----------
    incoming : Layer or tuple
        Its output has shape (batch, channels, rows, columns).
    num_filters : int
        The number of channels of the output.
    filter_size, stride : int, or a tuple of two
        For both axes, or for rows and columns.
    pad : int (or a tuple of two), "valid", "full" or "same"
        See `Conv1DLayer`.
    untie_biases : bool
        Whether each place of the output has its own bias.
    W : initializer, array, shared variable or expression
        Of shape (num_filters, channels / num_groups, filter rows, filter columns).
    b : initializer, array, shared variable, expression or None
        Of shape (num_filters,), or (num_filters, rows and columns of the output) for `untie_biases`.
    nonlinearity : callable or None
    flip_filters : bool
        See `Conv1DLayer`.
    num_groups : int
        The number of groups into which channels are split. Each group has its own filters.
    name : str, optional

    Examples
    --------
    >>> from lasagne_like.layers import Conv2DLayer
    >>> layer = Conv2DLayer((None, 3, 32, None), 16, (5, 3), stride=(2, 1), pad="same")
    >>> layer.W.shape, layer.output_shape
    ((16, 3, 5, 3), (None, 16, 16, None))
    """

    count = 2


class Conv3DLayer(BaseConvLayer):
    """A convolution over the last three axes.

    Parameters
    ----------
    incoming : Layer or tuple
        Its output has shape (batch, channels, depth, rows, columns).
    num_filters : int
        The number of channels of the output.
    filter_size, stride : int, or a tuple of three
    pad : int (or a tuple of three), "valid", "full" or "same"
        See `Conv1DLayer`.
    untie_biases, W, b, nonlinearity, flip_filters, num_groups, name : see `Conv2DLayer`, with one more axis

    Examples
    --------
    >>> from lasagne_like.layers import Conv3DLayer
    >>> Conv3DLayer((None, 3, 8, 32, None), 16, (1, 3, 3), pad=(0, 1, 1)).output_shape
    (None, 16, 8, 32, None)
    """

    count = 3


class DilatedConv2DLayer(BaseConvLayer):
    """A correlation with dilated filters: there are gaps between their entries.

    Parameters
    ----------
    incoming : Layer or tuple
        Its output has shape (batch, channels, rows, columns).
    num_filters : int
    filter_size : int, or a tuple of two
    dilation : int, or a tuple of two
        The distance between neighbouring entries of a filter. 1 leaves no gap.
    pad : 0, (0, 0) or "valid"
        This layer does not pad. Put a `PadLayer` before it.
    untie_biases : bool
    W : initializer, array, shared variable or expression
        Of shape (channels, num_filters, filter rows, filter columns). As in Lasagne, the first two axes are in another
        order than in `Conv2DLayer`.
    b, nonlinearity : see `Conv2DLayer`
    flip_filters : False
    name : str, optional

    References
    ----------
    Yu and Koltun, "Multi-scale context aggregation by dilated convolutions", ICLR 2016.

    Examples
    --------
    >>> from lasagne_like.layers import DilatedConv2DLayer
    >>> layer = DilatedConv2DLayer((None, 3, 20, None), 8, 3, dilation=(2, 1))
    >>> layer.W.shape, layer.output_shape
    ((3, 8, 3, 3), (None, 8, 16, None))
    """

    count = 2

    def __init__(
        self,
        incoming: Incoming,
        num_filters: int,
        filter_size: Any,
        dilation: Any = (1, 1),
        pad: Any = 0,
        untie_biases: bool = False,
        W: Parameter = init.GlorotUniform(),
        b: Parameter | None = init.Constant(0.0),
        nonlinearity: Nonlinearity = nonlinearities.rectify,
        flip_filters: bool = False,
        *,
        name: str | None = None,
    ) -> None:
        self.dilation = as_tuple(dilation, 2, int_types, "dilation of DilatedConv2DLayer")
        if min(self.dilation) < 1:
            raise ValueError(f"dilation of DilatedConv2DLayer must be 1 or more, got {dilation!r}")
        if flip_filters:
            raise NotImplementedError(
                "DilatedConv2DLayer computes a correlation only: flip_filters must be False, got True"
            )
        super().__init__(
            incoming, num_filters, filter_size, 1, pad, untie_biases, W, b, nonlinearity, flip_filters, name=name
        )

    def _set_padding(self, pad: Any) -> None:
        super()._set_padding(pad)
        if self.pad != (0, 0):
            raise NotImplementedError(f"pad of {self} must be 0, got {pad!r}: put a PadLayer before it")

    def get_W_shape(self) -> tuple[int, ...]:
        """The shape of the filters."""
        return self._channels, self.num_filters, *self.filter_size

    def get_output_shape_for(self, input_shape: Shape) -> Shape:
        axes = zip(input_shape[2:], self.filter_size, self.dilation, strict=True)
        return (input_shape[0], self.num_filters, *(conv_output_length(n, (k - 1) * d + 1, 1) for n, k, d in axes))

    def convolve(self, input: Any, **kwargs: Any) -> sj.Node:
        """The convolution itself."""
        filters = sj.swapaxes(self.W, 0, 1)
        return sj.conv2d(input, filters, filter_dilation=self.dilation, filter_flip=False)


class _TransposedConv(BaseConvLayer, ABC):
    """A transposed convolution: the gradient of a convolution with respect to its input. A bias and a nonlinearity
    follow."""

    def __init__(
        self,
        incoming: Incoming,
        num_filters: int,
        filter_size: Any,
        stride: Any = 1,
        crop: Any = 0,
        untie_biases: bool = False,
        W: Parameter = init.GlorotUniform(),
        b: Parameter | None = init.Constant(0.0),
        nonlinearity: Nonlinearity = nonlinearities.rectify,
        flip_filters: bool = False,
        output_size: Any = None,
        *,
        name: str | None = None,
    ) -> None:
        self.output_size = output_size
        if output_size is not None and not is_expression(output_size):
            kinds = (*int_types, sj.Node, sj.SharedVariable)
            self.output_size = as_tuple(output_size, self.count, kinds, f"output_size of {type(self).__name__}")
        super().__init__(
            incoming, num_filters, filter_size, stride, crop, untie_biases, W, b, nonlinearity, flip_filters, name=name
        )

    @property
    def crop(self) -> Any:
        """The number of places that are cut off on each side of each axis: "full" or "same", or a tuple of ints."""
        return self.pad

    def get_W_shape(self) -> tuple[int, ...]:
        """The shape of the filters."""
        return self._channels, self.num_filters, *self.filter_size

    def get_output_shape_for(self, input_shape: Shape) -> Shape:
        if self.output_size is None:
            axes = zip(input_shape[2:], self.filter_size, self.stride, self._zeros(), strict=True)
            return (input_shape[0], self.num_filters, *(conv_input_length(*axis) for axis in axes))
        if is_expression(self.output_size):
            return (input_shape[0], self.num_filters, *[None] * self.count)
        return (input_shape[0], self.num_filters, *known_sizes(self.output_size))

    def convolve(self, input: Any, **kwargs: Any) -> sj.Node:
        """The transposed convolution itself."""
        size = self.output_size
        if is_expression(size):
            size = tuple(size[axis] for axis in range(self.count))
        flipped = not self.flip_filters
        return sj.conv_transpose(input, self.W, self._zeros(), self.stride, filter_flip=flipped, output_size=size)


class TransposedConv2DLayer(_TransposedConv):
    """A transposed convolution over the last two axes.

    Each value of the input is multiplied by the filters, and the products are added where they overlap. This is what
    the gradient of a convolution with respect to its input computes.

    Parameters
    ----------
    incoming : Layer or tuple
        Its output has shape (batch, channels, rows, columns).
    num_filters : int
        The number of channels of the output.
    filter_size : int, or a tuple of two
    stride : int, or a tuple of two
        The distance in the output between the products of neighbouring values of the input.
    crop : int (or a tuple of two), "valid", "full" or "same"
        The number of places that are cut off on each side of the output: the value of `pad` in the convolution that
        this layer transposes.
    untie_biases : bool
    W : initializer, array, shared variable or expression
        Of shape (channels, num_filters, filter rows, filter columns): the filters of the convolution that this layer
        transposes.
    b, nonlinearity : see `Conv2DLayer`
    flip_filters : bool
        The opposite of `flip_filters` in the convolution that this layer transposes.
    output_size : int, a tuple of two, or an integer vector, optional
        The rows and columns of the output. With a stride of 2 or more, several sizes are possible. By default it is the
        smallest one.
    name : str, optional

    References
    ----------
    Dumoulin and Visin, "A guide to convolution arithmetic for deep learning", 2016.

    Examples
    --------
    The transpose of a convolution, with its filters:

    >>> from lasagne_like.layers import Conv2DLayer, TransposedConv2DLayer
    >>> conv = Conv2DLayer((None, 1, 32, 32), 16, 3, stride=2, pad=2)
    >>> deconv = TransposedConv2DLayer(
    ...     conv, conv.input_shape[1], conv.filter_size, conv.stride, conv.pad, W=conv.W,
    ...     flip_filters=not conv.flip_filters, output_size=conv.input_shape[2:],
    ... )
    >>> conv.output_shape, deconv.output_shape
    ((None, 16, 17, 17), (None, 1, 32, 32))
    """

    count = 2


Deconv2DLayer = TransposedConv2DLayer


class TransposedConv3DLayer(_TransposedConv):
    """A transposed convolution over the last three axes: the gradient of a convolution with respect to its input.

    Parameters
    ----------
    incoming : Layer or tuple
        Its output has shape (batch, channels, depth, rows, columns).
    num_filters : int
    filter_size, stride : int, or a tuple of three
    crop, untie_biases, W, b, nonlinearity, flip_filters, output_size, name : see `TransposedConv2DLayer`

    Examples
    --------
    >>> from lasagne_like.layers import TransposedConv3DLayer
    >>> TransposedConv3DLayer((None, 8, 4, 4, None), 3, 2, stride=2).output_shape
    (None, 3, 8, 8, None)
    """

    count = 3


Deconv3DLayer = TransposedConv3DLayer

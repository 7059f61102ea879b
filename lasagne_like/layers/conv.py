"""Convolutions."""

from typing import Any

import scanjit as sj
from lasagne_like import init, nonlinearities
from lasagne_like.layers.base import Incoming, Layer
from lasagne_like.utils import Nonlinearity, Parameter, Shape, as_tuple, int_types

__all__ = ["Conv1DLayer", "conv_input_length", "conv_output_length"]


def _padding(pad: Any, filter_size: int) -> int:
    """How many zeros are put on each side."""
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

    Examples
    --------
    >>> from lasagne_like.layers import conv_input_length
    >>> conv_input_length(4, 3, 2)
    9
    """
    zeros = _padding(pad, filter_size)
    return None if output_length is None else (output_length - 1) * stride - 2 * zeros + filter_size


class Conv1DLayer(Layer):
    """A convolution over the last axis.

    Parameters
    ----------
    incoming : Layer or tuple
        Its output has shape (batch, channels, length).
    num_filters : int
        The number of channels of the output.
    filter_size, stride : int, or a tuple of one
    pad : int (or a tuple of one), "valid", "full" or "same"
        How many zeros are put on both sides: none, one less than the filter's size, or half of it, so that with
        stride 1 the length stays (only for odd sizes).
    untie_biases : bool
        Whether each place has a bias of its own.
    W : initializer, array, shared variable or expression
        Of shape (num_filters, channels / num_groups, filter_size).
    b : initializer, array, shared variable, expression or None
        Of shape (num_filters,), or (num_filters, length of the output) for `untie_biases`.
    nonlinearity : callable or None
    flip_filters : bool
        True is a convolution, False a correlation.
    num_groups : int
        Channels are split into this many groups, each with filters of its own.
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
        if len(self.input_shape) != 3 or self.input_shape[1] is None:
            raise ValueError(
                f"Conv1DLayer takes an input of shape (batch, channels, length) with fixed channels, got "
                f"{self.input_shape}"
            )
        channels = self.input_shape[1]
        self.nonlinearity = nonlinearities.or_identity(nonlinearity)
        self.num_filters, self.untie_biases, self.flip_filters = num_filters, untie_biases, flip_filters
        self.filter_size, self.stride = as_tuple(filter_size, 1, int_types), as_tuple(stride, 1, int_types)
        self.pad = pad if isinstance(pad, str) else as_tuple(pad, 1, int_types)
        _padding(pad if isinstance(pad, str) else self.pad[0], self.filter_size[0])
        if pad == "same" and self.filter_size[0] % 2 == 0:
            raise NotImplementedError(f"pad='same' needs an odd filter_size, got {filter_size}")
        if num_groups <= 0 or num_filters % num_groups or channels % num_groups:
            raise ValueError(
                f"num_groups={num_groups} must be positive and divide both the channels of the input ({channels}) and "
                f"of the output ({num_filters})"
            )
        self.num_groups = num_groups
        self.W = self.add_param(W, self.get_W_shape(), name="W")
        sizes = (self.output_shape[2],) if untie_biases else ()
        if b is not None and None in sizes:
            raise ValueError(f"untied biases need a fixed length, got input shape {self.input_shape}")
        self.b = None if b is None else self.add_param(b, (num_filters, *sizes), name="b", regularizable=False)

    def get_W_shape(self) -> tuple[int, int, int]:
        """The shape of the filters."""
        channels = self.input_shape[1]
        assert channels is not None
        return self.num_filters, channels // self.num_groups, self.filter_size[0]

    def _pad(self) -> Any:
        return self.pad if isinstance(self.pad, str) else self.pad[0]

    def get_output_shape_for(self, input_shape: Shape) -> Shape:
        length = conv_output_length(input_shape[2], self.filter_size[0], self.stride[0], self._pad())
        return input_shape[0], self.num_filters, length

    def convolve(self, input: Any, **kwargs: Any) -> sj.Node:
        """The convolution itself."""
        zeros = _padding(self._pad(), self.filter_size[0])
        return sj.conv1d(
            input, self.W, zeros, self.stride[0], filter_flip=self.flip_filters, num_groups=self.num_groups
        )

    def get_output_for(self, input: Any, **kwargs: Any) -> sj.Node:
        activation = self.convolve(input, **kwargs)
        if self.b is not None:
            activation = activation + self.b.dimshuffle("x", 0, 1 if self.untie_biases else "x")
        return self.nonlinearity(activation)

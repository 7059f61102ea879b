"""Local connections without common weights."""

from functools import reduce
from typing import Any

import scanjit as sj
from lasagne_like import init, nonlinearities
from lasagne_like.layers.base import Incoming
from lasagne_like.layers.conv import Conv2DLayer
from lasagne_like.utils import Nonlinearity, Parameter

__all__ = ["LocallyConnected2DLayer"]


class LocallyConnected2DLayer(Conv2DLayer):
    """A convolution over the last two axes whose filters differ from place to place.

    Parameters
    ----------
    incoming : Layer or tuple
        Its output has shape (batch, channels, rows, columns); all but the batch is fixed.
    num_filters : int
    filter_size : int, or a tuple of two
        Odd.
    stride : 1 or (1, 1)
        Other values are an error.
    pad : "same"
        Other values are an error.
    untie_biases : bool
    W : initializer, array, shared variable or expression
        Of shape (num_filters, channels, filter rows, filter columns, rows, columns); without channels for
        `channelwise`.
    b, nonlinearity, flip_filters : see `Conv2DLayer`
    channelwise : bool
        Whether each channel has one filter, which sees that channel alone. Then `num_filters` is the number of
        channels.
    name : str, optional

    Examples
    --------
    >>> from lasagne_like.layers import LocallyConnected2DLayer
    >>> layer = LocallyConnected2DLayer((None, 3, 8, 9), 4, 3)
    >>> layer.W.shape, layer.output_shape
    ((4, 3, 3, 3, 8, 9), (None, 4, 8, 9))
    """

    def __init__(
        self,
        incoming: Incoming,
        num_filters: int,
        filter_size: Any,
        stride: Any = (1, 1),
        pad: Any = "same",
        untie_biases: bool = False,
        W: Parameter = init.GlorotUniform(),
        b: Parameter | None = init.Constant(0.0),
        nonlinearity: Nonlinearity = nonlinearities.rectify,
        flip_filters: bool = True,
        channelwise: bool = False,
        *,
        name: str | None = None,
    ) -> None:
        self.channelwise = channelwise
        super().__init__(
            incoming, num_filters, filter_size, stride, pad, untie_biases, W, b, nonlinearity, flip_filters, name=name
        )

    def get_W_shape(self) -> tuple[int, ...]:
        """The shape of the filters."""
        if self.stride != (1, 1) or self.pad != "same":
            raise NotImplementedError(f"{self} requires stride=1 and pad='same', got {self.stride} and {self.pad!r}")
        _, channels, rows, columns = self.input_shape
        if channels is None or rows is None or columns is None:
            raise ValueError(f"{self} needs fixed sizes of all axes but the first, got {self.input_shape}")
        if not self.channelwise:
            return self.num_filters, channels, *self.filter_size, rows, columns
        if self.num_filters != channels:
            raise ValueError(f"{self} is channelwise: num_filters={self.num_filters} must be {channels}")
        return self.num_filters, *self.filter_size, rows, columns

    def convolve(self, input: Any, **kwargs: Any) -> sj.Node:
        """The convolution itself: a sum over the entries of filters."""
        rows, columns = input.shape[2:]
        height, width = self.filter_size
        wide = sj.pad(input, [(0, 0), (0, 0), *((k // 2, k // 2) for k in self.filter_size)])
        terms = []
        for i in range(height):
            for j in range(width):
                part = wide[:, :, i : i + rows, j : j + columns]
                at = (height - 1 - i, width - 1 - j) if self.flip_filters else (i, j)
                weights = self.W[(slice(None),) * (1 if self.channelwise else 2) + at]
                terms.append(part * weights if self.channelwise else sj.einsum("bcij,ocij->boij", part, weights))
        return reduce(sj.add, terms)

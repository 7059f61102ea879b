"""A locally connected layer: each place of the output has its own weights."""

from functools import reduce
from typing import Any

import scanjit as sj
from lasagne_like import init, nonlinearities
from lasagne_like.layers.base import Incoming
from lasagne_like.layers.conv import Conv2DLayer
from lasagne_like.utils import Nonlinearity, Parameter

__all__ = ["LocallyConnected2DLayer"]


class LocallyConnected2DLayer(Conv2DLayer):
    """Like a convolution over the last two axes, but each place of the output has its own filters.

    Parameters
    ----------
    incoming : Layer or tuple
        Its output has shape (batch, channels, rows, columns). All sizes but the batch must be fixed.
    num_filters : int
    filter_size : int, or a tuple of two
        Odd numbers.
    stride : 1 or (1, 1)
    pad : "same"
    untie_biases : bool
    W : initializer, array, shared variable or expression
        Of shape (num_filters, channels, filter rows, filter columns, rows, columns). With `channelwise`, there is no
        axis of channels.
    b, nonlinearity, flip_filters : see `Conv2DLayer`
    channelwise : bool
        Whether channel i of the output comes from channel i of the input alone. Then `num_filters` must be the number
        of channels.
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
            raise NotImplementedError(
                f"{self} needs stride=1 and pad='same', got stride={self.stride} and pad={self.pad!r}"
            )
        _, channels, rows, columns = self.input_shape
        if channels is None or rows is None or columns is None:
            raise ValueError(f"{self} needs fixed sizes of all axes but the first, got {self.input_shape}")
        if not self.channelwise:
            return self.num_filters, channels, *self.filter_size, rows, columns
        if self.num_filters != channels:
            raise ValueError(
                f"{self} is channelwise, so num_filters must be the number of channels of the input, {channels}; got "
                f"{self.num_filters}"
            )
        return self.num_filters, *self.filter_size, rows, columns

    def convolve(self, input: Any, **kwargs: Any) -> sj.Node:
        """The sum over the entries of filters of the shifted input times the weights."""
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

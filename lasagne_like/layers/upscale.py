"""Upscaling: repeats each value, or puts zeros behind it."""

from abc import ABC
from typing import Any, ClassVar

import scanjit as sj
from lasagne_like.checks import check_choice
from lasagne_like.layers.base import Incoming, Layer, check_axes
from lasagne_like.utils import Shape, as_tuple, int_types

__all__ = ["Upscale1DLayer", "Upscale2DLayer", "Upscale3DLayer"]


class _Upscale(Layer, ABC):
    """Upscaling along the last `count` axes."""

    count: ClassVar[int]

    def __init__(self, incoming: Incoming, scale_factor: Any, mode: str = "repeat", *, name: str | None = None) -> None:
        super().__init__(incoming, name=name)
        check_axes(self, self.count)
        self.scale_factor = as_tuple(scale_factor, self.count, int_types, f"scale_factor of {self}")
        if min(self.scale_factor) < 1:
            raise ValueError(f"scale_factor of {self} must be an int of 1 or more for each axis, got {scale_factor!r}")
        check_choice(mode, f"mode of {self}", ("repeat", "dilate"))
        self.mode = mode

    def get_output_shape_for(self, input_shape: Shape) -> Shape:
        axes = zip(input_shape[2:], self.scale_factor, strict=True)
        return (*input_shape[:2], *(None if n is None else n * k for n, k in axes))

    def get_output_for(self, input: Any, **kwargs: Any) -> sj.Node:
        if self.mode == "repeat":
            for axis, factor in enumerate(self.scale_factor, 2):
                input = sj.repeat(input, factor, axis) if factor > 1 else input
            return input
        sizes = [n * k for n, k in zip(input.shape[2:], self.scale_factor, strict=True)]
        places = tuple(slice(None, None, k) for k in (1, 1, *self.scale_factor))
        return sj.zeros((*input.shape[:2], *sizes), input.dtype)[places].set(input)


class Upscale1DLayer(_Upscale):
    """Repeats each value along the last axis, or puts zeros behind it.

    Parameters
    ----------
    incoming : Layer or tuple
        Its output has shape (batch, channels, length).
    scale_factor : int, or a tuple of one
        The length of the output divided by the length of the input.
    mode : "repeat" or "dilate"
        "repeat" repeats each value `scale_factor` times. "dilate" puts `scale_factor - 1` zeros behind it.
    name : str, optional

    Examples
    --------
    >>> import scanjit as sj
    >>> from lasagne_like.layers import InputLayer, Upscale1DLayer, get_output
    >>> layers = [Upscale1DLayer(InputLayer((1, 1, 2)), 2, mode) for mode in ("repeat", "dilate")]
    >>> sj.function([], [get_output(layer, [[[1.0, 2.0]]]) for layer in layers], mode="reference")()
    [array([[[1., 1., 2., 2.]]]), array([[[1., 0., 2., 0.]]])]
    """

    count = 1


class Upscale2DLayer(_Upscale):
    """Repeats each value along the last two axes, or puts zeros behind it.

    Parameters
    ----------
    incoming : Layer or tuple
        Its output has shape (batch, channels, rows, columns).
    scale_factor : int, or a tuple of two
        For both axes, or for rows and columns.
    mode : "repeat" or "dilate"
        See `Upscale1DLayer`. (Instead of "dilate" and a convolution, use a `TransposedConv2DLayer`: it is faster.)
    name : str, optional

    Examples
    --------
    >>> from lasagne_like.layers import Upscale2DLayer
    >>> Upscale2DLayer((None, 3, 8, None), (2, 3)).output_shape
    (None, 3, 16, None)
    """

    count = 2


class Upscale3DLayer(_Upscale):
    """Repeats each value along the last three axes, or puts zeros behind it.

    Parameters
    ----------
    incoming : Layer or tuple
        Its output has shape (batch, channels, depth, rows, columns).
    scale_factor : int, or a tuple of three
    mode : "repeat" or "dilate"
        See `Upscale1DLayer`.
    name : str, optional

    Examples
    --------
    >>> from lasagne_like.layers import Upscale3DLayer
    >>> Upscale3DLayer((None, 3, 2, 8, 8), 2, "dilate").output_shape
    (None, 3, 4, 16, 16)
    """

    count = 3

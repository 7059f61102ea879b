"""Layers that add randomness in training. With `deterministic=True` they return their input."""

from abc import ABC
from functools import cached_property
from typing import Any

import numpy as np

import scanjit as sj
from lasagne_like.checks import check_number
from lasagne_like.layers.base import Incoming, Layer, axes_of, shape_of
from lasagne_like.random import new_seed
from lasagne_like.utils import is_expression, number

__all__ = [
    "DropoutLayer",
    "GaussianNoiseLayer",
    "dropout",
    "dropout_channels",
    "dropout_locations",
    "spatial_dropout",
]


class RandomLayer(Layer, ABC):
    """A layer with its own stream of random symbols. The seed comes from `lasagne_like.random.get_rng()`."""

    def __init__(self, incoming: Incoming, *, name: str | None = None) -> None:
        super().__init__(incoming, name=name)
        self._seed = new_seed()

    @cached_property
    def stream(self) -> Any:
        return sj.random.Stream(self._seed)


def float_dtype(input: Any) -> Any:
    """The dtype of noise for an input: the dtype of the input if this is a float, `scanjit.config.floatX` otherwise."""
    return input.dtype if input.type.kind.floating else sj.config.floatX


class DropoutLayer(RandomLayer):
    """Sets random values to zero, and divides the others by `1 - p`, so that the mean stays the same.

    Parameters
    ----------
    incoming : Layer or tuple
    p : float or scalar expression
        The probability with which a value becomes zero.
    rescale : bool
        Whether the other values are divided by `1 - p`.
    shared_axes : int or tuple of ints
        Axes along which all values become zero together or not at all. For an input (batch, time, features), (0,) drops
        the same steps and features in all sequences, and (1,) drops the same features at all steps of a sequence.
    name : str, optional

    References
    ----------
    Srivastava et al., "Dropout: a simple way to prevent neural networks from overfitting", JMLR 2014.

    Examples
    --------
    >>> from lasagne_like.layers import DropoutLayer, InputLayer, get_output
    >>> l_in = InputLayer((None, 20))
    >>> layer = DropoutLayer(l_in, p=0.2)
    >>> get_output(layer, deterministic=True) is l_in.input_var
    True
    """

    def __init__(
        self,
        incoming: Incoming,
        p: Any = 0.5,
        rescale: bool = True,
        shared_axes: int | tuple[int, ...] = (),
        *,
        name: str | None = None,
    ) -> None:
        super().__init__(incoming, name=name)
        if not is_expression(p) and not (isinstance(p, int | float | np.number) and 0 <= p <= 1):
            raise ValueError(f"p of {self} is the probability with which a value becomes zero: 0 <= p <= 1, got {p!r}")
        self.p, self.rescale = number(p, None) if isinstance(p, np.number) else p, rescale
        self.shared_axes = axes_of(self, shared_axes, "shared_axes")

    def get_output_for(self, input: Any, deterministic: bool = False, **kwargs: Any) -> Any:
        if deterministic or (isinstance(self.p, int | float) and self.p == 0):
            return input
        shape = tuple(1 if axis in self.shared_axes else size for axis, size in enumerate(input.shape))
        dtype = float_dtype(input)
        p = number(self.p, dtype)
        kept = self.stream.uniform(shape, dtype=dtype) >= p
        # if nothing is kept, what is divided by 0 has a gradient of NaN
        share = sj.where(p < 1, 1 - p, 1) if is_expression(p) else 1 - p or 1
        return sj.where(kept, input / share if self.rescale else input, 0)


dropout = DropoutLayer


def dropout_channels(incoming: Incoming, *args: Any, **kwargs: Any) -> DropoutLayer:
    """A `DropoutLayer` that drops whole channels: all places of a channel (axis 1) become zero together.

    Parameters
    ----------
    incoming : Layer or tuple
    *args, **kwargs
        Further arguments of `DropoutLayer`, without `shared_axes`.

    Examples
    --------
    >>> from lasagne_like.layers import dropout_channels
    >>> dropout_channels((None, 3, 8, 8), p=0.2).shared_axes
    (2, 3)
    """
    ndim = len(shape_of(incoming))
    kwargs["shared_axes"] = tuple(range(2, ndim))
    return DropoutLayer(incoming, *args, **kwargs)


spatial_dropout = dropout_channels


def dropout_locations(incoming: Incoming, *args: Any, **kwargs: Any) -> DropoutLayer:
    """A `DropoutLayer` that drops whole places: all channels (axis 1) of a place become zero together.

    Parameters
    ----------
    incoming : Layer or tuple
    *args, **kwargs
        Further arguments of `DropoutLayer`, without `shared_axes`.

    Examples
    --------
    >>> from lasagne_like.layers import dropout_locations
    >>> dropout_locations((None, 3, 8, 8), p=0.2).shared_axes
    (1,)
    """
    kwargs["shared_axes"] = (1,)
    return DropoutLayer(incoming, *args, **kwargs)


class GaussianNoiseLayer(RandomLayer):
    """Adds noise with a normal distribution of mean 0.

    Parameters
    ----------
    incoming : Layer or tuple
    sigma : float or scalar expression
        The standard deviation.
    name : str, optional

    References
    ----------
    Jim, Giles and Horne, "An analysis of noise in recurrent neural networks", 1996.

    Examples
    --------
    >>> import numpy as np
    >>> import scanjit as sj
    >>> from lasagne_like.layers import GaussianNoiseLayer, InputLayer, get_output
    >>> layer = GaussianNoiseLayer(InputLayer((None, 100)), sigma=0.5)
    >>> noisy = sj.function([], get_output(layer, np.zeros((100, 100))), mode="reference")
    >>> bool(0.45 < noisy().std() < 0.55)
    True
    """

    def __init__(self, incoming: Incoming, sigma: Any = 0.1, *, name: str | None = None) -> None:
        super().__init__(incoming, name=name)
        check_number(self, sigma, "sigma")
        self.sigma = sigma

    def get_output_for(self, input: Any, deterministic: bool = False, **kwargs: Any) -> Any:
        if deterministic or (isinstance(self.sigma, int | float) and self.sigma == 0):
            return input
        dtype = float_dtype(input)
        return input + number(self.sigma, dtype) * self.stream.normal(input.shape, dtype=dtype)

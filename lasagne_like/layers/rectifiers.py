"""Rectifiers with a slope for negative input. The slope is learned, or it is random in training."""

from typing import Any

import numpy as np

import scanjit as sj
from lasagne_like import init
from lasagne_like.checks import check_number
from lasagne_like.layers.base import Incoming, Layer
from lasagne_like.layers.noise import RandomLayer, float_dtype
from lasagne_like.layers.rnn import RNNLayer
from lasagne_like.layers.special import all_axes_but, sizes_besides, spread, without_nonlinearity
from lasagne_like.utils import Parameter, number

__all__ = ["ParametricRectifierLayer", "RandomizedRectifierLayer", "prelu", "rrelu"]


class ParametricRectifierLayer(Layer):
    """`x` where it is positive and `alpha * x` elsewhere, with a learned alpha.

    Parameters
    ----------
    incoming : Layer or tuple
    alpha : initializer, array, shared variable or expression
        Of the shape of the input without `shared_axes`.
    shared_axes : "auto", "all", int or tuple of ints
        The axes along which all entries have the same slope. "auto" is all axes but the second. With "all", there is a
        single slope.
    name : str, optional

    References
    ----------
    He et al., "Delving deep into rectifiers", ICCV 2015.

    Examples
    --------
    >>> from lasagne_like.layers import ParametricRectifierLayer
    >>> ParametricRectifierLayer((20, 3, 28, 28), shared_axes=(0, 3)).alpha.shape
    (3, 28)
    """

    def __init__(
        self,
        incoming: Incoming,
        alpha: Parameter = init.Constant(0.25),
        shared_axes: Any = "auto",
        *,
        name: str | None = None,
    ) -> None:
        super().__init__(incoming, name=name)
        self.shared_axes = _shared(self, shared_axes)
        self.alpha = self.add_param(alpha, sizes_besides(self, self.shared_axes), "alpha", regularizable=False)

    def get_output_for(self, input: Any, **kwargs: Any) -> sj.Node:
        return sj.where(input > 0, input, input * spread(self.alpha, self.shared_axes, input.ndim))


def prelu(layer: Any, **kwargs: Any) -> ParametricRectifierLayer:
    """Replace the nonlinearity of a layer by a `ParametricRectifierLayer`.

    This changes the layer: its own nonlinearity becomes the identity. (`prelu` takes a layer. It is not a function for
    the argument `nonlinearity`.)

    Parameters
    ----------
    layer : Layer
    **kwargs
        Further arguments of `ParametricRectifierLayer`.

    Examples
    --------
    >>> from lasagne_like.layers import DenseLayer, prelu
    >>> layer = prelu(DenseLayer((None, 5), 3))
    >>> layer.input_layer.nonlinearity, layer.alpha.shape
    (linear, (3,))
    """
    return ParametricRectifierLayer(_linear(layer), **kwargs)


class RandomizedRectifierLayer(RandomLayer):
    """`x` where it is positive and `slope * x` elsewhere, with a random slope.

    Each call draws new slopes from a uniform distribution. With `deterministic=True`, the slope is the mean of `lower`
    and `upper`.

    Parameters
    ----------
    incoming : Layer or tuple
    lower, upper : float or scalar expression
        The bounds of the slopes.
    shared_axes : "auto", "all", int or tuple of ints
        The axes along which all entries have the same slope. "auto" is all axes but the second. With "all", there is a
        single slope.
    name : str, optional

    References
    ----------
    Xu et al., "Empirical evaluation of rectified activations in convolutional network", 2015.

    Examples
    --------
    >>> import scanjit as sj
    >>> from lasagne_like.layers import InputLayer, RandomizedRectifierLayer, get_output
    >>> layer = RandomizedRectifierLayer(InputLayer((None, 2)), lower=0.25, upper=0.75)
    >>> sj.function([], get_output(layer, [[-1.0, 1.0]], deterministic=True), mode="reference")()
    array([[-0.5,  1. ]])
    """

    def __init__(
        self,
        incoming: Incoming,
        lower: Any = 0.3,
        upper: Any = 0.8,
        shared_axes: Any = "auto",
        *,
        name: str | None = None,
    ) -> None:
        super().__init__(incoming, name=name)
        for value, what in ((lower, "lower"), (upper, "upper")):
            check_number(self, value, what, least=-np.inf)
        if isinstance(lower, int | float) and isinstance(upper, int | float) and lower > upper:
            raise ValueError(f"upper of {self} must be at least lower, got lower={lower} and upper={upper}")
        self.lower, self.upper = lower, upper
        self.shared_axes = _shared(self, shared_axes)

    def get_output_for(self, input: Any, deterministic: bool = False, **kwargs: Any) -> sj.Node:
        dtype = float_dtype(input)
        lower, upper = number(self.lower, dtype), number(self.upper, dtype)
        slope = (lower + upper) / 2
        if not deterministic:
            shape = tuple(1 if axis in self.shared_axes else size for axis, size in enumerate(input.shape))
            slope = self.stream.uniform(shape, dtype=dtype) * (upper - lower) + lower
        return sj.where(input > 0, input, input * slope)


def rrelu(layer: Any, **kwargs: Any) -> RandomizedRectifierLayer:
    """Replace the nonlinearity of a layer by a `RandomizedRectifierLayer`.

    This changes the layer: its own nonlinearity becomes the identity. (`rrelu` takes a layer. It is not a function for
    the argument `nonlinearity`.)

    Parameters
    ----------
    layer : Layer
    **kwargs
        Further arguments of `RandomizedRectifierLayer`.

    Examples
    --------
    >>> from lasagne_like.layers import DenseLayer, rrelu
    >>> rrelu(DenseLayer((None, 5), 3)).output_shape
    (None, 3)
    """
    return RandomizedRectifierLayer(_linear(layer), **kwargs)


def _shared(layer: Layer, axes: Any) -> tuple[int, ...]:
    """The axes along which all entries have the same slope."""
    if isinstance(axes, str) and axes == "all":
        return tuple(range(len(layer.input_shape)))
    return all_axes_but(layer, axes, "shared_axes")


def _linear(layer: Any) -> Any:
    """Set the nonlinearity of a layer to the identity. Returns the layer."""
    if isinstance(layer, RNNLayer):
        raise ValueError(f"the nonlinearity of {layer} is inside its loop: a rectifier behind it cannot replace it")
    without_nonlinearity(layer)
    return layer

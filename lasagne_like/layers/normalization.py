"""Normalization by the statistics of a batch, or of each item."""

from typing import Any

import numpy as np

import scanjit as sj
from lasagne_like import init
from lasagne_like.checks import check_number
from lasagne_like.layers.base import Incoming, Layer, axes_of, check_axes
from lasagne_like.layers.rnn import RNNLayer
from lasagne_like.layers.special import (
    BiasLayer,
    NonlinearityLayer,
    ScaleLayer,
    all_axes_but,
    sizes_besides,
    spread,
    without_nonlinearity,
)
from lasagne_like.utils import Parameter, int_types, number

__all__ = [
    "BatchNormLayer",
    "LocalResponseNormalization2DLayer",
    "StandardizationLayer",
    "batch_norm",
    "instance_norm",
    "layer_norm",
]


class BatchNormLayer(Layer):
    """Batch normalization: `(x - mean) * gamma * inv_std + beta`, where `inv_std` is `1 / sqrt(variance + epsilon)`.

    In training, `mean` and `inv_std` are the statistics of the batch, and the layer updates their running averages:
    `(1 - alpha) * average + alpha * batch`. With `deterministic=True`, the layer uses the running averages instead, and
    does not update them. Two keyword arguments of `get_output` override this: `batch_norm_use_averages` and
    `batch_norm_update_averages`.

    The output does not contain the new averages. Give them to the function that trains the network:

        updates = adam(loss, params) | lasagne.layers.get_updates(network)

    Parameters
    ----------
    incoming : Layer or tuple
    axes : "auto", int or tuple of ints
        The axes over which means and variances are taken. "auto" is all axes but the second.
    epsilon : float
        Added to the variance.
    alpha : float
        The weight of a batch in the running averages.
    beta, gamma : initializer, array, shared variable, expression or None
        Of the shape of the input without `axes`. None stands for a beta of 0, or a gamma of 1.
    mean, inv_std : initializer, array, shared variable or expression
        The initial values of the running averages, of the shape of the input without `axes`. These parameters have the
        tag `batch_norm_stat` and are not trainable.
    name : str, optional

    References
    ----------
    Ioffe and Szegedy, "Batch normalization", ICML 2015.

    Examples
    --------
    >>> import numpy as np
    >>> import scanjit as sj
    >>> from lasagne_like.layers import BatchNormLayer, InputLayer, get_output, get_updates
    >>> x = sj.matrix("x")
    >>> layer = BatchNormLayer(InputLayer((None, 2), x), alpha=0.5)
    >>> train = sj.function([x], get_output(layer), updates=get_updates(layer), mode="reference")
    >>> train(np.array([[1.0, 2.0], [3.0, 2.0]])).round(3) + 0.0
    array([[-1.,  0.],
           [ 1.,  0.]])
    >>> layer.mean.get_value()
    array([1., 1.])
    """

    def __init__(
        self,
        incoming: Incoming,
        axes: Any = "auto",
        epsilon: float = 1e-4,
        alpha: Any = 0.1,
        beta: Parameter | None = init.Constant(0),
        gamma: Parameter | None = init.Constant(1),
        mean: Parameter = init.Constant(0),
        inv_std: Parameter = init.Constant(1),
        *,
        name: str | None = None,
    ) -> None:
        super().__init__(incoming, name=name)
        self.axes = _some(self, all_axes_but(self, axes, "axes"))
        check_number(self, epsilon, "epsilon")
        check_number(self, alpha, "alpha", most=1)
        self.epsilon, self.alpha = epsilon, alpha
        shape = sizes_besides(self, self.axes)
        self.beta = None if beta is None else self.add_param(beta, shape, "beta", regularizable=False)
        self.gamma = None if gamma is None else self.add_param(gamma, shape, "gamma")
        stat = {"trainable": False, "regularizable": False, "batch_norm_stat": True}
        self.mean = self.add_param(mean, shape, "mean", **stat)
        self.inv_std = self.add_param(inv_std, shape, "inv_std", **stat)

    def get_output_for(
        self,
        input: Any,
        deterministic: bool = False,
        batch_norm_use_averages: bool | None = None,
        batch_norm_update_averages: bool | None = None,
        **kwargs: Any,
    ) -> sj.Node:
        batch_mean = sj.mean(input, axis=self.axes)
        batch_inv_std = 1 / sj.sqrt(sj.var(input, axis=self.axes) + number(self.epsilon, batch_mean.dtype))
        use = deterministic if batch_norm_use_averages is None else batch_norm_use_averages
        update = not deterministic if batch_norm_update_averages is None else batch_norm_update_averages
        if update:
            for average, batch in ((self.mean, batch_mean), (self.inv_std, batch_inv_std)):
                if isinstance(average, sj.SharedVariable):
                    alpha, new = number(self.alpha, average.dtype), sj.cast(batch, average.dtype)
                    self.updates[average] = (1 - alpha) * average + alpha * new
        mean, inv_std = (self.mean, self.inv_std) if use else (batch_mean, batch_inv_std)
        scale = inv_std if self.gamma is None else self.gamma * inv_std
        normalized = (input - self._spread(mean, input)) * self._spread(scale, input)
        return normalized if self.beta is None else normalized + self._spread(self.beta, input)

    def _spread(self, param: Any, input: Any) -> sj.Node:
        return spread(param, self.axes, input.ndim)


def _some(layer: Layer, axes: tuple[int, ...]) -> tuple[int, ...]:
    """The axes, at least one: over none, each number would be its own mean, and the output 0."""
    if not axes:
        raise ValueError(f"axes of {layer} must be one axis or more, but there is none for {layer.input_shape}")
    return axes


class StandardizationLayer(Layer):
    """Shifts and scales each item of the batch to mean 0 and variance 1: `(x - mean) / sqrt(variance + epsilon)`.

    Parameters
    ----------
    incoming : Layer or tuple
    axes : "auto", "spatial", "features", int or tuple of ints
        The axes over which mean and variance are taken. "spatial" is all axes behind the second, and "features" all
        axes behind the first. "auto" is "features" for an input of 2 dimensions, and "spatial" otherwise.
    epsilon : float
        Added to the variance.
    name : str, optional

    Examples
    --------
    >>> import scanjit as sj
    >>> from lasagne_like.layers import InputLayer, StandardizationLayer, get_output
    >>> layer = StandardizationLayer(InputLayer((None, 2)))
    >>> sj.function([], get_output(layer, [[1.0, 3.0]]), mode="reference")().round(3)
    array([[-1.,  1.]])
    """

    def __init__(
        self, incoming: Incoming, axes: Any = "auto", epsilon: float = 1e-4, *, name: str | None = None
    ) -> None:
        super().__init__(incoming, name=name)
        ndim = len(self.input_shape)
        if isinstance(axes, str) and axes in ("auto", "spatial", "features"):
            axes = range(1 if axes == "features" or (axes == "auto" and ndim == 2) else 2, ndim)
        self.axes = _some(self, axes_of(self, axes, "axes", "'auto', 'spatial', 'features' or "))
        check_number(self, epsilon, "epsilon")
        self.epsilon = epsilon

    def get_output_for(self, input: Any, **kwargs: Any) -> sj.Node:
        mean = sj.mean(input, axis=self.axes, keepdims=True)
        variance = sj.var(input, axis=self.axes, keepdims=True)
        return (input - mean) / sj.sqrt(variance + number(self.epsilon, variance.dtype))


class LocalResponseNormalization2DLayer(Layer):
    """Divides each value of a picture by `(k + alpha * sum(x**2)) ** beta`. The sum goes over neighbouring channels.

    Parameters
    ----------
    incoming : Layer or tuple
        Its output has shape (batch, channels, rows, columns).
    alpha, k, beta : float or scalar expression
    n : int
        The number of channels in the sum, an odd number. The channel of the value is the middle one.
    name : str, optional

    References
    ----------
    Krizhevsky et al., "ImageNet classification with deep convolutional neural networks", NIPS 2012.

    Examples
    --------
    >>> from lasagne_like.layers import LocalResponseNormalization2DLayer
    >>> LocalResponseNormalization2DLayer((None, 16, 8, 8)).output_shape
    (None, 16, 8, 8)
    """

    def __init__(
        self,
        incoming: Incoming,
        alpha: Any = 1e-4,
        k: Any = 2,
        beta: Any = 0.75,
        n: Any = 5,
        *,
        name: str | None = None,
    ) -> None:
        super().__init__(incoming, name=name)
        check_axes(self, 2)
        if not isinstance(n, int_types) or n % 2 == 0 or n < 1:
            raise NotImplementedError(f"n of {self} must be a positive odd number of channels, got {n!r}")
        for value, what in ((alpha, "alpha"), (k, "k"), (beta, "beta")):
            check_number(self, value, what, least=-np.inf)
        self.alpha, self.k, self.beta, self.n = alpha, k, beta, n

    def get_output_for(self, input: Any, **kwargs: Any) -> sj.Node:
        squares = sj.moveaxis(input * input, 1, -1)
        total = sj.moveaxis(sj.pool(squares, self.n, stride=1, pad=self.n // 2, mode="sum"), -1, 1)
        alpha, k, beta = (number(value, input.dtype) for value in (self.alpha, self.k, self.beta))
        return input / (k + alpha * total) ** beta


def _taken_apart(layer: Any, name: str | None, suffix: str) -> tuple[Any, str | None]:
    """Remove the nonlinearity and the bias of a layer. Returns the nonlinearity, and a name for the layer that
    follows. A recurrent layer keeps both: they are inside its loop."""
    within = isinstance(layer, RNNLayer)
    nonlinearity = None if within else without_nonlinearity(layer)
    if not within and getattr(layer, "b", None) is not None:
        layer.params.pop(layer.b, None)
        layer.b = None
    own = getattr(layer, "name", None)
    return nonlinearity, name or (own + suffix if own else None)


def _named(name: str | None, suffix: str) -> str | None:
    return name + suffix if name else None


def _with_nonlinearity(layer: Layer, nonlinearity: Any, name: str | None) -> Layer:
    if nonlinearity is None:
        return layer
    return NonlinearityLayer(layer, nonlinearity, name=_named(name, "_nonlin"))


def batch_norm(layer: Any, **kwargs: Any) -> Layer:
    """Add batch normalization to a layer, before its nonlinearity.

    This changes the layer. Its bias is removed, because `beta` of the normalization replaces it. Its nonlinearity moves
    behind the normalization. Recurrent layers stay as they are, and the normalization reads their output.

    Parameters
    ----------
    layer : Layer
    **kwargs
        Further arguments of `BatchNormLayer`.

    Returns
    -------
    NonlinearityLayer or BatchNormLayer
        The last layer: the normalization, if `layer` had no nonlinearity.

    Examples
    --------
    >>> from lasagne_like.layers import DenseLayer, InputLayer, batch_norm, get_all_layers
    >>> network = batch_norm(DenseLayer(InputLayer((64, 768)), num_units=500))
    >>> [type(layer).__name__ for layer in get_all_layers(network)]
    ['InputLayer', 'DenseLayer', 'BatchNormLayer', 'NonlinearityLayer']
    """
    nonlinearity, name = _taken_apart(layer, kwargs.pop("name", None), "_bn")
    return _with_nonlinearity(BatchNormLayer(layer, name=name, **kwargs), nonlinearity, name)


def instance_norm(layer: Any, learn_scale: bool = True, learn_bias: bool = True, **kwargs: Any) -> Layer:
    """Add instance normalization to a layer, before its nonlinearity.

    In each item of the batch, each channel is shifted and scaled to mean 0 and variance 1. The layer changes as with
    `batch_norm`.

    Parameters
    ----------
    layer : Layer
    learn_scale, learn_bias : bool
        Whether a `ScaleLayer` and a `BiasLayer` follow the normalization. They have one number for each channel.
    **kwargs
        Further arguments of `StandardizationLayer`.

    Returns
    -------
    Layer
        The last layer.

    References
    ----------
    Ulyanov, Vedaldi and Lempitsky, "Instance normalization", 2016.

    Examples
    --------
    >>> from lasagne_like.layers import Conv1DLayer, get_all_layers, instance_norm
    >>> network = instance_norm(Conv1DLayer((None, 3, None), 8, 3))
    >>> [type(layer).__name__ for layer in get_all_layers(network)]
    ['Conv1DLayer', 'StandardizationLayer', 'ScaleLayer', 'BiasLayer', 'NonlinearityLayer']
    """
    nonlinearity, name = _taken_apart(layer, kwargs.pop("name", None), "_in")
    result: Layer = StandardizationLayer(layer, axes="spatial", name=name, **kwargs)
    if learn_scale:
        result = ScaleLayer(result, name=_named(name, "_scale"))
    if learn_bias:
        result = BiasLayer(result, name=_named(name, "_bias"))
    return _with_nonlinearity(result, nonlinearity, name)


def layer_norm(layer: Any, **kwargs: Any) -> Layer:
    """Add layer normalization to a layer, before its nonlinearity.

    The features of each item of the batch are shifted and scaled to mean 0 and variance 1. A `ScaleLayer` and a
    `BiasLayer` follow. The layer changes as with `batch_norm`.

    Parameters
    ----------
    layer : Layer
    **kwargs
        Further arguments of `StandardizationLayer`.

    Returns
    -------
    Layer
        The last layer.

    References
    ----------
    Ba, Kiros and Hinton, "Layer normalization", 2016.

    Examples
    --------
    >>> from lasagne_like.layers import DenseLayer, InputLayer, get_all_params, layer_norm
    >>> network = layer_norm(DenseLayer(InputLayer((10, 28)), num_units=64, name="l"))
    >>> [p.name for p in get_all_params(network)]
    ['l.W', 'l_ln_scale.scales', 'l_ln_bias.b']
    """
    nonlinearity, name = _taken_apart(layer, kwargs.pop("name", None), "_ln")
    standard = StandardizationLayer(layer, axes="features", name=name, **kwargs)
    scaled = ScaleLayer(standard, name=_named(name, "_scale"))
    return _with_nonlinearity(BiasLayer(scaled, name=_named(name, "_bias")), nonlinearity, name)

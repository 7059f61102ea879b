"""Layers whose units read all features of their input."""

import math
from typing import Any

import scanjit as sj
from lasagne_like import init, nonlinearities
from lasagne_like.layers.base import Incoming, Layer
from lasagne_like.utils import Nonlinearity, Parameter, Shape, biased

__all__ = ["DenseLayer", "NINLayer"]


class DenseLayer(Layer):
    """A fully connected layer: `nonlinearity(x @ W + b)`.

    Parameters
    ----------
    incoming : Layer or tuple
    num_units : int
    W : initializer, array, shared variable or expression
        Of shape (num_inputs, num_units).
    b : initializer, array, shared variable, expression or None
        Of shape (num_units,); None for no bias.
    nonlinearity : callable or None
        None for none.
    num_leading_axes : int
        The number of axes that the output has in common with the input. The axes behind them are flattened to
        `num_inputs` features, so their sizes must be fixed. A negative number counts the axes that are flattened.
    name : str, optional

    Examples
    --------
    >>> from lasagne_like.layers import DenseLayer, InputLayer
    >>> l_in = InputLayer((None, 10, 20))
    >>> DenseLayer(l_in, num_units=50).output_shape
    (None, 50)
    >>> DenseLayer(l_in, num_units=50, num_leading_axes=2).output_shape
    (None, 10, 50)
    >>> DenseLayer(l_in, num_units=50, num_leading_axes=-1).W.shape
    (20, 50)
    """

    def __init__(
        self,
        incoming: Incoming,
        num_units: int,
        W: Parameter = init.GlorotUniform(),
        b: Parameter | None = init.Constant(0.0),
        nonlinearity: Nonlinearity = nonlinearities.rectify,
        num_leading_axes: int = 1,
        *,
        name: str | None = None,
    ) -> None:
        super().__init__(incoming, name=name)
        self.nonlinearity = nonlinearities.or_identity(nonlinearity)
        self.num_units = num_units
        ndim = len(self.input_shape)
        if not -ndim <= num_leading_axes < ndim:
            raise ValueError(
                f"num_leading_axes={num_leading_axes} does not fit an input of {ndim} dimensions {self.input_shape}: "
                f"at least one axis must be left to multiply (-{ndim} <= num_leading_axes < {ndim})"
            )
        self.num_leading_axes = num_leading_axes
        features = self.input_shape[num_leading_axes:]
        if any(size is None for size in features):
            most = max(axis for axis, size in enumerate(self.input_shape) if size is None) + 1
            hint = f": with num_leading_axes={most}, all of them are fixed" if most < ndim else ""
            raise ValueError(
                f"DenseLayer needs fixed sizes behind the leading axes, got input shape {self.input_shape} with "
                f"num_leading_axes={num_leading_axes}{hint}"
            )
        num_inputs = math.prod(size for size in features if size is not None)
        self.W = self.add_param(W, (num_inputs, num_units), name="W")
        self.b = None if b is None else self.add_param(b, (num_units,), name="b", regularizable=False)

    def get_output_shape_for(self, input_shape: Shape) -> Shape:
        return (*input_shape[: self.num_leading_axes], self.num_units)

    def get_output_for(self, input: Any, **kwargs: Any) -> sj.Node:
        leading = self.num_leading_axes % input.ndim if self.num_leading_axes < 0 else self.num_leading_axes
        if input.ndim > leading + 1:
            input = sj.flatten(input, leading + 1)
        return self.nonlinearity(biased(sj.dot(input, self.W), self.b))


class NINLayer(Layer):
    """A dense layer over the second axis, the same at every place of the axes behind it (network in network).

    It is a convolution with filters of size 1.

    Parameters
    ----------
    incoming : Layer or tuple
        Its output has shape (batch, channels, ...).
    num_units : int
    untie_biases : bool
        Whether each place has its own bias.
    W : initializer, array, shared variable or expression
        Of shape (channels, num_units).
    b : initializer, array, shared variable, expression or None
        Of shape (num_units,). With `untie_biases`, the sizes of the axes behind the channels follow.
    nonlinearity : callable or None
    name : str, optional

    References
    ----------
    Lin, Chen and Yan, "Network in network", 2013.

    Examples
    --------
    >>> from lasagne_like.layers import InputLayer, NINLayer
    >>> NINLayer(InputLayer((100, 20, 10, 3)), num_units=5).output_shape
    (100, 5, 10, 3)
    """

    def __init__(
        self,
        incoming: Incoming,
        num_units: int,
        untie_biases: bool = False,
        W: Parameter = init.GlorotUniform(),
        b: Parameter | None = init.Constant(0.0),
        nonlinearity: Nonlinearity = nonlinearities.rectify,
        *,
        name: str | None = None,
    ) -> None:
        super().__init__(incoming, name=name)
        self.nonlinearity = nonlinearities.or_identity(nonlinearity)
        self.num_units, self.untie_biases = num_units, untie_biases
        if len(self.input_shape) < 2 or self.input_shape[1] is None:
            raise ValueError(f"NINLayer needs a fixed number of channels (axis 1), got shape {self.input_shape}")
        self.W = self.add_param(W, (self.input_shape[1], num_units), name="W")
        self.b = channel_bias(self, b, num_units, untie_biases)

    def get_output_shape_for(self, input_shape: Shape) -> Shape:
        return (input_shape[0], self.num_units, *input_shape[2:])

    def get_output_for(self, input: Any, **kwargs: Any) -> sj.Node:
        activation = sj.moveaxis(sj.tensordot(input, self.W, ([1], [0])), -1, 1)
        return self.nonlinearity(with_channel_bias(activation, self.b, self.untie_biases))


def channel_bias(layer: Layer, b: Parameter | None, channels: int, untied: bool) -> Any:
    """The bias of each channel of a layer's output, or (`untied`) of each channel at each place. None for no bias."""
    sizes = layer.output_shape[2:] if untied else ()
    if b is not None and None in sizes:
        raise ValueError(f"untied biases need fixed sizes from axis 2 on, got input shape {layer.input_shape}")
    return None if b is None else layer.add_param(b, (channels, *sizes), name="b", regularizable=False)


def with_channel_bias(x: Any, b: Any, untied: bool) -> Any:
    """`x` plus such a bias."""
    places = range(1, x.ndim - 1) if untied else ["x"] * (x.ndim - 2)
    return x if b is None else x + b.dimshuffle("x", 0, *places)

"""Layers with one simple operation: a nonlinearity, a bias, a scale, or a function of expressions."""

from collections.abc import Callable, Sequence
from typing import Any

import scanjit as sj
from lasagne_like import init, nonlinearities
from lasagne_like.checks import is_count
from lasagne_like.layers.base import Incoming, Layer, MergeLayer, axes_of, check_function
from lasagne_like.shapes import fits, known_sizes
from lasagne_like.utils import Nonlinearity, Parameter, Shape, floatX, is_expression

__all__ = ["BiasLayer", "ExpressionLayer", "InverseLayer", "NonlinearityLayer", "ScaleLayer", "standardize"]


class NonlinearityLayer(Layer):
    """Applies a nonlinearity to its input.

    Parameters
    ----------
    incoming : Layer or tuple
    nonlinearity : callable or None
        None for the identity.
    name : str, optional

    Examples
    --------
    >>> from lasagne_like.layers import NonlinearityLayer
    >>> from lasagne_like.nonlinearities import tanh
    >>> NonlinearityLayer((None, 3), tanh).output_shape
    (None, 3)
    """

    def __init__(
        self, incoming: Incoming, nonlinearity: Nonlinearity = nonlinearities.rectify, *, name: str | None = None
    ) -> None:
        super().__init__(incoming, name=name)
        self.nonlinearity = nonlinearities.or_identity(nonlinearity)

    def get_output_for(self, input: Any, **kwargs: Any) -> Any:
        return self.nonlinearity(input)


def without_nonlinearity(layer: Any) -> Any:
    """Set the nonlinearity of a layer to the identity. Returns what it was; None for a layer without one."""
    nonlinearity = getattr(layer, "nonlinearity", None)
    if nonlinearity is not None:
        layer.nonlinearity = nonlinearities.identity
    return nonlinearity


def all_axes_but(layer: Layer, axes: Any, what: str) -> tuple[int, ...]:
    """The axes that a user gave, as numbers from 0 on. "auto" is all axes but the second."""
    if isinstance(axes, str) and axes == "auto":
        return (0, *range(2, len(layer.input_shape)))
    return axes_of(layer, axes, what, "'auto' or ")


def sizes_besides(layer: Layer, axes: tuple[int, ...]) -> tuple[int | None, ...]:
    """The sizes of the axes of a layer's input that are not in `axes`. They must be fixed."""
    sizes = tuple(size for axis, size in enumerate(layer.input_shape) if axis not in axes)
    if None in sizes:
        raise ValueError(
            f"{type(layer).__name__} needs fixed sizes for all axes but {axes}, got input shape {layer.input_shape}"
        )
    return sizes


def spread(param: Any, axes: tuple[int, ...], ndim: int) -> sj.Node:
    """A parameter with new axes of size 1 in the places `axes`, so that it has `ndim` axes."""
    own = iter(range(param.ndim))
    return sj.dimshuffle(param, *("x" if axis in axes else next(own) for axis in range(ndim)))


class BiasLayer(Layer):
    """Adds a bias.

    Parameters
    ----------
    incoming : Layer or tuple
    b : initializer, array, shared variable, expression or None
        Of the shape of the input without `shared_axes`. None for no bias.
    shared_axes : "auto", int or tuple of ints
        The axes along which all entries have the same bias. "auto" is all axes but the second.
    name : str, optional

    Examples
    --------
    >>> from lasagne_like.layers import BiasLayer
    >>> BiasLayer((20, 30, 40, 50), shared_axes=(0, 2)).b.shape
    (30, 50)
    """

    def __init__(
        self,
        incoming: Incoming,
        b: Parameter | None = init.Constant(0),
        shared_axes: Any = "auto",
        *,
        name: str | None = None,
    ) -> None:
        super().__init__(incoming, name=name)
        self.shared_axes = all_axes_but(self, shared_axes, "shared_axes")
        self.b: Any = None
        if b is not None:
            self.b = self.add_param(b, sizes_besides(self, self.shared_axes), "b", regularizable=False)

    def get_output_for(self, input: Any, **kwargs: Any) -> Any:
        return input if self.b is None else input + spread(self.b, self.shared_axes, input.ndim)


class ScaleLayer(Layer):
    """Multiplies its input by learned coefficients.

    Parameters
    ----------
    incoming : Layer or tuple
    scales : initializer, array, shared variable or expression
        Of the shape of the input without `shared_axes`.
    shared_axes : "auto", int or tuple of ints
        The axes along which all entries have the same coefficient. "auto" is all axes but the second.
    name : str, optional

    Examples
    --------
    >>> from lasagne_like.layers import ScaleLayer
    >>> ScaleLayer((20, 30, 40), shared_axes=(0, 1)).scales.shape
    (40,)
    """

    def __init__(
        self,
        incoming: Incoming,
        scales: Parameter = init.Constant(1),
        shared_axes: Any = "auto",
        *,
        name: str | None = None,
    ) -> None:
        super().__init__(incoming, name=name)
        self.shared_axes = all_axes_but(self, shared_axes, "shared_axes")
        shape = sizes_besides(self, self.shared_axes)
        self.scales = self.add_param(scales, shape, "scales", regularizable=False)

    def get_output_for(self, input: Any, **kwargs: Any) -> sj.Node:
        return input * spread(self.scales, self.shared_axes, input.ndim)


def standardize(layer: Any, offset: Any, scale: Any, shared_axes: Any = "auto") -> ScaleLayer:
    """Add layers that subtract an offset and divide by a scale: `(x - offset) / scale`. Both are fixed, not trained.

    Parameters
    ----------
    layer : Layer or tuple
    offset, scale : arrays or shared variables
        Of the shape of the input without `shared_axes`.
    shared_axes : "auto", int or tuple of ints
        See `BiasLayer`.

    Returns
    -------
    ScaleLayer
        The last of two layers. A `BiasLayer` feeds it.

    Examples
    --------
    >>> import numpy as np
    >>> from lasagne_like.layers import InputLayer, standardize
    >>> data = np.random.default_rng(0).normal(3, 2, (100, 5))
    >>> layer = standardize(InputLayer((None, 5)), data.mean(axis=0), data.std(axis=0))
    >>> layer.get_params(trainable=True)
    []
    """
    offset, scale = (value if is_expression(value) else floatX(value) for value in (offset, scale))
    shifted = BiasLayer(layer, -offset, shared_axes)
    shifted.params[shifted.b].remove("trainable")
    scaled = ScaleLayer(shifted, 1 / scale, shared_axes)
    scaled.params[scaled.scales].remove("trainable")
    return scaled


class ExpressionLayer(Layer):
    """Applies a function of your own to its input.

    Parameters
    ----------
    incoming : Layer or tuple
    function : callable
        It takes an expression and returns one.
    output_shape : None, tuple, callable or "auto"
        The shape of the output. None is the shape of the input. A tuple has ints, and None for sizes that are not
        fixed. A callable computes it from the shape of the input. With "auto", the layer applies `function` to a symbol
        and takes the shape of the result.
    name : str, optional

    Examples
    --------
    >>> from lasagne_like.layers import ExpressionLayer
    >>> ExpressionLayer((None, 100, 20), lambda x: x.mean(-1), output_shape="auto").output_shape
    (None, 100)
    """

    takes_structures = True

    def __init__(
        self,
        incoming: Incoming,
        function: Callable[[Any], Any],
        output_shape: str | Sequence[int | None] | Callable[[Any], Any] | None = None,
        *,
        name: str | None = None,
    ) -> None:
        super().__init__(incoming, name=name)
        given: Any = output_shape
        sizes = isinstance(given, list | tuple) and all(size is None or is_count(size) for size in given)
        if not (given is None or callable(given) or sizes or (isinstance(given, str) and given == "auto")):
            raise ValueError(
                f"output_shape of {self} must be None, a tuple, a callable or 'auto', got {output_shape!r}"
            )
        check_function(self, function, "function")
        self.function, self._output_shape = function, output_shape

    def get_output_shape_for(self, input_shape: Shape) -> Shape:
        if self._output_shape is None:
            return input_shape
        if callable(self._output_shape):
            return self._output_shape(input_shape)
        if not isinstance(self._output_shape, str):
            return tuple(self._output_shape)
        return known_sizes(sj.shape(self.function(sj.tensor(input_shape))))

    def get_output_for(self, input: Any, **kwargs: Any) -> Any:
        return self.function(input)


class InverseLayer(MergeLayer):
    """Multiplies its input by the derivative of another layer with respect to that layer's input.

    For a dense layer without a nonlinearity, this is a product with the transposed weights. For a convolution, it is a
    transposed convolution. For a `MaxPool2DLayer`, it puts each value where the maximum was, and zeros elsewhere. The
    derivative of a nonlinearity of the layer is a factor, too.

    Parameters
    ----------
    incoming : Layer or tuple
        Its output has the shape of the output of `layer`.
    layer : Layer
        A layer with one input.
    name : str, optional

    Examples
    --------
    >>> from lasagne_like.layers import Conv2DLayer, InverseLayer, MaxPool2DLayer
    >>> conv = Conv2DLayer((None, 3, 28, 28), 16, 5)
    >>> pooled = MaxPool2DLayer(conv, 2)
    >>> InverseLayer(InverseLayer(pooled, pooled), conv).output_shape
    (None, 3, 28, 28)
    """

    def __init__(self, incoming: Incoming, layer: Any, *, name: str | None = None) -> None:
        if not isinstance(layer, Layer) or not hasattr(layer, "input_layer"):
            raise TypeError(f"layer of InverseLayer must be a layer with one input, got {layer!r}")
        source: Layer | None = layer.input_layer
        super().__init__([incoming, layer, layer.input_shape if source is None else source], name)
        if not fits(self.input_shapes[0], self.input_shapes[1]):
            raise ValueError(
                f"the input of {self} must have the output shape of {layer!r}, {self.input_shapes[1]}; got "
                f"{self.input_shapes[0]}"
            )

    def get_output_shape_for(self, input_shapes: Any) -> Shape:
        return input_shapes[2]

    def get_output_for(self, inputs: Any, **kwargs: Any) -> sj.Node:
        input, output, source = inputs
        return sj.vjp(output, source, sj.cast(input, output.dtype), disconnected="ignore")

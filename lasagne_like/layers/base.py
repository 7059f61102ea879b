"""Layers: shapes, an expression for the output, and parameters with tags."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Self, cast

import scanjit as sj
from lasagne_like import utils
from lasagne_like.foreign import METHODS, check_words, no_method
from lasagne_like.parameters import Parametrized
from lasagne_like.utils import Shape

__all__ = ["Layer", "MergeLayer"]


class Layer(Parametrized):
    """A layer with one input.

    A layer has a reference to the layer that feeds it, so the last layer stands for the whole network. A subclass
    defines the output of the layer (`get_output_for`). If the output has another shape than the input, it also defines
    this shape (`get_output_shape_for`).

    Parameters
    ----------
    incoming : Layer or tuple
        The layer that feeds this one. A tuple is the shape of an input that is given later, to `get_output`.
    name : str, optional
        The names of the parameters begin with it: "name.W".

    Attributes
    ----------
    input_layer : the layer that feeds this one, or None.
    input_shape, output_shape : tuples of ints and None. None is a size that is not fixed.
    params : an ordered dict from each parameter that `add_param` registered to the set of its tags.
    updates : new values of shared variables that come with the output, such as running averages or the state of a
    recurrent layer. `get_output_for` adds them, and `lasagne_like.layers.get_updates` collects them.
    get_output_kwargs : names of keyword arguments of `get_output_for` that its signature does not show.
    takes_structures : whether the input may be several tensors, such as the output and the state of a recurrent layer.

    Examples
    --------
    A new layer:

    >>> import lasagne_like as lasagne
    >>> class Scale(lasagne.layers.Layer):
    ...     def __init__(self, incoming, factor=lasagne.init.Constant(2), **kwargs):
    ...         super().__init__(incoming, **kwargs)
    ...         self.factor = self.add_param(factor, self.input_shape[1:], name="factor")
    ...
    ...     def get_output_for(self, input, **kwargs):
    ...         return input * self.factor
    >>> layer = Scale(lasagne.layers.InputLayer((None, 3)), name="scale")
    >>> layer.output_shape, layer.get_params()
    ((None, 3), [<shared scale.factor: float64(3)>])
    """

    input_layer: Layer | None
    input_shape: Shape
    takes_structures: bool = False

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        check_words(cls, kwargs)
        made: Any = super().__new__
        return cast("Self", made(cls) if made is object.__new__ else made(cls, *args, **kwargs))

    def __init__(self, incoming: Incoming, name: str | None = None) -> None:
        self.input_shape = shape_of(incoming)
        self.input_layer = None if isinstance(incoming, tuple) else incoming
        self._begin(name)
        self._check_input(self.input_shape, "input_shape")

    def _begin(self, name: str | None) -> None:
        self.name = name
        self.params = OrderedDict()
        self.updates: OrderedDict[sj.SharedVariable, sj.Node] = OrderedDict()
        self.get_output_kwargs: list[str] = []

    def __getstate__(self) -> dict[str, Any]:
        """For pickle and copies: without `updates`, which belong to expressions that were made before."""
        return vars(self) | {"updates": OrderedDict()}

    def _check_input(self, shape: Any, what: str) -> None:
        if not self.takes_structures:
            check_single(shape, self)
        if any(isinstance(size, utils.int_types) and size <= 0 for size in shape):
            raise ValueError(f"cannot create {self}: {what}={shape} has a size that is not positive")

    if not TYPE_CHECKING:  # it would allow every attribute

        def __getattr__(self, name: str) -> Any:
            if name in METHODS:
                raise no_method(self, name)
            return object.__getattribute__(self, name)  # raises the error again: it may be one inside a property

    def __str__(self) -> str:
        return f"<{type(self).__name__}{f' {self.name!r}' if getattr(self, 'name', None) else ''}>"

    def __repr__(self) -> str:
        shapes = getattr(self, "input_shapes", getattr(self, "input_shape", None))
        try:
            count = sum(param.get_value(borrow=True).size for param in self.get_params())
            return f"{str(self)[:-1]}: {_shown(shapes)} -> {_shown(self.output_shape)}, {count} parameters>"
        except sj.not_from_signal_handler(Exception):  # a layer whose __init__ has not finished is shown by its name
            return str(self)

    @property
    def output_shape(self) -> Shape:
        """The shape of the output; a structure of shapes if the output has several tensors."""
        return self._checked(self.get_output_shape_for(self.input_shape))

    def _checked(self, shape: Any) -> Any:
        """The output shape as a tuple. Several tensors have a structure of shapes, which stays as it is."""
        if isinstance(shape, list | tuple) and any(utils.is_expression(size) for size in shape):
            raise ValueError(
                f"{type(self).__name__}.get_output_shape_for returned a symbolic shape: {shape!r}; sizes must be ints, "
                "or None where they are not fixed"
            )
        sizes = isinstance(shape, list) and all(size is None or isinstance(size, utils.int_types) for size in shape)
        return tuple(shape) if sizes else shape

    def get_params(self, unwrap_shared: bool = True, **tags: bool) -> list[Any]:
        """The parameters, in the order in which they were added.

        Parameters
        ----------
        unwrap_shared : bool
            Whether a parameter that is an expression is replaced by the shared variables that it is computed from.
            These have the tags of the expression.
        **tags : bool
            `tag=True` selects the parameters with a tag, and `tag=False` those without it.

        Returns
        -------
        list of SharedVariable
            With `unwrap_shared=False`, parameters that are expressions are in the list as they are.
        """
        found = self.tagged(tags)
        return utils.collect_shared_vars(found) if unwrap_shared else found

    if TYPE_CHECKING:  # subclasses name the argument as they like, and those that merge take lists

        def get_output_shape_for(self, *args: Any, **kwargs: Any) -> Shape: ...
        def get_output_for(self, *args: Any, **kwargs: Any) -> Any: ...

    else:

        def get_output_shape_for(self, input_shape: Any) -> Shape:
            """The shape of the output for a shape of the input (ints and None). By default, they are equal."""
            return input_shape

        def get_output_for(self, input: Any, **kwargs: Any) -> Any:
            """The output for an input, as an expression.

            Parameters
            ----------
            input : expression
            **kwargs
                All keyword arguments of `get_output`, such as `deterministic=True`. A layer ignores those that it does
                not need.
            """
            raise NotImplementedError(f"{type(self).__name__} does not define get_output_for(input, **kwargs)")


class MergeLayer(Layer):
    """A layer with several inputs. A subclass defines `get_output_shape_for` and `get_output_for`, which take lists.

    Parameters
    ----------
    incomings : list of Layers and tuples
        The layers that feed this one, or the shapes of its inputs.
    name : str, optional

    Attributes
    ----------
    input_layers : list, with None in the place of each input that is only a shape.
    input_shapes : list of tuples.

    Examples
    --------
    >>> import lasagne_like as lasagne
    >>> class Product(lasagne.layers.MergeLayer):
    ...     def get_output_shape_for(self, input_shapes):
    ...         return input_shapes[0]
    ...
    ...     def get_output_for(self, inputs, **kwargs):
    ...         return inputs[0] * inputs[1]
    >>> Product([(None, 3), (None, 3)]).output_shape
    (None, 3)
    """

    input_layers: list[Layer | None]
    input_shapes: list[Shape]

    def __init__(self, incomings: Sequence[Incoming], name: str | None = None) -> None:
        if isinstance(incomings, Layer):
            raise TypeError(f"{type(self).__name__} takes a list of layers, got {incomings}: write [layer]")
        if not isinstance(incomings, Iterable):
            raise TypeError(f"{type(self).__name__} takes a list of layers, got {incomings!r}")
        incomings = list(incomings)
        if not incomings:
            raise ValueError(f"{type(self).__name__} takes a list of at least one layer, got none")
        self.input_shapes = [shape_of(incoming) for incoming in incomings]
        self.input_layers = [None if isinstance(incoming, tuple) else incoming for incoming in incomings]
        self._begin(name)
        for i, shape in enumerate(self.input_shapes):
            self._check_input(shape, f"input_shapes[{i}]")

    @property
    def output_shape(self) -> Shape:
        """The shape of the output; a structure of shapes if the output has several tensors."""
        return self._checked(self.get_output_shape_for(self.input_shapes))

    if not TYPE_CHECKING:

        def get_output_shape_for(self, input_shapes: Any) -> Shape:
            """The shape of the output for a list of shapes of the inputs."""
            raise NotImplementedError(f"{type(self).__name__} does not define get_output_shape_for(input_shapes)")

        def get_output_for(self, inputs: Any, **kwargs: Any) -> Any:
            """The output for a list of inputs, as an expression. See `Layer.get_output_for`."""
            raise NotImplementedError(f"{type(self).__name__} does not define get_output_for(inputs, **kwargs)")


Incoming = Layer | Shape
"""The input of a layer: another layer, or the shape of an input that is given later."""


def _shown(shapes: Any) -> str:
    """A shape, or a list of them, as text."""
    return ", ".join(map(str, shapes)) if isinstance(shapes, list) else str(shapes)


def shape_of(incoming: Incoming) -> Shape:
    """The output shape of a layer; a tuple is a shape already."""
    if isinstance(incoming, tuple):
        return incoming
    if not hasattr(incoming, "output_shape"):
        hint = ": give InputLayer(shape, input_var=it)" if utils.is_expression(incoming) else ""
        raise TypeError(
            "incoming must be a layer, or a tuple that is the shape of the input; got a "
            f"{type(incoming).__name__}{hint}"
        )
    return incoming.output_shape


def check_single(shape: Any, layer: Layer) -> None:
    """Raise an error if an input has several tensors. The output of a layer with `return_state=True` has, for
    example."""
    if not isinstance(shape, tuple) or any(isinstance(size, tuple | list | dict) for size in shape):
        raise ValueError(
            f"{layer} takes one tensor, but its input gives several, of the shapes {shape}: choose one of them with "
            "SelectLayer"
        )
    if not all(size is None or isinstance(size, utils.int_types) for size in shape):
        raise ValueError(f"the sizes of a shape are ints, and None where they are not fixed; {layer} got {shape}")


def check_axes(layer: Layer, count: int) -> None:
    """Raise an error if the input of a layer does not have `count` axes after batch and channels."""
    if len(layer.input_shape) != count + 2:
        names = ("length",) if count == 1 else ("depth", "rows", "columns")[3 - count :]
        raise ValueError(
            f"{type(layer).__name__} takes an input of shape (batch, channels, {', '.join(names)}), got "
            f"{layer.input_shape}"
        )


def axis_of(layer: Layer, given: Any, shape: Shape, what: str = "axis", words: str = "") -> int:
    """An axis that a user gave, as a number from 0 on. `shape` is that of the input, and `what` names the argument.
    `words` are other values that it may have, for the error."""
    ndim = len(shape)
    if not isinstance(given, utils.int_types) or not -ndim <= int(given) < ndim:
        raise ValueError(
            f"{what} of {layer} must be {words}from {-ndim} to {ndim - 1} for an input of shape {shape}, got {given!r}"
        )
    return int(given) % ndim


def axes_of(layer: Layer, given: Any, what: str, words: str = "") -> tuple[int, ...]:
    """Axes that a user gave, an int or several, as numbers from 0 on. See `axis_of`."""
    several = isinstance(given, Iterable) and not isinstance(given, str)
    axes = [axis_of(layer, axis, layer.input_shape, what, words) for axis in (given if several else (given,))]
    if len(set(axes)) < len(axes):
        raise ValueError(f"{what} of {layer} has an axis twice, got {given!r}")
    return tuple(axes)


def check_int(layer: Layer, value: Any, what: str, least: int, most: int) -> None:
    """Raise an error if an argument is no int from `least` to `most`."""
    if not isinstance(value, utils.int_types) or not least <= int(value) <= most:
        raise ValueError(f"{what} of {layer} must be an int from {least} to {most} for this input, got {value!r}")


def check_function(layer: Layer, value: Any, what: str) -> None:
    """Raise an error if an argument is no function."""
    if not callable(value):
        raise TypeError(f"{what} of {layer} must be a function, got {value!r}")

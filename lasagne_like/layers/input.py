"""`InputLayer`: an input of a network."""

from collections.abc import Iterable
from typing import Any

import scanjit as sj
from lasagne_like.arguments import plain
from lasagne_like.layers.base import Layer
from lasagne_like.shapes import fits, known_sizes
from lasagne_like.utils import Shape

__all__ = ["InputLayer"]


class InputLayer(Layer):
    """An input of the network. A symbol stands for its value.

    Parameters
    ----------
    shape : tuple of ints and None
        None is a size that is not fixed.
    input_var : symbol or expression, optional
        The value of the input. By default it is a new symbol of dtype `scanjit.config.floatX`, with the shape and the
        name of the layer. Functions take the input under this name.
    name : str, optional

    Raises
    ------
    ValueError
        If `input_var` cannot have this shape.

    Examples
    --------
    >>> from lasagne_like.layers import InputLayer
    >>> InputLayer((None, 20), name="in").input_var.name
    'in'
    """

    def __init__(
        self, shape: Iterable[int | None], input_var: sj.TensorLike | None = None, name: str | None = None
    ) -> None:
        given: Any = shape
        if not isinstance(given, Iterable) or isinstance(given, str):
            raise TypeError(f"shape of InputLayer is a tuple with a size for each axis, got {given!r}")
        self.shape: Shape = plain(tuple(shape))
        self._begin(name)
        self._check_input(self.shape, "shape")
        self.input_shape, self.input_layer = self.shape, None
        if input_var is None:
            input_var = sj.tensor(self.shape, sj.config.floatX, name)
        else:
            known = known_sizes(sj.shape(input_var))
            if len(known) != len(self.shape):
                raise ValueError(
                    f"shape {self.shape} of {self} has {len(self.shape)} dimensions, but its input_var has "
                    f"{len(known)}: {known}"
                )
            if not fits(known, self.shape):
                raise ValueError(f"{self} has shape {self.shape}, but its input_var has shape {known}")
        self.input_var: Any = input_var

    def get_output_for(self, input: Any, **kwargs: Any) -> Any:
        return input

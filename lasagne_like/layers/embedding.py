"""Vectors for integers."""

from typing import Any

import scanjit as sj
from lasagne_like import init
from lasagne_like.layers.base import Incoming, Layer
from lasagne_like.places import rows_of
from lasagne_like.utils import Parameter, Shape

__all__ = ["EmbeddingLayer"]


class EmbeddingLayer(Layer):
    """Looks up a row of W for each integer of the input.

    Parameters
    ----------
    incoming : Layer or tuple
        Its output has integers: `InputLayer(shape, sj.imatrix())`.
    input_size : int
        The number of rows of W. Integers must be from 0 to `input_size - 1`; others are an error when the function
        runs.
    output_size : int
        The length of a row. It is the new last axis of the output.
    W : initializer, array, shared variable or expression
        Of shape (input_size, output_size).
    name : str, optional

    Examples
    --------
    >>> import numpy as np
    >>> import scanjit as sj
    >>> from lasagne_like.layers import EmbeddingLayer, InputLayer, get_output
    >>> x = sj.imatrix()
    >>> layer = EmbeddingLayer(InputLayer((None, 2), x), 3, 2, W=np.arange(6.0).reshape(3, 2))
    >>> sj.function([x], get_output(layer), mode="reference")(np.array([[0, 2]], "int32"))
    array([[[0., 1.],
            [4., 5.]]])
    """

    def __init__(
        self,
        incoming: Incoming,
        input_size: int,
        output_size: int,
        W: Parameter = init.Normal(),
        *,
        name: str | None = None,
    ) -> None:
        super().__init__(incoming, name=name)
        self.input_size, self.output_size = input_size, output_size
        self.W = self.add_param(W, (input_size, output_size), name="W")

    def get_output_shape_for(self, input_shape: Shape) -> Shape:
        return (*input_shape, self.output_size)

    def get_output_for(self, input: Any, **kwargs: Any) -> sj.Node:
        return rows_of(self.W, input, self)

"""Vectors for integers."""

from typing import Any

import scanjit as sj
from lasagne_like import init
from lasagne_like.layers.base import Incoming, Layer
from lasagne_like.utils import Parameter, Shape

__all__ = ["EmbeddingLayer"]


class EmbeddingLayer(Layer):
    """A row of W for every integer of the input.

    Parameters
    ----------
    incoming : Layer or tuple
        Its output must be of integers: `InputLayer(shape, sj.imatrix())`.
    input_size : int
        How many different integers there are, from 0. Others are an error when the function runs.
    output_size : int
        The size of the vectors, a new last axis.
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
        if not input.type.kind.integral:
            raise TypeError(
                f"{self} takes integers, got {input.dtype}: make its input with InputLayer(shape, sj.lmatrix()), say"
            )
        return sj.take(self.W, input, axis=0)

"""Wrappers with a dense map before or behind a cell, or with an embedding before it."""

from abc import ABC
from typing import Any

from lasagne_like import init, nonlinearities
from lasagne_like.cells.base import Cell, features_of
from lasagne_like.cells.wrappers import Wrapper
from lasagne_like.places import rows_of
from lasagne_like.utils import Nonlinearity, Parameter, biased

__all__ = ["EmbeddingWrapper", "InputProjectionWrapper", "OutputProjectionWrapper"]


class _Projection(Wrapper, ABC):
    """A wrapper with a dense map: `nonlinearity(x @ W + b)`."""

    def __init__(
        self,
        cell: Cell,
        size: int,
        W: Parameter = init.GlorotUniform(),
        b: Parameter | None = init.Constant(0.0),
        nonlinearity: Nonlinearity = None,
        name: str | None = None,
    ) -> None:
        super().__init__(cell, name)
        self.size = size
        self.nonlinearity = nonlinearities.or_identity(nonlinearity)
        self.specs = {"W": W, "b": b}

    def add_map(self, inputs: int) -> None:
        self.add_specified(W=(inputs, self.size), b=(self.size,))

    def mapped(self, x: Any) -> Any:
        return self.nonlinearity(biased(x @ self.W, self.b))


class InputProjectionWrapper(_Projection):
    """A cell whose input goes through a dense map, `nonlinearity(x @ W + b)`.

    Parameters
    ----------
    cell : Cell
    size : int
        The number of features that the cell reads.
    W : initializer, array, shared variable or expression
        Of shape (num_inputs, size).
    b : initializer, array, shared variable, expression or None
        Of shape (size,). None for no bias.
    nonlinearity : callable or None
    name : str, optional

    Examples
    --------
    >>> from lasagne_like.cells import GRU, InputProjectionWrapper
    >>> cell = InputProjectionWrapper(GRU(5), 2).build(3)
    >>> cell.W.shape, cell.cell.input_shape
    ((3, 2), (2,))
    """

    def make_params(self, input_shape: Any) -> None:
        self.add_map(features_of(self, input_shape))
        super().make_params((self.size,))

    def precompute(self, x: Any) -> Any:
        return self.cell.precompute(self.mapped(x))


class OutputProjectionWrapper(_Projection):
    """A cell whose output goes through a dense map, `nonlinearity(output @ W + b)`. Its state does not.

    A `DenseLayer` with `num_leading_axes=2` behind the recurrent layer computes the same, for all steps at once.

    Parameters
    ----------
    cell : Cell
    size : int
        The number of features of the output.
    W : initializer, array, shared variable or expression
        Of shape (features of the cell's output, size).
    b : initializer, array, shared variable, expression or None
        Of shape (size,). None for no bias.
    nonlinearity : callable or None
    name : str, optional

    Examples
    --------
    >>> from lasagne_like.cells import GRU, OutputProjectionWrapper
    >>> cell = OutputProjectionWrapper(GRU(5), 2).build(3)
    >>> cell.state_shape, cell.output_shape
    ((5,), (2,))
    """

    def make_params(self, input_shape: Any) -> None:
        super().make_params(input_shape)
        self.add_map(features_of(self.cell, self.cell.output_shape))
        self.output_shape = (self.size,)

    def recur(self, z: Any, state: Any) -> tuple[Any, Any]:
        output, state = self.cell.recur(z, state)
        return self.mapped(output), state


class EmbeddingWrapper(Wrapper):
    """A cell that reads integers: it looks up a row of W for each.

    An `EmbeddingLayer` before the recurrent layer does the same.

    Parameters
    ----------
    cell : Cell
    input_size : int
        The number of rows of W. Integers must be from 0 to `input_size - 1`; others are an error when the function
        runs.
    output_size : int
        The number of features that the cell reads: the length of a row.
    W : initializer, array, shared variable or expression
        Of shape (input_size, output_size).
    name : str, optional

    Examples
    --------
    >>> import scanjit as sj
    >>> import lasagne_like as lasagne
    >>> l_in = lasagne.layers.InputLayer((None, None, 1), sj.itensor3())
    >>> cell = lasagne.cells.EmbeddingWrapper(lasagne.cells.GRU(5), 100, 8)
    >>> lasagne.layers.RNNLayer(l_in, cell).output_shape
    (None, None, 5)
    """

    def __init__(
        self, cell: Cell, input_size: int, output_size: int, W: Parameter = init.Normal(), name: str | None = None
    ) -> None:
        super().__init__(cell, name)
        self.flattens_input = True
        self.input_size, self.output_size, self.specs = input_size, output_size, {"W": W}

    def make_params(self, input_shape: Any) -> None:
        if features_of(self, input_shape) != 1:
            raise ValueError(
                f"{self!r} takes an input of shape (batch, 1), with one integer in each step, got {input_shape}"
            )
        self.add_specified(W=(self.input_size, self.output_size))
        super().make_params((self.output_size,))

    def precompute(self, x: Any) -> Any:
        return self.cell.precompute(rows_of(self.W, x[..., 0], self))

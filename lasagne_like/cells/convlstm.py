"""LSTM cells with convolutions in place of products."""

from abc import ABC
from typing import Any, Unpack

import scanjit as sj
from lasagne_like import init, nonlinearities
from lasagne_like.cells.base import Cell, CellOptions
from lasagne_like.cells.lstm import LSTMState
from lasagne_like.cells.structure import is_shape, over_rows
from lasagne_like.descriptions import completed
from lasagne_like.utils import Nonlinearity, Parameter, as_tuple, biased, int_types

__all__ = ["ConvLSTM1D", "ConvLSTM2D", "ConvLSTM3D"]


class _ConvLSTM(Cell, ABC):
    """The base of `ConvLSTM1D`, `ConvLSTM2D` and `ConvLSTM3D`.

    The filters of the gates are in the order i, f, c, o along the first axis of the weights.

    Parameters
    ----------
    num_filters : int
    filter_size : int or tuple of ints
        Odd sizes. The input is padded with zeros, so that the output has the same sizes.
    W_in, W_hid : initializer, array, shared variable or expression
        Of the shapes `(4 * num_filters, channels, *filter_size)` and `(4 * num_filters, num_filters, *filter_size)`.
    b : initializer, array, shared variable, expression or None
        Of shape (4 * num_filters,). None for no bias.
    nonlinearity : callable or None
        The function in the candidate, and the function of the memory in the output.
    forget_bias : float
        A constant that is added to the pre-activation of the forget gate, besides its bias. It is not a parameter.
    **kwargs
        `grad_clipping` and `name`: see `Cell`.

    References
    ----------
    Shi et al., "Convolutional LSTM network: a machine learning approach for precipitation nowcasting", 2015.
    """

    flattens_input = False
    ndim = 0

    def __init_subclass__(cls) -> None:
        cls.__doc__ = cls.__doc__ and completed(cls.__doc__, _ConvLSTM)

    def __init__(
        self,
        num_filters: int,
        filter_size: int | tuple[int, ...],
        W_in: Any = init.GlorotUniform(),
        W_hid: Any = init.GlorotUniform(),
        b: Parameter | None = init.Constant(0.0),
        nonlinearity: Nonlinearity = nonlinearities.tanh,
        forget_bias: float = 1.0,
        **kwargs: Unpack[CellOptions],
    ) -> None:
        super().__init__(**kwargs)
        self.num_filters = num_filters
        self.filter_size = as_tuple(filter_size, self.ndim, int_types, f"filter_size of {type(self).__name__}")
        if any(size % 2 == 0 for size in self.filter_size):
            raise ValueError(f"filter_size of {type(self).__name__} must be odd, got {self.filter_size}")
        self.nonlinearity = nonlinearities.or_identity(nonlinearity)
        self.forget_bias = forget_bias
        self.specs = {"W_in": W_in, "W_hid": W_hid, "b": b}

    def make_params(self, input_shape: Any) -> None:
        if not is_shape(input_shape) or len(input_shape) != self.ndim + 1:
            raise ValueError(
                f"{self!r} takes an input of shape (batch, channels, ...) with {self.ndim} more axes, got "
                f"{('batch', *input_shape)}"
            )
        n = 4 * self.num_filters
        inputs, outputs = (n, input_shape[0], *self.filter_size), (n, self.num_filters, *self.filter_size)
        self.add_specified(W_in=inputs, W_hid=outputs, b=(n,))
        shape = (self.num_filters, *input_shape[1:])
        self.state_shape = LSTMState(shape, shape)

    def _convolved(self, x: Any, W: Any) -> Any:
        """A correlation of `x`, which is padded with zeros so that its sizes do not change."""
        convolved = {1: sj.conv1d, 2: sj.conv2d, 3: sj.conv3d}[self.ndim]
        return convolved(x, W, "same", filter_flip=False)

    def precompute(self, x: Any) -> Any:
        b = None if self.b is None else self.b.dimshuffle(0, *["x"] * self.ndim)
        return over_rows(lambda rows: biased(self._convolved(rows, self.W_in), b), x, self.ndim + 1)

    def recur(self, z: Any, state: Any) -> tuple[Any, Any]:
        old = LSTMState(*state)
        z = self.clipped(z + self._convolved(old.hid, self.W_hid))
        i, f, new, o = sj.split(z, 4, axis=1)
        c = sj.sigmoid(f + self.forget_bias) * old.cell + sj.sigmoid(i) * self.nonlinearity(new)
        h = sj.sigmoid(o) * self.nonlinearity(c)
        return h, LSTMState(c, h)


class ConvLSTM1D(_ConvLSTM):
    """An LSTM with convolutions instead of products, for inputs of shape (batch, channels, length).

    COMMON

    Examples
    --------
    >>> import lasagne_like as lasagne
    >>> lasagne.layers.RNNLayer((None, None, 2, 10), lasagne.cells.ConvLSTM1D(4, 3)).output_shape
    (None, None, 4, 10)
    """

    ndim = 1


class ConvLSTM2D(_ConvLSTM):
    """An LSTM with convolutions instead of products, for inputs of shape (batch, channels, rows, columns).

    COMMON

    Examples
    --------
    >>> import lasagne_like as lasagne
    >>> lasagne.layers.RNNLayer((None, None, 2, 8, 6), lasagne.cells.ConvLSTM2D(4, (3, 5))).output_shape
    (None, None, 4, 8, 6)
    """

    ndim = 2


class ConvLSTM3D(_ConvLSTM):
    """An LSTM with convolutions instead of products, for inputs of shape (batch, channels, slices, rows, columns).

    COMMON

    Examples
    --------
    >>> import lasagne_like as lasagne
    >>> lasagne.layers.RNNLayer((None, None, 2, 4, 8, 6), lasagne.cells.ConvLSTM3D(4, (1, 3, 5))).output_shape
    (None, None, 4, 4, 8, 6)
    """

    ndim = 3

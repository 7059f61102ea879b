"""Plain recurrent cells: a dense one, and one with independent units."""

from typing import Any, Unpack

from lasagne_like import init, nonlinearities
from lasagne_like.cells.base import Cell, CellOptions, features_of
from lasagne_like.utils import Nonlinearity, Parameter, biased

__all__ = ["IndRNN", "SimpleRNN"]


class SimpleRNN(Cell):
    """A dense recurrent cell: `h = nonlinearity(x @ W_in_to_hid + h_ @ W_hid_to_hid + b)`.

    Parameters
    ----------
    num_units : int
    W_in_to_hid, W_hid_to_hid : initializer, array, shared variable or expression
        Of the shapes (num_inputs, num_units) and (num_units, num_units).
    b : initializer, array, shared variable, expression or None
        Of shape (num_units,). None for no bias.
    nonlinearity : callable or None
    **kwargs
        See `Cell`.

    Examples
    --------
    >>> import lasagne_like as lasagne
    >>> layer = lasagne.layers.RNNLayer((None, None, 3), lasagne.cells.SimpleRNN(5))
    >>> layer.output_shape
    (None, None, 5)
    """

    def __init__(
        self,
        num_units: int,
        W_in_to_hid: Parameter = init.GlorotUniform(),
        W_hid_to_hid: Parameter = init.Orthogonal(),
        b: Parameter | None = init.Constant(0.0),
        nonlinearity: Nonlinearity = nonlinearities.tanh,
        **kwargs: Unpack[CellOptions],
    ) -> None:
        super().__init__(**kwargs)
        self.num_units, self.state_shape = num_units, (num_units,)
        self.nonlinearity = nonlinearities.or_identity(nonlinearity)
        self.specs = {"W_in_to_hid": W_in_to_hid, "W_hid_to_hid": W_hid_to_hid, "b": b}

    def make_params(self, input_shape: Any) -> None:
        n = self.num_units
        self.add_specified(W_in_to_hid=(features_of(self, input_shape), n), W_hid_to_hid=(n, n), b=(n,))

    def precompute(self, x: Any) -> Any:
        return biased(x @ self.W_in_to_hid, self.b)

    def recur(self, z: Any, state: Any) -> tuple[Any, Any]:
        h = self.nonlinearity(self.clipped(z + state @ self.W_hid_to_hid))
        return h, h


class IndRNN(Cell):
    """Independent units, each with one weight for its own last output: `h = nonlinearity(x @ W + u * h_ + b)`.

    Parameters
    ----------
    num_units : int
    W : initializer, array, shared variable or expression
        Of shape (num_inputs, num_units).
    u, b : initializer, array, shared variable or expression
        Of shape (num_units,). `b` may be None, for no bias.
    nonlinearity : callable or None
    **kwargs
        See `Cell`.

    References
    ----------
    Li et al., "Independently recurrent neural network (IndRNN)", 2018.

    Examples
    --------
    >>> from lasagne_like.cells import IndRNN
    >>> [p.name for p in IndRNN(5).build(3).get_params()]
    ['W', 'u', 'b']
    """

    def __init__(
        self,
        num_units: int,
        W: Parameter = init.GlorotUniform(),
        u: Any = init.Uniform(range=(0.0, 1.0)),
        b: Parameter | None = init.Constant(0.0),
        nonlinearity: Nonlinearity = nonlinearities.rectify,
        **kwargs: Unpack[CellOptions],
    ) -> None:
        super().__init__(**kwargs)
        self.num_units, self.state_shape = num_units, (num_units,)
        self.nonlinearity = nonlinearities.or_identity(nonlinearity)
        self.specs = {"W": W, "u": u, "b": b}

    def make_params(self, input_shape: Any) -> None:
        n = self.num_units
        self.add_specified(W=(features_of(self, input_shape), n), u=(n,), b=(n,))

    def precompute(self, x: Any) -> Any:
        return biased(x @ self.W, self.b)

    def recur(self, z: Any, state: Any) -> tuple[Any, Any]:
        h = self.nonlinearity(self.clipped(z + self.u * state))
        return h, h

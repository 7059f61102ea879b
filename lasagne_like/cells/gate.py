"""`Gate`: the specification of the parameters of a gate."""

from lasagne_like import init, nonlinearities
from lasagne_like.shown import Shown
from lasagne_like.utils import Nonlinearity, Parameter

__all__ = ["Gate"]


class Gate(Shown):
    """The specification of a gate: `nonlinearity(x @ W_in + h @ W_hid + W_cell * c + b)`.

    It says how the parameters of the gate are made. Each layer or cell that gets the gate makes its own parameters.

    Parameters
    ----------
    W_in, W_hid : initializer, array, shared variable or expression
        The weights of the input, of shape (num_inputs, num_units), and the weights of the last output, of shape
        (num_units, num_units). W_in may be None if it is None for all gates of a cell. Then the gates add the input as
        it is, and the input must have `num_units` features.
    W_cell : initializer, array, shared variable, expression or None
        The weights of the peephole, of shape (num_units,). None for a gate without a peephole.
    b : initializer, array, shared variable, expression or None
        The bias, of shape (num_units,). None for no bias.
    nonlinearity : callable or None
        None for the identity.

    References
    ----------
    Gers, Schmidhuber and Cummins, "Learning to forget: continual prediction with LSTM", 2000.

    Examples
    --------
    An LSTM with forget gates that are open at first:

    >>> import lasagne_like as lasagne
    >>> open_gate = lasagne.layers.Gate(b=lasagne.init.Constant(1.0))
    >>> layer = lasagne.layers.LSTMLayer((None, None, 3), num_units=2, forgetgate=open_gate)
    >>> layer.b_forgetgate.get_value()
    array([1., 1.])
    """

    def __init__(
        self,
        W_in: Parameter | None = init.Normal(0.1),
        W_hid: Parameter = init.Normal(0.1),
        W_cell: Parameter | None = init.Normal(0.1),
        b: Parameter | None = init.Constant(0.0),
        nonlinearity: Nonlinearity = nonlinearities.sigmoid,
    ) -> None:
        self.W_in, self.W_hid, self.W_cell, self.b = W_in, W_hid, W_cell, b
        self.nonlinearity = nonlinearities.or_identity(nonlinearity)

"""`Gate`: the specification of the parameters of a gate."""

from lasagne_like import init, nonlinearities
from lasagne_like.utils import Nonlinearity, Parameter, Shown

__all__ = ["Gate"]


class Gate(Shown):
    """The specification of a gate: `nonlinearity(x @ W_in + h @ W_hid + W_cell * c + b)`.

    It has no parameters. The same gate may be given to several layers: each makes its own parameters.

    Parameters
    ----------
    W_in, W_hid : initializer, array, shared variable or expression
        For the weights of the input, of shape (num_inputs, num_units), and of the last output, (num_units, num_units).
        W_in may be None for all gates of a cell: then the input is added as it is, and has as many features as units.
    W_cell : initializer, array, shared variable, expression or None
        For the peephole weights, of shape (num_units,). None for a gate that has none, also where others do.
    b : initializer, array, shared variable, expression or None
        For the bias, of shape (num_units,). None for no bias.
    nonlinearity : callable or None
        None for none.

    References
    ----------
    Gers, Schmidhuber and Cummins, "Learning to forget: continual prediction with LSTM", 2000.

    Examples
    --------
    An LSTM that starts with open forget gates:

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

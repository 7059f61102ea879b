"""Gated recurrent units, and a cell with a single gate."""

from typing import Any, Unpack

import scanjit as sj
from lasagne_like import init, nonlinearities
from lasagne_like.cells.base import CellOptions
from lasagne_like.cells.gate import Gate
from lasagne_like.cells.gated import GatedCell
from lasagne_like.utils import biased

__all__ = ["GRU", "UGRNN"]


class GRU(GatedCell):
    """The gated recurrent unit.

    ::

        r = sigmoid(x @ W_in_to_resetgate + h_ @ W_hid_to_resetgate + b_resetgate)
        u = sigmoid(x @ W_in_to_updategate + h_ @ W_hid_to_updategate + b_updategate)
        c = tanh(x @ W_in_to_hidden_update + b_hidden_update + r * (h_ @ W_hid_to_hidden_update))
        h = (1 - u) * h_ + u * c

    With `reset_after=False`, the last term of `c` is `(r * h_) @ W_hid_to_hidden_update`.

    Parameters
    ----------
    num_units : int
    resetgate, updategate, hidden_update : Gate
    reset_after : bool
        Whether the reset gate multiplies the product of state and weights. Then a step needs one product. Otherwise it
        multiplies the state before the product, and a step needs two products.
    b_hid : initializer, array, shared variable, expression or None
        With `reset_after`, a bias that is added to this product before the reset gate multiplies it. Of shape
        (num_units,). None for no bias.
    **kwargs
        `grad_clipping` and `name`: see `Cell`.

    References
    ----------
    Cho et al., "On the properties of neural machine translation: encoder-decoder approaches", 2014.

    Examples
    --------
    >>> import lasagne_like as lasagne
    >>> layer = lasagne.layers.RNNLayer((None, None, 3), lasagne.cells.GRU(5, reset_after=False))
    >>> layer.output_shape
    (None, None, 5)
    """

    def __init__(
        self,
        num_units: int,
        resetgate: Gate = Gate(W_cell=None),
        updategate: Gate = Gate(W_cell=None),
        hidden_update: Gate = Gate(W_cell=None, nonlinearity=nonlinearities.tanh),
        reset_after: bool = True,
        b_hid: Any = None,
        **kwargs: Unpack[CellOptions],
    ) -> None:
        gates = {"updategate": updategate, "resetgate": resetgate, "hidden_update": hidden_update}
        super().__init__(num_units, gates, **kwargs)
        if b_hid is not None and not reset_after:
            raise ValueError("b_hid is a bias that the reset gate multiplies: it needs reset_after=True")
        self.reset_after, self.specs = reset_after, {"b_hid": b_hid}

    def make_params(self, input_shape: Any) -> None:
        names = ["resetgate", "updategate", "hidden_update"]
        self.add_gates(self.gates, self.num_inputs(input_shape), self.num_units, stacked=names)
        self.add_specified(["b_hid"], b_hid=(self.num_units,))

    def recur(self, z: Any, state: Any) -> tuple[Any, Any]:
        xr, xu, xc = self.split(self.clipped(z))
        if self.reset_after:
            hr, hu, hc = self.split(self.clipped(self.project_hidden(state)))
        else:
            W = [self._weight("hid_to_resetgate"), self._weight("hid_to_updategate")]
            hr, hu = sj.split(self.clipped(state @ sj.concatenate(W, axis=-1)), 2, axis=-1)
        r, u = self.activated(xr + hr, "resetgate"), self.activated(xu + hu, "updategate")
        kept = r * biased(hc, self.b_hid) if self.reset_after else (r * state) @ self._weight("hid_to_hidden_update")
        c = self.activated(self.clipped(xc + kept), "hidden_update")
        h = (1 - u) * state + u * c
        return h, h


class UGRNN(GatedCell):
    """A recurrent unit with a single gate, which mixes the old state with the candidate.

    ::

        g = sigmoid(x @ W_in_to_gate + h_ @ W_hid_to_gate + b_gate + forget_bias)
        h = g * h_ + (1 - g) * nonlinearity(x @ W_in_to_hid + h_ @ W_hid_to_hid + b_hid)

    Parameters
    ----------
    num_units : int
    gate, hidden_update : Gate
        The specifications of the parameters and the nonlinearities.
    forget_bias : float
        A constant that is added to the pre-activation of the gate, besides its bias. It is not a parameter.
    **kwargs
        `grad_clipping` and `name`: see `Cell`.

    References
    ----------
    Collins, Sohl-Dickstein and Sussillo, "Capacity and trainability in recurrent neural networks", 2017.

    Examples
    --------
    >>> from lasagne_like.cells import UGRNN
    >>> [p.name for p in UGRNN(5).build(3).get_params()]
    ['W_in_to_gate', 'W_hid_to_gate', 'b_gate', 'W_in_to_hid', 'W_hid_to_hid', 'b_hid']
    """

    def __init__(
        self,
        num_units: int,
        gate: Gate = Gate(init.GlorotUniform(), init.Orthogonal(), None),
        hidden_update: Gate = Gate(init.GlorotUniform(), init.Orthogonal(), None, nonlinearity=nonlinearities.tanh),
        forget_bias: float = 1.0,
        **kwargs: Unpack[CellOptions],
    ) -> None:
        super().__init__(num_units, {"gate": gate, "hid": hidden_update}, **kwargs)
        self.forget_bias = forget_bias

    def recur(self, z: Any, state: Any) -> tuple[Any, Any]:
        zg, zc = self.split(self.clipped(z + self.project_hidden(state)))
        g = self.activated(zg + self.forget_bias, "gate")
        h = g * state + (1 - g) * self.activated(zc, "hid")
        return h, h

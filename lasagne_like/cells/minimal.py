"""Cells whose gates read the input only. They are linear recurrences in which units do not read each other."""

from typing import Any, Unpack

from lasagne_like import init, nonlinearities
from lasagne_like.cells.base import CellOptions
from lasagne_like.cells.gate import Gate
from lasagne_like.cells.gated import GatedCell
from lasagne_like.utils import Nonlinearity

__all__ = ["SRU", "MinGRU", "MinLSTM"]

_LINEAR = Gate(init.GlorotUniform(), nonlinearity=None)
_SIGMOID = Gate(init.GlorotUniform())


class MinGRU(GatedCell):
    """A GRU whose gates do not read the state.

    ::

        z = sigmoid(x @ W_in_to_gate + b_gate)
        h = (1 - z) * h_ + z * (x @ W_in_to_hid + b_hid)

    Parameters
    ----------
    num_units : int
    gate, hidden_update : Gate
        The specifications of `W_in` and `b`, and the nonlinearities. By default, the candidate has none.
    **kwargs
        `grad_clipping` and `name`: see `Cell`.

    References
    ----------
    Feng et al., "Were RNNs all we needed?", 2024.

    Examples
    --------
    >>> from lasagne_like.cells import MinGRU
    >>> [p.name for p in MinGRU(5).build(3).get_params(regularizable=True)]
    ['W_in_to_gate', 'W_in_to_hid']
    """

    def __init__(
        self, num_units: int, gate: Gate = _SIGMOID, hidden_update: Gate = _LINEAR, **kwargs: Unpack[CellOptions]
    ) -> None:
        super().__init__(num_units, {"gate": gate, "hid": hidden_update}, recurrent=False, **kwargs)

    def recur(self, z: Any, state: Any) -> tuple[Any, Any]:
        gate, new = self.split_activated(self.clipped(z))
        h = (1 - gate) * state + gate * new
        return h, h


class MinLSTM(GatedCell):
    """An LSTM whose gates do not read the state. Its memory is its output.

    ::

        f, i = sigmoid(x @ W_in_to_forgetgate + b_forgetgate), sigmoid(x @ W_in_to_ingate + b_ingate)
        h = (f * h_ + i * (x @ W_in_to_hid + b_hid)) / (f + i)

    Parameters
    ----------
    num_units : int
    forgetgate, ingate, hidden_update : Gate
        The specifications of `W_in` and `b`, and the nonlinearities. By default, the candidate has none.
    **kwargs
        `grad_clipping` and `name`: see `Cell`.

    References
    ----------
    Feng et al., "Were RNNs all we needed?", 2024.

    Examples
    --------
    >>> from lasagne_like.cells import MinLSTM
    >>> MinLSTM(5).build(3).W_in_to_ingate.shape
    (3, 5)
    """

    def __init__(
        self,
        num_units: int,
        forgetgate: Gate = _SIGMOID,
        ingate: Gate = _SIGMOID,
        hidden_update: Gate = _LINEAR,
        **kwargs: Unpack[CellOptions],
    ) -> None:
        gates = {"forgetgate": forgetgate, "ingate": ingate, "hid": hidden_update}
        super().__init__(num_units, gates, recurrent=False, **kwargs)

    def recur(self, z: Any, state: Any) -> tuple[Any, Any]:
        f, i, new = self.split_activated(self.clipped(z))
        h = (f * state + i * new) / (f + i)
        return h, h


class SRU(GatedCell):
    """The simple recurrent unit.

    ::

        f = sigmoid(x @ W_in_to_forgetgate + b_forgetgate)
        r = sigmoid(x @ W_in_to_resetgate + b_resetgate)
        c = f * c_ + (1 - f) * (x @ W_in_to_cell)
        h = r * nonlinearity(c) + (1 - r) * (x @ W_in_to_hid)

    Parameters
    ----------
    num_units : int
    cell, forgetgate, resetgate, hid : Gate
        The specifications of `W_in` and `b`, and the nonlinearities of the gates.
    nonlinearity : callable or None
        The function of the memory in the output.
    **kwargs
        `grad_clipping` and `name`: see `Cell`.

    References
    ----------
    Lei et al., "Simple recurrent units for highly parallelizable recurrence", 2018.

    Examples
    --------
    >>> from lasagne_like.cells import SRU
    >>> [p.name for p in SRU(5).build(3).get_params(regularizable=False)]
    ['b_forgetgate', 'b_resetgate']
    """

    def __init__(
        self,
        num_units: int,
        cell: Gate = Gate(init.GlorotUniform(), b=None, nonlinearity=None),
        forgetgate: Gate = _SIGMOID,
        resetgate: Gate = _SIGMOID,
        hid: Gate = Gate(init.GlorotUniform(), b=None, nonlinearity=None),
        nonlinearity: Nonlinearity = nonlinearities.tanh,
        **kwargs: Unpack[CellOptions],
    ) -> None:
        gates = {"cell": cell, "forgetgate": forgetgate, "resetgate": resetgate, "hid": hid}
        super().__init__(num_units, gates, recurrent=False, **kwargs)
        self.nonlinearity = nonlinearities.or_identity(nonlinearity)

    def recur(self, z: Any, state: Any) -> tuple[Any, Any]:
        xb, f, r, xt = self.split_activated(self.clipped(z))
        c = f * state + (1 - f) * xb
        return r * self.nonlinearity(c) + (1 - r) * xt, c

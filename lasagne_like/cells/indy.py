"""Gated cells whose units do not read each other: each unit has one weight for its own last output."""

from abc import ABC
from collections.abc import Mapping
from typing import Any, Unpack

from lasagne_like import init, nonlinearities
from lasagne_like.cells.base import CellOptions
from lasagne_like.cells.gate import Gate
from lasagne_like.cells.gated import GatedCell
from lasagne_like.cells.lstm import LSTMState
from lasagne_like.utils import Nonlinearity

__all__ = ["IndyGRU", "IndyLSTM"]

_SIGMOID = Gate(init.GlorotUniform())
_TANH = Gate(init.GlorotUniform(), nonlinearity=nonlinearities.tanh)


class _Independent(GatedCell, ABC):
    """The base of `IndyLSTM` and `IndyGRU`: gates with vectors `u_<gate>` instead of matrices for the last output."""

    def __init__(self, num_units: int, gates: Mapping[str, Gate], u: Any, **kwargs: Unpack[CellOptions]) -> None:
        super().__init__(num_units, gates, recurrent=False, **kwargs)
        self._u = u

    def make_params(self, input_shape: Any) -> None:
        super().make_params(input_shape)
        for name in self.gates:
            self.keep_param(f"u_{name}", self._u, (self.num_units,))

    def opened(self, part: Any, name: str, h: Any) -> Any:
        """The value of a gate, from its part of the projected input and the last output."""
        return self.activated(self.clipped(part + getattr(self, f"u_{name}") * h), name)


class IndyLSTM(_Independent):
    """An LSTM whose units do not read each other: `LSTM` with `u_* * h_` instead of `h_ @ W_hid_to_*`.

    Parameters
    ----------
    num_units : int
    ingate, forgetgate, cell, outgate : Gate
        The specifications of `W_in` and `b`, and the nonlinearities.
    u : initializer
        For the weights of the last output, `u_ingate` and so on. Each has shape (num_units,).
    nonlinearity : callable or None
        The function of the memory in the output.
    forget_bias : float
        A constant that is added to the pre-activation of the forget gate, besides its bias. It is not a parameter.
    **kwargs
        `grad_clipping` and `name`: see `Cell`.

    References
    ----------
    Gonnet and Deselaers, "IndyLSTMs: independently recurrent LSTMs", 2019.

    Examples
    --------
    >>> from lasagne_like.cells import IndyLSTM
    >>> [p.name for p in IndyLSTM(5).build(3).get_params() if p.ndim == 1][-4:]
    ['u_ingate', 'u_forgetgate', 'u_cell', 'u_outgate']
    """

    def __init__(
        self,
        num_units: int,
        ingate: Gate = _SIGMOID,
        forgetgate: Gate = _SIGMOID,
        cell: Gate = _TANH,
        outgate: Gate = _SIGMOID,
        u: Any = init.Uniform(range=(-1.0, 1.0)),
        nonlinearity: Nonlinearity = nonlinearities.tanh,
        forget_bias: float = 1.0,
        **kwargs: Unpack[CellOptions],
    ) -> None:
        gates = {"ingate": ingate, "forgetgate": forgetgate, "cell": cell, "outgate": outgate}
        super().__init__(num_units, gates, u, **kwargs)
        self.nonlinearity = nonlinearities.or_identity(nonlinearity)
        self.forget_bias = forget_bias
        self.state_shape = LSTMState((num_units,), (num_units,))

    def recur(self, z: Any, state: Any) -> tuple[Any, Any]:
        old = LSTMState(*state)
        i, f, new, o = self.split(z)
        parts = {"ingate": i, "forgetgate": f + self.forget_bias, "cell": new, "outgate": o}
        i, f, new, o = (self.opened(part, name, old.hid) for name, part in parts.items())
        c = f * old.cell + i * new
        h = o * self.nonlinearity(c)
        return h, LSTMState(c, h)


class IndyGRU(_Independent):
    """A GRU whose units do not read each other: `GRU` with `u_* * h_` instead of `h_ @ W_hid_to_*`.

    Parameters
    ----------
    num_units : int
    resetgate, updategate, hidden_update : Gate
        The specifications of `W_in` and `b`, and the nonlinearities.
    u : initializer
        For the weights of the last output, `u_resetgate` and so on. Each has shape (num_units,).
    **kwargs
        `grad_clipping` and `name`: see `Cell`.

    References
    ----------
    Gonnet and Deselaers, "IndyLSTMs: independently recurrent LSTMs", 2019.

    Examples
    --------
    >>> from lasagne_like.cells import IndyGRU
    >>> IndyGRU(5).build(3).u_hidden_update.shape
    (5,)
    """

    def __init__(
        self,
        num_units: int,
        resetgate: Gate = _SIGMOID,
        updategate: Gate = _SIGMOID,
        hidden_update: Gate = _TANH,
        u: Any = init.Uniform(range=(-1.0, 1.0)),
        **kwargs: Unpack[CellOptions],
    ) -> None:
        gates = {"resetgate": resetgate, "updategate": updategate, "hidden_update": hidden_update}
        super().__init__(num_units, gates, u, **kwargs)

    def recur(self, z: Any, state: Any) -> tuple[Any, Any]:
        r, u, new = self.split(z)
        r, u = self.opened(r, "resetgate", state), self.opened(u, "updategate", state)
        h = (1 - u) * state + u * self.opened(new, "hidden_update", r * state)
        return h, h

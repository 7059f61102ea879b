"""Gated cells whose units do not see each other: each has one weight for its own past."""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping
from typing import Any

from lasagne_like import init, nonlinearities
from lasagne_like.cells.gate import Gate
from lasagne_like.cells.gated import GatedCell
from lasagne_like.cells.lstm import LSTMState

__all__ = ["IndyGRU", "IndyLSTM"]

_SIGMOID = Gate(init.GlorotUniform())
_TANH = Gate(init.GlorotUniform(), nonlinearity=nonlinearities.tanh)


class _Independent(GatedCell, ABC):
    """Gates with vectors `u_<gate>` in place of matrices for the state."""

    def __init__(self, num_units: int, gates: Mapping[str, Gate], u: Any, **kwargs: Any) -> None:
        super().__init__(num_units, **kwargs)
        self._gates, self._u = dict(gates), u

    def make_params(self, input_shape: Any) -> None:
        self.add_gates(self._gates, self.num_inputs(input_shape), None)
        for name in self._gates:
            setattr(self, f"u_{name}", self.add_param(self._u, (self.num_units,), name=f"u_{name}"))

    def active(self, z: dict[str, Any], name: str, h: Any) -> Any:
        """A gate, from what it has of the input."""
        return self._gates[name].nonlinearity(self.clipped(z[name] + getattr(self, f"u_{name}") * h))


class IndyLSTM(_Independent):
    """An LSTM whose units do not see each other: `LSTM` with `u_* * h_` in place of `h_ @ W_hid_to_*`.

    Parameters
    ----------
    num_units : int
    ingate, forgetgate, cell, outgate : Gate
        The specifications of `W_in` and `b`, and the nonlinearities.
    u : initializer
        Of the weights of the state, `u_ingate` and so on, (num_units,) each.
    nonlinearity : callable or None
        Of the memory, on its way to the output.
    forget_bias : float
        Added to the forget gate, on top of its bias: not a parameter.
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
        nonlinearity: Any = nonlinearities.tanh,
        forget_bias: float = 1.0,
        **kwargs: Any,
    ) -> None:
        gates = {"ingate": ingate, "forgetgate": forgetgate, "cell": cell, "outgate": outgate}
        super().__init__(num_units, gates, u, **kwargs)
        self.nonlinearity = nonlinearities.identity if nonlinearity is None else nonlinearity
        self.forget_bias = forget_bias
        self.state_shape = LSTMState((num_units,), (num_units,))
        self.output_shape = (num_units,)

    def recur(self, z: Any, state: Any) -> tuple[Any, Any]:
        old = LSTMState(*state)
        parts = dict(zip(self._gates, self.split(z), strict=True))
        parts["forgetgate"] = parts["forgetgate"] + self.forget_bias
        i, f, new, o = (self.active(parts, name, old.hid) for name in parts)
        c = f * old.cell + i * new
        h = o * self.nonlinearity(c)
        return h, LSTMState(c, h)


class IndyGRU(_Independent):
    """A GRU whose units do not see each other: `GRU` with `u_* * h_` in place of `h_ @ W_hid_to_*`.

    Parameters
    ----------
    num_units : int
    resetgate, updategate, hidden_update : Gate
        The specifications of `W_in` and `b`, and the nonlinearities.
    u : initializer
        Of the weights of the state, `u_resetgate` and so on, (num_units,) each.
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
        **kwargs: Any,
    ) -> None:
        gates = {"resetgate": resetgate, "updategate": updategate, "hidden_update": hidden_update}
        super().__init__(num_units, gates, u, **kwargs)

    def recur(self, z: Any, state: Any) -> tuple[Any, Any]:
        parts = dict(zip(self._gates, self.split(z), strict=True))
        r, u = self.active(parts, "resetgate", state), self.active(parts, "updategate", state)
        h = (1 - u) * state + u * self.active(parts, "hidden_update", r * state)
        return h, h

"""The LSTM with exponential gates."""

from __future__ import annotations

from typing import Any, NamedTuple

import scanjit as sj
from lasagne_like import init, nonlinearities
from lasagne_like.cells.gate import Gate
from lasagne_like.cells.gated import GatedCell

__all__ = ["SLSTM", "SLSTMState"]


class SLSTMState(NamedTuple):
    """The state of an sLSTM: memory, normalizer, stabilizer (the logarithm of the scale of both), last output.

    Examples
    --------
    >>> from lasagne_like.cells import SLSTM
    >>> SLSTM(5).state_shape
    SLSTMState(cell=(5,), norm=(5,), scale=(5,), hid=(5,))
    """

    cell: Any
    norm: Any
    scale: Any
    hid: Any


_LINEAR = Gate(init.GlorotUniform(), init.Orthogonal(), None, nonlinearity=None)


class SLSTM(GatedCell):
    """An LSTM with an exponential input gate, a normalizer, and a stabilizer that keeps both in range.

    With i, f, z, o the pre-activations (`x @ W_in_to_* + h_ @ W_hid_to_* + b_*`)::

        m = max(log_sigmoid(f) + m_, i)
        c = exp(log_sigmoid(f) + m_ - m) * c_ + exp(i - m) * tanh(z)
        n = exp(log_sigmoid(f) + m_ - m) * n_ + exp(i - m)
        h = sigmoid(o) * c / n

    Parameters
    ----------
    num_units : int
    ingate, forgetgate, cell, outgate : Gate
        The specifications of the parameters. The nonlinearities of `cell` and `outgate` are used.
    **kwargs
        `grad_clipping` and `name`: see `Cell`.

    References
    ----------
    Beck et al., "xLSTM: extended long short-term memory", 2024.

    Examples
    --------
    >>> from lasagne_like.cells import SLSTM
    >>> SLSTM(5).build(3).output_shape
    (5,)
    """

    def __init__(
        self,
        num_units: int,
        ingate: Gate = _LINEAR,
        forgetgate: Gate = _LINEAR,
        cell: Gate = Gate(init.GlorotUniform(), init.Orthogonal(), None, nonlinearity=nonlinearities.tanh),
        outgate: Gate = Gate(init.GlorotUniform(), init.Orthogonal(), None),
        **kwargs: Any,
    ) -> None:
        gates = {"ingate": ingate, "forgetgate": forgetgate, "cell": cell, "outgate": outgate}
        super().__init__(num_units, gates, **kwargs)
        self.state_shape = SLSTMState(*[(num_units,)] * 4)
        self.output_shape = self.state_shape.hid

    def recur(self, z: Any, state: Any) -> tuple[Any, Any]:
        old = SLSTMState(*state)
        i, f, new, o = self.split(self.clipped(z + self.project_hidden(old.hid)))
        kept = sj.log_sigmoid(f) + old.scale
        m = sj.maximum(kept, i)
        keep, take = sj.exp(kept - m), sj.exp(i - m)
        c = keep * old.cell + take * self.activated(new, "cell")
        n = keep * old.norm + take
        h = self.activated(o, "outgate") * c / n
        return h, SLSTMState(c, n, m, h)

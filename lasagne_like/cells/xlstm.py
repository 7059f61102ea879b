"""The two LSTMs of xLSTM: mLSTM, whose memory is a matrix, and sLSTM, with exponential gates."""

import math
from typing import Any, NamedTuple, Unpack

import scanjit as sj
from lasagne_like import init, nonlinearities
from lasagne_like.cells.base import Cell, CellOptions, features_of
from lasagne_like.cells.gate import Gate
from lasagne_like.cells.gated import GatedCell
from lasagne_like.utils import Parameter, biased

__all__ = ["MLSTM", "SLSTM", "MLSTMState", "SLSTMState"]


class MLSTMState(NamedTuple):
    """The state of an mLSTM. Each head has a memory (a matrix), a normalizer and a stabilizer.

    Examples
    --------
    >>> from lasagne_like.cells import MLSTM
    >>> MLSTM(6, num_heads=2).state_shape
    MLSTMState(cell=(2, 3, 3), norm=(2, 3), scale=(2,))
    """

    cell: Any
    norm: Any
    scale: Any


class MLSTM(Cell):
    """An LSTM with exponential gates, whose memory is a matrix that maps keys to values. Gates do not read the last
    output.

    The parts of `x @ W + b` are q, k, v and o, each with d numbers for each head. `x @ W_gates + b_gates` has the
    numbers i and f for each head. Then, for each head::

        m = max(log_sigmoid(f) + m_, i)
        C = exp(log_sigmoid(f) + m_ - m) * C_ + exp(i - m) * outer(v, k / sqrt(d))
        n = exp(log_sigmoid(f) + m_ - m) * n_ + exp(i - m) * k / sqrt(d)
        h = sigmoid(o) * C @ q / max(abs(n @ q), exp(-m))

    Parameters
    ----------
    num_units : int
    num_heads : int
        The number of heads. It divides `num_units`.
    W : initializer, array, shared variable or expression
        Of shape (num_inputs, 4 * num_units): queries, keys, values and output gates.
    W_gates : initializer, array, shared variable or expression
        Of shape (num_inputs, 2 * num_heads): input gates, then forget gates.
    b, b_gates : initializer, array, shared variable, expression or None
        Of the shapes (4 * num_units,) and (2 * num_heads,). None for no bias.
    **kwargs
        `grad_clipping` and `name`: see `Cell`.

    References
    ----------
    Beck et al., "xLSTM: extended long short-term memory", 2024.

    Examples
    --------
    >>> from lasagne_like.cells import MLSTM
    >>> MLSTM(6, num_heads=2).build(3).output_shape
    (6,)
    """

    def __init__(
        self,
        num_units: int,
        num_heads: int = 1,
        W: Parameter = init.GlorotUniform(),
        W_gates: Any = init.GlorotUniform(),
        b: Parameter | None = init.Constant(0.0),
        b_gates: Any = init.Constant(0.0),
        **kwargs: Unpack[CellOptions],
    ) -> None:
        super().__init__(**kwargs)
        self.num_units, self.num_heads, self.width = num_units, num_heads, width_of_heads(num_units, num_heads)
        self.specs = {"W": W, "W_gates": W_gates, "b": b, "b_gates": b_gates}
        self.state_shape = MLSTMState((num_heads, self.width, self.width), (num_heads, self.width), (num_heads,))
        self.output_shape = (num_units,)

    def make_params(self, input_shape: Any) -> None:
        inputs, wide, gates = features_of(self, input_shape), 4 * self.num_units, 2 * self.num_heads
        self.add_specified(["b", "b_gates"], W=(inputs, wide), W_gates=(inputs, gates), b=(wide,), b_gates=(gates,))

    def precompute(self, x: Any) -> Any:
        return biased(x @ self.W, self.b), biased(x @ self.W_gates, self.b_gates)

    def recur(self, z: Any, state: Any) -> tuple[Any, Any]:
        old = MLSTMState(*state)
        z, gates = map(self.clipped, z)
        i, f = sj.split(gates, 2, axis=1)
        q, k, v, o = (part.reshape((z.shape[0], self.num_heads, self.width)) for part in sj.split(z, 4, axis=1))
        k = k / math.sqrt(self.width)
        kept = sj.log_sigmoid(f) + old.scale
        m = sj.maximum(kept, i)
        keep, take = sj.exp(kept - m)[:, :, None], sj.exp(i - m)[:, :, None]
        C = keep[:, :, :, None] * old.cell + (take * v)[:, :, :, None] * k[:, :, None, :]
        n = keep * old.norm + take * k
        length = sj.maximum(sj.abs(sj.sum(n * q, axis=2)), sj.exp(-m))
        h = sj.sigmoid(o) * sj.sum(C * q[:, :, None, :], axis=3) / length[:, :, None]
        return h.reshape((z.shape[0], self.num_units)), MLSTMState(C, n, m)


class SLSTMState(NamedTuple):
    """The state of an sLSTM: memory, normalizer, stabilizer (the logarithm of the scale of both), and last output.

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

    The pre-activations i, f, z and o are `x @ W_in_to_* + h_ @ W_hid_to_* + b_*`::

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
        **kwargs: Unpack[CellOptions],
    ) -> None:
        gates = {"ingate": ingate, "forgetgate": forgetgate, "cell": cell, "outgate": outgate}
        super().__init__(num_units, gates, **kwargs)
        self.state_shape = SLSTMState(*[(num_units,)] * 4)

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


def width_of_heads(num_units: int, num_heads: int) -> int:
    """The number of units of each head."""
    if num_heads < 1 or num_units % num_heads:
        raise ValueError(f"num_heads must divide the number of units, got {num_heads} heads for {num_units} units")
    return num_units // num_heads

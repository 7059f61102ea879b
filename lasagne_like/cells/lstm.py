"""The LSTM cell with all its options."""

from typing import Any, NamedTuple, Unpack

import scanjit as sj
from lasagne_like import init, nonlinearities
from lasagne_like.arguments import check_used
from lasagne_like.cells.base import CellOptions, check_bound
from lasagne_like.cells.gate import Gate
from lasagne_like.cells.gated import GatedCell, layer_normed
from lasagne_like.utils import Nonlinearity

__all__ = ["LSTM", "LSTMState"]


class LSTMState(NamedTuple):
    """The state of an LSTM: the memory cells, and the last output.

    Examples
    --------
    >>> from lasagne_like.cells import LSTM
    >>> LSTM(5, num_proj=2).state_shape
    LSTMState(cell=(5,), hid=(2,))
    """

    cell: Any
    hid: Any


def projection(cell: Any, W_proj: Any) -> Any:
    """What the weights of a cell's projection are made from; None for a cell without one."""
    if cell.num_proj is None:
        check_used(cell, "without num_proj", "W_proj", "proj_clip")
        return None
    return init.GlorotUniform() if W_proj is None else W_proj


class LSTM(GatedCell):
    """Long short-term memory.

    ::

        i = sigmoid(x @ W_in_to_ingate + h_ @ W_hid_to_ingate + W_cell_to_ingate * c_ + b_ingate)
        f = sigmoid(x @ W_in_to_forgetgate + ... + W_cell_to_forgetgate * c_ + b_forgetgate + forget_bias)
        c = f * c_ + i * tanh(x @ W_in_to_cell + h_ @ W_hid_to_cell + b_cell)
        o = sigmoid(x @ W_in_to_outgate + ... + W_cell_to_outgate * c + b_outgate)
        h = o * tanh(c)

    The terms with `W_cell` are the peepholes. The nonlinearities are those of the gates; the `tanh` in h is
    `nonlinearity`.

    Parameters
    ----------
    num_units : int
        The number of memory cells.
    ingate, forgetgate, cell, outgate : Gate
    nonlinearity : callable or None
        The function of the memory in the output.
    peepholes : bool
        Whether gates read the memory. A gate with `W_cell=None` does not.
    forget_bias : float
        A constant that is added to the pre-activation of the forget gate, besides its bias. It is not a parameter.
    coupled : bool
        Whether the input gate is 1 minus the forget gate. Then it has no parameters.
    cell_clip : float, optional
        The memory is clipped to this absolute value.
    num_proj : int, optional
        The number of features of the output, which is projected: `h @ W_proj`. The next step reads the projection.
    W_proj : initializer, array, shared variable or expression
        Of shape (num_units, num_proj). By default `GlorotUniform()`.
    proj_clip : float, optional
        The projection is clipped to this absolute value.
    layer_norm : bool
        Whether the new memory and the pre-activation of each gate (before peepholes and `forget_bias` are added) are
        normalized over the units. They are multiplied by the parameters `gain_*`, and the parameters `shift_*` are
        added, which replace the biases.
    weight_norm : bool
        Whether the length of each column of a weight matrix is a parameter (`g_*`). The matrix itself only has the
        direction of the column.
    epsilon : float
        With `layer_norm`, added to the variances.
    **kwargs
        `grad_clipping` and `name`: see `Cell`.

    Examples
    --------
    >>> import lasagne_like as lasagne
    >>> cell = lasagne.cells.LSTM(5, peepholes=True, num_proj=2)
    >>> layer = lasagne.layers.RNNLayer((None, None, 3), cell)
    >>> layer.output_shape, cell.state_shape
    ((None, None, 2), LSTMState(cell=(5,), hid=(2,)))
    """

    def __init__(
        self,
        num_units: int,
        ingate: Gate = Gate(),
        forgetgate: Gate = Gate(),
        cell: Gate = Gate(W_cell=None, nonlinearity=nonlinearities.tanh),
        outgate: Gate = Gate(),
        nonlinearity: Nonlinearity = nonlinearities.tanh,
        peepholes: bool = False,
        *,
        forget_bias: float = 0.0,
        coupled: bool = False,
        cell_clip: float | None = None,
        num_proj: int | None = None,
        W_proj: Any = None,
        proj_clip: float | None = None,
        layer_norm: bool = False,
        weight_norm: bool = False,
        epsilon: float = 1e-6,
        **kwargs: Unpack[CellOptions],
    ) -> None:
        gates = {"ingate": ingate, "forgetgate": forgetgate, "cell": cell, "outgate": outgate}
        if coupled:
            del gates["ingate"]
        super().__init__(num_units, gates, **kwargs)
        if coupled:
            check_used(self, "with coupled=True", "ingate")
        if not layer_norm:
            check_used(self, "without layer_norm=True", "epsilon")
        check_bound(cell_clip, "cell_clip", self)
        check_bound(proj_clip, "proj_clip", self)
        self.nonlinearity = nonlinearities.or_identity(nonlinearity)
        self.peepholes, self.forget_bias, self.coupled = peepholes, forget_bias, coupled
        self.cell_clip, self.num_proj, self.proj_clip = cell_clip, num_proj, proj_clip
        self.layer_norm, self.weight_norm, self.epsilon = layer_norm, weight_norm, epsilon
        self.specs = {"W_proj": projection(self, W_proj)}
        self.state_shape = LSTMState((num_units,), (num_units if num_proj is None else num_proj,))

    def make_params(self, input_shape: Any) -> None:
        hidden = self.state_shape.hid[0]
        peeping = [name for name in self.gates if self.peepholes and name != "cell"]
        inputs, bias = self.num_inputs(input_shape), not self.layer_norm
        self.add_gates(self.gates, inputs, hidden, bias=bias, peepholes=peeping)
        for name in ("ingate", "forgetgate", "outgate"):
            spec = self.gates[name].W_cell if name in peeping else None
            self.keep_param(f"W_cell_to_{name}", spec, (self.num_units,), optional=True)
        self.add_specified(["W_proj"], W_proj=(self.num_units, hidden))
        for name in [*self.gates, "state"] if self.layer_norm else []:
            for what, value in (("gain", 1.0), ("shift", 0.0)):
                self.keep_param(f"{what}_{name}", init.Constant(value), (self.num_units,), regularizable=False)

    def recur(self, z: Any, state: Any) -> tuple[Any, Any]:
        old = LSTMState(*state)
        gates = dict(zip(self.gates, self.split(self.clipped(z + self.project_hidden(old.hid))), strict=True))
        gates = {name: self._normed(gate, name) for name, gate in gates.items()}
        f = self._peeped(gates["forgetgate"], "forgetgate", old.cell)
        f = self.activated(f + self.forget_bias if self.forget_bias else f, "forgetgate")
        i = 1 - f if self.coupled else self.activated(self._peeped(gates["ingate"], "ingate", old.cell), "ingate")
        c = self._normed(f * old.cell + i * self.activated(gates["cell"], "cell"), "state")
        if self.cell_clip is not None:
            c = sj.clip(c, -self.cell_clip, self.cell_clip)
        h = self.activated(self._peeped(gates["outgate"], "outgate", c), "outgate") * self.nonlinearity(c)
        if self.W_proj is not None:
            h = h @ self.W_proj
            if self.proj_clip is not None:
                h = sj.clip(h, -self.proj_clip, self.proj_clip)
        return h, LSTMState(c, h)

    def _peeped(self, z: Any, name: str, c: Any) -> Any:
        W = getattr(self, f"W_cell_to_{name}")
        return z if W is None else z + c * W

    def _normed(self, z: Any, name: str) -> Any:
        if not self.layer_norm:
            return z
        return layer_normed(z, getattr(self, f"gain_{name}"), getattr(self, f"shift_{name}"), self.epsilon)

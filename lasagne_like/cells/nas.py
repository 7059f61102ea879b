"""The cell that a neural architecture search found."""

from typing import Any, Unpack

import scanjit as sj
from lasagne_like import init
from lasagne_like.cells.base import Cell, CellOptions, features_of
from lasagne_like.cells.lstm import LSTMState, projection
from lasagne_like.utils import Parameter, biased

__all__ = ["NAS"]


class NAS(Cell):
    """The cell that a neural architecture search found for models of language.

    The 8 parts of `x @ W_in` are `x0` to `x7`, and those of `h_ @ W_hid + b` are `m0` to `m7`::

        a0, a2, a5, a7 = sigmoid(xk + mk);  a1 = relu(x1 + m1);  a3 = relu(x3 * m3);  a4, a6 = tanh(xk + mk)
        c = tanh(tanh(a0 * a1) + c_) * tanh(a2 + a3)
        h = tanh(c * tanh(tanh(a4 * a5) + sigmoid(a6 + a7)))

    Parameters
    ----------
    num_units : int
    W_in, W_hid : initializer, array, shared variable or expression
        Of the shapes (num_inputs, 8 * num_units) and (num_units, 8 * num_units). With a projection, W_hid has num_proj
        rows.
    b : initializer, array, shared variable, expression or None
        Of shape (8 * num_units,). None for no bias.
    num_proj : int, optional
        The number of features of the output, which is projected: `h @ W_proj`. The next step reads the projection.
    W_proj : initializer, array, shared variable or expression
        Of shape (num_units, num_proj). By default `GlorotUniform()`.
    **kwargs
        `grad_clipping` and `name`: see `Cell`.

    References
    ----------
    Zoph and Le, "Neural architecture search with reinforcement learning", 2017.

    Examples
    --------
    >>> import lasagne_like as lasagne
    >>> layer = lasagne.layers.RNNLayer((None, None, 3), lasagne.cells.NAS(5))
    >>> layer.output_shape, layer.cell.state_shape
    ((None, None, 5), LSTMState(cell=(5,), hid=(5,)))
    """

    def __init__(
        self,
        num_units: int,
        W_in: Any = init.GlorotUniform(),
        W_hid: Any = init.GlorotUniform(),
        b: Parameter | None = None,
        num_proj: int | None = None,
        W_proj: Any = None,
        **kwargs: Unpack[CellOptions],
    ) -> None:
        super().__init__(**kwargs)
        self.num_units, self.num_proj = num_units, num_proj
        self.specs = {"W_in": W_in, "W_hid": W_hid, "b": b, "W_proj": projection(self, W_proj)}
        self.state_shape = LSTMState((num_units,), (num_units if num_proj is None else num_proj,))

    def make_params(self, input_shape: Any) -> None:
        inputs, n, hidden = features_of(self, input_shape), self.num_units, self.state_shape.hid[0]
        shapes = {"W_in": (inputs, 8 * n), "W_hid": (hidden, 8 * n), "b": (8 * n,), "W_proj": (n, hidden)}
        self.add_specified(["b", "W_proj"], **shapes)

    def precompute(self, x: Any) -> Any:
        return x @ self.W_in

    def recur(self, z: Any, state: Any) -> tuple[Any, Any]:
        old = LSTMState(*state)
        x, m = self.clipped(z), self.clipped(biased(old.hid @ self.W_hid, self.b))
        xs, ms = (sj.split(part, 8, axis=1) for part in (x, m))
        both = [p + q for p, q in zip(xs, ms, strict=True)]
        memory = sj.tanh(sj.tanh(sj.sigmoid(both[0]) * sj.relu(both[1])) + old.cell)
        c = memory * sj.tanh(sj.sigmoid(both[2]) + sj.relu(xs[3] * ms[3]))
        right = sj.sigmoid(sj.tanh(both[6]) + sj.sigmoid(both[7]))
        h = sj.tanh(c * sj.tanh(sj.tanh(sj.tanh(both[4]) * sj.sigmoid(both[5])) + right))
        if self.W_proj is not None:
            h = h @ self.W_proj
        return h, LSTMState(c, h)

"""An LSTM in groups of units that do not read each other."""

from typing import Any, Unpack

import numpy as np

import scanjit as sj
from lasagne_like import init, nonlinearities
from lasagne_like.cells.base import Cell, CellOptions, features_of
from lasagne_like.cells.lstm import LSTMState, projection
from lasagne_like.shown import NamedFunction
from lasagne_like.utils import Nonlinearity, Parameter, biased

__all__ = ["GLSTM"]


@NamedFunction
def _glorot(shape: tuple[int, ...]) -> np.ndarray:
    """Glorot's initialization for each matrix of a stack."""
    return np.stack([init.GlorotUniform()(shape[1:]) for _ in range(shape[0])])


class GLSTM(Cell):
    """An LSTM whose units are split into groups. Each group reads its own part of the input and of the state.

    Each group computes `i, f, j, o = x @ W_in + h_ @ W_hid + b`. The rest of the step is that of `LSTM`. A projection
    reads all groups.

    Parameters
    ----------
    num_units : int
    num_groups : int
        The number of groups. It divides the numbers of units, of features of the input, and of features of the output.
    W_in, W_hid : initializer, array, shared variable or expression
        Of the shapes (groups, inputs / groups, 4 * units / groups) and (groups, hidden / groups, 4 * units / groups).
    b : initializer, array, shared variable, expression or None
        Of shape (groups, 4 * units / groups). None for no bias.
    nonlinearity : callable or None
        The function in the candidate, and the function of the memory in the output.
    forget_bias : float
        A constant that is added to the pre-activation of the forget gate, besides its bias. It is not a parameter.
    num_proj : int, optional
        The number of features of the output, which is projected: `h @ W_proj`. The next step reads the projection.
    W_proj : initializer, array, shared variable or expression
        Of shape (num_units, num_proj). By default `GlorotUniform()`.
    **kwargs
        `grad_clipping` and `name`: see `Cell`.

    References
    ----------
    Kuchaiev and Ginsburg, "Factorization tricks for LSTM networks", 2017.

    Examples
    --------
    >>> import lasagne_like as lasagne
    >>> layer = lasagne.layers.RNNLayer((None, None, 6), lasagne.cells.GLSTM(4, num_groups=2))
    >>> layer.output_shape, layer.cell.W_in.shape
    ((None, None, 4), (2, 3, 8))
    """

    def __init__(
        self,
        num_units: int,
        num_groups: int,
        W_in: Any = _glorot,
        W_hid: Any = _glorot,
        b: Parameter | None = init.Constant(0.0),
        nonlinearity: Nonlinearity = nonlinearities.tanh,
        forget_bias: float = 1.0,
        num_proj: int | None = None,
        W_proj: Any = None,
        **kwargs: Unpack[CellOptions],
    ) -> None:
        super().__init__(**kwargs)
        self.num_units, self.num_groups, self.num_proj = num_units, num_groups, num_proj
        self.nonlinearity = nonlinearities.or_identity(nonlinearity)
        self.forget_bias = forget_bias
        self.specs = {"W_in": W_in, "W_hid": W_hid, "b": b, "W_proj": projection(self, W_proj)}
        self.state_shape = LSTMState((num_units,), (num_units if num_proj is None else num_proj,))

    def make_params(self, input_shape: Any) -> None:
        groups, hidden = self.num_groups, self.state_shape.hid[0]
        sizes = {"units": self.num_units, "inputs": features_of(self, input_shape), "outputs": hidden}
        if groups < 1 or any(size % groups for size in sizes.values()):
            found = ", ".join(f"{size} {what}" for what, size in sizes.items())
            raise ValueError(f"num_groups={groups} of {self!r} does not divide {found}")
        wide = 4 * self.num_units // groups
        shapes = {"W_in": (groups, sizes["inputs"] // groups, wide), "W_hid": (groups, hidden // groups, wide)}
        self.add_specified(["b", "W_proj"], **shapes, b=(groups, wide), W_proj=(self.num_units, hidden))

    def _products(self, x: Any, W: Any) -> Any:
        """The products of the groups of `x` (..., features) with their weights: (..., groups, columns)."""
        groups = x.reshape((*x.shape[:-1], self.num_groups, W.shape[1]))
        return sj.einsum("...gi,gio->...go", groups, W)

    def precompute(self, x: Any) -> Any:
        return biased(self._products(x, self.W_in), self.b)

    def recur(self, z: Any, state: Any) -> tuple[Any, Any]:
        old = LSTMState(*state)
        z = self.clipped(z + self._products(old.hid, self.W_hid))
        i, f, new, o = (part.reshape((z.shape[0], self.num_units)) for part in sj.split(z, 4, axis=2))
        c = sj.sigmoid(f + self.forget_bias) * old.cell + sj.sigmoid(i) * self.nonlinearity(new)
        h = sj.sigmoid(o) * self.nonlinearity(c)
        if self.W_proj is not None:
            h = h @ self.W_proj
        return h, LSTMState(c, h)

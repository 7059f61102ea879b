"""Linear attention with the delta rule."""

import math
from typing import Any, Unpack

import numpy as np

import scanjit as sj
from lasagne_like import init
from lasagne_like.cells.base import Cell, CellOptions, features_of
from lasagne_like.cells.xlstm import width_of_heads
from lasagne_like.random import get_rng
from lasagne_like.shown import NamedFunction
from lasagne_like.utils import Parameter, floatX

__all__ = ["GatedDeltaNet"]


@NamedFunction
def _log_decays(shape: tuple[int, ...]) -> np.ndarray:
    """Initial values of `A_log`: logarithms of random numbers between 1 and 16."""
    return floatX(np.log(get_rng().uniform(1.0, 16.0, shape)))


class GatedDeltaNet(Cell):
    """The gated delta network: each head has a matrix that maps keys to values, with a decay and the delta rule.

    The parts of `silu(x @ W)` are q, k and v. In each head, q and k are divided by their lengths. Then, for each head::

        a = exp(-exp(A_log) * softplus(x @ W_a + b_a)),  b = sigmoid(x @ W_b)
        S = a * S_
        S = S + b * outer(v - S @ k, k)
        o = S @ q / sqrt(width of keys)

    Parameters
    ----------
    num_units : int
        The number of features of the output: the values of all heads.
    num_heads : int
        It divides `num_units` and `num_keys`.
    num_keys : int, optional
        The number of features of the keys of all heads. By default, it is `num_units`.
    W : initializer, array, shared variable or expression
        Of shape (num_inputs, 2 * num_keys + num_units), for queries, keys and values.
    W_a, W_b : initializer, array, shared variable or expression
        Of shape (num_inputs, num_heads).
    A_log, b_a : initializer, array, shared variable or expression
        Of shape (num_heads,).
    epsilon : float
        Added to the squares of the lengths of q and k.
    **kwargs
        `name`: see `Cell`.

    References
    ----------
    Yang, Kautz and Hatamizadeh, "Gated delta networks: improving Mamba2 with delta rule", 2024.

    Examples
    --------
    >>> from lasagne_like.cells import GatedDeltaNet
    >>> cell = GatedDeltaNet(6, num_heads=2, num_keys=4).build(3)
    >>> cell.state_shape, cell.output_shape
    ((2, 3, 2), (6,))
    """

    def __init__(
        self,
        num_units: int,
        num_heads: int = 1,
        num_keys: int | None = None,
        W: Parameter = init.GlorotUniform(),
        W_a: Any = init.GlorotUniform(),
        W_b: Any = init.GlorotUniform(),
        A_log: Any = _log_decays,
        b_a: Any = init.Constant(-4.0),
        epsilon: float = 1e-6,
        **kwargs: Unpack[CellOptions],
    ) -> None:
        super().__init__(**kwargs)
        self.num_units, self.num_heads, self.epsilon = num_units, num_heads, epsilon
        self.num_keys = num_units if num_keys is None else num_keys
        self.specs = {"W": W, "W_a": W_a, "W_b": W_b, "A_log": A_log, "b_a": b_a}
        widths = [width_of_heads(size, num_heads) for size in (num_units, self.num_keys)]
        self.state_shape, self.output_shape = (num_heads, *widths), (num_units,)

    def make_params(self, input_shape: Any) -> None:
        inputs, heads = features_of(self, input_shape), self.num_heads
        W, for_heads = (inputs, 2 * self.num_keys + self.num_units), (inputs, heads)
        self.add_specified((), W=W, W_a=for_heads, W_b=for_heads, A_log=(heads,), b_a=(heads,))

    def precompute(self, x: Any) -> Any:
        z, n = sj.silu(x @ self.W), self.num_keys
        q, k, v = (self._heads(part) for part in (z[..., :n], z[..., n : 2 * n], z[..., 2 * n :]))
        decay = sj.exp(-sj.exp(self.A_log) * sj.softplus(x @ self.W_a + self.b_a))
        return self._unit(q) / math.sqrt(self.state_shape[2]), self._unit(k), v, decay, sj.sigmoid(x @ self.W_b)

    def _heads(self, x: Any) -> Any:
        return x.reshape((*x.shape[:-1], self.num_heads, x.shape[-1] // self.num_heads))

    def _unit(self, x: Any) -> Any:
        return x / sj.sqrt(sj.sum(x * x, axis=-1, keepdims=True) + self.epsilon)

    def recur(self, z: Any, state: Any) -> tuple[Any, Any]:
        q, k, v, decay, strength = z
        S = decay[:, :, None, None] * state
        error = v - sj.sum(S * k[:, :, None, :], axis=3)
        S = S + (strength[:, :, None] * error)[:, :, :, None] * k[:, :, None, :]
        o = sj.sum(S * q[:, :, None, :], axis=3)
        return o.reshape((o.shape[0], self.num_units)), S

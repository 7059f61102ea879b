"""The time mixing of RWKV-7."""

import math
from typing import Any, NamedTuple, Unpack

import scanjit as sj
from lasagne_like import init
from lasagne_like.cells.base import Cell, CellOptions, features_of
from lasagne_like.cells.gated import layer_normed
from lasagne_like.cells.xlstm import width_of_heads
from lasagne_like.utils import Parameter

__all__ = ["RWKV7", "RWKV7State"]

_MIXED = ("r", "w", "k", "v", "a", "g")
"""The names of the values that the cell computes from mixtures of the input and the last input."""


class RWKV7State(NamedTuple):
    """The state of an `RWKV7`: the last input, and a matrix for each head.

    Examples
    --------
    >>> from lasagne_like.cells import RWKV7
    >>> RWKV7(num_heads=2).build(6).state_shape
    RWKV7State(shifted=(6,), memory=(2, 3, 3))
    """

    shifted: Any
    memory: Any


class RWKV7(Cell):
    """The time mixing of RWKV-7: each head has a matrix, with a decay for each column and a generalized delta rule.

    The output has as many features as the input. `mix_*` is `x + (x_before - x) * mu_*`, where `x_before` is the last
    input::

        r, k, v = mix_r @ W_r, mix_k @ W_k, mix_v @ W_v
        w = exp(-exp(-0.5) * sigmoid(w0 + tanh(mix_w @ w1) @ w2))
        a = sigmoid(a0 + mix_a @ a1 @ a2),  g = sigmoid(mix_g @ g1) @ g2
        n = k * k_removed, divided by its length in each head
        k = k * (1 + (a - 1) * k_added)
        S = S_ * w - outer(S_ @ n, n * a) + outer(v, k)          (for each head; w scales columns)
        y = normalized(S @ r) * gain + shift + sum(r * k * bonus) * v      (normalized over each head)
        output = (y * g) @ W_out

    Parameters
    ----------
    num_heads : int
        The number of heads. It divides the number n of features.
    rank : int
        The number of columns of `w1`, `a1` and `g1`.
    W : initializer
        For the weights `W_r`, `W_k`, `W_v` and `W_out` (n, n), `w1`, `a1` and `g1` (n, rank), and `w2`, `a2` and `g2`
        (rank, n).
    mu : initializer
        For `mu_*` (n,).
    w0, a0, k_removed, k_added, bonus : initializer
        Of shape (n,).
    epsilon : float
        Added to the variances of heads.
    **kwargs
        `name`: see `Cell`.

    References
    ----------
    Peng et al., "RWKV-7 'Goose' with expressive dynamic state evolution", 2025.

    Examples
    --------
    >>> from lasagne_like.cells import RWKV7
    >>> RWKV7(num_heads=2).build(6).output_shape
    (6,)
    """

    def __init__(
        self,
        num_heads: int = 1,
        rank: int = 16,
        W: Parameter = init.GlorotUniform(),
        mu: Any = init.Uniform(range=(0.0, 1.0)),
        w0: Any = init.Uniform(range=(-6.0, 1.0)),
        a0: Any = init.Constant(0.0),
        k_removed: Any = init.Constant(0.85),
        k_added: Any = init.Constant(1.0),
        bonus: Any = init.Constant(0.0),
        epsilon: float = 64e-5,
        **kwargs: Unpack[CellOptions],
    ) -> None:
        super().__init__(**kwargs)
        self.num_heads, self.rank, self.epsilon = num_heads, rank, epsilon
        self._W, self._mu = W, mu
        self._vectors = {"w0": w0, "a0": a0, "k_removed": k_removed, "k_added": k_added, "bonus": bonus}

    def make_params(self, input_shape: Any) -> None:
        n = features_of(self, input_shape)
        width = width_of_heads(n, self.num_heads)
        self.state_shape, self.output_shape = RWKV7State((n,), (self.num_heads, width, width)), (n,)
        for name in ("W_r", "W_k", "W_v", "W_out"):
            self.keep_param(name, self._W, (n, n))
        for name in ("w", "a", "g"):
            self.keep_param(f"{name}1", self._W, (n, self.rank))
            self.keep_param(f"{name}2", self._W, (self.rank, n))
        vectors = {f"mu_{name}": self._mu for name in _MIXED} | self._vectors
        vectors |= {"gain": init.Constant(1.0), "shift": init.Constant(0.0)}
        for name, spec in vectors.items():
            self.keep_param(name, spec, (n,), regularizable=False)

    def step(self, x: Any, state: Any) -> tuple[Any, Any]:
        old = RWKV7State(*state)
        mixed = {name: x + (old.shifted - x) * getattr(self, f"mu_{name}") for name in _MIXED}
        r, k, v = mixed["r"] @ self.W_r, mixed["k"] @ self.W_k, mixed["v"] @ self.W_v
        w = sj.exp(-math.exp(-0.5) * sj.sigmoid(self.w0 + sj.tanh(mixed["w"] @ self.w1) @ self.w2))
        a = sj.sigmoid(self.a0 + mixed["a"] @ self.a1 @ self.a2)
        g = sj.sigmoid(mixed["g"] @ self.g1) @ self.g2
        removed = self._heads(k * self.k_removed)
        removed = removed / sj.sqrt(sj.maximum(sj.sum(removed * removed, axis=2, keepdims=True), 1e-24))
        k = k * (1 + (a - 1) * self.k_added)
        r, w, k, v, a = map(self._heads, (r, w, k, v, a))
        gone = sj.sum(old.memory * removed[:, :, None, :], axis=3)
        S = old.memory * w[:, :, None, :] - gone[..., None] * (removed * a)[:, :, None, :]
        S = S + v[..., None] * k[:, :, None, :]
        gain, shift = self._heads(self.gain[None]), self._heads(self.shift[None])
        y = layer_normed(sj.sum(S * r[:, :, None, :], axis=3), gain, shift, self.epsilon)
        extra = sj.sum(r * k * self._heads(self.bonus[None]), axis=2, keepdims=True) * v
        return ((y + extra).reshape(x.shape) * g) @ self.W_out, RWKV7State(sj.cast(x, old.shifted.dtype), S)

    def _heads(self, x: Any) -> Any:
        return x.reshape((x.shape[0], self.num_heads, self.state_shape.memory[1]))

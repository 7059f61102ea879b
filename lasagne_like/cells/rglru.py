"""The real-gated linear recurrent unit."""

from __future__ import annotations

from typing import Any

import numpy as np

import scanjit as sj
from lasagne_like import init
from lasagne_like.cells.base import Cell, features_of
from lasagne_like.random import get_rng
from lasagne_like.utils import NamedFunction

__all__ = ["RGLRU"]


@NamedFunction
def _decays(shape: tuple[int, ...]) -> np.ndarray:
    """`L` such that a step with open gates keeps between 0.9 and 0.999 of the state."""
    kept = get_rng().uniform(0.9, 0.999, shape)
    return np.log(np.expm1(-np.log(kept) / 8)).astype(sj.config.floatX)


class RGLRU(Cell):
    """A linear recurrence whose decay is gated by the input; it has as many units as the input has features.

    ::

        r, i = sigmoid(x @ W_r + b_r), sigmoid(x @ W_i + b_i)
        a = exp(-8 * r * softplus(L))
        h = a * h_ + sqrt(1 - a * a) * (i * x)

    Parameters
    ----------
    W_r, W_i : initializer, array, shared variable or expression
        Of shape (num_inputs, num_inputs).
    b_r, b_i : initializer, array, shared variable, expression or None
        Of shape (num_inputs,); None for none.
    L : initializer, array, shared variable or expression
        Of shape (num_inputs,).
    **kwargs
        `grad_clipping` and `name`: see `Cell`.

    References
    ----------
    De et al., "Griffin: mixing gated linear recurrences with local attention for efficient language models", 2024.

    Examples
    --------
    >>> from lasagne_like.cells import RGLRU
    >>> RGLRU().build(3).output_shape
    (3,)
    """

    def __init__(
        self,
        W_r: Any = init.GlorotUniform(),
        W_i: Any = init.GlorotUniform(),
        b_r: Any = init.Constant(0.0),
        b_i: Any = init.Constant(0.0),
        L: Any = _decays,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.specs = {"W_r": W_r, "W_i": W_i, "b_r": b_r, "b_i": b_i, "L": L}

    def make_params(self, input_shape: Any) -> None:
        n = features_of(self, input_shape)
        self.state_shape = (n,)
        self.add_specified(["b_r", "b_i"], W_r=(n, n), W_i=(n, n), b_r=(n,), b_i=(n,), L=(n,))

    def precompute(self, x: Any) -> Any:
        z = x @ sj.concatenate([self.W_r, self.W_i], axis=1)
        n = self.state_shape[0]
        r, i = z[..., :n], z[..., n:]
        return x, r if self.b_r is None else r + self.b_r, i if self.b_i is None else i + self.b_i

    def recur(self, z: Any, state: Any) -> tuple[Any, Any]:
        x, r, i = z
        log_a = -8 * sj.sigmoid(self.clipped(r)) * sj.softplus(self.L)
        h = sj.exp(log_a) * state + sj.sqrt(-sj.expm1(2 * log_a)) * (sj.sigmoid(self.clipped(i)) * x)
        return h, h

"""Selective state spaces: the recurrence alone, and the block around it."""

from typing import Any, NamedTuple, Unpack

import numpy as np

import scanjit as sj
from lasagne_like import init
from lasagne_like.cells.base import Cell, CellOptions, features_of
from lasagne_like.random import get_rng
from lasagne_like.shown import NamedFunction
from lasagne_like.utils import Parameter

__all__ = ["S6", "Mamba", "MambaState"]


@NamedFunction
def _log_integers(shape: tuple[int, ...]) -> np.ndarray:
    """Initial values of `A_log`: the logarithms of 1, 2, 3, ... in each row."""
    return np.broadcast_to(np.log(np.arange(1.0, shape[1] + 1)), shape).astype(sj.config.floatX)


@NamedFunction
def _time_steps(shape: tuple[int, ...]) -> np.ndarray:
    """Initial biases of step sizes. Their softplus is from 0.001 to 0.1, and its logarithm has a uniform
    distribution."""
    steps = np.exp(get_rng().uniform(np.log(0.001), np.log(0.1), shape))
    return np.log(np.expm1(steps)).astype(sj.config.floatX)


class S6(Cell):
    """A linear state space for each feature of the input. Its step size and its weights depend on the input.

    Each feature has a row of the state, with `num_states` numbers::

        D = softplus(x @ W_in_to_delta @ W_delta + b_delta)
        h = exp(D * A) * h_ + D * B * x,    A = -exp(A_log), B = x @ W_in_to_B
        y = sum(C * h) + skip * x,          C = x @ W_in_to_C

    Parameters
    ----------
    num_states : int
    rank : int, optional
        The number of columns of `W_in_to_delta`. By default, it is the number of inputs divided by 16, rounded up.
    W : initializer
        For the weights `W_in_to_delta` (num_inputs, rank), `W_delta` (rank, num_inputs), `W_in_to_B` and `W_in_to_C`
        (num_inputs, num_states).
    A_log : initializer, array, shared variable or expression
        Of shape (num_inputs, num_states).
    b_delta, skip : initializer, array, shared variable or expression
        Of shape (num_inputs,).
    **kwargs
        `name`: see `Cell`.

    References
    ----------
    Gu and Dao, "Mamba: linear-time sequence modeling with selective state spaces", 2023.

    Examples
    --------
    >>> from lasagne_like.cells import S6
    >>> cell = S6(num_states=4).build(6)
    >>> cell.state_shape, cell.output_shape
    ((6, 4), (6,))
    """

    def __init__(
        self,
        num_states: int = 16,
        rank: int | None = None,
        W: Parameter = init.GlorotUniform(),
        A_log: Any = _log_integers,
        b_delta: Any = _time_steps,
        skip: Any = init.Constant(1.0),
        **kwargs: Unpack[CellOptions],
    ) -> None:
        super().__init__(**kwargs)
        self.num_states, self.rank = num_states, rank
        weights = dict.fromkeys(["W_in_to_delta", "W_delta", "W_in_to_B", "W_in_to_C"], W)
        self.specs = {**weights, "A_log": A_log, "b_delta": b_delta, "skip": skip}

    def make_params(self, input_shape: Any) -> None:
        n, k = features_of(self, input_shape), self.num_states
        rank = -(-n // 16) if self.rank is None else self.rank
        self.state_shape, self.output_shape = (n, k), (n,)
        self.add_specified(W_in_to_delta=(n, rank), W_delta=(rank, n), W_in_to_B=(n, k), W_in_to_C=(n, k))
        self.add_specified(A_log=(n, k), b_delta=(n,), skip=(n,))

    def precompute(self, x: Any) -> Any:
        delta = sj.softplus(x @ self.W_in_to_delta @ self.W_delta + self.b_delta)
        return x, delta, x @ self.W_in_to_B, x @ self.W_in_to_C

    def recur(self, z: Any, state: Any) -> tuple[Any, Any]:
        x, delta, B, C = z
        decay = sj.exp(delta[:, :, None] * -sj.exp(self.A_log))
        h = decay * state + (delta * x)[:, :, None] * B[:, None, :]
        return sj.sum(h * C[:, None, :], axis=2) + self.skip * x, h


class MambaState(NamedTuple):
    """The state of a Mamba block: the last inputs of its convolution, the earliest first, and the state of its `S6`.

    Examples
    --------
    >>> from lasagne_like.cells import Mamba
    >>> Mamba(num_states=4, width=3).build(5).state_shape
    MambaState(window=(2, 10), ssm=(10, 4))
    """

    window: Any
    ssm: Any


class Mamba(Cell):
    """The block of Mamba: one branch has a causal convolution and an `S6`, and the other branch is its gate.

    ::

        u, g = x @ W_in
        u = silu(convolve(u, filters) + b_conv)      (over the last `width` steps)
        y = (S6(u) * silu(g)) @ W_out

    The output has as many features as the input.

    Parameters
    ----------
    num_states : int
        The number of states of each feature in `S6`.
    expand : int
        The number of features of a branch divided by that of the input.
    width : int
        The number of steps that the convolution reads.
    rank : int, optional
        See `S6`.
    W, W_conv : initializer
        For the weights `W_in` (num_inputs, 2 * expand * num_inputs) and `W_out` (expand * num_inputs, num_inputs), and
        for the filters (width, expand * num_inputs).
    **kwargs
        `name`: see `Cell`.

    References
    ----------
    Gu and Dao, "Mamba: linear-time sequence modeling with selective state spaces", 2023.

    Examples
    --------
    >>> from lasagne_like.cells import Mamba
    >>> cell = Mamba(num_states=4).build(3)
    >>> cell.output_shape, cell.state_shape
    ((3,), MambaState(window=(3, 6), ssm=(6, 4)))
    """

    def __init__(
        self,
        num_states: int = 16,
        expand: int = 2,
        width: int = 4,
        rank: int | None = None,
        W: Parameter = init.GlorotUniform(),
        W_conv: Any = init.Uniform(0.5),
        **kwargs: Unpack[CellOptions],
    ) -> None:
        super().__init__(**kwargs)
        if width < 2:
            raise ValueError(f"width of Mamba must be 2 steps or more, got {width}; use S6 if there is no convolution")
        self.expand, self.width, self._W, self._W_conv = expand, width, W, W_conv
        self.ssm = S6(num_states, rank, W)

    def make_params(self, input_shape: Any) -> None:
        n = features_of(self, input_shape)
        wide = self.expand * n
        self.W_in = self.add_param(self._W, (n, 2 * wide), name="W_in")
        self.W_conv = self.add_param(self._W_conv, (self.width, wide), name="W_conv")
        self.b_conv = self.add_param(init.Constant(0.0), (wide,), name="b_conv", regularizable=False)
        self.build_inner(self.ssm, (wide,), "ssm")
        self.W_out = self.add_param(self._W, (wide, n), name="W_out")
        self.state_shape = MambaState((self.width - 1, wide), self.ssm.state_shape)
        self.output_shape = input_shape

    def precompute(self, x: Any) -> Any:
        return x @ self.W_in

    def recur(self, z: Any, state: Any) -> tuple[Any, Any]:
        window, ssm = state
        u, gate = sj.split(z, 2, axis=1)
        seen = sj.concatenate([window, u[:, None, :]], axis=1)
        y, ssm = self.ssm.step(sj.silu(sj.sum(seen * self.W_conv, axis=1) + self.b_conv), ssm)
        return (y * sj.silu(gate)) @ self.W_out, MambaState(seen[:, 1:], ssm)

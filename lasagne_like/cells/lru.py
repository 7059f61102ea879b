"""Linear recurrences with one decay for each unit. The decay is complex, or the input controls it."""

import math
from typing import Any, Unpack

import numpy as np

import scanjit as sj
from lasagne_like import init
from lasagne_like.cells.base import Cell, CellOptions, features_of
from lasagne_like.random import get_rng
from lasagne_like.shown import NamedFunction
from lasagne_like.utils import biased, floatX

__all__ = ["LRU", "RGLRU"]


class LRU(Cell):
    """A linear recurrence with a complex diagonal matrix.

    ::

        h = L * h_ + exp(gamma_log) * (x @ B),    L = exp(-exp(nu_log) + 1j * exp(theta_log))
        y = real(h @ C) + D * x

    h, B and C are complex. The state is an array of shape (2, num_units) with the real and the imaginary part of h. The
    real and the imaginary part of B are the parameters `B_re` and `B_im`, and those of C `C_re` and `C_im`.

    Parameters
    ----------
    num_units : int
        The number of complex numbers in the state.
    num_outputs : int, optional
        The number of features of the output. By default it is that of the input, and only then there is a D.
    radii : pair of floats
        The initial absolute values of L are between these two.
    max_phase : float
        The initial angles of L are between 0 and this.
    B, C : initializer
        For `B_re` and `B_im`, of shape (num_inputs, num_units), and for `C_re` and `C_im`, of shape (num_units,
        num_outputs). By default they have a normal distribution with variance 1 / (2 * num_inputs), and 1 / num_units.
    D : initializer, array, shared variable, expression or None
        Of shape (num_inputs,). None for no term `D * x`.
    **kwargs
        `name`: see `Cell`.

    References
    ----------
    Orvieto et al., "Resurrecting recurrent neural networks for long sequences", 2023.

    Examples
    --------
    >>> from lasagne_like.cells import LRU
    >>> cell = LRU(5).build(3)
    >>> cell.state_shape, cell.output_shape
    ((2, 5), (3,))
    """

    def __init__(
        self,
        num_units: int,
        num_outputs: int | None = None,
        radii: tuple[float, float] = (0.9, 0.999),
        max_phase: float = 2 * math.pi,
        B: Any = None,
        C: Any = None,
        D: Any = init.Normal(1.0),
        **kwargs: Unpack[CellOptions],
    ) -> None:
        super().__init__(**kwargs)
        given: Any = radii
        pair = given if isinstance(given, list | tuple) and len(given) == 2 else (1.0, 0.0)
        if not 0 <= pair[0] < pair[1] <= 1:
            raise ValueError(f"radii of LRU must be two numbers with 0 <= lower < upper <= 1, got {radii!r}")
        if num_units < 1:
            raise ValueError(f"num_units of LRU must be 1 or more, got {num_units}")
        self.num_units, self.num_outputs, self.radii, self.max_phase = num_units, num_outputs, radii, max_phase
        self._specs = B, C, D
        self.state_shape = (2, num_units)

    def make_params(self, input_shape: Any) -> None:
        inputs, n = features_of(self, input_shape), self.num_units
        outputs = inputs if self.num_outputs is None else self.num_outputs
        self.output_shape = (outputs,)
        B, C, D = self._specs
        B = init.Normal(1 / math.sqrt(2 * inputs)) if B is None else B
        C = init.Normal(1 / math.sqrt(n)) if C is None else C
        low, high = self.radii
        squares = get_rng().uniform(low**2, high**2, (n,))
        starts = {
            "nu_log": np.log(-0.5 * np.log(squares)),
            "theta_log": np.log(self.max_phase * get_rng().uniform(1e-3, 1.0, (n,))),
            "gamma_log": 0.5 * np.log(1 - squares),
        }
        for name, value in starts.items():
            self.keep_param(name, floatX(value), (n,), regularizable=False)
        for part in ("re", "im"):
            self.keep_param(f"B_{part}", B, (inputs, n))
        for part in ("re", "im"):
            self.keep_param(f"C_{part}", C, (n, outputs))
        self.keep_param("D", D if self.num_outputs is None else None, (inputs,), True, regularizable=False)

    def precompute(self, x: Any) -> Any:
        gain = sj.exp(self.gamma_log)
        return x, gain * (x @ self.B_re), gain * (x @ self.B_im)

    def recur(self, z: Any, state: Any) -> tuple[Any, Any]:
        x, re, im = z
        size, angle = sj.exp(-sj.exp(self.nu_log)), sj.exp(self.theta_log)
        a, b = size * sj.cos(angle), size * sj.sin(angle)
        re, im = a * state[:, 0] - b * state[:, 1] + re, b * state[:, 0] + a * state[:, 1] + im
        y = re @ self.C_re - im @ self.C_im
        return y if self.D is None else y + self.D * x, sj.stack([re, im], axis=1)


@NamedFunction
def _decays(shape: tuple[int, ...]) -> np.ndarray:
    """Initial values of `L`. With open gates, a step multiplies the state by a number from 0.9 to 0.999."""
    kept = get_rng().uniform(0.9, 0.999, shape)
    return np.log(np.expm1(-np.log(kept) / 8)).astype(sj.config.floatX)


class RGLRU(Cell):
    """A linear recurrence with a decay that the input controls. It has as many units as the input has features.

    ::

        r, i = sigmoid(x @ W_r + b_r), sigmoid(x @ W_i + b_i)
        a = exp(-8 * r * softplus(L))
        h = a * h_ + sqrt(1 - a * a) * (i * x)

    Parameters
    ----------
    W_r, W_i : initializer, array, shared variable or expression
        Of shape (num_inputs, num_inputs).
    b_r, b_i : initializer, array, shared variable, expression or None
        Of shape (num_inputs,). None for no bias.
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
        **kwargs: Unpack[CellOptions],
    ) -> None:
        super().__init__(**kwargs)
        self.specs = {"W_r": W_r, "W_i": W_i, "b_r": b_r, "b_i": b_i, "L": L}

    def make_params(self, input_shape: Any) -> None:
        n = features_of(self, input_shape)
        self.state_shape = (n,)
        self.add_specified(["b_r", "b_i"], W_r=(n, n), W_i=(n, n), b_r=(n,), b_i=(n,), L=(n,))

    def precompute(self, x: Any) -> Any:
        r, i = sj.split(x @ sj.concatenate([self.W_r, self.W_i], axis=1), 2, axis=-1)
        return x, biased(r, self.b_r), biased(i, self.b_i)

    def recur(self, z: Any, state: Any) -> tuple[Any, Any]:
        x, r, i = z
        log_a = -8 * sj.sigmoid(self.clipped(r)) * sj.softplus(self.L)
        h = sj.exp(log_a) * state + sj.sqrt(-sj.expm1(2 * log_a)) * (sj.sigmoid(self.clipped(i)) * x)
        return h, h

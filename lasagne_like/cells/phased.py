"""An LSTM with a gate that opens and closes periodically."""

from typing import Any, Unpack

import numpy as np

import scanjit as sj
from lasagne_like import init
from lasagne_like.cells.base import CellOptions
from lasagne_like.cells.lstm import LSTM, LSTMState
from lasagne_like.cells.structure import is_shape
from lasagne_like.random import get_rng
from lasagne_like.utils import Parameter, floatX

__all__ = ["PhasedLSTM"]


def _periods(shape: tuple[int, ...]) -> np.ndarray:
    """Random periods from 1 to 1000. Their logarithms have a uniform distribution."""
    return floatX(np.exp(get_rng().uniform(0.0, np.log(1000.0), shape)))


class PhasedLSTM(LSTM):
    """An LSTM whose units are open during a part of their period only. Otherwise they keep their state.

    The input is a pair: the time, of shape (batch, 1), and the input of the LSTM, of shape (batch, features). c' and h'
    are the memory and the output that an `LSTM` computes::

        phi = mod(time - shift, period) / period
        k = 2 * phi / ratio_on          where phi < ratio_on / 2
            2 - 2 * phi / ratio_on      where phi < ratio_on
            leak * phi                  elsewhere
        c = k * c' + (1 - k) * c_;  h = k * h' + (1 - k) * h_

    Parameters
    ----------
    num_units : int
    leak : float
        The factor of `phi` where the gate is closed.
    ratio_on, period, shift : initializer, array, shared variable or expression
        Of shape (num_units,): the part of a period in which the gate is open, the length of a period, and the time at
        which a period begins. By default, periods are random from 1 to 1000, and shifts random within a period.
    train_ratio_on : bool
        Whether `ratio_on` is trained.
    **kwargs
        Further arguments of `LSTM`, without a projection.

    References
    ----------
    Neil, Pfeiffer and Liu, "Phased LSTM: accelerating recurrent network training for long or event-based sequences",
    2016.

    Examples
    --------
    >>> import lasagne_like as lasagne
    >>> l_time, l_in = lasagne.layers.InputLayer((None, None, 1)), lasagne.layers.InputLayer((None, None, 3))
    >>> lasagne.layers.RNNLayer((l_time, l_in), lasagne.cells.PhasedLSTM(5)).output_shape
    (None, None, 5)
    """

    def __init__(
        self,
        num_units: int,
        leak: float = 0.001,
        ratio_on: Any = init.Constant(0.1),
        period: Any = None,
        shift: Any = None,
        train_ratio_on: bool = True,
        **kwargs: Unpack[CellOptions],
    ) -> None:
        if "num_proj" in kwargs:
            raise TypeError(
                "PhasedLSTM does not take num_proj: its gate has a value for each unit, so it cannot project"
            )
        super().__init__(num_units, **kwargs)
        self.leak, self.train_ratio_on = leak, train_ratio_on
        self._rhythm = ratio_on, _periods if period is None else period, shift

    def make_params(self, input_shape: Any) -> None:
        if is_shape(input_shape) or len(input_shape) != 2 or tuple(input_shape[0]) != (1,):
            raise ValueError(
                f"{self!r} takes a pair of inputs: the time, of shape (batch, 1), and the input, of shape (batch, "
                f"features); got inputs of shape {input_shape}"
            )
        super().make_params(input_shape[1])
        ratio_on, period, shift = self._rhythm
        n = (self.num_units,)
        self.period = self.add_param(period, n, name="period", regularizable=False)
        if shift is None:
            made: Parameter = self.period  # an expression, if one was given
            known = made.get_value() if isinstance(made, sj.SharedVariable) else np.ones(n)
            shift = floatX(get_rng().uniform(0.0, 1.0, n) * known)
        self.shift = self.add_param(shift, n, name="shift", regularizable=False)
        self.ratio_on = self.add_param(ratio_on, n, name="ratio_on", regularizable=False, trainable=self.train_ratio_on)

    def precompute(self, x: Any) -> Any:
        time, x = x
        turns = (time - self.shift) / self.period
        phi = turns - sj.floor(turns)  # mod(time - shift, period) / period, at a fraction of its cost
        rising = 2 * phi / self.ratio_on
        falling = sj.where(phi < self.ratio_on, 2 - rising, self.leak * phi)
        return sj.where(phi < self.ratio_on / 2, rising, falling), super().precompute(x)

    def recur(self, z: Any, state: Any) -> tuple[Any, Any]:
        k, z = z
        old = LSTMState(*state)
        _, new = super().recur(z, old)
        h = k * new.hid + (1 - k) * old.hid
        return h, LSTMState(k * new.cell + (1 - k) * old.cell, h)

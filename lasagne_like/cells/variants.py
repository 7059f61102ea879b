"""Well-known LSTM cells. Each is an `LSTM` with some options."""

from typing import Any, Unpack

from lasagne_like.cells.base import CellOptions
from lasagne_like.cells.lstm import LSTM
from lasagne_like.cells.noise import Draws, rate

__all__ = ["CoupledInputForgetGateLSTM", "LayerNormBasicLSTM", "LayerNormLSTM", "WeightNormLSTM"]


class LayerNormLSTM(LSTM):
    """An LSTM with layer normalization of gates and memory: `LSTM(num_units, layer_norm=True)`.

    Parameters
    ----------
    num_units : int
    forget_bias : float
        A constant that is added to the pre-activation of the forget gate after its normalization.
    **kwargs
        Further arguments of `LSTM`: `peepholes`, `cell_clip`, `num_proj`, ...

    References
    ----------
    Ba, Kiros and Hinton, "Layer normalization", 2016.

    Examples
    --------
    >>> from lasagne_like.cells import LayerNormLSTM
    >>> cell = LayerNormLSTM(5, peepholes=True, num_proj=2).build(3)
    >>> cell.output_shape, cell.gain_forgetgate.shape
    ((2,), (5,))
    """

    def __init__(self, num_units: int, forget_bias: float = 1.0, **kwargs: Unpack[CellOptions]) -> None:
        super().__init__(num_units, layer_norm=True, forget_bias=forget_bias, **kwargs)


class LayerNormBasicLSTM(Draws, LSTM):
    """An LSTM with layer normalization and with dropout of the candidate. It has no peepholes, clipping or projection.

    The candidate is `tanh(...)`, which the input gate multiplies. Dropout does not change the memory itself. With
    `deterministic=True`, nothing is dropped.

    Parameters
    ----------
    num_units : int
    forget_bias : float
        A constant that is added to the pre-activation of the forget gate after its normalization.
    dropout : float
        The probability with which a value of the candidate is set to 0. The other values are divided by 1 - dropout.
    seed : int, optional
        The seed of the random numbers. By default it is drawn from `lasagne_like.random.get_rng()`.
    **kwargs
        Gates, `nonlinearity`, `epsilon`, `grad_clipping` and `name`: see `LSTM`.

    References
    ----------
    Ba, Kiros and Hinton, "Layer normalization", 2016. Semeniuta, Severyn and Barth, "Recurrent dropout without memory
    loss", 2016.

    Examples
    --------
    >>> from lasagne_like.cells import LayerNormBasicLSTM
    >>> LayerNormBasicLSTM(5, dropout=0.2).build(3).state_shape
    LSTMState(cell=(5,), hid=(5,))
    """

    def __init__(
        self,
        num_units: int,
        forget_bias: float = 1.0,
        dropout: float = 0.0,
        seed: int | None = None,
        **kwargs: Unpack[CellOptions],
    ) -> None:
        for option in {"peepholes", "cell_clip", "num_proj", "proj_clip"} & set(kwargs):
            raise TypeError(f"LayerNormBasicLSTM does not take {option}: use LayerNormLSTM")
        super().__init__(num_units, layer_norm=True, forget_bias=forget_bias, **kwargs)
        self.dropout = rate(dropout, "dropout")
        self._begin_draws(seed)
        self._dropping = False

    def begin(self, batch: Any, deterministic: bool = False, **kwargs: Any) -> Any:
        if deterministic or not self.dropout:
            return self
        other = self.drawing()
        other._dropping = True
        return other

    def activated(self, z: Any, name: str) -> Any:
        value = super().activated(z, name)
        if name == "cell" and self._dropping:
            return value * self.kept(self.dropout, value.shape, value.dtype)
        return value


class WeightNormLSTM(LSTM):
    """An LSTM with weight normalization, `W = g * V / |V|` for each column: `LSTM(num_units, weight_norm=True)`.

    Parameters
    ----------
    num_units : int
    **kwargs
        Further arguments of `LSTM`.

    References
    ----------
    Salimans and Kingma, "Weight normalization", 2016.

    Examples
    --------
    >>> from lasagne_like.cells import WeightNormLSTM
    >>> WeightNormLSTM(5).build(3).g_in_to_cell.shape
    (5,)
    """

    def __init__(self, num_units: int, **kwargs: Unpack[CellOptions]) -> None:
        super().__init__(num_units, weight_norm=True, **kwargs)


class CoupledInputForgetGateLSTM(LSTM):
    """An LSTM whose input gate is 1 minus the forget gate: `LSTM(num_units, coupled=True)`.

    Parameters
    ----------
    num_units : int
    **kwargs
        Further arguments of `LSTM`: `peepholes`, `layer_norm`, `num_proj`, ...

    References
    ----------
    Greff et al., "LSTM: a search space odyssey", 2015.

    Examples
    --------
    >>> from lasagne_like.cells import CoupledInputForgetGateLSTM
    >>> hasattr(CoupledInputForgetGateLSTM(5, peepholes=True).build(3), "W_in_to_ingate")
    False
    """

    def __init__(self, num_units: int, **kwargs: Unpack[CellOptions]) -> None:
        super().__init__(num_units, coupled=True, **kwargs)

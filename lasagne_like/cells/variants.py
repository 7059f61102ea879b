"""LSTM cells with names of their own. Each stands for some options of `LSTM`."""

from typing import Any, Unpack

from lasagne_like.cells.base import CellOptions
from lasagne_like.cells.lstm import LSTM
from lasagne_like.cells.noise import Draws, rate

__all__ = ["CoupledInputForgetGateLSTM", "LayerNormBasicLSTM", "LayerNormLSTM", "WeightNormLSTM"]


class LayerNormLSTM(LSTM):
    """An LSTM whose gates and memory are normalized over the units: `LSTM(num_units, layer_norm=True)`.

    Parameters
    ----------
    num_units : int
    forget_bias : float
        Added to the forget gate after it was normalized.
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
    """A normalized LSTM without peepholes, clipping and projection, but with dropout of the candidate.

    With `deterministic=True` nothing is dropped. The memory itself is never dropped, so it forgets nothing by it.

    Parameters
    ----------
    num_units : int
    forget_bias : float
        Added to the forget gate after it was normalized.
    dropout : float
        The probability to drop an element of the candidate (`tanh(...)`, which the input gate multiplies); the others
        are divided by 1 - dropout.
    seed : int, optional
        By default drawn from `lasagne_like.random.get_rng()`.
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
            raise TypeError(f"LayerNormBasicLSTM has no {option}: LayerNormLSTM does")
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
    """An LSTM whose weights are directions and lengths, `W = g * V / |V|` for each column: `LSTM(weight_norm=True)`.

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
    """An LSTM that takes in as much as it forgets, `c = f * c_ + (1 - f) * tanh(...)`: `LSTM(coupled=True)`.

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

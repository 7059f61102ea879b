"""LSTM cells that go over the features of each step (such as frequencies) in windows."""

from abc import ABC
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Unpack

import numpy as np

import scanjit as sj
from lasagne_like import init
from lasagne_like.cells.base import Cell, CellOptions, check_bound, features_of
from lasagne_like.cells.lstm import LSTMState
from lasagne_like.utils import Parameter

__all__ = ["BidirectionalGridLSTM", "GridLSTM", "GridState", "TimeFreqLSTM"]


class _Windowed(Cell, ABC):
    """The base of `TimeFreqLSTM` and `GridLSTM`: windows over the features, with the same weights for all windows."""

    offset = 0
    """The first feature of the first window."""
    reverse = False
    """Whether windows are taken from the last to the first."""

    def __init__(
        self,
        num_units: int,
        feature_size: int,
        frequency_skip: int = 1,
        peepholes: bool = False,
        cell_clip: float | None = None,
        forget_bias: float = 1.0,
        W: Parameter = init.GlorotUniform(),
        W_cell: Any = init.Normal(0.1),
        b: Parameter | None = init.Constant(0.0),
        **kwargs: Unpack[CellOptions],
    ) -> None:
        super().__init__(**kwargs)
        if feature_size < 1 or frequency_skip < 1:
            raise ValueError(
                f"feature_size and frequency_skip of {type(self).__name__} must be 1 or more, got "
                f"feature_size={feature_size}, frequency_skip={frequency_skip}"
            )
        check_bound(cell_clip, "cell_clip", self)
        self.num_units, self.feature_size, self.frequency_skip = num_units, feature_size, frequency_skip
        self.peepholes, self.cell_clip, self.forget_bias = peepholes, cell_clip, forget_bias
        self._specs = W, W_cell, b

    def add_windows(self, input_shape: Any) -> None:
        """Compute the number of windows of the input, and from it the shape of the state."""
        found = features_of(self, input_shape)
        if found < self.feature_size:
            raise ValueError(
                f"{self!r} reads windows of {self.feature_size} features, but the input has {found} features"
            )
        first = np.arange(0, found - self.feature_size + 1, self.frequency_skip)
        self._places = first[:: -1 if self.reverse else 1, None] + np.arange(self.feature_size) + self.offset
        self.num_windows = len(first)
        self.state_shape = LSTMState(*[(self.num_windows, self.num_units)] * 2)

    def add_lstm(self, which: str, gates: Iterable[str], seen: Iterable[str]) -> None:
        """Make the parameters of one LSTM: the weights of the window, of its last output and of the output of the
        window before, the biases, and the peepholes."""
        W, W_cell, b = self._specs
        n, names = self.num_units, list(gates)
        wide = len(names) * n
        for source, rows in (("in", self.feature_size), ("time", n), ("freq", n)):
            self.keep_param(f"W_{source}{which}", W, (rows, wide))
        self.keep_param(f"b{which}", b, (wide,), regularizable=False)
        for gate in [gate for gate in names if gate != "cell"] if self.peepholes else []:
            for cell in seen:
                self.keep_param(f"W_{cell}to_{gate}{which}", W_cell, (n,))

    def windows(self, x: Any) -> Any:
        """The windows of inputs (..., features), as (..., windows, features). Behind the last feature are zeros."""
        if self.offset:
            x = sj.concatenate([x, sj.zeros((*x.shape[:-1], self.offset), x.dtype)], axis=-1)
        return sj.take(x, self._places, axis=-1)

    def split(self, z: Any, gates: Sequence[str]) -> dict[str, Any]:
        return dict(zip(gates, sj.split(z, len(gates), axis=1), strict=True))

    def memory(self, gates: dict[str, Any], which: str, old: Any, seen: dict[str, Any]) -> Any:
        """The new memory of an LSTM, clipped. Its peepholes read the memories in `seen`, by their names."""
        i = self._opened(gates["ingate"], "ingate", which, seen)
        f = 1 - i
        if "forgetgate" in gates:
            f = self._opened(gates["forgetgate"] + self.forget_bias, "forgetgate", which, seen)
        c = f * old + i * sj.tanh(gates["cell"])
        return c if self.cell_clip is None else sj.clip(c, -self.cell_clip, self.cell_clip)

    def output(self, gates: dict[str, Any], which: str, c: Any, seen: dict[str, Any]) -> Any:
        """The output of an LSTM with this memory."""
        return self._opened(gates["outgate"], "outgate", which, seen) * sj.tanh(c)

    def _opened(self, z: Any, gate: str, which: str, seen: dict[str, Any]) -> Any:
        for cell, value in seen.items() if self.peepholes else ():
            z = z + value * getattr(self, f"W_{cell}to_{gate}{which}")
        return sj.sigmoid(z)


def _swapped(rows: Iterable[Any]) -> list[Any]:
    """Tensors with their first two axes swapped: (batch, windows, ...) becomes (windows, batch, ...), or back."""
    return [sj.swapaxes(row, 0, 1) for row in rows]


_GATES = ("ingate", "forgetgate", "cell", "outgate")


class TimeFreqLSTM(_Windowed):
    """An LSTM over windows of the features of each step, from the first window to the last.

    All windows have the same weights. `x` is a window of a step, `h_` and `c_` are the output and the memory of this
    window at the step before, and `g` is the output of the window before it at the same step (0 for the first window)::

        i, f, j, o = x @ W_in + h_ @ W_time + g @ W_freq + b      (each num_units wide)
        c = sigmoid(f + forget_bias + ...) * c_ + sigmoid(i + ...) * tanh(j)
        h = sigmoid(o + ...) * tanh(c)

    The dots stand for peepholes, which are those of `LSTM`. The output of the cell has the outputs of all windows,
    concatenated.

    Parameters
    ----------
    num_units : int
        The number of units of each window.
    feature_size, frequency_skip : int
        The number of features of a window, and the distance between the starts of neighbouring windows. Features behind
        the last whole window are not read.
    peepholes : bool
    cell_clip : float, optional
        The memory is clipped to this absolute value.
    forget_bias : float
        A constant that is added to the pre-activation of the forget gate, besides its bias. It is not a parameter.
    W, W_cell, b : initializer
        For the weights `W_in` (feature_size, 4 * num_units), `W_time` and `W_freq` (num_units, 4 * num_units), for the
        peepholes (num_units,), and for the biases (4 * num_units,).
    **kwargs
        `grad_clipping` and `name`: see `Cell`.

    References
    ----------
    Sainath and Li, "Modeling time-frequency patterns with LSTM vs. convolutional architectures for LVCSR tasks", 2016.

    Examples
    --------
    >>> import lasagne_like as lasagne
    >>> cell = lasagne.cells.TimeFreqLSTM(4, feature_size=3, frequency_skip=2)
    >>> lasagne.layers.RNNLayer((None, None, 7), cell).output_shape, cell.state_shape.cell
    ((None, None, 12), (3, 4))
    """

    def make_params(self, input_shape: Any) -> None:
        self.add_windows(input_shape)
        self.add_lstm("", _GATES, ["cell_"])
        self.output_shape = (self.num_windows * self.num_units,)

    def precompute(self, x: Any) -> Any:
        return self.windows(x) @ self.W_in + self.b

    def recur(self, z: Any, state: Any) -> tuple[Any, Any]:
        old = LSTMState(*state)
        rows = _swapped([z + old.hid @ self.W_time, old.cell])
        start = sj.zeros((z.shape[0], self.num_units), z.dtype)
        cells, hids = _swapped(sj.scan(self._window, rows, [None, start], name="frequencies"))
        return hids.reshape((z.shape[0], *self.output_shape)), LSTMState(cells, hids)

    def _window(self, z: Any, old: Any, before: Any) -> tuple[Any, Any]:
        gates = self.split(self.clipped(z + before @ self.W_freq), _GATES)
        c = self.memory(gates, "", old, {"cell_": old})
        return c, self.output(gates, "", c, {"cell_": c})


class GridLSTM(_Windowed):
    """Two LSTMs over windows of the features of each step: one has a memory over time, the other over the windows.

    The gates of both are parts (in the order i, f, c, o) of `x @ W_in + h_ @ W_time + g @ W_freq + b`. Here `x` is the
    window, `h_` the output of the time LSTM for this window at the step before, and `g` the output of the frequency
    LSTM for the window before it (0 for the first window). Each LSTM has its own memory. Peepholes read both memories.
    The output of the cell has, for each window, the output of the time LSTM and then that of the frequency LSTM. The
    state of the cell is that of the time LSTM.

    Parameters
    ----------
    num_units : int
        The number of units of each LSTM, for each window.
    feature_size, frequency_skip : int
        See `TimeFreqLSTM`.
    peepholes : bool
    share_weights : bool
        Whether both LSTMs have the same weights.
    coupled : bool
        Whether the forget gate is 1 minus the input gate. Then it has no parameters.
    cell_clip : float, optional
        Memories are clipped to this absolute value.
    forget_bias : float
        A constant that is added to the pre-activations of forget gates, besides their biases. It is not a parameter.
    W, W_cell, b : initializer
        For the weights of each LSTM: `W_in_*` (feature_size, 4 * num_units), `W_time_*` and `W_freq_*` (num_units, 4 *
        num_units), for the peepholes (num_units,), and for the biases (4 * num_units,).
    **kwargs
        `grad_clipping` and `name`: see `Cell`.

    References
    ----------
    Kalchbrenner, Danihelka and Graves, "Grid long short-term memory", 2015. Sainath and Li, 2016: see `TimeFreqLSTM`.

    Examples
    --------
    >>> import lasagne_like as lasagne
    >>> cell = lasagne.cells.GridLSTM(4, feature_size=3, frequency_skip=2)
    >>> lasagne.layers.RNNLayer((None, None, 7), cell).output_shape, cell.state_shape.cell
    ((None, None, 24), (3, 4))
    """

    def __init__(
        self,
        num_units: int,
        feature_size: int,
        frequency_skip: int = 1,
        peepholes: bool = False,
        share_weights: bool = False,
        coupled: bool = False,
        cell_clip: float | None = None,
        forget_bias: float = 1.0,
        W: Parameter = init.GlorotUniform(),
        W_cell: Any = init.Normal(0.1),
        b: Parameter | None = init.Constant(0.0),
        **kwargs: Unpack[CellOptions],
    ) -> None:
        super().__init__(
            num_units, feature_size, frequency_skip, peepholes, cell_clip, forget_bias, W, W_cell, b, **kwargs
        )
        self.share_weights, self.coupled = share_weights, coupled
        self._names = tuple(gate for gate in _GATES if not (coupled and gate == "forgetgate"))
        self._freq, self._time = ("", "") if share_weights else ("_freq", "_time")

    def make_params(self, input_shape: Any) -> None:
        self.add_windows(input_shape)
        for which in dict.fromkeys([self._freq, self._time]):
            self.add_lstm(which, self._names, ["freq_cell_", "time_cell_"])
        self.output_shape = (self.num_windows * 2 * self.num_units,)

    def _weights(self, source: str) -> Any:
        """The weights of both LSTMs, concatenated. If they share their weights, these are there once."""
        which = dict.fromkeys([self._freq, self._time])
        return sj.concatenate([getattr(self, f"{source}{name}") for name in which], axis=-1)

    def precompute(self, x: Any) -> Any:
        return self.windows(x) @ self._weights("W_in") + self._weights("b")

    def recur(self, z: Any, state: Any) -> tuple[Any, Any]:
        old = LSTMState(*state)
        rows = _swapped([z + old.hid @ self._weights("W_time"), old.cell])
        start = sj.zeros((z.shape[0], self.num_units), z.dtype)
        results = sj.scan(self._window, rows, [None, None, start, start], name="frequencies")
        cells, hids, _, over = _swapped(results)
        output = sj.concatenate([hids, over], axis=-1)
        return output.reshape((z.shape[0], *self.output_shape)), LSTMState(cells, hids)

    def _window(self, z: Any, old: Any, freq_old: Any, before: Any) -> tuple[Any, ...]:
        z = self.clipped(z + before @ self._weights("W_freq"))
        parts = [z] if self.share_weights else sj.split(z, 2, axis=1)
        freq, time = (self.split(part, self._names) for part in (parts[0], parts[-1]))
        seen = {"freq_cell_": freq_old, "time_cell_": old}
        freq_new, new = self.memory(freq, self._freq, freq_old, seen), self.memory(time, self._time, old, seen)
        seen = {"freq_cell_": freq_new, "time_cell_": new}
        return new, self.output(time, self._time, new, seen), freq_new, self.output(freq, self._freq, freq_new, seen)


class GridState(NamedTuple):
    """The state of a `BidirectionalGridLSTM`: an `LSTMState` for each direction.

    Examples
    --------
    >>> from lasagne_like.cells import BidirectionalGridLSTM
    >>> BidirectionalGridLSTM(4, 3).build(5).state_shape.backward
    LSTMState(cell=(3, 4), hid=(3, 4))
    """

    forward: Any
    backward: Any


class BidirectionalGridLSTM(Cell):
    """Two `GridLSTM` cells: one goes from the first window to the last, the other from the last to the first.

    The output has the outputs of the first cell, then those of the second. Each has the order in which it goes over the
    windows.

    Parameters
    ----------
    num_units, feature_size, frequency_skip : int
        See `GridLSTM`.
    backward_offset : int
        The number of features by which the windows of the second cell are shifted. Behind the last feature are zeros.
    name : str, optional
    **kwargs
        Further arguments of `GridLSTM`.

    Examples
    --------
    >>> import lasagne_like as lasagne
    >>> cell = lasagne.cells.BidirectionalGridLSTM(4, feature_size=3, frequency_skip=2)
    >>> lasagne.layers.RNNLayer((None, None, 7), cell).output_shape
    (None, None, 48)
    """

    def __init__(
        self,
        num_units: int,
        feature_size: int,
        frequency_skip: int = 1,
        backward_offset: int = 0,
        name: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(name=name)
        self.forward = GridLSTM(num_units, feature_size, frequency_skip, **kwargs)
        self.backward = GridLSTM(num_units, feature_size, frequency_skip, **kwargs)
        self.backward.reverse, self.backward.offset = True, backward_offset

    def make_params(self, input_shape: Any) -> None:
        cells = [self.build_inner(self.forward, input_shape, "forward")]
        cells.append(self.build_inner(self.backward, input_shape, "backward"))
        self.state_shape = GridState(*[cell.state_shape for cell in cells])
        self.output_shape = (sum(cell.output_shape[0] for cell in cells),)

    def precompute(self, x: Any) -> Any:
        return self.forward.precompute(x), self.backward.precompute(x)

    def recur(self, z: Any, state: Any) -> tuple[Any, Any]:
        old = GridState(*state)
        there, forward = self.forward.recur(z[0], old.forward)
        back, backward = self.backward.recur(z[1], old.backward)
        return sj.concatenate([there, back], axis=-1), GridState(forward, backward)

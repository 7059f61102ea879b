"""cuDNN's parameters of LSTMs and GRUs: two biases for each gate, transposed matrices, one flat buffer.

cuDNN's arrays are in the order of layers, from the lowest up, and forwards before backwards in each layer. For a layer
and direction, there are the matrices that multiply the input, one for each gate, and then those that multiply the
state. Each matrix has shape (units, inputs). There are as many biases. The bias of a gate is the sum of its two biases,
but in the candidate of a GRU, the reset gate multiplies the second bias.

The gates of an LSTM are i, f, c, o. The gates of a GRU are r, i, h, with `h = (1 - i) * h' + i * h_`. So i is 1 minus
the update gate of `cells.GRU`, and its weights have the opposite sign. The update gate of a `CudnnGRULayer` is cuDNN's.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

import scanjit as sj
from lasagne_like.cells import GRU, LSTM
from lasagne_like.importers.arrays import as_array, checked
from lasagne_like.importers.weights import cells_of, extras, summands
from lasagne_like.layers import kept_part

__all__ = [
    "double_biases",
    "get_cudnn_buffer",
    "get_cudnn_weights",
    "set_cudnn_buffer",
    "set_cudnn_weights",
    "single_biases",
]

_LSTM_GATES = ("ingate", "forgetgate", "cell", "outgate")
_GRU_GATES = ("resetgate", "updategate", "hidden_update")


def single_biases(biases: Sequence[Any], gru: bool = False) -> list[np.ndarray]:
    """Add the two biases of each gate.

    Parameters
    ----------
    biases : arrays
        The biases of the input, one for each gate, then the biases of the state.
    gru : bool
        Whether the last gate is the candidate of a GRU, whose two biases are not added.

    Returns
    -------
    list of arrays
        One bias for each gate. With `gru`, the candidate's bias of the state follows at the end.

    Examples
    --------
    >>> import numpy as np
    >>> from lasagne_like.importers import single_biases
    >>> [float(b[0]) for b in single_biases([np.array([v]) for v in (1.0, 2.0, 3.0, 4.0)])]
    [4.0, 6.0]
    >>> [float(b[0]) for b in single_biases([np.array([v]) for v in (1.0, 2.0, 3.0, 4.0)], gru=True)]
    [4.0, 2.0, 4.0]
    """
    count = len(biases) // 2
    if len(biases) != 2 * count or not count:
        raise ValueError(
            f"each gate has two biases, for the input and for the state, but there are {len(biases)} in all"
        )
    arrays = [as_array(b, f"bias {i}") for i, b in enumerate(biases)]
    pairs = list(zip(arrays[:count], arrays[count:], strict=True))
    if gru:
        return [*(a + b for a, b in pairs[:-1]), *pairs[-1]]
    return [a + b for a, b in pairs]


def double_biases(biases: Sequence[Any], gru: bool = False) -> list[np.ndarray]:
    """Split the bias of each gate into two halves. `single_biases` is the inverse.

    Parameters
    ----------
    biases : arrays
        One bias for each gate. With `gru`, the candidate's bias of the state follows at the end.
    gru : bool
        See `single_biases`.

    Examples
    --------
    >>> import numpy as np
    >>> from lasagne_like.importers import double_biases
    >>> [float(b[0]) for b in double_biases([np.array([v]) for v in (4.0, 2.0, 4.0)], gru=True)]
    [2.0, 2.0, 2.0, 4.0]
    """
    arrays = [as_array(b, f"bias {i}") for i, b in enumerate(biases)]
    if not gru:
        return [b / 2 for b in arrays] * 2
    if len(arrays) < 2:
        raise ValueError(f"a GRU needs two biases for the candidate, 4 in all, got {len(arrays)}")
    halves = [b / 2 for b in arrays[:-2]]
    return [*halves, arrays[-2], *halves, arrays[-1]]


def set_cudnn_weights(layer: Any, weights: Sequence[Any], biases: Sequence[Any]) -> None:
    """Set the parameters of layers to cuDNN's matrices and biases.

    Parameters
    ----------
    layer : CudnnLSTMLayer, CudnnGRULayer, RNNLayer, Bidirectional, Cell, or a list of them
        The cells must be plain LSTMs, or GRUs with `b_hid`.
    weights : arrays
        For each layer and direction: a matrix of the input for each gate, then a matrix of the state for each gate,
        each of shape (units, inputs). A first layer that skips its input has no matrices of the input.
    biases : arrays
        For each layer and direction: a bias of the input for each gate, then a bias of the state for each gate, each of
        shape (units,).

    Raises
    ------
    ValueError
        If the number of arrays or a shape is wrong, or if cuDNN has no such cell. Then nothing is set.

    Examples
    --------
    >>> from lasagne_like.importers import get_cudnn_weights, set_cudnn_weights
    >>> from lasagne_like.layers import CudnnLSTMLayer
    >>> one = CudnnLSTMLayer((None, None, 3), 4, num_layers=2, direction="bidirectional")
    >>> weights, biases = get_cudnn_weights(one)
    >>> len(weights), weights[0].shape, len(biases)
    (32, (4, 3), 32)
    >>> set_cudnn_weights(CudnnLSTMLayer((None, None, 3), 4, 2, "bidirectional", double_bias=True), weights, biases)
    """
    cells = _cells(layer)
    given = (
        _checked(layer, "matrices", list(weights), [shape for cell in cells for shape in cell.matrices]),
        _checked(layer, "biases", list(biases), [shape for cell in cells for shape in cell.biases]),
    )
    changes = []
    for one in cells:
        own = [[values.pop(0) for _ in part] for values, part in zip(given, one.shapes, strict=True)]
        changes += one.to_ours(*own)
    sj.set_values({variable: value.astype(variable.dtype) for variable, value in changes})


def _checked(layer: Any, what: str, values: list[Any], shapes: list[tuple[int, ...]]) -> list[np.ndarray]:
    if len(values) != len(shapes):
        raise ValueError(f"{layer!r} needs {len(shapes)} {what} in cuDNN's order, got {len(values)}")
    named = ((f"item {i} of the {what} of {layer!r}", value) for i, value in enumerate(values))
    return [checked(value, name, shape) for (name, value), shape in zip(named, shapes, strict=True)]


def get_cudnn_weights(layer: Any) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """The matrices and the biases of layers in cuDNN's order. See `set_cudnn_weights`.

    If a gate has one bias, each of the two biases is half of it.

    Parameters
    ----------
    layer : as for `set_cudnn_weights`

    Examples
    --------
    >>> from lasagne_like import init
    >>> from lasagne_like.cells import GRU
    >>> from lasagne_like.importers import get_cudnn_weights
    >>> weights, biases = get_cudnn_weights(GRU(4, b_hid=init.Constant(0.5)).build(3))
    >>> [w.shape for w in weights], biases[5]
    ([(4, 3), (4, 3), (4, 3), (4, 4), (4, 4), (4, 4)], array([0.5, 0.5, 0.5, 0.5]))
    """
    weights, biases = [], []
    for cell in _cells(layer):
        own = cell.to_cudnn()
        weights += own[0]
        biases += own[1]
    return weights, biases


def set_cudnn_buffer(layer: Any, buffer: Any) -> None:
    """Set the parameters of layers to one flat array in cuDNN's layout: all matrices, then all biases.

    Parameters
    ----------
    layer : as for `set_cudnn_weights`
    buffer : array of one dimension

    Examples
    --------
    >>> import numpy as np
    >>> from lasagne_like.importers import get_cudnn_buffer, set_cudnn_buffer
    >>> from lasagne_like.layers import CudnnGRULayer
    >>> layer = CudnnGRULayer((None, None, 3), 4, double_bias=True)
    >>> set_cudnn_buffer(layer, np.arange(108.0))
    >>> bool((get_cudnn_buffer(layer) == np.arange(108.0)).all())
    True
    """
    buffer = as_array(buffer, "the buffer")
    cells = _cells(layer)
    shapes = [*(s for cell in cells for s in cell.matrices), *(s for cell in cells for s in cell.biases)]
    sizes = [int(np.prod(shape)) for shape in shapes]
    if buffer.shape != (sum(sizes),):
        raise ValueError(f"{layer!r} has {sum(sizes)} numbers, got a buffer of shape {buffer.shape}")
    parts = np.split(buffer, np.cumsum(sizes)[:-1])
    arrays = [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]
    count = sum(len(cell.matrices) for cell in cells)
    set_cudnn_weights(layer, arrays[:count], arrays[count:])


def get_cudnn_buffer(layer: Any) -> np.ndarray:
    """The parameters of layers as one flat array in cuDNN's layout: all matrices, then all biases.

    Parameters
    ----------
    layer : as for `set_cudnn_weights`

    Examples
    --------
    >>> from lasagne_like.importers import get_cudnn_buffer
    >>> from lasagne_like.layers import CudnnLSTMLayer
    >>> get_cudnn_buffer(CudnnLSTMLayer((None, None, 3), 4)).shape
    (144,)
    """
    weights, biases = get_cudnn_weights(layer)
    return np.concatenate([value.ravel() for value in [*weights, *biases]])


def _cells(layer: Any) -> list["_CudnnCell"]:
    """The cells of layers, in cuDNN's order."""
    found = [_CudnnCell(cell) for level in cells_of(layer) for cell in level]
    if not found:
        raise ValueError(f"at least one layer is needed, got {layer!r}")
    return found


class _CudnnCell:
    """The parameters of one cell in cuDNN's order."""

    def __init__(self, cell: Any) -> None:
        self.cell, self.gates = cell, _GRU_GATES if isinstance(cell, GRU) else _LSTM_GATES
        if not self._is_plain():
            raise ValueError(
                f"cuDNN has no cell like {cell!r}: it must be a plain LSTM, or a GRU with reset_after and b_hid; it "
                "must have been built, and its parameters must be shared variables"
            )
        n, inputs = self.cell.num_units, self.cell.input_shape[0]
        skips = getattr(cell, f"W_in_to_{self.gates[0]}") is None
        self.matrices: list[Any] = [(n, inputs)] * (0 if skips else len(self.gates)) + [(n, n)] * len(self.gates)
        self.biases: list[Any] = [(n,)] * (2 * len(self.gates))
        self.shapes = self.matrices, self.biases

    def _is_plain(self) -> bool:
        cell = self.cell
        if cell.input_shape is None or not _settable(cell, self.gates):
            return False
        if isinstance(cell, GRU):
            return cell.reset_after and cell.b_hid is not None and not extras(cell, "gru")
        lacks = lambda: cell.peepholes or cell.forget_bias or cell.num_proj or extras(cell, "lstm")
        return isinstance(cell, LSTM) and not lacks()

    def _sign(self, gate: str) -> int:
        return -1 if gate == "updategate" and self.cell.nonlinearity_updategate is not kept_part else 1

    @property
    def _weights(self) -> list[tuple[str, Any]]:
        """The gate and the variable of each matrix."""
        found = [(gate, getattr(self.cell, f"W_{source}_to_{gate}")) for source in ("in", "hid") for gate in self.gates]
        return [(gate, W) for gate, W in found if W is not None]

    def _variables(self, gate: str) -> list[Any]:
        """The variables of the bias of a gate: one variable, or two that are added."""
        return [b for both in _biases(self.cell, gate) for b in both]

    def to_ours(self, weights: list[np.ndarray], biases: list[np.ndarray]) -> list[tuple[Any, np.ndarray]]:
        """Pairs of a variable of the cell and its new value, from cuDNN's matrices and biases."""
        matrices = zip(self._weights, weights, strict=True)
        changes = [(W, self._sign(gate) * value.T) for (gate, W), value in matrices]
        for gate, b_in, b_hid in zip(self.gates, biases, biases[len(self.gates) :], strict=False):
            both, sign = self._variables(gate), self._sign(gate)
            values = [b_in, b_hid] if len(both) == 2 else [b_in + b_hid]
            changes += [(b, sign * value) for b, value in zip(both, values, strict=True)]
        return changes

    def to_cudnn(self) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """The matrices and biases of the cell in cuDNN's order."""
        weights = [self._sign(gate) * W.get_value().T for gate, W in self._weights]
        pairs = []
        for gate in self.gates:
            own = [self._sign(gate) * b.get_value() for b in self._variables(gate)]
            pairs.append(own if len(own) == 2 else [own[0] / 2] * 2)
        return weights, [pair[0] for pair in pairs] + [pair[1] for pair in pairs]


def _settable(cell: Any, gates: Sequence[str]) -> bool:
    """Whether all weights are variables, and all biases are variables or sums of two."""
    names = [f"W_{source}_to_{gate}" for source in ("in", "hid") for gate in gates]
    weights = [getattr(cell, name, None) for name in names]
    biases = [_biases(cell, gate) for gate in gates]
    return all(W is None or isinstance(W, sj.SharedVariable) for W in weights) and all(
        1 <= len(b) <= 3 - len(both) for both in biases for b in both
    )


def _biases(cell: Any, gate: str) -> list[list[sj.SharedVariable]]:
    """The variables of the bias of a gate; in a GRU's candidate also of the one that the reset gate multiplies."""
    names = [f"b_{gate}", *["b_hid"] * (gate == "hidden_update")]
    return [summands(getattr(cell, name, None)) for name in names]

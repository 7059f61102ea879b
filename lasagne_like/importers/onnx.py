"""The weights of ONNX's operators `LSTM`, `GRU` and `RNN`: the arrays W, R, B and P. Their first axis is directions.

W is [directions, gates * units, inputs], and R [directions, gates * units, units]. B is [directions, 2 * gates *
units]: the biases of the input, then those of the state. P is [directions, 3 * units], for the peepholes i, o, f. The
gates of an LSTM are i, o, f, c. Those of a GRU are z, r, h, with `h = (1 - z) * hh + z * h_`. `linear_before_reset`
says whether the reset gate of a GRU multiplies the product, as `reset_after` of `cells.GRU` does.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from lasagne_like.importers.arrays import Arrays
from lasagne_like.importers.weights import KINDS, CellWeights, Format, build_layers, options_of, width_below

__all__ = ["from_arrays", "to_arrays"]

_FORMAT = Format("ONNX", {"lstm": "iofc", "gru": "urc", "rnn": "h"}, alike="directions")
_PEEPHOLES = "iof"


def from_arrays(
    arrays: Mapping[str, Any] | Sequence[Mapping[str, Any]],
    incoming: Any = None,
    linear_before_reset: bool = False,
    nonlinearity: str = "tanh",
    double_bias: bool = False,
    name: str | None = None,
    **options: Any,
) -> Any:
    """Make recurrent layers with the weights of ONNX's operators.

    Parameters
    ----------
    arrays : mapping, or list of mappings
        The arrays "W" and "R" of an operator, and optionally "B" and "P". For several operators, a list of mappings,
        from the lowest operator up.
    incoming : Layer or tuple, optional
        The input of the first layer, of shape (batch, time, features). By default, a new `InputLayer`.
    linear_before_reset : bool
        The attribute of a GRU.
    nonlinearity : "tanh" or "relu"
        The nonlinearity of an RNN.
    double_bias : bool
        Whether the two biases of a gate become two parameters. By default, their sum is one parameter. With two, a
        training step changes the sum twice as much, as in libraries with two biases: each has the gradient of the sum.
    name : str, optional
        The name of layer k is "name.k".
    **options
        Further arguments of `RNNLayer`, for each layer. `only_return_final` and `return_state` are for the last one.
        An operator with `direction="reverse"` needs `backwards=True`.

    Returns
    -------
    RNNLayer or Bidirectional
        The last layer. ONNX's output has an axis of directions. Here, the features of both directions are concatenated.

    Raises
    ------
    KeyError, ValueError
        If an array is missing or not known, or if its shape does not fit the others.

    Examples
    --------
    >>> import numpy as np
    >>> from lasagne_like.importers import onnx
    >>> layer = onnx.from_arrays({"W": np.ones((2, 16, 3)), "R": np.ones((2, 16, 4)), "B": np.zeros((2, 32))})
    >>> layer.output_shape
    (None, None, 8)
    """
    operators = [arrays] if isinstance(arrays, Mapping) else list(arrays)
    levels: list[list[CellWeights]] = []
    for k, given in enumerate(operators):
        own = Arrays(given, f"the arrays of layer {k}")
        levels.append(_level(own, width_below(levels), bool(linear_before_reset), nonlinearity, double_bias))
    return build_layers(levels, incoming, name, **options)


def _level(arrays: Arrays, below: int | None, after: bool, nonlinearity: str, double_bias: bool) -> list[CellWeights]:
    R = arrays.take("R", (None, None, None))
    ways, rows, units = R.shape
    gates = rows // units
    if ways > 2 or rows % units or gates not in KINDS:
        raise ValueError(f"R has shape {R.shape}, should be (1 or 2 directions, 4, 3 or 1 * units, units)")
    kind = KINDS[gates]
    W = arrays.take("W", (ways, rows, below), f"{gates} gates of {units} units (from R)")
    B = arrays.take("B", (ways, 2 * rows)) if "B" in arrays else None
    P = arrays.take("P", (ways, 3 * units)) if kind == "lstm" and "P" in arrays else None
    arrays.check_all_taken(arrays.given)
    extra = {**options_of(kind, nonlinearity, after), "double_bias": double_bias}
    found = []
    for way in range(ways):
        b = [None, None] if B is None else np.split(B[way], 2)
        if P is not None:
            own = dict(zip(_PEEPHOLES, np.split(P[way], 3), strict=True))
            extra["peepholes"] = [own[gate] for gate in "ifo"]
        found.append(_FORMAT.unpacked(kind, W[way].T, R[way].T, *b, **extra))
    return found


def to_arrays(layer: Any) -> list[dict[str, np.ndarray]]:
    """The weights of recurrent layers in ONNX's format: the arrays "W", "R" and "B", and "P" for peepholes, of each
    layer.

    Each bias is split into two halves. This is exact. The operator of a GRU needs `linear_before_reset=1` if
    `cell.reset_after` is true.

    Parameters
    ----------
    layer : Layer, Cell or list of Layers
        See `read_layers`.

    Raises
    ------
    ValueError
        If a layer has a projection.

    Examples
    --------
    >>> from lasagne_like.importers import onnx
    >>> from lasagne_like.layers import LSTMLayer
    >>> (arrays,) = onnx.to_arrays(LSTMLayer((None, None, 3), 4))
    >>> {name: value.shape for name, value in arrays.items()}
    {'W': (1, 16, 3), 'R': (1, 16, 4), 'B': (1, 32), 'P': (1, 12)}
    """
    found = []
    for level in _FORMAT.read(layer, a_projection=lambda one: one.projection is not None):
        packed = [_FORMAT.packed(one) for one in level]
        own = {name: np.stack([both[k].T for both in packed]) for k, name in enumerate("WR")}
        own["B"] = np.stack([np.concatenate(_FORMAT.halves(one)) for one in level])
        if any(one.peepholes for one in level):
            own["P"] = np.stack([one.peephole_rows(_PEEPHOLES).ravel() for one in level])
        found.append(own)
    return found

"""Keras's `LSTM`, `GRU` and `SimpleRNN`: the lists of arrays that `layer.get_weights()` returns and `set_weights`
takes.

Each direction has a kernel (inputs, gates * units), a recurrent kernel (units, gates * units) and a bias. The bias has
shape (gates * units,). In a GRU with `reset_after` it has shape (2, 3 * units), with the bias of the input first. The
gates of an LSTM are i, f, c, o. Those of a GRU are z, r, h, with `h = z * h_ + (1 - z) * hh`. The list of a
`Bidirectional` has the arrays of the forward direction, then those of the backward direction.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from lasagne_like.importers.arrays import as_array, checked
from lasagne_like.importers.weights import KINDS, PLAIN, CellWeights, Format, build_layers, options_of, width_below

__all__ = ["from_weights", "to_weights"]

_FORMAT = Format("Keras", {"lstm": "ifco", "gru": "urc", "rnn": "h"})


def from_weights(
    weights: Sequence[Any],
    incoming: Any = None,
    bidirectional: bool = False,
    reset_after: bool | None = None,
    nonlinearity: str = "tanh",
    double_bias: bool = False,
    name: str | None = None,
    **options: Any,
) -> Any:
    """Make recurrent layers with the weights of Keras's layers.

    Parameters
    ----------
    weights : list of arrays, or list of such lists
        The result of `get_weights()` for one layer. For several layers, a list of these results, from the lowest layer
        up.
    incoming : Layer or tuple, optional
        The input of the first layer, of shape (batch, time, features). By default, a new `InputLayer`.
    bidirectional : bool
        Whether each layer is a `Bidirectional` (with `merge_mode="concat"`). Keras's `Bidirectional` of all steps is 0
        at masked steps: with `mask_input`, give `zero_output_for_mask=True`, too.
    reset_after : bool, optional
        The argument of a GRU. By default, it follows from the shape of the bias. Without biases it is True, as in
        Keras.
    nonlinearity : "tanh" or "relu"
        The nonlinearity of a `SimpleRNN`, which does not follow from the weights.
    double_bias : bool
        For a GRU with `reset_after`: whether the two biases of a gate become two parameters. By default, their sum is
        one parameter. With two, a training step changes the sum twice as much, as it does in Keras: each bias has the
        gradient of the sum.
    name : str, optional
        The name of layer k is "name.k".
    **options
        Further arguments of `RNNLayer`, for each layer. `only_return_final` and `return_state` are for the last one.

    Returns
    -------
    RNNLayer or Bidirectional
        The last layer.

    Raises
    ------
    ValueError
        If the number of arrays is wrong, or the shape of one does not fit the others.

    Examples
    --------
    >>> import numpy as np
    >>> from lasagne_like.importers import keras
    >>> layer = keras.from_weights([np.ones((3, 12)), np.ones((4, 12)), np.zeros((2, 12))])
    >>> layer.cell, layer.cell.reset_after
    (<GRU '0'>, True)
    """
    if not isinstance(weights, list | tuple):
        raise TypeError(
            f"weights must be the list that get_weights() returns, or a list of such lists, got {weights!r}"
        )
    if reset_after not in (None, True, False):
        raise ValueError(f"reset_after must be True, False or None, got {reset_after!r}")
    layers = [list(one) for one in weights] if weights and isinstance(weights[0], list | tuple) else [list(weights)]
    levels: list[list[CellWeights]] = []
    for k, arrays in enumerate(layers):
        ways = 2 if bidirectional else 1
        count = len(arrays) // ways
        if len(arrays) not in (2 * ways, 3 * ways):
            wanted = "kernel, recurrent kernel and (with use_bias) bias" + (", for both directions" * bidirectional)
            raise ValueError(f"layer {k} must have {2 * ways} or {3 * ways} arrays ({wanted}), got {len(arrays)}")
        below = width_below(levels)
        parts = [arrays[way * count : (way + 1) * count] for way in range(ways)]
        labels = [f"layer {k}, {way}" for way in ("forward", "backward")] if ways == 2 else [f"layer {k}"]
        levels.append(
            [
                _cell(own, label, below, reset_after, nonlinearity, double_bias)
                for own, label in zip(parts, labels, strict=True)
            ]
        )
    return build_layers(levels, incoming, name, **options)


def _cell(
    arrays: list[Any], label: str, below: int | None, reset_after: bool | None, nonlinearity: str, double_bias: bool
) -> CellWeights:
    kernel_name, name, bias_name = (f"the {what} of {label}" for what in ("kernel", "recurrent kernel", "bias"))
    R = checked(arrays[1], name, (None, None))
    units = len(R)
    gates = R.shape[1] // units
    if gates not in KINDS or R.shape[1] % units:
        raise ValueError(f"{name} has shape {R.shape}, should be (units, 4, 3 or 1 * units)")
    kind, width = KINDS[gates], R.shape[1]
    W = checked(arrays[0], kernel_name, (below, width), f"{gates} gates of {units} units (from the recurrent kernel)")
    b = as_array(arrays[2], bias_name) if len(arrays) == 3 else None
    if reset_after is None:
        reset_after = b is None or b.ndim == 2
    second = None
    if b is not None:
        why = f"a GRU with reset_after={reset_after}" if kind == "gru" else ""
        b = checked(b, bias_name, (2, width) if kind == "gru" and reset_after else (width,), why)
        if b.ndim == 2:
            b, second = b
    extra = options_of(kind, nonlinearity, reset_after)
    return _FORMAT.unpacked(kind, W, R, b, second, double_bias=double_bias, **extra)


def to_weights(layer: Any) -> list[list[np.ndarray]]:
    """The weights of recurrent layers in Keras's format: for each layer, the list that `set_weights` takes.

    In a GRU with `reset_after`, each bias is split into two halves. This is exact.

    Parameters
    ----------
    layer : Layer, Cell or list of Layers
        See `read_layers`.

    Examples
    --------
    >>> from lasagne_like.importers import keras
    >>> from lasagne_like.layers import CudnnGRULayer
    >>> [[w.shape for w in one] for one in keras.to_weights(CudnnGRULayer((None, None, 3), 4, num_layers=2))]
    [[(3, 12), (4, 12), (2, 12)], [(4, 12), (4, 12), (2, 12)]]
    """
    found = []
    for level in _FORMAT.read(layer, **PLAIN):
        own: list[np.ndarray] = []
        for one in level:
            W, R, b = _FORMAT.packed(one)
            doubled = one.kind == "gru" and one.reset_after
            own += [W, R, np.stack(_FORMAT.halves(one)) if doubled else b]
        found.append(own)
    return found

"""PyTorch's `LSTM`, `GRU` and `RNN`: `state_dict`s, with layers, directions and projections.

`weight_ih_l{k}` is (gates * units, inputs), `weight_hh_l{k}` (gates * units, units or projected), and `weight_hr_l{k}`
(projected, units). The names of the backward direction end with `_reverse`. The gates of an LSTM are i, f, g, o. Those
of a GRU are r, z, n, with `h = (1 - z) * n + z * h_`. The bias of a gate is the sum of two biases, but in n of a GRU,
the reset gate multiplies the bias of the state.

PyTorch is not needed, because values may be arrays. (But a `.pt` file is a pickle, which PyTorch must read:
`torch.load(path, weights_only=True)`.)
"""

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from lasagne_like.importers.arrays import Arrays, listed
from lasagne_like.importers.weights import KINDS, CellWeights, Format, build_layers, options_of, width_below

__all__ = ["from_state_dict", "to_state_dict"]

_FORMAT = Format("PyTorch", {"lstm": "ifco", "gru": "ruc", "rnn": "h"}, backwards=False, alike="layers")
_NAME = re.compile(r"(?:weight_(?:ih|hh|hr)|bias_(?:ih|hh))(?:_l(?P<layer>\d+))?(?P<back>_reverse)?")


def from_state_dict(
    state: Mapping[str, Any],
    incoming: Any = None,
    prefix: str = "",
    nonlinearity: str = "tanh",
    double_bias: bool = False,
    name: str | None = None,
    **options: Any,
) -> Any:
    """Make recurrent layers with the weights of PyTorch's modules.

    Parameters
    ----------
    state : mapping from names to tensors or arrays
        The `state_dict` of an `LSTM`, `GRU` or `RNN`, of an `LSTMCell`, `GRUCell` or `RNNCell`, or of a model with one
        of them. The kind of module and the numbers of layers and directions follow from the names and shapes.
    incoming : Layer or tuple, optional
        The input of the first layer, of shape (batch, time, features). By default, a new `InputLayer`.
    prefix : str
        The prefix of the names, such as "encoder.rnn.". Other names are ignored.
    nonlinearity : "tanh" or "relu"
        The nonlinearity of an `RNN`, which does not follow from the names.
    double_bias : bool
        Whether the two biases of a gate become two parameters. By default, their sum is one parameter. With two, a
        training step changes the sum twice as much, as it does in PyTorch: each bias has the gradient of the sum.
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
    KeyError, ValueError
        If a variable is missing or not known, or if its shape does not fit the others.

    Examples
    --------
    >>> import numpy as np
    >>> from lasagne_like.importers import torch
    >>> state = {"weight_ih_l0": np.ones((12, 3)), "weight_hh_l0": np.ones((12, 4))}
    >>> state |= {"bias_ih_l0": np.zeros(12), "bias_hh_l0": np.zeros(12)}
    >>> layer = torch.from_state_dict(state)
    >>> layer.cell, layer.output_shape
    (<GRU '0'>, (None, None, 4))
    """
    if not isinstance(state, Mapping):
        raise TypeError(f"state must be a state_dict, from names to tensors, got {state!r}")
    arrays = Arrays({key[len(prefix) :]: value for key, value in state.items() if key.startswith(prefix)}, "the state")
    matches = {key: match for key in arrays.given if (match := _NAME.fullmatch(key))}
    if not matches:
        wanted = f"{prefix}weight_ih_l0"
        raise KeyError(f"the state has no {wanted!r}; there are {listed(state, wanted)}")
    single = any(match["layer"] is None for match in matches.values())
    count = 1 if single else 1 + max(int(match["layer"]) for match in matches.values())
    ways = ("", "_reverse") if any(match["back"] for match in matches.values()) else ("",)
    levels: list[list[CellWeights]] = []
    for k in range(count):
        below = width_below(levels)
        suffix = "" if single else f"_l{k}"
        levels.append([_cell(arrays, suffix + way, below, nonlinearity, double_bias) for way in ways])
    arrays.check_all_taken(arrays.given)
    return build_layers(levels, incoming, name, **options)


def _cell(arrays: Arrays, suffix: str, below: int | None, nonlinearity: str, double_bias: bool) -> CellWeights:
    W_name, R_name, P_name = (f"weight_{what}{suffix}" for what in ("ih", "hh", "hr"))
    R = arrays.take(R_name, (None, None))
    projection = arrays.take(P_name, (R.shape[1], None)) if P_name in arrays else None
    units = R.shape[1] if projection is None else projection.shape[1]
    gates = len(R) // units
    if gates not in KINDS or len(R) % units or (projection is not None and gates != 4):
        raise ValueError(
            f"{R_name} must have 4, 3 or 1 rows (for an LSTM, a GRU or an RNN) for each of the {units} units, which "
            f"are the columns of {R_name if projection is None else P_name}; got shape {R.shape}"
        )
    kind = KINDS[gates]
    W = arrays.take(W_name, (len(R), below), f"{gates} gates of {units} units (from {R_name})")
    biases = [f"bias_{what}{suffix}" for what in ("ih", "hh")]
    b = [arrays.take(key, (len(R),)) for key in biases] if any(key in arrays for key in biases) else [None, None]
    options = options_of(kind, nonlinearity, reset_after=True)
    if projection is not None:
        options["projection"] = projection.T
    options["double_bias"] = double_bias
    return _FORMAT.unpacked(kind, W.T, R.T, *b, **options)


def to_state_dict(layer: Any, prefix: str = "") -> dict[str, np.ndarray]:
    """The weights of recurrent layers under PyTorch's names. A single bias is split into two halves, which is exact.

    Parameters
    ----------
    layer : Layer, Cell or list of Layers
        See `read_layers`.
    prefix : str
        The prefix of the names.

    Returns
    -------
    dict of arrays
        From names to arrays, for `module.load_state_dict({name: torch.from_numpy(value) for name, value in ...})`.

    Raises
    ------
    ValueError
        If PyTorch has no such layer: for example, if it has peepholes, reads backwards only, or is a GRU that resets
        before its product.

    Examples
    --------
    >>> from lasagne_like.importers import torch
    >>> from lasagne_like.layers import CudnnLSTMLayer
    >>> state = torch.to_state_dict(CudnnLSTMLayer((None, None, 3), 4))
    >>> {name: value.shape for name, value in state.items()}
    {'weight_ih_l0': (16, 3), 'weight_hh_l0': (16, 4), 'bias_ih_l0': (16,), 'bias_hh_l0': (16,)}
    """
    levels = _FORMAT.read(
        layer,
        peepholes=lambda one: one.peepholes,
        reset_before_the_product=lambda one: one.kind == "gru" and not one.reset_after,
    )
    state: dict[str, np.ndarray] = {}
    for k, level in enumerate(levels):
        for one, way in zip(level, ("", "_reverse"), strict=False):
            W, R, _ = _FORMAT.packed(one)
            first, second = _FORMAT.halves(one)
            end = f"_l{k}{way}"
            state |= {f"weight_ih{end}": W.T.copy(), f"weight_hh{end}": R.T.copy()}
            state |= {f"bias_ih{end}": first, f"bias_hh{end}": second}
            if one.projection is not None:
                state[f"weight_hr{end}"] = one.projection.T.copy()
    return {prefix + name: value for name, value in state.items()}

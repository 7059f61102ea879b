"""PyTorch's `LSTM`, `GRU` and `RNN`: `state_dict`s, with layers, directions and projections.

`weight_ih_l{k}` is (gates * units, inputs), `weight_hh_l{k}` (gates * units, units or projected), `weight_hr_l{k}`
(projected, units); those of the backward direction end in `_reverse`. Gates are i, f, g, o and r, z, n. There are two
biases, which are added; but in n of a GRU, the reset gate multiplies the bias of the state. `h = (1 - z) * n + z * h_`.

PyTorch itself is not needed: values may be arrays. (A `.pt` file is a pickle: read it with PyTorch,
`torch.load(path, weights_only=True)`.)
"""

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from lasagne_like.importers.arrays import Arrays
from lasagne_like.importers.weights import KINDS, CellWeights, Format, build_layers, options_of, width_below

__all__ = ["from_state_dict", "to_state_dict"]

_FORMAT = Format("PyTorch", {"lstm": "ifco", "gru": "ruc", "rnn": "h"})
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
    """Recurrent layers with the weights of PyTorch's.

    Parameters
    ----------
    state : mapping from names to tensors or arrays
        The `state_dict` of an `LSTM`, `GRU`, `RNN`, or of an `LSTMCell` and so on; or of a model that has one. The
        names and shapes tell which of these it is, and how many layers and directions it has.
    incoming : Layer or tuple, optional
        The input of the first layer, (batch, time, features); a new `InputLayer` if not given.
    prefix : str
        The prefix of the names, such as "encoder.rnn.". Other names are ignored.
    nonlinearity : "tanh" or "relu"
        Of an `RNN`: the names do not say.
    double_bias : bool
        Keep the two biases of a gate, which are added, as two parameters. The gradient of each is that of their sum, so
        a step of training changes the sum by twice as much as one of a single bias: as it does in PyTorch.
    name : str, optional
        Layer k is "name.k".
    **options
        Of `RNNLayer`, for each layer.

    Returns
    -------
    RNNLayer or Bidirectional
        The last layer.

    Raises
    ------
    KeyError, ValueError
        If a variable is missing or not known, or its shape does not fit the others.

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
    arrays = Arrays({key[len(prefix) :]: value for key, value in state.items() if key.startswith(prefix)}, "the state")
    matches = {key: match for key in arrays.given if (match := _NAME.fullmatch(key))}
    if not matches:
        known = ", ".join(map(repr, sorted(map(str, state))[:6])) or "none"
        raise KeyError(f"the state has no {prefix + 'weight_ih_l0'!r}; there are {known}")
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
            f"{R_name} has shape {R.shape}, should have 4, 3 or 1 times as many rows as there are units, which are "
            f"{units} (the columns of {R_name if projection is None else P_name}), for an LSTM, a GRU or an RNN"
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
    """The weights of recurrent layers as PyTorch names them. A single bias becomes two halves. This is exact.

    Parameters
    ----------
    layer : the last of recurrent layers, or a list of all
        See `read_layers`.
    prefix : str
        The prefix of the names.

    Returns
    -------
    dict of arrays
        `module.load_state_dict({name: torch.from_numpy(value) for name, value in ...})` takes it.

    Raises
    ------
    ValueError
        If PyTorch has no such layer: peepholes, a GRU that resets before its product, ...

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

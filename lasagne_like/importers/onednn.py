"""oneDNN's weights of LSTMs, GRUs and plain cells. Each array has the weights of all layers and directions.

The layout of "weights_layer" and "weights_iter" is `ldigo`: (layers, directions, inputs, gates, outputs). "bias" and
"weights_peephole" (for the gates i, f, o) are `ldgo`, and "weights_projection" is `ldio`. The gates of an LSTM are i,
f, c, o. Those of a GRU are u, r, o, with `h = u * h_ + (1 - u) * o`. A GRU that resets after its product ("LBR") has a
fourth bias, which the reset gate multiplies.

Two directions are two stacks: a layer reads the output of the layer below in the same direction. Only the outputs of
the last layers are concatenated or added. So all layers have the same number of inputs, and fit into one array.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from lasagne_like.checks import check_choice
from lasagne_like.importers import weights
from lasagne_like.importers.arrays import Arrays
from lasagne_like.layers import Bidirectional

__all__ = ["from_arrays", "to_arrays"]

_FORMAT = weights.Format("oneDNN", {"lstm": "ifco", "gru": "urc", "rnn": "h"})
_DIRECTIONS = {
    1: ("unidirectional_left2right", "unidirectional_right2left"),
    2: ("bidirectional_concat", "bidirectional_sum"),
}


def from_arrays(
    arrays: Mapping[str, Any],
    incoming: Any = None,
    nonlinearity: str = "tanh",
    direction: str | None = None,
    name: str | None = None,
    **options: Any,
) -> Any:
    """Make recurrent layers with the weights of oneDNN's primitives.

    Parameters
    ----------
    arrays : mapping
        The arrays "weights_layer" and "weights_iter". "bias", "weights_peephole" and "weights_projection" are optional.
        A GRU whose bias has four parts resets after its product. Any other GRU resets before it.
    incoming : Layer or tuple, optional
        The input of the first layer, of shape (batch, time, features). By default, a new `InputLayer`.
    nonlinearity : "tanh" or "relu"
        The nonlinearity of a plain cell.
    direction : str, optional
        For weights of one direction, "unidirectional_left2right" (the default) or "unidirectional_right2left". For
        weights of two directions, "bidirectional_concat" (the default) or "bidirectional_sum".
    name : str, optional
        The name of layer k is "name.k". With two directions, the names are "name.forward.k" and "name.backward.k".
    **options
        Further arguments of `RNNLayer`, for each layer. `only_return_final` and `return_state` are for the last one.

    Returns
    -------
    RNNLayer or Bidirectional
        The last layer.

    Raises
    ------
    KeyError, ValueError
        If an array is missing or not known, or if its shape does not fit the others.

    Examples
    --------
    >>> import numpy as np
    >>> from lasagne_like.importers import onednn
    >>> weights = {"weights_layer": np.ones((1, 2, 3, 4, 5)), "weights_iter": np.ones((1, 2, 2, 4, 5))}
    >>> onednn.from_arrays(weights | {"weights_projection": np.ones((1, 2, 5, 2))}).output_shape
    (None, None, 4)
    """
    given = Arrays(arrays, "the weights")
    W = given.take("weights_layer", (None, None, None, None, None))
    depth, ways, inputs, gates, units = W.shape
    if gates not in weights.KINDS or ways > 2:
        raise ValueError(f"weights_layer must have 1 or 2 directions, and 4, 3 or 1 gates, got shape {W.shape}")
    direction = _DIRECTIONS[ways][0] if direction is None else direction
    check_choice(direction, f"direction for weights of shape {W.shape}", _DIRECTIONS[ways])
    kind = weights.KINDS[gates]
    P = _optional(given, "weights_peephole", (depth, ways, 3, units), kind == "lstm")
    projection = _optional(given, "weights_projection", (depth, ways, units, None), kind == "lstm")
    width = units if projection is None else projection.shape[3]
    why = f"as weights_layer, {W.shape}, says"
    R = given.take("weights_iter", (depth, ways, width, gates, units), why)
    if depth > 1 and inputs != width:
        raise ValueError(f"weights_layer of {depth} layers must have {width} inputs, got shape {W.shape}")
    after = kind == "gru" and "bias" in given and given.shape("bias")[2:3] == (4,)
    b = _optional(given, "bias", (depth, ways, gates + after, units), True)
    given.check_all_taken(given.given)

    def one(k: int, way: int) -> weights.CellWeights:
        W2, R2 = W[k, way].reshape(inputs, -1), R[k, way].reshape(width, -1)
        extra = weights.options_of(kind, nonlinearity, after)
        if projection is not None:
            extra["projection"] = projection[k, way]
        if P is not None:
            extra["peepholes"] = list(P[k, way])
        own = None if b is None else b[k, way, :gates].ravel()
        second = np.concatenate([np.zeros(2 * units, b.dtype), b[k, way, 3]]) if b is not None and after else None
        return _FORMAT.unpacked(kind, W2, R2, own, second, **extra)

    stacks = [[[one(k, way)] for k in range(depth)] for way in range(ways)]
    incoming = weights.new_input(stacks[0][0][0]) if incoming is None else incoming
    if ways == 1:
        return weights.build_layers(stacks[0], incoming, name, backwards=direction.endswith("right2left"), **options)
    labels = [f"{name}.{way}" if name else way for way in ("forward", "backward")]
    forward, backward = (
        weights.build_layers(stack, incoming, label, backwards=way == 1, **options)
        for way, (stack, label) in enumerate(zip(stacks, labels, strict=True))
    )
    return Bidirectional(forward, direction.removeprefix("bidirectional_"), backward=backward, name=name)


def _optional(arrays: Arrays, name: str, shape: tuple[int | None, ...], known: bool) -> np.ndarray | None:
    return arrays.take(name, shape, "as weights_layer says") if known and name in arrays else None


def to_arrays(layer: Any) -> dict[str, np.ndarray]:
    """The weights of recurrent layers in oneDNN's format. See `from_arrays`.

    Parameters
    ----------
    layer : Layer, Cell or list of Layers
        See `read_layers`. For two directions, this is a `Bidirectional` of two stacks, as `from_arrays` makes it.

    Raises
    ------
    ValueError
        If oneDNN has no such layers: they have different sizes, only some of them have peepholes or a projection, or
        one reads both directions of the layer below.

    Examples
    --------
    >>> from lasagne_like.cells import LSTM
    >>> from lasagne_like.importers import onednn
    >>> {name: value.shape for name, value in onednn.to_arrays(LSTM(4).build(3)).items()}
    {'weights_layer': (1, 1, 3, 4, 4), 'weights_iter': (1, 1, 4, 4, 4), 'bias': (1, 1, 4, 4)}
    """
    levels = _FORMAT.checked(_read(layer))
    rows = [[_arrays(one) for one in level] for level in levels]
    shapes = {tuple((name, value.shape) for name, value in own.items()) for row in rows for own in row}
    if len(shapes) != 1:
        raise ValueError(
            "oneDNN has one array for all layers, so all must have the same shapes, got "
            f"{sorted(map(dict, shapes), key=str)}"
        )
    return {name: np.stack([np.stack([own[name] for own in row]) for row in rows]) for name in rows[0][0]}


def _read(layer: Any) -> weights.Levels:
    """The weights of each layer and direction."""
    stacks = [layer]
    if isinstance(layer, Bidirectional):
        stacks = sorted([layer.forward_layer, layer.backward_layer], key=lambda one: one.backwards)
    found = [weights.read_layers(stack) for stack in stacks]
    plain = all(len(level) == 1 for levels in found for level in levels) or [len(found), len(found[0])] == [1, 1]
    if not plain:
        raise ValueError(f"{layer!r} reads both directions of the layer below, but a layer of oneDNN reads only one")
    return [[one for level in row for one in level] for row in zip(*found, strict=True)]


def _arrays(one: weights.CellWeights) -> dict[str, np.ndarray]:
    """The arrays of one layer and direction."""
    W, R, b = _FORMAT.packed(one)
    shape = (len(_FORMAT.orders[one.kind]), one.num_units)
    own = {"weights_layer": W.reshape(-1, *shape), "weights_iter": R.reshape(-1, *shape), "bias": b.reshape(shape)}
    if one.kind == "gru" and one.reset_after:
        own["bias"] = np.concatenate([own["bias"], one.halves("c")[1][None]])
    if one.peepholes:
        own["weights_peephole"] = one.peephole_rows("ifo")
    if one.projection is not None:
        own["weights_projection"] = one.projection
    return own

"""oneDNN's LSTM as a function of symbols, with layers and directions."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import scanjit as sj
from lasagne_like import nonlinearities
from lasagne_like.cells.gate import Gate
from lasagne_like.cells.loop import unfold
from lasagne_like.cells.lstm import LSTM, LSTMState
from lasagne_like.checks import check_choice
from lasagne_like.shapes import fits, known_sizes

__all__ = ["LSTMResults", "onednn_lstm"]

DIRECTIONS = {
    "unidirectional_left2right": (False,),
    "unidirectional_right2left": (True,),
    "bidirectional_concat": (False, True),
    "bidirectional_sum": (False, True),
}


class LSTMResults(NamedTuple):
    """The results of oneDNN's LSTM: the outputs of the last layer, (T, N, C), and the last states, each (L, D, N, C).

    Examples
    --------
    >>> from lasagne_like.cells import LSTMResults
    >>> LSTMResults._fields
    ('dst_layer', 'dst_iter', 'dst_iter_c')
    """

    dst_layer: Any
    dst_iter: Any
    dst_iter_c: Any


def onednn_lstm(
    src_layer: Any,
    weights_layer: Any,
    weights_iter: Any,
    bias: Any = None,
    src_iter: Any = None,
    src_iter_c: Any = None,
    weights_peephole: Any = None,
    weights_projection: Any = None,
    direction: str = "unidirectional_left2right",
    checkpoint: int | Literal["sqrt", "all"] | None = None,
) -> LSTMResults:
    """oneDNN's primitive `vanilla_lstm` for symbols, with oneDNN's arguments, layouts and order of gates.

    The sizes are T (time), N (batch), L (layers), D (directions), SLC (features of the input), DHC (units) and DIC
    (features of the output, DHC without a projection). The function computes `forward_inference`. `scanjit.grad` of it
    computes the gradients of `backward`, each in the layout of its argument.

    Parameters
    ----------
    src_layer : symbol (T, N, SLC)
    weights_layer : symbol or array (L, D, SLC, 4, DHC)
        In oneDNN's layout `ldigo`, with the gates i, f, c, o. All sizes must be fixed.
    weights_iter : symbol or array (L, D, DIC, 4, DHC)
    bias : symbol or array (L, D, 4, DHC), optional
    src_iter, src_iter_c : symbols (L, D, N, DIC) and (L, D, N, DHC), optional
        The states before the first step of each direction. By default, they are zeros.
    weights_peephole : symbol or array (L, D, 3, DHC), optional
        Of the gates i, f, o.
    weights_projection : symbol or array (L, D, DHC, DIC), optional
        In the layout `ldio`. By default, there is no projection.
    direction : str
        "unidirectional_left2right", "unidirectional_right2left", "bidirectional_concat" or "bidirectional_sum". Each
        direction is a stack of layers; the two stacks do not read each other.
    checkpoint : None, "sqrt", "all" or int
        See `scanjit.scan`.

    Raises
    ------
    ValueError
        If shapes do not fit.

    Examples
    --------
    >>> import scanjit as sj
    >>> from lasagne_like.cells import onednn_lstm
    >>> x, W, R = sj.tensor(("T", "N", 3)), sj.tensor((1, 2, 3, 4, 5)), sj.tensor((1, 2, 2, 4, 5))
    >>> P = sj.tensor((1, 2, 5, 2))
    >>> found = onednn_lstm(x, W, R, weights_projection=P, direction="bidirectional_concat")
    >>> found.dst_layer.type, found.dst_iter.type, found.dst_iter_c.type
    (float64(T, N, 4), float64(1, 2, N, 2), float64(1, 2, N, 5))
    """
    check_choice(direction, "direction", DIRECTIONS)
    ways = DIRECTIONS[direction]
    W = _checked(weights_layer, "weights_layer", (None, len(ways), None, 4, None))
    depth, _, inputs, _, units = W.shape
    P = _checked(weights_projection, "weights_projection", (depth, len(ways), units, None))
    width = units if P is None else P.shape[3]
    if depth > 1 and inputs != width:
        raise ValueError(f"weights_layer of {depth} layers must have {width} inputs, got shape {W.shape}")
    weights = {
        "W": W,
        "R": _checked(weights_iter, "weights_iter", (depth, len(ways), width, 4, units)),
        "b": _checked(bias, "bias", (depth, len(ways), 4, units)),
        "peephole": _checked(weights_peephole, "weights_peephole", (depth, len(ways), 3, units)),
        "projection": P,
    }
    x = sj.as_tensor(src_layer)
    if x.ndim != 3:
        raise ValueError(f"src_layer must have 3 dimensions, (time, batch, {inputs}), got {x.ndim}")
    x = sj.specify_shape(x, (None, None, inputs), "src_layer")
    begin = [
        None if given is None else sj.specify_shape(given, (depth, len(ways), x.shape[1], size), name)
        for name, given, size in (("src_iter", src_iter, width), ("src_iter_c", src_iter_c, units))
    ]
    outputs, states = [], []
    for way, backwards in enumerate(ways):
        rows, own = x, []
        for k in range(depth):
            cell = _cell({name: value[k, way] for name, value in weights.items() if value is not None})
            first = cell.init_state(x.shape[1])
            hid, memory = (
                old if given is None else given[k, way]
                for given, old in zip(begin, (first.hid, first.cell), strict=True)
            )
            rows, state = unfold(cell, rows, LSTMState(memory, hid), backwards=backwards, checkpoint=checkpoint)
            own.append(state)
        outputs.append(rows)
        states.append(own)
    together = outputs[0]
    if len(ways) == 2:
        together = sj.concatenate(outputs, axis=2) if direction.endswith("concat") else outputs[0] + outputs[1]
    hids, memories = (
        sj.stack([sj.stack([getattr(states[way][k], part) for way in range(len(ways))]) for k in range(depth)])
        for part in ("hid", "cell")
    )
    return LSTMResults(together, hids, memories)


def _checked(given: Any, name: str, shape: tuple[int | None, ...]) -> Any:
    """An argument as a symbol, after a check that its shape is fixed and fits. None if the argument is None."""
    if given is None:
        return None
    value = sj.as_tensor(given)
    known = known_sizes(value.shape)
    if None in known or not fits(known, shape):
        listed = ", ".join("?" if size is None else str(size) for size in shape)
        raise ValueError(f"{name} must have the shape ({listed}), with fixed sizes, got {tuple(value.shape)}")
    return value


def _cell(weights: dict[str, Any]) -> LSTM:
    """A cell with the weights of one layer and direction."""
    W, R, b, peephole = weights["W"], weights["R"], weights.get("b"), weights.get("peephole")
    units = W.shape[2]

    def gate(g: int, place: int | None, nonlinearity: Any) -> Gate:
        seen = None if peephole is None or place is None else peephole[place]
        return Gate(W[:, g], R[:, g], seen, None if b is None else b[g], nonlinearity)

    sigmoid, tanh = nonlinearities.sigmoid, nonlinearities.tanh
    gates = gate(0, 0, sigmoid), gate(1, 1, sigmoid), gate(2, None, tanh), gate(3, 2, sigmoid)
    projected = {}
    if "projection" in weights:
        projected = {"num_proj": weights["projection"].shape[1], "W_proj": weights["projection"]}
    built: LSTM = LSTM(units, *gates, peepholes=peephole is not None, **projected).build(W.shape[0])
    return built

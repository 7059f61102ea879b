"""A compiled network of layers that a program calls step by step, for streams."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import scanjit as sj
from lasagne_like.layers.base import Layer
from lasagne_like.layers.helper import get_all_layers, get_output
from lasagne_like.layers.input import InputLayer
from lasagne_like.utils import int_types

__all__ = ["step_function"]


def step_function(
    layer_or_layers: Layer | Iterable[Layer],
    time: int | Mapping[InputLayer, int] = 1,
    mode: Any = "numba",
    name: str | None = None,
    **kwargs: Any,
) -> sj.StepFunction:
    """Compile a network of layers for calls with one step, or with a block of steps.

    The network may have these layers, in any order: recurrent layers of all kinds, also with masks, convolutions over
    time that are padded in front, delays, and layers that treat all steps alike. The state of the network is a dict of
    arrays.

    Parameters
    ----------
    layer_or_layers : Layer or list of Layers
        The layers whose outputs a step returns.
    time : int or dict
        The time axis of the input layers. An int is for every input layer whose size along this axis is None. If only
        some of these have a time axis, give a dict from input layers to axes. (An initial state has none, for example.)
    mode, name : as for `scanjit.function`.
    **kwargs
        Keyword arguments of `get_output`. By default `deterministic=True`, so there is no dropout.

    Returns
    -------
    scanjit.StepFunction
        `output, state = step(x, state)` computes one step, and `step.block(xs, state)` several. Inputs are in the order
        of the input layers. A call without a state computes the first step.

    Raises
    ------
    scanjit.NotSupportedError
        If a layer needs later steps, such as a recurrent layer with `backwards=True`. The error names the layer.

    Examples
    --------
    >>> import numpy as np
    >>> import lasagne_like as lasagne
    >>> l_in = lasagne.layers.InputLayer((None, None, 3))
    >>> hidden = lasagne.layers.GRULayer(lasagne.layers.LSTMLayer(l_in, num_units=5), num_units=4)
    >>> network = lasagne.layers.DenseLayer(hidden, num_units=2, num_leading_axes=2)
    >>> step = lasagne.layers.step_function(network, mode="reference")
    >>> state = step.initial_state(np.zeros((2, 3)))
    >>> for x in np.ones((4, 2, 3)):
    ...     output, state = step(x, state)
    >>> output.shape, sorted(state)
    ((2, 2), ['gru', 'lstm_0', 'lstm_1'])
    """
    layers = get_all_layers(layer_or_layers)
    starts = [layer for layer in layers if isinstance(layer, InputLayer)]
    axes = _axes(starts, time)

    def cut(of: Any) -> sj.StepFunction:
        given = [layer for layer in get_all_layers(of) if layer in starts]
        outputs = get_output(of, **{"deterministic": True, **kwargs})
        used = {layer.input_var: axes[layer] for layer in given if layer in axes}
        return sj.step_function(([one.input_var for one in given], outputs), used, name=name or "network", mode=mode)

    try:
        return cut(layer_or_layers)
    except sj.NotSupportedError:
        for layer in layers:
            if not isinstance(layer, InputLayer):
                _checked(cut, layer)
        raise


def _axes(starts: Sequence[InputLayer], time: Any) -> dict[InputLayer, int]:
    """The time axis of each input layer that has one."""
    if isinstance(time, Mapping):
        for layer in time:
            if layer not in starts:
                raise ValueError(f"time of step_function has {layer!r}, which is not an input layer of the network")
        return dict(time)
    if not isinstance(time, int_types) or time < 0:
        raise ValueError(f"time of step_function is an axis from 0 on, or a dict of axes, got {time!r}")
    return {layer: int(time) for layer in starts if len(layer.shape) > time and layer.shape[time] is None}


def _checked(cut: Any, layer: Layer) -> None:
    """Raise an error with the name of the layer if it cannot be computed step by step."""
    try:
        cut(layer)
    except sj.NotSupportedError as error:
        raise sj.NotSupportedError(
            f"{layer} cannot be computed step by step: {error.what}",
            got=error.got,
            expected=error.expected,
            fix=error.fix,
            where=error.where,
        ) from error

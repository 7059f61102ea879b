"""A network of layers compiled for one step in each call, as streaming needs it."""

from collections.abc import Iterable, Mapping
from typing import Any

import scanjit as sj
from lasagne_like.layers.base import Layer
from lasagne_like.layers.helper import get_all_layers, get_output
from lasagne_like.layers.input import InputLayer

__all__ = ["step_function"]


def step_function(
    layer_or_layers: Layer | Iterable[Layer],
    time: int | Mapping[InputLayer, int] = 1,
    mode: Any = "numba",
    name: str | None = None,
    **kwargs: Any,
) -> sj.StepFunction:
    """A network of layers, called with one step or some steps at a time.

    Recurrent layers of all kinds, stacked and with masks, convolutions over time that are padded in front, delays, and
    layers that do the same at each step may follow each other in any way. The state of the network is a dict of arrays.

    Parameters
    ----------
    layer_or_layers : Layer or list of Layers
        What a step returns the output of.
    time : int or dict
        The axis that is time. A number is for all input layers that have such an axis and do not fix its size; a dict
        from input layers to axes is for networks of which other inputs have none, such as an initial state.
    mode, name : as for `scanjit.function`.
    **kwargs
        For `get_output`. By default `deterministic=True`, so there is no dropout.

    Returns
    -------
    scanjit.StepFunction
        `output, state = step(x, state)` for one step, `step.block(xs, state)` for some, with the inputs in the order of
        the input layers. Without a state, it is the first step.

    Raises
    ------
    scanjit.NotSupportedError
        If a layer needs later steps, as one that goes backwards does. The error names the layer.

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


def _axes(starts: Iterable[InputLayer], time: Any) -> dict[InputLayer, int]:
    """The time axis of each input layer that has one."""
    if isinstance(time, Mapping):
        return dict(time)
    return {layer: time for layer in starts if len(layer.shape) > time and layer.shape[time] is None}


def _checked(cut: Any, layer: Layer) -> None:
    """The error of the first layer that cannot be cut into steps, with its name."""
    try:
        cut(layer)
    except sj.NotSupportedError as error:
        raise sj.NotSupportedError(
            f"{layer} cannot compute step by step: {error.what}",
            got=error.got,
            expected=error.expected,
            fix=error.fix,
            where=error.where,
        ) from error

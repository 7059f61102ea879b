"""Networks with products of fewer bits, for inference."""

from collections.abc import Iterable
from typing import Any

import scanjit as sj
from lasagne_like.layers import InputLayer, Layer, get_all_layers, get_all_params, get_output

__all__ = ["quantize"]


def quantize(
    layer_or_layers: Layer | Iterable[Layer],
    weights: Any = "int8",
    mode: Any = "numba",
    calibrate: Iterable[Any] | None = None,
    **kwargs: Any,
) -> sj.CompiledFunction[Any]:
    """A function that predicts with products of integers of 8 bits.

    The network, its parameters and other functions of it stay as they are. While the function runs, each row of
    the input of a product (an example, at a step) gets a scale of its own, and so does each column of its weights (a
    unit). So no data are needed to calibrate it, and an example does not depend on the others in its batch.

    With data to `calibrate` it, the input of a product has one constant scale: that of the largest number in this input
    for these data. Then no scale has to be computed while the function runs. `explain()` tells the errors of each
    product on the data.

    Parameters
    ----------
    layer_or_layers : Layer or list of Layers
        The layers whose outputs the function returns.
    weights : {"int8", "bfloat16"}
        The format to which operands of products are rounded: see `scanjit.mixed`.
    mode : as for `scanjit.function`.
    calibrate : iterable of tuples of arrays, optional
        Typical values of the input layers, one tuple a batch; with one input layer, arrays.
    **kwargs
        For `get_output`. By default `deterministic=True`, so there is no dropout.

    Returns
    -------
    scanjit.CompiledFunction
        Of the values of the input layers, in their order.

    Raises
    ------
    scanjit.ArgumentError
        If there is no such format, the network has parameters or inputs of float64, whose products are not rounded, or
        numbers of the data to calibrate with are not finite.

    Examples
    --------
    >>> import numpy as np
    >>> import scanjit as sj
    >>> import lasagne_like as lasagne
    >>> l_in = lasagne.layers.InputLayer((None, 32), sj.matrix("x", dtype="float32"))
    >>> network = lasagne.layers.DenseLayer(l_in, num_units=4, W=np.eye(32, 4, dtype="float32"), b=None)
    >>> predict = lasagne.quantize(network, mode="reference")
    >>> predict(np.ones((2, 32), "float32")).shape
    (2, 4)
    >>> calibrated = lasagne.quantize(network, mode="reference", calibrate=[np.ones((2, 32), "float32")])
    >>> "errors up to" in str(calibrated.explain())
    True
    """
    layers = get_all_layers(layer_or_layers)
    inputs = [layer.input_var for layer in layers if isinstance(layer, InputLayer)]
    wide = [each for each in (*inputs, *get_all_params(layer_or_layers)) if each.dtype == "float64"]
    if wide:
        raise sj.ArgumentError(
            "only products of float32 are rounded",
            got=f"{wide[0]!r}, a parameter or input of float64",
            fix='build the network of float32: sj.config.floatX = "float32" before it, or dtypes of its own',
        )
    output = get_output(layer_or_layers, **{"deterministic": True, **kwargs})
    return sj.mixed(sj.function(inputs, output, name="predict", mode=mode), weights=weights, calibrate=calibrate)

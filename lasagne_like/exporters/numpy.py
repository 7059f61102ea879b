"""Networks as packages that need NumPy alone."""

import os
from pathlib import Path
from typing import Any

import scanjit as sj
from lasagne_like.layers import InputLayer, get_all_layers, get_output

__all__ = ["export_numpy"]


def export_numpy(
    network: Any,
    path: str | os.PathLike[str],
    name: str = "model",
    version: str = "1.0.0",
    overwrite: bool = False,
    **kwargs: Any,
) -> Path:
    """Write a network, or a compiled function, as a package that can be installed and needs NumPy alone.

    Its module, `name/__init__.py`, offers one function, `name`, which takes the inputs of the input layers, in their
    order, and returns the output of the network with `deterministic=True`. The weights are in `weights.npz` beside it.
    See `scanjit.export_numpy`.

    Parameters
    ----------
    network : Layer, list of Layers, or CompiledFunction
    path : path
        A folder, which is made: `pip install path`.
    name : str
        Of the package, its module and its function.
    version : str
        Of the package.
    overwrite : bool
        Whether to write over a package that is there.
    **kwargs
        For `get_output`.

    Returns
    -------
    pathlib.Path
        The folder.

    Examples
    --------
    >>> import os, tempfile
    >>> import lasagne_like as lasagne
    >>> l_in = lasagne.layers.InputLayer((None, None, 4))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = lasagne.exporters.export_numpy(lasagne.layers.GRULayer(l_in, 5), folder, "acoustic")
    ...     sorted(os.listdir(path)), sorted(os.listdir(path / "acoustic"))
    (['acoustic', 'pyproject.toml'], ['__init__.py', 'weights.npz'])
    """
    if isinstance(network, sj.CompiledFunction):
        return sj.export_numpy(network, path, name, version, overwrite)
    inputs = [layer for layer in get_all_layers(network) if isinstance(layer, InputLayer)]
    symbols = [layer.input_var for layer in inputs]
    replaced = {}
    for i, (layer, symbol) in enumerate(zip(inputs, symbols, strict=True)):
        if not symbol.name:  # so that the arguments of the function have names
            label = layer.name or ("x" if len(inputs) == 1 else f"x{i}")
            symbols[i] = replaced[layer] = sj.tensor(layer.shape, symbol.dtype, label)
    outputs = get_output(network, replaced or None, deterministic=True, **kwargs)
    f = sj.function(symbols, outputs, name=name, mode="reference")
    return sj.export_numpy(f, path, name, version, overwrite)

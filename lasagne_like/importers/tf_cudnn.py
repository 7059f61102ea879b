"""TensorFlow's `CudnnLSTM` in a checkpoint: one kernel and one bias for each layer and direction.

The variables are named `.../cell_K/bidirectional_rnn/{fw,bw}/cudnn_compatible_lstm_cell/{kernel,bias}` (or
`.../cell_K/cudnn_compatible_lstm_cell/...` in one direction). A kernel is (inputs + units, 4 * units): its first rows
multiply the input, the others the last output. Its columns are the gates i, ci, f, o. Nothing is added to the bias of
the forget gate.
"""

import os
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from lasagne_like.importers.arrays import Arrays, listed
from lasagne_like.importers.files import read_npz
from lasagne_like.importers.weights import PLAIN, CellWeights, Format, build_layers, width_below

__all__ = ["from_variables", "read_checkpoint", "to_variables"]

_NAME = re.compile(
    r"(?:(?P<scope>.*)/)?cell_(?P<cell>\d+)/(?:bidirectional_rnn/(?P<way>fw|bw)/)?"
    r"cudnn_compatible_lstm_cell/(?P<what>kernel|bias)(?::0)?"
)
_FORMAT = Format("cuDNN", {"lstm": "icfo"}, backwards=False, alike="layers")


def from_variables(
    variables: Any, incoming: Any = None, scope: str | None = None, name: str | None = None, **options: Any
) -> Any:
    """A stack of LSTM layers with the weights of TensorFlow's `CudnnLSTM`.

    Parameters
    ----------
    variables : mapping, or path
        From names to arrays. Variables of other layers and of optimizers are ignored. A path is that of an `.npz` file,
        or that of a checkpoint. TensorFlow must be installed to read a checkpoint.
    incoming : Layer or tuple, optional
        The input of the first layer, of shape (batch, time, features). By default, a new `InputLayer`.
    scope : str, optional
        The part of the names before "/cell_0". It is needed if there are several stacks.
    name : str, optional
        The name of layer k is "name.k".
    **options
        Further arguments of `RNNLayer` for each layer, such as `seq_lengths` and `time_major`.

    Returns
    -------
    Bidirectional or RNNLayer
        The last layer. Its output has the features of both directions, concatenated. It computes in float32 if the
        weights are float32, and in `scanjit.config.floatX` otherwise.

    Raises
    ------
    KeyError, ValueError
        If a variable is missing, or if its shape does not fit the others. The error names the variable and both shapes.

    Warns
    -----
    RuntimeWarning
        If a variable has values that are not finite.

    Examples
    --------
    >>> import numpy as np
    >>> from lasagne_like.importers import tf_cudnn
    >>> variables = {}
    >>> for k, inputs in enumerate((3, 8)):
    ...     for way in ("fw", "bw"):
    ...         prefix = f"rnn/cell_{k}/bidirectional_rnn/{way}/cudnn_compatible_lstm_cell"
    ...         variables |= {f"{prefix}/kernel": np.ones((inputs + 4, 16)), f"{prefix}/bias": np.zeros(16)}
    >>> tf_cudnn.from_variables(variables).output_shape
    (None, None, 8)
    """
    if isinstance(variables, str | os.PathLike):
        path = os.fspath(variables)
        variables = read_npz(path) if path.endswith(".npz") else read_checkpoint(path)
    arrays = Arrays(variables, "the variables")
    found = _found(arrays, scope)
    cells = sorted({cell for cell, _, _ in found})
    if cells != list(range(len(cells))):
        missing = min(set(range(cells[-1])) - set(cells))
        raise KeyError(f"the variables have a cell_{cells[-1]}, but no cell_{missing}")
    ways = sorted({way for _, way, _ in found if way}, reverse=True)  # fw, bw
    levels: list[list[CellWeights]] = []
    for cell in cells:
        below = width_below(levels)
        levels.append([_cell(arrays, found, cell, way, below) for way in ways or [""]])
    return build_layers(levels, incoming, name, **options)


_Names = dict[tuple[int, str, str], str]


def _found(arrays: Arrays, scope: str | None) -> _Names:
    """The names of the variables of a stack, by cell, direction, and "kernel" or "bias"."""
    matches = [(name, match) for name in arrays.given if (match := _NAME.fullmatch(name))]
    scopes = sorted({match["scope"] or "" for _, match in matches})
    if scope is None and len(scopes) > 1:
        raise ValueError(f"the variables have several stacks: choose one with scope=, which is one of {scopes}")
    chosen = [(name, match) for name, match in matches if scope is None or (match["scope"] or "") == scope]
    if not chosen:
        wanted = f"{scope or '...'}/cell_K/bidirectional_rnn/fw/cudnn_compatible_lstm_cell/kernel"
        raise KeyError(f"there is no variable {wanted!r}; there are {listed(arrays.given, wanted)}")
    return {(int(match["cell"]), match["way"] or "", match["what"]): name for name, match in chosen}


def _cell(arrays: Arrays, found: _Names, cell: int, way: str, below: int | None) -> CellWeights:
    """The weights of one layer and direction."""
    known = next(iter(found.values()))
    names = {}
    for what in ("kernel", "bias"):
        other = found.get((cell, way, "bias" if what == "kernel" else "kernel"), known)
        place = f"cell_{cell}/bidirectional_rnn/{way}" if way else f"cell_{cell}"
        guess = re.sub(r"cell_\d+(/bidirectional_rnn/(fw|bw))?", place, other, count=1).rsplit("/", 1)[0]
        names[what] = found.get((cell, way, what), f"{guess}/{what}")
    bias = arrays.take(names["bias"], (None,))
    if len(bias) % 4:
        raise ValueError(f"{names['bias']} has shape {bias.shape}, should be (4 * units,)")
    units = len(bias) // 4
    rows = None if below is None else below + units
    why = f"{below or 'some'} features, and {units} units (from {names['bias']}) in 4 gates"
    kernel = arrays.take(names["kernel"], (rows, 4 * units), why)
    if len(kernel) <= units:
        raise ValueError(f"{names['kernel']} has shape {kernel.shape}, should have more rows than its {units} units")
    return _FORMAT.unpacked("lstm", kernel[:-units], kernel[-units:], bias)


def to_variables(layer: Any, scope: str = "stack_bidirectional_rnn") -> dict[str, np.ndarray]:
    """The weights of LSTM layers under the names that `CudnnLSTM` has in a checkpoint.

    Parameters
    ----------
    layer : Layer, Cell or list of Layers
        See `read_layers`.
    scope : str

    Examples
    --------
    >>> from lasagne_like.importers import tf_cudnn
    >>> from lasagne_like.layers import CudnnLSTMLayer
    >>> variables = tf_cudnn.to_variables(CudnnLSTMLayer((None, None, 3), 4), "rnn")
    >>> {key: value.shape for key, value in variables.items()}
    {'rnn/cell_0/cudnn_compatible_lstm_cell/kernel': (7, 16), 'rnn/cell_0/cudnn_compatible_lstm_cell/bias': (16,)}
    """
    variables: dict[str, np.ndarray] = {}
    for k, level in enumerate(_FORMAT.read(layer, **PLAIN)):
        for way, one in zip(("fw", "bw") if len(level) == 2 else ("",), level, strict=True):
            place = f"{scope}/cell_{k}/" + (f"bidirectional_rnn/{way}/" if way else "") + "cudnn_compatible_lstm_cell"
            W, R, b = _FORMAT.packed(one)
            variables |= {f"{place}/kernel": np.concatenate([W, R]), f"{place}/bias": b}
    return variables


def read_checkpoint(path: str) -> Mapping[str, np.ndarray]:
    """Read the variables of a TensorFlow checkpoint. TensorFlow must be installed.

    Parameters
    ----------
    path : str
        The prefix of the checkpoint's files. For a directory, it is the latest checkpoint there.

    Returns
    -------
    mapping
        From names to arrays.

    Raises
    ------
    ImportError
        If TensorFlow is not installed.

    Examples
    --------
    >>> from lasagne_like.importers import tf_cudnn
    >>> tf_cudnn.read_checkpoint("model.ckpt")  # doctest: +SKIP
    {'stack_bidirectional_rnn/cell_0/bidirectional_rnn/fw/cudnn_compatible_lstm_cell/kernel': array(...), ...}
    """
    try:
        from tensorflow.train import list_variables, load_checkpoint
    except ImportError as error:
        raise ImportError(
            "reading a checkpoint needs TensorFlow: pip install tensorflow-cpu; or save the variables with "
            "numpy.savez(path, **variables) where TensorFlow is installed, and give the .npz file"
        ) from error
    reader = load_checkpoint(path)
    return {name: reader.get_tensor(name) for name, _ in list_variables(path)}

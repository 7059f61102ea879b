"""TensorFlow's cells (`tf.contrib.rnn`, `tf.nn.rnn_cell`): the variables of one cell, by the last parts of their names.

LSTMs are `BasicLSTMCell`, `LSTMCell`, `LSTMBlockCell` and `CudnnCompatibleLSTMCell`. They have a `kernel` (inputs +
units, 4 * units) for the gates i, ci, f, o, and a `bias`. Peepholes are `w_i_diag`, `w_f_diag` and `w_o_diag`, and a
projection is `projection/kernel`. When a cell runs, it adds `forget_bias` to the forget gate.

GRUs have a `gates/kernel` (inputs + units, 2 * units) for the gates r and u, a `candidate/kernel`, and their biases.
The reset gate multiplies the state before the product, and `h = u * h_ + (1 - u) * c`. In a `CudnnCompatibleGRUCell`,
the reset gate multiplies the product. Its candidate has `candidate/{input,hidden}_projection/{kernel,bias}`.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from lasagne_like.importers.arrays import Arrays
from lasagne_like.importers.weights import CellWeights, Format, build_layers

__all__ = ["from_variables", "to_variables"]

_FORMAT = Format("TensorFlow", {"lstm": "icfo", "gru": "ruc"})


def from_variables(
    variables: Mapping[str, Any],
    incoming: Any = None,
    scope: str = "",
    forget_bias: float = 1.0,
    name: str | None = None,
    **options: Any,
) -> Any:
    """Make a recurrent layer with the weights of a cell of TensorFlow.

    Parameters
    ----------
    variables : mapping from names to arrays
        The variables of an LSTM, which has a "kernel", or of a GRU, which has a "gates/kernel".
    incoming : Layer or tuple, optional
        The input of the layer, of shape (batch, time, features). By default, a new `InputLayer`.
    scope : str
        The prefix of the names, such as "rnn/lstm_cell". Other variables are ignored.
    forget_bias : float
        The `forget_bias` of an LSTM cell. By default it is 1, as in TensorFlow. For a `CudnnCompatibleLSTMCell` it must
        be 0.
    name : str, optional
        The name of the layer is "name.0".
    **options
        Further arguments of `RNNLayer`.

    Raises
    ------
    KeyError, ValueError
        If a variable is missing or not known, or if its shape does not fit the others.

    Examples
    --------
    >>> import numpy as np
    >>> from lasagne_like.importers import tensorflow
    >>> layer = tensorflow.from_variables({"cell/kernel": np.ones((7, 16)), "cell/bias": np.zeros(16)}, scope="cell")
    >>> layer.cell, layer.cell.forget_bias
    (<LSTM '0'>, 1.0)
    """
    start = f"{scope}/" if scope else ""
    own = {key[len(start) :].removesuffix(":0"): value for key, value in variables.items() if key.startswith(start)}
    arrays = Arrays(own, "the variables")
    one = _gru(arrays) if "gates/kernel" in arrays else _lstm(arrays, forget_bias)
    arrays.check_all_taken(arrays.given)
    return build_layers([[one]], incoming, name, **options)


def _lstm(arrays: Arrays, forget_bias: float) -> CellWeights:
    kernel = arrays.take("kernel", (None, None))
    units, rest = divmod(kernel.shape[1], 4)
    if rest:
        raise ValueError(f"kernel has shape {kernel.shape}, should be (inputs + units, 4 * units)")
    bias = arrays.take("bias", (4 * units,), f"4 gates of {units} units (from kernel)")
    peepholes = []
    if "w_i_diag" in arrays:
        peepholes = [arrays.take(f"w_{gate}_diag", (units,)) for gate in "ifo"]
    projection = arrays.take("projection/kernel", (units, None)) if "projection/kernel" in arrays else None
    width = units if projection is None else projection.shape[1]
    if len(kernel) <= width:
        raise ValueError(
            f"kernel must have more rows than the last output has features, {width}, got shape {kernel.shape}"
        )
    W, R = kernel[:-width], kernel[-width:]
    return _FORMAT.unpacked("lstm", W, R, bias, peepholes=peepholes, projection=projection, forget_bias=forget_bias)


def _gru(arrays: Arrays) -> CellWeights:
    gates = arrays.take("gates/kernel", (None, None))
    units, rest = divmod(gates.shape[1], 2)
    if rest or len(gates) <= units:
        raise ValueError(f"gates/kernel has shape {gates.shape}, should be (inputs + units, 2 * units)")
    why = f"as many rows as gates/kernel, for its {units} units"
    after = "candidate/input_projection/kernel" in arrays
    if after:
        parts = [(way, len(gates) - units if way == "input" else units) for way in ("input", "hidden")]
        kernels = [arrays.take(f"candidate/{way}_projection/kernel", (rows, units), why) for way, rows in parts]
        candidate = np.concatenate(kernels)
        biases = [arrays.take(f"candidate/{way}_projection/bias", (units,)) for way, _ in parts]
    else:
        candidate = arrays.take("candidate/kernel", (len(gates), units), why)
        biases = [arrays.take("candidate/bias", (units,))]
    both = np.concatenate([gates, candidate], axis=1)
    b = np.concatenate([arrays.take("gates/bias", (2 * units,)), biases[0]])
    second = np.concatenate([np.zeros(2 * units, b.dtype), biases[1]]) if after else None
    return _FORMAT.unpacked("gru", both[:-units], both[-units:], b, second, reset_after=after)


def to_variables(layer: Any, scope: str = "") -> dict[str, np.ndarray]:
    """The weights of one recurrent layer or cell under the names of TensorFlow's cells.

    Make TensorFlow's cell with `forget_bias=0`: the bias includes the `forget_bias` of the layer.

    Parameters
    ----------
    layer : RNNLayer or Cell
        See `read_layers`.
    scope : str

    Raises
    ------
    ValueError
        If there are several layers or directions, or if the cell is plain.

    Examples
    --------
    >>> from lasagne_like.cells import GRU
    >>> from lasagne_like.importers import tensorflow
    >>> variables = tensorflow.to_variables(GRU(4, reset_after=False).build(3), "gru_cell")
    >>> [f"{key}: {value.shape}" for key, value in variables.items()][:2]
    ['gru_cell/gates/kernel: (7, 8)', 'gru_cell/gates/bias: (8,)']
    """
    levels = _FORMAT.read(layer if isinstance(layer, list | tuple) else [layer])
    if len(levels) != 1 or len(levels[0]) != 1:
        raise ValueError(f"{layer!r} has several layers or directions: TensorFlow names the variables of one cell")
    ((one,),) = levels
    W, R, b = _FORMAT.packed(one)
    if one.kind == "gru":
        kernel, n = np.concatenate([W, R]), 2 * one.num_units
        found = {"gates/kernel": kernel[:, :n].copy(), "gates/bias": b[:n].copy()}
        if one.reset_after:
            for way, M, bias in (("input", W, b[n:]), ("hidden", R, one.halves("c")[1])):
                place = f"candidate/{way}_projection"
                found |= {f"{place}/kernel": M[:, n:].copy(), f"{place}/bias": bias.copy()}
        else:
            found |= {"candidate/kernel": kernel[:, n:].copy(), "candidate/bias": b[n:].copy()}
    else:
        found = {"kernel": np.concatenate([W, R]), "bias": b}
        found |= {f"w_{gate}_diag": value for gate, value in one.peepholes.items()}
        if one.projection is not None:
            found["projection/kernel"] = one.projection
    return {f"{scope}/{key}" if scope else key: value for key, value in found.items()}

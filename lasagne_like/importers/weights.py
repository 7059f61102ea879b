"""The base of all formats: the parameters of one cell under our names, and the cells and layers that are made from
them.

A format concatenates the matrices of the gates in its own order. Gates have letters: i, f, c, o in an LSTM (c is the
candidate), r, u, c in a GRU, and h in a plain cell. The update gate of `cells.GRU` is the share of the candidate in the
new state. In some formats, it is the share of the old state. Then all its weights change their signs, which is exact.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import scanjit as sj
from lasagne_like import nonlinearities, utils
from lasagne_like.cells import GRU, LSTM, Cell, Gate, SimpleRNN, StackedCells
from lasagne_like.layers import (
    Bidirectional,
    CudnnGRULayer,
    CudnnLSTMLayer,
    InputLayer,
    RNNLayer,
    kept_part,
)

__all__ = ["CellWeights", "build_layers", "read_layers"]

GATES = {
    "lstm": {"i": "ingate", "f": "forgetgate", "c": "cell", "o": "outgate"},
    "gru": {"r": "resetgate", "u": "updategate", "c": "hidden_update"},
    "rnn": {"h": "hid"},
}
PEEPHOLES = "ifo"
KINDS = {4: "lstm", 3: "gru", 1: "rnn"}
"""The kind of a cell by the number of its gates."""


@dataclass(eq=False)
class CellWeights:
    """The parameters of an LSTM, a GRU or a plain cell.

    Parameters
    ----------
    kind : "lstm", "gru" or "rnn"
    W, R : dict
        From the letters of gates to the weights of the input, (inputs, units), and of the last output, (hidden, units).
    b : dict
        From the letters of gates to their biases, (units,). Empty if there are none.
    b_hid : array, optional
        In a GRU, the bias that the reset gate multiplies.
    peepholes : dict
        From `i`, `f` and `o` to the weights of peepholes, (units,). Empty if there are none.
    projection : array, optional
        The weights of a projection, (units, projected).
    reset_after : bool
        See `lasagne_like.cells.GRU`.
    nonlinearity : str
        The nonlinearity of a plain cell.
    forget_bias : float
        The number that the cell adds to the forget gate.
    b_second : dict
        From the letters of gates to second biases, which are added to `b` but are separate parameters. Empty if there
        are none.

    Examples
    --------
    >>> import numpy as np
    >>> from lasagne_like.importers import CellWeights
    >>> weights = CellWeights("rnn", {"h": np.ones((3, 2))}, {"h": np.eye(2)}, {"h": np.zeros(2)})
    >>> weights.cell().num_units
    2
    """

    kind: str
    W: dict[str, np.ndarray]
    R: dict[str, np.ndarray]
    b: dict[str, np.ndarray] = field(default_factory=dict)
    b_hid: np.ndarray | None = None
    peepholes: dict[str, np.ndarray] = field(default_factory=dict)
    projection: np.ndarray | None = None
    reset_after: bool = True
    nonlinearity: str = "tanh"
    forget_bias: float = 0.0
    b_second: dict[str, np.ndarray] = field(default_factory=dict)

    @property
    def num_inputs(self) -> int:
        """The number of features of the input."""
        return len(next(iter(self.W.values())))

    @property
    def num_units(self) -> int:
        """The number of units of each gate."""
        return next(iter(self.W.values())).shape[1]

    @property
    def num_outputs(self) -> int:
        """The number of features of the output."""
        return self.num_units if self.projection is None else self.projection.shape[1]

    @classmethod
    def unpacked(
        cls,
        kind: str,
        order: str,
        W: np.ndarray,
        R: np.ndarray,
        b: np.ndarray | None = None,
        b_second: np.ndarray | None = None,
        *,
        peepholes: Sequence[np.ndarray] = (),
        double_bias: bool = False,
        **options: Any,
    ) -> CellWeights:
        """The parameters of a cell, from matrices with the columns of all gates. In these, the update gate of a GRU is
        the share of the old state.

        Parameters
        ----------
        order : the letters of the gates, in the order of their columns.
        W, R : the weights of the input, (inputs, gates * units), and of the last output, (hidden, gates * units).
        b, b_second : the biases, (gates * units,). Their sum is the bias of a gate. In the candidate of a GRU with
        `reset_after`, the reset gate multiplies the second one.
        peepholes : the weights of the peepholes of i, f, o.
        double_bias : whether the two biases of a gate become two parameters.
        """
        count = len(order)
        inner, outer, biases, second = (
            {} if M is None else _turned(dict(zip(order, np.split(M, count, axis=-1), strict=True)))
            for M in (W, R, b, b_second)
        )
        inside = kind == "gru" and options.get("reset_after", True)
        b_hid = second.pop("c", None) if inside else None
        if not double_bias:
            biases = {gate: own + second[gate] if gate in second else own for gate, own in biases.items()}
            second = {}
        given = dict(zip(PEEPHOLES, peepholes, strict=False))
        return cls(kind, inner, outer, biases, b_hid, given, b_second=second, **options)

    def packed(self, order: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The matrices W and R and the bias with the columns of all gates, as `unpacked` takes them. The bias includes
        `forget_bias`. It is zeros if the cell has no biases."""
        pairs = {gate: self._pair(gate) for gate in order}
        whole = {gate: first if self._is_inside(gate) else first + second for gate, (first, second) in pairs.items()}
        W, R, b = (np.concatenate([_turned(M)[gate] for gate in order], axis=-1) for M in (self.W, self.R, whole))
        return W, R, b

    def halves(self, order: str) -> tuple[np.ndarray, np.ndarray]:
        """Two biases for each gate. If the gate has one bias, each is half of it. (In the candidate of a GRU that
        resets after its product, the reset gate multiplies the second.)"""
        pairs = {gate: self._pair(gate) for gate in order}
        halves = [_turned({gate: pair[k] for gate, pair in pairs.items()}) for k in range(2)]
        first, second = (np.concatenate(list(half.values())) for half in halves)
        return first, second

    def peephole_rows(self, order: str) -> np.ndarray:
        """The weights of the peepholes of some gates, a row each. A gate without a peephole has zeros."""
        return np.stack([self.peepholes.get(gate, np.zeros_like(self.W[gate][0])) for gate in order])

    def _is_inside(self, gate: str) -> bool:
        """Whether the reset gate multiplies the second bias of a gate."""
        return gate == "c" and self.kind == "gru" and self.reset_after

    def _pair(self, gate: str) -> tuple[np.ndarray, np.ndarray]:
        """The two biases of a gate. Their sum includes `forget_bias`."""
        none = np.zeros_like(self.W[gate][0])
        first, second = self.b.get(gate, none), self.b_second.get(gate)
        if gate == "f" and self.forget_bias:
            first = first + first.dtype.type(self.forget_bias)
        if self._is_inside(gate):
            return first, none if self.b_hid is None else self.b_hid
        return (first / 2, first / 2) if second is None else (first, second)

    def cell(self, name: str | None = None) -> Cell:
        """A cell with these parameters. float32 stays float32, and other dtypes become `scanjit.config.floatX`."""

        def ours(value: Any) -> Any:
            return None if value is None else np.ascontiguousarray(value, dtype_of(value))

        def bias(letter: str) -> Any:
            first, second = (ours(own.get(letter)) for own in (self.b, self.b_second))
            if second is None:
                return first
            label, what = f"{name}." if name else "", GATES[self.kind][letter]
            return sj.shared(first, f"{label}b_in_{what}") + sj.shared(second, f"{label}b_hid_{what}")

        def gate(letter: str, nonlinearity: Any) -> Gate:
            peephole = ours(self.peepholes.get(letter))
            return Gate(ours(self.W[letter]), ours(self.R[letter]), peephole, bias(letter), nonlinearity)

        sigmoid, tanh = nonlinearities.sigmoid, nonlinearities.tanh
        n = self.num_units
        if self.kind == "rnn":
            chosen = getattr(nonlinearities, {"relu": "rectify"}.get(self.nonlinearity, self.nonlinearity))
            return SimpleRNN(n, ours(self.W["h"]), ours(self.R["h"]), bias("h"), chosen, name=name)
        if self.kind == "gru":
            three = gate("r", sigmoid), gate("u", sigmoid), gate("c", tanh)
            return GRU(n, *three, reset_after=self.reset_after, b_hid=ours(self.b_hid), name=name)
        gates = gate("i", sigmoid), gate("f", sigmoid), gate("c", tanh), gate("o", sigmoid)
        options: dict[str, Any] = {"peepholes": bool(self.peepholes), "forget_bias": self.forget_bias, "name": name}
        if self.projection is not None:
            options |= {"num_proj": self.projection.shape[1], "W_proj": ours(self.projection)}
        return LSTM(n, *gates, **options)

    @classmethod
    def of(cls, cell: Cell) -> CellWeights:
        """The parameters of a cell.

        Raises
        ------
        ValueError
            If the cell has not been built, or if it has something that other libraries do not have: normalization,
            clipping, coupled gates or other nonlinearities. The error names it.
        """
        kinds: dict[type, str] = {LSTM: "lstm", GRU: "gru", SimpleRNN: "rnn"}
        kind = kinds.get(type(cell))
        if kind is None or cell.input_shape is None:
            raise ValueError(f"only an LSTM, GRU or SimpleRNN that has been built can be exported, got {cell!r}")
        own: Any = cell
        if found := extras(own, kind):
            raise ValueError(
                f"{cell!r} cannot be exported: it has {', '.join(found)}, which other libraries do not have"
            )
        gates = GATES[kind]
        W, R = (
            {letter: _value(cell, f"W_{source}_to_{gate}") for letter, gate in gates.items()}
            for source in ("in", "hid")
        )
        named = {letter: "b" if kind == "rnn" else f"b_{gate}" for letter, gate in gates.items()}
        biases = {letter: _biases(cell, name) for letter, name in named.items() if getattr(cell, name) is not None}
        b = {letter: biases[letter][0] if letter in biases else np.zeros_like(M[0]) for letter, M in W.items()}
        b, second = (b if biases else {}), {letter: pair[1] for letter, pair in biases.items() if len(pair) == 2}
        if kind == "rnn":
            chosen = "relu" if own.nonlinearity is nonlinearities.rectify else "tanh"
            return cls(kind, W, R, b, nonlinearity=chosen, b_second=second)
        if kind == "gru":
            if own.nonlinearity_updategate is kept_part:
                W, R, b, second = map(_turned, (W, R, b, second))
            b_hid = None if own.b_hid is None else _value(cell, "b_hid")
            return cls(kind, W, R, b, b_hid, reset_after=own.reset_after, b_second=second)
        peepholes = {}
        if own.peepholes:
            names = {letter: f"W_cell_to_{gates[letter]}" for letter in PEEPHOLES}
            has = {letter: getattr(cell, name) is not None for letter, name in names.items()}
            peepholes = {g: _value(cell, name) if has[g] else np.zeros_like(W[g][0]) for g, name in names.items()}
        projection = None if own.W_proj is None else _value(cell, "W_proj")
        return cls(kind, W, R, b, None, peepholes, projection, forget_bias=own.forget_bias, b_second=second)


def _turned(values: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The weights of gates, with the update gate as the share of the old state instead of the candidate, or back."""
    return {gate: -value if gate == "u" else value for gate, value in values.items()}


def dtype_of(*values: np.ndarray) -> np.dtype:
    """The dtype of parameters with these values: float32 if all of them are, and `scanjit.config.floatX` otherwise."""
    kept = all(value.dtype == np.float32 for value in values)
    return np.dtype(np.float32 if kept else sj.config.floatX)


def summands(param: Any) -> list[sj.SharedVariable]:
    """The variable that a parameter is, or the two of which it is the sum. Empty for other expressions, and None."""
    if param is None or isinstance(param, sj.SharedVariable):
        return [] if param is None else [param]
    parts = utils.collect_shared_vars([param])
    return parts if len(parts) == 2 and parts[0] + parts[1] is param else []  # equal expressions are one node


def _biases(cell: Any, name: str) -> list[np.ndarray]:
    """The value of a bias, or two values if the bias is the sum of two parameters."""
    return [part.get_value() for part in summands(getattr(cell, name))] or [_value(cell, name)]


def _value(cell: Any, name: str) -> np.ndarray:
    """The value of a parameter: a shared variable, or an expression of shared variables."""
    param = getattr(cell, name)
    if param is None:
        raise ValueError(f"{cell!r} cannot be exported: it has no {name}, which other libraries need")
    if isinstance(param, sj.SharedVariable):
        return param.get_value()
    return sj.function([], param, mode="reference")()


def extras(cell: Any, kind: str) -> list[str]:
    """What a cell has and other libraries do not have, in words."""
    found = [name for name in ("coupled", "layer_norm", "weight_norm") if getattr(cell, name, False)]
    found += [name for name in ("cell_clip", "proj_clip") if getattr(cell, name, None) is not None]
    own = {"lstm": (nonlinearities.tanh,), "rnn": (nonlinearities.tanh, nonlinearities.rectify)}
    if kind in own and cell.nonlinearity not in own[kind]:
        found.append(f"nonlinearity={cell.nonlinearity!r}")
    for letter, gate in GATES[kind].items() if kind != "rnn" else ():
        wanted = nonlinearities.tanh if letter == "c" else nonlinearities.sigmoid
        used = getattr(cell, f"nonlinearity_{gate}", wanted)  # a gate that is coupled has none
        if used is not wanted and not (letter == "u" and used is kept_part):
            found.append(f"{used!r} instead of {wanted} as the nonlinearity of its {gate}")
    return found


# ---- layers ----------------------------------------------------------------------------------------------------------

Levels = list[list[CellWeights]]

_OF_THE_LAST = {"only_return_final", "return_state"}
"""Options that lower layers do not get: the layer above needs the output of all steps, and nothing else."""


def build_layers(levels: Levels, incoming: Any = None, name: str | None = None, **options: Any) -> Any:
    """Make a stack of recurrent layers with given weights.

    Parameters
    ----------
    levels : list of lists of CellWeights
        For each layer, from the lowest up, the weights of its one direction, or of two: forwards and backwards.
    incoming : Layer or tuple, optional
        The input of the first layer. By default, a new `InputLayer`.
    name : str, optional
        The name of layer k is "name.k". By default, it is "k".
    **options
        Further arguments of `RNNLayer`, for each layer. `only_return_final` and `return_state` are for the last one.

    Returns
    -------
    RNNLayer or Bidirectional
        The last layer. The layer below is its `input_layers[0]`, or that of its `forward_layer` in a `Bidirectional`.

    Examples
    --------
    >>> import numpy as np
    >>> from lasagne_like.importers import CellWeights, build_layers
    >>> weights = CellWeights("rnn", {"h": np.ones((3, 2))}, {"h": np.eye(2)})
    >>> build_layers([[weights, weights]]).output_shape
    (None, None, 4)
    """
    if not levels or not all(levels):
        raise ValueError(f"at least one layer is needed, and one direction in each, got {levels!r}")
    first = levels[0][0].num_inputs
    layer: Any = new_input(levels[0][0]) if incoming is None else incoming
    shape: Any = layer.output_shape if hasattr(layer, "output_shape") else layer
    if len(shape) > 2 and None not in shape[2:] and int(np.prod(shape[2:])) != first:
        raise ValueError(f"incoming must have the {first} features that the weights are for, got shape {shape}")
    for k, level in enumerate(levels):
        label = f"{name}.{k}" if name else f"{k}"
        given = options if k == len(levels) - 1 else {key: options[key] for key in options.keys() - _OF_THE_LAST}
        if len(level) == 1:
            layer = RNNLayer(layer, level[0].cell(label), name=label, **given)
            continue
        ways = ("forward", "backward")
        both = [
            RNNLayer(layer, one.cell(f"{label}.{way}"), backwards=way == "backward", name=f"{label}.{way}", **given)
            for way, one in zip(ways, level, strict=True)
        ]
        layer = Bidirectional(both[0], backward=both[1], name=label)
    return layer


def new_input(weights: CellWeights) -> InputLayer:
    """A new input layer with the dtype of the weights, and with the number of features that they are for."""
    shape = (None, None, weights.num_inputs)
    return InputLayer(shape, sj.tensor(shape, dtype_of(*weights.W.values())))


def read_layers(layer: Any) -> Levels:
    """The weights of recurrent layers, as `build_layers` takes them.

    Parameters
    ----------
    layer : RNNLayer (LSTMLayer, GRULayer, ...), Bidirectional, CudnnLSTMLayer, CudnnGRULayer, Cell, or a list
        The last layer of a stack. The recurrent layers below it are read, too. A list has all layers, from the lowest
        up.

    Examples
    --------
    >>> from lasagne_like.importers import read_layers
    >>> from lasagne_like.layers import CudnnLSTMLayer
    >>> levels = read_layers(CudnnLSTMLayer((None, None, 3), 4, num_layers=2, direction="bidirectional"))
    >>> len(levels), len(levels[0]), levels[1][0].num_inputs
    (2, 2, 8)
    """
    if isinstance(layer, list | tuple):
        return [level for one in layer for level in _own_levels(one)]
    levels = [level for one in reversed(_stack(layer)) for level in _own_levels(one)]
    return levels or _own_levels(layer)


def _stack(layer: Any) -> list[Any]:
    """A recurrent layer and those below it, from the last down."""
    found = []
    while isinstance(layer, _RECURRENT):
        found.append(layer)
        _check_same_input(layer)
        layer = (layer.forward_layer if isinstance(layer, Bidirectional) else layer).input_layers[0]
    return found


def _check_same_input(layer: Any) -> None:
    """Raise an error if two directions read different layers, as oneDNN's stacks do. `Levels` cannot express this."""
    if isinstance(layer, Bidirectional):
        below = layer.forward_layer.input_layers[0], layer.backward_layer.input_layers[0]
        if below[0] is not below[1]:
            raise ValueError(f"the directions of {layer!r} read different layers, {below[0]!r} and {below[1]!r}")


_RECURRENT = (RNNLayer, Bidirectional, CudnnLSTMLayer, CudnnGRULayer)


def _own_levels(layer: Any) -> Levels:
    """The weights of one layer, or of all layers inside it."""
    if isinstance(layer, Bidirectional) and layer.merge not in ("concat", None):
        raise ValueError(f"merge of {layer!r} must be 'concat' to export it, got {layer.merge!r}")
    return [[CellWeights.of(cell) for cell in level] for level in cells_of(layer)]


def cells_of(layer: Any) -> list[list[Any]]:
    """The cells of one layer, of all layers inside it, or of a list of layers: those of each level, forwards first."""
    if isinstance(layer, list | tuple):
        return [level for one in layer for level in cells_of(one)]
    if isinstance(layer, CudnnLSTMLayer | CudnnGRULayer):
        return [[one.cell for one in pair] for pair in layer.layers]
    if isinstance(layer, Bidirectional):
        pair = layer.forward_layer, layer.backward_layer
        return [[one.cell for one in sorted(pair, key=lambda one: one.backwards)]]
    if isinstance(layer, RNNLayer):
        return cells_of(layer.cell)
    if isinstance(layer, StackedCells):
        return [[cell] for cell in layer.cells]
    if isinstance(layer, Cell):
        return [[layer]]
    raise TypeError(f"expected a recurrent layer or a cell, got {layer!r}")


def options_of(kind: str, nonlinearity: str, reset_after: bool) -> dict[str, Any]:
    """The arguments of `CellWeights` for a kind of cell that do not follow from the arrays of a format."""
    if kind == "rnn" and nonlinearity not in ("tanh", "relu"):
        raise ValueError(f"nonlinearity must be 'tanh' or 'relu', got {nonlinearity!r}")
    known: dict[str, dict[str, Any]] = {"rnn": {"nonlinearity": nonlinearity}, "gru": {"reset_after": reset_after}}
    return known.get(kind, {})


PLAIN: dict[str, Callable[[CellWeights], Any]] = {
    "peepholes": lambda one: one.peepholes,
    "a_projection": lambda one: one.projection is not None,
}
"""What libraries with plain cells lack, for `Format.read`."""


def width_below(levels: Levels) -> int | None:
    """The number of features that the next layer reads. None if it is the first layer."""
    return sum(one.num_outputs for one in levels[-1]) if levels else None


@dataclass(frozen=True)
class Format:
    """The format of a library: its name, and for each kind of cell the letters of its gates in their order.

    In all of these libraries, the update gate is the share of the old state. In ours it is the share of the candidate,
    so its weights and biases change their signs.
    """

    library: str
    orders: Mapping[str, str]
    backwards: bool = True
    """Whether the library has layers that read from the last step to the first, without one that reads forwards."""
    alike: str = ""
    """What has one number of units and one kind of cell in the library: "layers", or the "directions" of a layer."""

    def unpacked(self, kind: str, *arrays: Any, **options: Any) -> CellWeights:
        """The weights in arrays of the library: W, R, and one or two biases. See `CellWeights.unpacked`."""
        return CellWeights.unpacked(kind, self.orders[kind], *arrays, **options)

    def packed(self, one: CellWeights) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """W, R and the bias of a cell in the library's format."""
        return one.packed(self.orders[one.kind])

    def halves(self, one: CellWeights) -> tuple[np.ndarray, np.ndarray]:
        """The two biases of a cell in the library's format."""
        return one.halves(self.orders[one.kind])

    def read(self, layer: Any, **lacks: Callable[[CellWeights], Any]) -> Levels:
        """The weights of layers. It is an error if the layers are of several kinds, or if they have something that the
        library does not have. `lacks` maps the names of such things to functions that find them."""
        layers = layer if isinstance(layer, list | tuple) else _stack(layer)
        lone = [one for one in layers if isinstance(one, RNNLayer) and one.backwards]
        if lone and not self.backwards:
            raise ValueError(
                f"{lone[0]!r} reads backwards, which {self.library} does only beside a layer that reads forwards: "
                "export a layer without backwards=True, and reverse its input and output there"
            )
        return self.checked(read_layers(layer), **lacks)

    def checked(self, levels: Levels, **lacks: Callable[[CellWeights], Any]) -> Levels:
        """The weights of layers, after the checks of `read`."""
        kinds = {one.kind for level in levels for one in level}
        if len(kinds) != 1 or not kinds <= set(self.orders):
            known, given = ", ".join(self.orders), ", ".join(sorted(kinds))
            raise ValueError(f"all layers must be of one kind, which is one of {known}; got {given}")
        for k, level in enumerate(levels):
            for what, has in lacks.items():
                if any(has(one) for one in level):
                    raise ValueError(f"layer {k} has {what.replace('_', ' ')}, which {self.library} does not have")
        wanted: tuple[str, ...] = ("num_units", "num_outputs", "reset_after") if self.alike else ()
        groups = levels
        if self.alike == "layers":
            groups, wanted = [[one for level in levels for one in level]], (*wanted, "nonlinearity")
        for group, what in itertools.product(groups, wanted):
            found = [getattr(one, what) for one in group]
            if len(set(found)) > 1:
                raise ValueError(f"all {self.alike} must have the same {what} in {self.library}, got {found}")
        return levels

"""Several recurrent layers in one object, as cuDNN has them."""

from abc import ABC
from typing import Any

import scanjit as sj
from lasagne_like import init, nonlinearities, utils
from lasagne_like.cells import GRU, LSTM, Cell, Gate
from lasagne_like.cells.structure import transform
from lasagne_like.checks import check_choice
from lasagne_like.descriptions import completed
from lasagne_like.layers.base import Incoming, Layer, MergeLayer, check_single, shape_of
from lasagne_like.layers.noise import DropoutLayer
from lasagne_like.layers.rnn import RNNLayer
from lasagne_like.utils import Parameter

__all__ = ["CudnnGRULayer", "CudnnLSTMLayer", "kept_part"]


class _Cudnn(MergeLayer, ABC):
    """The base of `CudnnLSTMLayer` and `CudnnGRULayer`. A subclass makes the cell of one layer and direction.

    One object has a stack of layers, in one or both directions. Each layer reads the outputs of both directions of the
    layer below, concatenated.

    Parameters
    ----------
    incoming : Layer or tuple
        Its output has shape (batch, time, features).
    num_units : int
        The number of units of each layer and direction.
    num_layers : int
    direction : "unidirectional" or "bidirectional"
    input_mode : "linear_input", "skip_input" or "auto_select"
        How the gates of the first layer read the input. With "linear_input", they multiply it by weights. With
        "skip_input", they add it as it is, and the input must have `num_units` features. "auto_select" adds it if it
        has `num_units` features, and multiplies it otherwise.
    dropout : float
        The probability with which a value that one layer passes to the next is set to 0. With `deterministic=True`,
        all values are passed on.
    double_bias : bool
        Whether each gate has two biases, as in cuDNN. Otherwise it has one, which stands for their sum.
    W_in, W_hid, b : initializer
        For each gate: its weights of the input, (inputs, num_units), its weights of the state, (num_units, num_units),
        and its biases.
    initial_state : list, optional
        For each layer and direction, `initial_state` of its `RNNLayer`.
    learn_init, mask_input, seq_lengths : see `RNNLayer`
    return_state : bool
        Whether the output is a pair: the output of the last layer, and a tuple with the last state of each layer and
        direction.
    stateful, time_major : see `RNNLayer`
    name : str, optional

    Attributes
    ----------
    layers : for each layer, a list with one `RNNLayer` for each direction.
    all_layers : the same layers in one list, in the order of `initial_state`.
    """

    def __init_subclass__(cls) -> None:
        cls.__doc__ = cls.__doc__ and completed(cls.__doc__, _Cudnn)

    def __init__(
        self,
        incoming: Incoming,
        num_units: int,
        num_layers: int = 1,
        direction: str = "unidirectional",
        input_mode: str = "linear_input",
        dropout: float = 0.0,
        double_bias: bool = False,
        W_in: Any = init.GlorotUniform(),
        W_hid: Any = init.Orthogonal(),
        b: Parameter | None = init.Constant(0.0),
        initial_state: Any = None,
        learn_init: bool = False,
        mask_input: Incoming | None = None,
        seq_lengths: Any = None,
        return_state: bool = False,
        stateful: bool = False,
        time_major: bool = False,
        name: str | None = None,
    ) -> None:
        self.name = name
        self._check(incoming, num_layers, direction, input_mode)
        self.num_units, self.num_layers, self.direction, self.dropout = num_units, num_layers, direction, dropout
        self.double_bias, self.return_state, self.stateful = double_bias, return_state, stateful
        self.time_major = time_major
        features = shape_of(incoming)[2]
        self.skips_input = input_mode == "skip_input" or (input_mode == "auto_select" and features == num_units)
        ways = self.num_directions
        if initial_state is None:
            initial_state = [None] * (num_layers * ways)
        elif not isinstance(initial_state, list | tuple) or len(initial_state) != num_layers * ways:
            raise ValueError(
                f"initial_state of {self} must be a list with a state for each layer and direction, {num_layers} * "
                f"{ways} of them, got {initial_state!r}"
            )
        self._specs = W_in, W_hid, b
        self._optional = [layer for layer in (mask_input, seq_lengths) if isinstance(layer, Layer | tuple)]
        options = {"mask_input": mask_input, "seq_lengths": seq_lengths, "return_state": True}
        options |= {"stateful": stateful, "time_major": time_major}
        learn_own = learn_init and not all(isinstance(state, Layer) for state in initial_state)
        self.layers: list[list[RNNLayer]] = []
        shape = shape_of(incoming)
        self._dropouts = []
        for i in range(num_layers):
            own = initial_state[i * ways : (i + 1) * ways]
            learns = [not isinstance(state, Layer) if learn_own else learn_init for state in own]
            self.layers.append(
                [self._one(shape, i, way, own[way], options | {"learn_init": learns[way]}) for way in range(ways)]
            )
            shape = (*shape[:2], ways * num_units)
            self._dropouts.append(DropoutLayer(shape, dropout))
        states = [layer for one in self.all_layers for layer in one.layers_of_state]
        super().__init__([incoming, *self._optional, *states], name)
        for one in self.all_layers:
            self.params.update(one.params)

    def _check(self, incoming: Incoming, num_layers: int, direction: str, input_mode: str) -> None:
        shape = shape_of(incoming)
        check_single(shape, self)
        if len(shape) != 3 or shape[2] is None:
            raise ValueError(f"{self} needs an input of shape (batch, time, features), got {shape}")
        if num_layers < 1:
            raise ValueError(f"num_layers must be 1 or more, got {num_layers}")
        check_choice(direction, "direction", ("unidirectional", "bidirectional"))
        check_choice(input_mode, "input_mode", ("linear_input", "skip_input", "auto_select"))

    @property
    def num_directions(self) -> int:
        """1, or 2 for both directions."""
        return 2 if self.direction == "bidirectional" else 1

    @property
    def all_layers(self) -> list[RNNLayer]:
        """The recurrent layers, one for each layer and direction: forwards, then backwards, from the lowest up."""
        return [one for pair in self.layers for one in pair]

    def _one(self, shape: Any, i: int, way: int, state: Any, options: dict[str, Any]) -> RNNLayer:
        parts = [self.name, f"layer{i}", ("forward", "backward")[way] if self.num_directions == 2 else None]
        label = ".".join(part for part in parts if part)
        cell = self._cell(self.skips_input and i == 0, label)
        return RNNLayer(shape, cell, initial_state=state, backwards=way == 1, name=label, **options)

    def _cell(self, skips: bool, label: str) -> Cell:
        raise NotImplementedError

    def _gate(self, skips: bool, label: str, what: str, **options: Any) -> Gate:
        W_in, W_hid, b = self._specs
        if self.double_bias:
            b = self._bias(label, f"b_in_{what}") + self._bias(label, f"b_hid_{what}")
        return Gate(None if skips else W_in, W_hid, None, b, **options)

    def _bias(self, label: str, what: str) -> Any:
        return utils.create_param(self._specs[2], (self.num_units,), f"{label}.{what}")

    def reset_states(self, batch_size: int | None = None) -> None:
        """Reset the state that a stateful layer keeps: see `RNNLayer.reset_states`."""
        for one in self.all_layers:
            one.reset_states(batch_size)

    def get_output_shape_for(self, input_shapes: Any) -> Any:
        shape = (*input_shapes[0][:2], self.num_directions * self.num_units)
        if not self.return_state:
            return shape
        batch = (shape[1 if self.time_major else 0],)
        return shape, tuple(transform(lambda size: (*batch, *size), one.state_shape) for one in self.all_layers)

    def get_output_for(self, inputs: Any, **kwargs: Any) -> Any:
        x, given = inputs[0], list(inputs[1 + len(self._optional) :])
        optional, states = list(inputs[1 : 1 + len(self._optional)]), []
        for pair, noise in zip(self.layers, self._dropouts, strict=True):
            outputs = []
            for one in pair:
                own = [given.pop(0) for _ in one.layers_of_state]
                output, state = one.get_output_for([x, *optional, *own], **kwargs)
                outputs.append(output)
                states.append(state)
                self.updates.update(one.updates)
            x = outputs[0] if len(outputs) == 1 else sj.concatenate(outputs, axis=-1)
            if pair is not self.layers[-1]:
                x = noise.get_output_for(x, **kwargs)
        return (x, tuple(states)) if self.return_state else x


class CudnnLSTMLayer(_Cudnn):
    """A stack of LSTM layers without peepholes, in one or both directions.

    COMMON

    Examples
    --------
    >>> from lasagne_like.layers import CudnnLSTMLayer, InputLayer
    >>> layer = CudnnLSTMLayer(InputLayer((None, None, 4)), 5, num_layers=2, direction="bidirectional", name="lstm")
    >>> layer.output_shape, layer.get_params()[0]
    ((None, None, 10), <shared lstm.layer0.forward.W_in_to_ingate: float64(4, 5)>)
    """

    def _cell(self, skips: bool, label: str) -> Cell:
        ingate, forgetgate, outgate = (self._gate(skips, label, name) for name in ("ingate", "forgetgate", "outgate"))
        new = self._gate(skips, label, "cell", nonlinearity=nonlinearities.tanh)
        return LSTM(self.num_units, ingate, forgetgate, new, outgate, name=label)


def kept_part(z: Any) -> Any:
    """The nonlinearity of cuDNN's update gate in our `GRU` cell: `sigmoid(-z)`.

    cuDNN's update gate is the share of the old state in the new one. The update gate of `lasagne_like.cells.GRU` is the
    share of the candidate. So cuDNN's weights give the gate with the opposite sign.

    Examples
    --------
    >>> import scanjit as sj
    >>> from lasagne_like.layers import kept_part
    >>> sj.function([], kept_part([-1.0, 0.0, 1.0]), mode="reference")().round(3)
    array([0.731, 0.5  , 0.269])
    """
    return nonlinearities.sigmoid(-sj.as_tensor(z))


class CudnnGRULayer(_Cudnn):
    """A stack of GRU layers in one or both directions, with the equations of cuDNN.

    The update gate is the share of the old state: `h = (1 - u) * c + u * h_`. The reset gate multiplies the product of
    state and weights, with its bias: `c = tanh(x @ W_in + b + r * (h_ @ W_hid + b_hid))`. So the candidate always has
    two biases.

    COMMON

    Examples
    --------
    >>> from lasagne_like.layers import CudnnGRULayer, InputLayer
    >>> layer = CudnnGRULayer(InputLayer((None, None, 4)), 5, num_layers=3)
    >>> layer.output_shape, len(layer.get_params())
    ((None, None, 5), 30)
    """

    def _cell(self, skips: bool, label: str) -> Cell:
        resetgate = self._gate(skips, label, "resetgate")
        updategate = self._gate(skips, label, "updategate", nonlinearity=kept_part)
        W_in, W_hid, b = self._specs
        new = Gate(None if skips else W_in, W_hid, None, b, nonlinearity=nonlinearities.tanh)
        return GRU(self.num_units, resetgate, updategate, new, b_hid=b, name=label)

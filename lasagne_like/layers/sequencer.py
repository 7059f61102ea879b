"""Networks for one step, and a layer that applies them to every step of a sequence, like Torch's `Sequencer`."""

import copy
from collections.abc import Callable, Mapping
from typing import Any

from lasagne_like.cells import Cell
from lasagne_like.cells.structure import flatten, is_shape
from lasagne_like.layers.base import Incoming, Layer
from lasagne_like.layers.cycles import without_updates
from lasagne_like.layers.delay import DelayLayer
from lasagne_like.layers.helper import get_all_layers, get_output
from lasagne_like.layers.input import InputLayer
from lasagne_like.layers.rnn import RNNLayer

__all__ = ["NetworkCell", "SequencerLayer", "StepLayer"]


class StepLayer(Layer):
    """One step of a cell, in a network for one step.

    `SequencerLayer` or `NetworkCell` runs the network, and keeps the state from step to step.

    Parameters
    ----------
    incoming : Layer or tuple
        Gives (batch, features...).
    cell : Cell
    name : str, optional

    Examples
    --------
    >>> from lasagne_like.cells import GRU
    >>> from lasagne_like.layers import DenseLayer, InputLayer, NetworkCell, StepLayer
    >>> step = DenseLayer(StepLayer(InputLayer((None, 3)), GRU(4)), 2)
    >>> NetworkCell(step).build(3).state_shape
    ((4,),)
    """

    def __init__(self, incoming: Incoming, cell: Cell, *, name: str | None = None) -> None:
        super().__init__(incoming, name)
        if not isinstance(cell, Cell):
            raise TypeError(f"{self} makes a step of a cell, got {cell!r}")
        features = self.input_shape[1:]
        if cell.flattens_input and len(features) != 1:
            raise ValueError(f"{self} takes inputs (batch, features), got {self.input_shape}: flatten it before")
        if cell.name is None and cell.input_shape is None:
            cell.name = name
        self.cell = cell.build(features)
        if not is_shape(cell.output_shape):
            raise ValueError(f"{cell!r} gives several tensors, of shapes {cell.output_shape}: a layer gives one")
        self.params.update(cell.params)

    def get_output_shape_for(self, input_shape: Any) -> Any:
        return (input_shape[0], *self.cell.output_shape)

    def get_output_for(self, input: Any, step_states: Any = None, **kwargs: Any) -> Any:
        """The output of a step. `step_states` has the cell and the state of each such layer; the new state is put
        there."""
        if step_states is None:
            raise ValueError(f"{self} is for one step: only NetworkCell and SequencerLayer can run it")
        cell, state = step_states[self]
        output, new = cell.step(input, state)
        step_states[self] = cell, new
        return output


class NetworkCell(Cell):
    """A network of layers for one step, as a cell.

    Its state is that of its layers of the kinds `StepLayer` and `PastValueLayer`. A `PastValueLayer` is made for
    (batch, features...) here, and may close a loop.

    Parameters
    ----------
    network : Layer or callable
        The last layer; its input layers, of (batch, features...), get the input of the step: one, or several in the
        order of the structure. Or a function that makes it from its input layers: then each copy (for the other
        direction, say) has parameters of its own.
    name : str, optional

    Examples
    --------
    >>> import numpy as np
    >>> import lasagne_like as lasagne
    >>> from lasagne_like.cells import LSTM, step_function
    >>> from lasagne_like.layers import DenseLayer, NetworkCell, StepLayer
    >>> cell = NetworkCell(lambda x: DenseLayer(StepLayer(DenseLayer(x, 8), LSTM(4)), 2)).build(3)
    >>> step = step_function(cell, mode="reference")
    >>> output, state = step(np.ones((5, 3)), step.initial_state(batch=5))
    >>> output.shape
    (5, 2)
    """

    flattens_input = False

    def __init__(self, network: Layer | Callable[..., Layer], name: str | None = None) -> None:
        super().__init__(name=name)
        if not isinstance(network, Layer) and not callable(network):
            raise TypeError(f"NetworkCell takes a layer, or a function that makes one, got {network!r}")
        self.network = network
        self._kwargs: dict[str, Any] = {}

    def make_params(self, input_shape: Any) -> None:
        shapes = [(None, *shape) for shape in flatten(input_shape)]
        self.last = self.network
        if not isinstance(self.last, Layer):
            self.last = self.last(*map(InputLayer, shapes))
        layers = get_all_layers(self.last)
        self.inputs = [layer for layer in layers if isinstance(layer, InputLayer)]
        found = [layer.shape for layer in self.inputs]
        if [shape[1:] for shape in found] != [shape[1:] for shape in shapes]:
            raise ValueError(f"{self} has input layers of shapes {found}, but it is given inputs of shapes {shapes}")
        self.steps = [layer for layer in layers if isinstance(layer, StepLayer)]
        self.delays = [layer for layer in layers if isinstance(layer, DelayLayer)]
        for layer in layers:
            self.params.update(layer.params)
            self._check(layer)
        self._begun: dict[Layer, Cell] = {layer: layer.cell for layer in self.steps}
        states = [layer.cell.state_shape for layer in self.steps]
        states += [(layer.output_shape[1:],) * layer.steps for layer in self.delays]
        self.state_shape = tuple(states) or None
        if not isinstance(self.last, Layer):
            raise TypeError(f"the function of {self} must return a layer, got {self.last!r}")
        self.output_shape = self.last.output_shape[1:]

    def _check(self, layer: Layer) -> None:
        if isinstance(layer, RNNLayer):
            raise ValueError(f"{layer} is a loop over time, in the network of one step: use StepLayer with its cell")
        if isinstance(layer, DelayLayer):
            if layer.backwards:
                raise ValueError(f"{layer} looks ahead: one step cannot")
            if layer.source is None:
                raise ValueError(f"{layer} is not connected: say whose values it gives with connect(layer)")
            if len(layer.input_layers) > 1:
                raise ValueError(f"{layer} in the network of one step cannot have starts, nor begin with a layer")

    def init_state(self, batch: Any) -> Any:
        states = [layer.cell.init_state(batch) for layer in self.steps]
        states += [(layer.initial_rows(batch),) * layer.steps for layer in self.delays]
        return tuple(states) or None

    def begin(self, batch: Any, **kwargs: Any) -> Any:
        other = copy.copy(self)
        other._begun = {layer: layer.cell.begin(batch, **kwargs) for layer in self.steps}
        other._kwargs = kwargs
        return other

    def step(self, x: Any, state: Any) -> tuple[Any, Any]:
        states = list(state or ())
        own, kept = states[: len(self.steps)], states[len(self.steps) :]
        memory: dict[Layer, Any] = {
            layer: (self._begun[layer], part) for layer, part in zip(self.steps, own, strict=True)
        }
        given: dict[Any, Any] = dict(zip(self.inputs, flatten(x), strict=True))
        given |= {delay: rows[0] for delay, rows in zip(self.delays, kept, strict=True)}
        sources = [delay.source for delay in self.delays]
        output, *new = self._outputs([self.last, *sources], given, memory)
        rows = [(*old[1:], value) for old, value in zip(kept, new, strict=True)]
        return output, tuple([*(memory[layer][1] for layer in self.steps), *rows]) or None

    def _outputs(self, layers: Any, given: Mapping[Any, Any], memory: dict[Layer, Any]) -> list[Any]:
        """The outputs of layers in this step. The states of cells are read from `memory`, and the new ones put
        there."""
        extra = {"step_states": memory} if memory else {}
        with without_updates(get_all_layers(layers, list(given)), "the network of one step"):
            outputs: list[Any] = get_output(layers, dict(given), **extra, **self._kwargs)
        return outputs


class SequencerLayer(RNNLayer):
    """Applies a network for one step, or a cell, to every step of a sequence.

    Parameters
    ----------
    incoming : see `RNNLayer`
    module : Layer, callable, Cell or list of Cells
        A network for one step as `NetworkCell` takes it, or what `RNNLayer` takes.
    **kwargs
        Of `RNNLayer`.

    Examples
    --------
    A layer that knows nothing of sequences, and one that remembers:

    >>> from lasagne_like.cells import GRU
    >>> from lasagne_like.layers import DenseLayer, SequencerLayer, StepLayer
    >>> SequencerLayer((None, None, 3), lambda x: DenseLayer(x, 2)).output_shape
    (None, None, 2)
    >>> l_rnn = SequencerLayer((None, None, 3), lambda x: DenseLayer(StepLayer(x, GRU(4)), 2), backwards=True)
    >>> [p.name for p in l_rnn.get_params()][-2:]
    ['W', 'b']
    """

    def __init__(self, incoming: Incoming, module: Any, **kwargs: Any) -> None:
        whole = isinstance(module, Cell | list | tuple)
        super().__init__(incoming, module if whole else NetworkCell(module), **kwargs)

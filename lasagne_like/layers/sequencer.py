"""Networks for one step, and a layer that applies them to each step of a sequence, like Torch's `Sequencer`."""

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

    `SequencerLayer` or `NetworkCell` runs the network, and passes the state of the cell from step to step.

    Parameters
    ----------
    incoming : Layer or tuple
        Its output has shape (batch, features...).
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
            raise TypeError(f"cell of {self} must be a cell, got {cell!r}")
        features = self.input_shape[1:]
        if cell.flattens_input and len(features) != 1:
            raise ValueError(
                f"{self} takes an input of shape (batch, features), got {self.input_shape}: put a FlattenLayer before "
                "it"
            )
        if cell.name is None and cell.input_shape is None:
            cell.name = name
        self.cell = cell.build(features)
        if not is_shape(cell.output_shape):
            raise ValueError(
                f"{self} needs a cell with one output, but {cell!r} has outputs of the shapes {cell.output_shape}"
            )
        self.params.update(cell.params)

    def get_output_shape_for(self, input_shape: Any) -> Any:
        return (input_shape[0], *self.cell.output_shape)

    def get_output_for(self, input: Any, step_states: Any = None, **kwargs: Any) -> Any:
        """The output of a step. `step_states` maps each `StepLayer` to its cell and state; the new state replaces the
        old one there."""
        if step_states is None:
            raise ValueError(f"{self} is in a network for one step: run the network with NetworkCell or SequencerLayer")
        cell, state = step_states[self]
        output, new = cell.step(input, state)
        step_states[self] = cell, new
        return output


class NetworkCell(Cell):
    """A cell whose step is a network of layers.

    The state of the cell has the states of all layers of the kinds `StepLayer` and `PastValueLayer` in the network. In
    such a network, a `PastValueLayer` is made for the shape (batch, features...). Its source may depend on it.

    Parameters
    ----------
    network : Layer or callable
        The last layer of the network. The input layers of the network have shape (batch, features...), and get the
        input of the step. If the input is a structure, there is one input layer for each of its tensors, in their
        order. A function is called with the input layers, and returns the last layer. Then each copy of the cell (for
        the other direction, say) has its own parameters.
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
            raise TypeError(
                f"network of NetworkCell must be a layer, or a function that returns a layer, got {network!r}"
            )
        self.network = network
        self._kwargs: dict[str, Any] = {}

    def make_params(self, input_shape: Any) -> None:
        shapes = [(None, *shape) for shape in flatten(input_shape)]
        self.last = self.network
        if not isinstance(self.last, Layer):
            self.last = self.last(*map(InputLayer, shapes))
            if not isinstance(self.last, Layer):
                raise TypeError(f"the function of {self} must return a layer, got {self.last!r}")
        layers = get_all_layers(self.last)
        self.inputs = [layer for layer in layers if isinstance(layer, InputLayer)]
        found = [layer.shape for layer in self.inputs]
        if [shape[1:] for shape in found] != [shape[1:] for shape in shapes]:
            raise ValueError(f"the network of {self} has input layers of shapes {found}, but its inputs have {shapes}")
        self.steps = [layer for layer in layers if isinstance(layer, StepLayer)]
        self.delays = [layer for layer in layers if isinstance(layer, DelayLayer)]
        for layer in layers:
            self.params.update(layer.params)
            self._check(layer)
        self._begun: dict[Layer, Cell] = {layer: layer.cell for layer in self.steps}
        states = [layer.cell.state_shape for layer in self.steps]
        states += [(layer.output_shape[1:],) * layer.steps for layer in self.delays]
        self.state_shape = tuple(states) or None
        self.output_shape = self.last.output_shape[1:]

    def _check(self, layer: Layer) -> None:
        if isinstance(layer, RNNLayer):
            raise ValueError(
                f"{layer} is a loop over time, which cannot be in a network for one step: use a StepLayer with its cell"
            )
        if isinstance(layer, DelayLayer):
            if layer.backwards:
                raise ValueError(
                    f"{layer} reads later steps, which a network for one step does not have: use a PastValueLayer"
                )
            if layer.source is None:
                raise ValueError(f"the delay {layer} has no source: call its method connect(layer)")
            if len(layer.input_layers) > 1:
                raise ValueError(
                    f"{layer} is in a network for one step: it cannot have `starts`, and `initial` cannot be a layer"
                )

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
        """The outputs of layers in this step. `memory` has the states of cells; the new states replace them there."""
        extra = {"step_states": memory} if memory else {}
        with without_updates(get_all_layers(layers, list(given)), "the network of one step"):
            outputs: list[Any] = get_output(layers, dict(given), **extra, **self._kwargs)
        return outputs


class SequencerLayer(RNNLayer):
    """Applies a network for one step, or a cell, to each step of a sequence.

    Parameters
    ----------
    incoming : see `RNNLayer`
    module : Layer, callable, Cell or list of Cells
        A network for one step (see `NetworkCell`), or `cell` of `RNNLayer`.
    **kwargs
        Further arguments of `RNNLayer`.

    Examples
    --------
    A network without a state, and one with the state of a GRU:

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

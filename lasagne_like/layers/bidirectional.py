"""`Bidirectional`: two recurrent layers, one for each direction."""

from __future__ import annotations

from typing import Any

import scanjit as sj
from lasagne_like.cells import Cell
from lasagne_like.cells.structure import flatten, transform
from lasagne_like.checks import check_choice
from lasagne_like.layers.base import Incoming, MergeLayer
from lasagne_like.layers.rnn import RNNLayer

__all__ = ["Bidirectional"]

_MERGES: dict[str, Any] = {
    "concat": lambda a, b: sj.concatenate([a, b], axis=-1),
    "sum": lambda a, b: a + b,
    "mul": lambda a, b: a * b,
    "ave": lambda a, b: (a + b) / 2,
}


class Bidirectional(MergeLayer):
    """Two recurrent layers that read the same input, one in each direction. Each has its own parameters.

    Parameters
    ----------
    cell_or_layer : RNNLayer (LSTMLayer, GRULayer, ...), Cell or list of Cells
        The layer of the first direction. A cell becomes an `RNNLayer` over `incoming`.
    merge : "concat", "sum", "mul", "ave" or None
        How the two outputs become one: concatenated along the last axis, added, multiplied or averaged. With None, the
        output is a pair.
    incoming : Layer or tuple, optional
        The input of a cell. A layer has its input already.
    backward : RNNLayer, optional
        The layer of the second direction. By default it is a copy of the first one that runs the other way.
    name : str, optional
    **kwargs
        Further arguments of `RNNLayer` for a cell.

    Attributes
    ----------
    forward_layer, backward_layer : the two layers.

    Examples
    --------
    >>> import lasagne_like as lasagne
    >>> l_in = lasagne.layers.InputLayer((None, None, 4))
    >>> both = lasagne.layers.Bidirectional(lasagne.layers.LSTMLayer(l_in, 5), merge="concat")
    >>> both.output_shape
    (None, None, 10)
    >>> lasagne.layers.Bidirectional(lasagne.cells.GRU(5), "sum", incoming=l_in).output_shape
    (None, None, 5)
    """

    def __init__(
        self,
        cell_or_layer: Any,
        merge: str | None = "concat",
        incoming: Incoming | None = None,
        backward: Any = None,
        name: str | None = None,
        **kwargs: Any,
    ) -> None:
        check_choice(merge, "merge", (*_MERGES, None))
        given = isinstance(cell_or_layer, RNNLayer)
        if isinstance(cell_or_layer, Cell | list | tuple):
            if incoming is None:
                raise ValueError(
                    f"Bidirectional needs the input of the cell {cell_or_layer!r}: give it as incoming=layer"
                )
            if name is not None:
                kwargs["name"] = f"{name}.forward"
            cell_or_layer = RNNLayer(incoming, cell_or_layer, **kwargs)
        for layer in (cell_or_layer, *([] if backward is None else [backward])):
            if not isinstance(layer, RNNLayer):
                raise TypeError(f"Bidirectional takes an RNNLayer (such as LSTMLayer) or a cell, got {layer!r}")
        extra = [*([] if incoming is None else ["incoming"]), *sorted(kwargs)]
        if given and extra:
            raise ValueError(
                f"an input and options are for a cell, but {cell_or_layer!r} is a layer, which has its own: leave out "
                f"{', '.join(extra)}"
            )
        self.merge = merge
        self.forward_layer: RNNLayer = cell_or_layer
        self.backward_layer: RNNLayer = cell_or_layer.reversed() if backward is None else backward
        if self.forward_layer.backwards == self.backward_layer.backwards:
            raise ValueError(
                f"both layers run in the same direction, backwards={self.forward_layer.backwards}: "
                f"{self.forward_layer!r} and {self.backward_layer!r}; one of them needs backwards="
                f"{not self.forward_layer.backwards}"
            )
        self.input_layers = [self.forward_layer, self.backward_layer]
        self.input_shapes = [layer.output_shape for layer in (self.forward_layer, self.backward_layer)]
        self._begin(name)
        self._check_shapes()

    @property
    def return_state(self) -> bool:
        """Whether the output is a pair of the merged outputs and the states of both directions."""
        return self.forward_layer.return_state

    def _check_shapes(self) -> None:
        forward, backward = (self._outputs(shape) for shape in self.input_shapes)
        cut = -1 if self.merge == "concat" else None
        for a, b in zip(flatten(forward), flatten(backward), strict=True):
            if self.merge is not None and a[:cut] != b[:cut]:
                raise ValueError(f"the outputs of the two directions cannot be merged by {self.merge!r}: {a} and {b}")

    def _outputs(self, value: Any) -> Any:
        return value[0] if self.return_state else value

    def get_output_shape_for(self, input_shapes: Any) -> Any:
        def merged(a: Any, b: Any) -> Any:
            return (*a[:-1], a[-1] + b[-1]) if self.merge == "concat" else a

        return self._combined(input_shapes, merged)

    def get_output_for(self, inputs: Any, **kwargs: Any) -> Any:
        return self._combined(inputs, _MERGES.get(self.merge or ""))

    def _combined(self, both: Any, merged: Any) -> Any:
        forward, backward = map(self._outputs, both)
        output = (forward, backward) if self.merge is None else transform(merged, forward, backward)
        return (output, tuple(value[1] for value in both)) if self.return_state else output

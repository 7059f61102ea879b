"""A compiled step of a cell, for streams, sampling and search."""

from __future__ import annotations

from typing import Any

import numpy as np

import scanjit as sj
from lasagne_like.cells.base import Cell
from lasagne_like.cells.structure import flatten, matched, paths, unflatten

__all__ = ["StepFunction", "step_function"]


class StepFunction:
    """A compiled step of a cell: `output, state = step(x, state)`. `step_function` makes it.

    Parameters
    ----------
    cell, mode, dtype, kwargs : the arguments of `step_function`

    Attributes
    ----------
    function : the compiled function. It takes the leaves of the input and of the state, and returns the leaves of the
    output and of the new state.

    Examples
    --------
    A batch of two sequences:

    >>> import numpy as np
    >>> import lasagne_like as lasagne
    >>> step = lasagne.cells.step_function(lasagne.cells.LSTM(5).build(3), mode="reference")
    >>> output, state = step(np.ones((2, 3)), step.initial_state(batch=2))
    >>> output.shape, state.cell.shape
    ((2, 5), (2, 5))
    """

    def __init__(self, cell: Any, mode: Any, dtype: Any, kwargs: dict[str, Any]) -> None:
        self.layer: Any = None if isinstance(cell, Cell) else cell
        inner = cell if isinstance(cell, Cell) else getattr(cell, "cell", None)
        if not isinstance(inner, Cell):
            raise TypeError(f"step_function takes a cell or a recurrent layer, got {cell!r}")
        self.cell: Cell = inner
        if self.cell.input_shape is None:
            raise ValueError(f"{self.cell!r} has no parameters yet: call cell.build(input_shape) first")
        self._mode = mode
        self._x = self._symbols(self.cell.input_shape, "x", dtype)
        self._state = self._symbols(self.cell.state_shape, "state", None)
        inputs = [*flatten(self._x), *flatten(self._state)]
        batch = inputs[0].shape[0]
        output, state = self.cell.begin(batch, **kwargs).step(self._x, self._state)
        self._output = output
        outputs = [*flatten(output), *matched(self._state, state, "state that the step returns")]
        self.function = sj.function(inputs, outputs, mode=mode, name=self.cell.name)
        self._initial: Any = None

    @staticmethod
    def _symbols(shapes: Any, name: str, dtype: Any) -> Any:
        def symbol(path: str, shape: Any) -> Any:
            return sj.tensor(("batch", *shape), dtype, f"{name}.{path}" if path else name)

        return unflatten(shapes, [symbol(*item) for item in zip(paths(shapes), flatten(shapes), strict=True)])

    def initial_state(self, batch: int = 1) -> Any:
        """The state before the first step, for `batch` sequences. For a layer, it is the layer's initial state."""
        if self._initial is None:
            count = sj.lscalar("batch")
            source = self.cell.init_state if self.layer is None else self.layer.init_state
            state = source(count)
            self._initial = sj.function([count], flatten(state), mode=self._mode)
        return unflatten(self._state, list(self._initial(batch)))

    def __call__(self, x: Any, state: Any) -> tuple[Any, Any]:
        """Compute a step from a batch of inputs and a state. Both are arrays, or structures of arrays."""
        given = [np.asarray(leaf) for leaf in matched(self._x, x, "input")]
        results = list(self.function(*given, *matched(self._state, state, "state")))
        count = len(flatten(self._output))
        return unflatten(self._output, results[:count]), unflatten(self._state, results[count:])


def step_function(cell: Any, mode: Any = "numba", dtype: Any = None, **kwargs: Any) -> StepFunction:
    """Compile one step of a cell. The function reads the current values of the cell's parameters in each call.

    Parameters
    ----------
    cell : Cell or recurrent layer
        A cell must have been built. For a layer, the function computes a step of its cell, and begins with its initial
        state.
    mode : as for `scanjit.function`.
    dtype : dtype or str, optional
        The dtype of the input. By default, it is `scanjit.config.floatX`.
    **kwargs
        For `cell.begin`. By default `deterministic=True`, so there is no dropout.

    Returns
    -------
    StepFunction
        `step(x, state)` returns the output and the next state. `step.initial_state(batch)` is the state before the
        first step.

    Examples
    --------
    >>> import numpy as np
    >>> import lasagne_like as lasagne
    >>> layer = lasagne.layers.LSTMLayer((None, None, 3), num_units=5)
    >>> step = lasagne.cells.step_function(layer, mode="reference")
    >>> state = step.initial_state(batch=2)
    >>> for x in np.ones((4, 2, 3)):
    ...     output, state = step(x, state)
    >>> output.shape
    (2, 5)
    """
    return StepFunction(cell, mode, dtype, {"deterministic": True, **kwargs})

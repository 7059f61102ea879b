"""A cell compiled for one step in each call, as streaming, sampling and search need it."""

from __future__ import annotations

from typing import Any

import numpy as np

import scanjit as sj
from lasagne_like.cells.base import Cell
from lasagne_like.cells.structure import flatten, matched, paths, unflatten

__all__ = ["StepFunction", "step_function"]


class StepFunction:
    """A compiled step: `output, state = step(x, state)`. Made by `step_function`.

    Parameters
    ----------
    cell, mode, dtype, kwargs : the arguments of `step_function`

    Attributes
    ----------
    function : the compiled function. It takes the leaves of the input and of the state, and returns those of the output
    and of the new state.

    Examples
    --------
    Several starts in one batch:

    >>> import numpy as np
    >>> import lasagne_like as lasagne
    >>> step = lasagne.cells.step_function(lasagne.cells.LSTM(5).build(3), mode="reference")
    >>> output, state = step(np.ones((2, 3)), step.initial_state(batch=2))
    >>> output.shape, state.cell.shape
    ((2, 5), (2, 5))
    """

    def __init__(self, cell: Any, mode: Any, dtype: Any, kwargs: dict[str, Any]) -> None:
        self.layer: Any = None if isinstance(cell, Cell) else cell
        self.cell: Cell = cell if isinstance(cell, Cell) else cell.cell
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
        """The state before the first step, for a number of sequences. A layer may have an initial state of its own."""
        if self._initial is None:
            count = sj.lscalar("batch")
            source = self.cell.init_state if self.layer is None else self.layer.init_state
            state = source(count)
            self._initial = sj.function([count], flatten(state), mode=self._mode)
        return unflatten(self._state, list(self._initial(batch)))

    def __call__(self, x: Any, state: Any) -> tuple[Any, Any]:
        """One step for a batch of inputs (or a structure of them), from a state. Both are arrays."""
        given = [np.asarray(leaf) for leaf in matched(self._x, x, "input")]
        results = list(self.function(*given, *matched(self._state, state, "state")))
        count = len(flatten(self._output))
        return unflatten(self._output, results[:count]), unflatten(self._state, results[count:])


def step_function(cell: Any, mode: Any = "numba", dtype: Any = None, **kwargs: Any) -> StepFunction:
    """A compiled function of one step of a cell. It reads the parameters of the cell: if they are set, it uses the new
    values.

    Parameters
    ----------
    cell : Cell or recurrent layer
        A cell must have been built. A layer gives its cell and its initial state.
    mode : how to run it
        See `scanjit.function`.
    dtype : a dtype or its name
        Of the input; by default `scanjit.config.floatX`.
    **kwargs
        For `cell.begin`. By default `deterministic=True`, so there is no dropout.

    Returns
    -------
    StepFunction
        `step(x, state)` returns the output and the next state; `step.initial_state(batch)` is where to begin.

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

"""Cells that consist of other cells: stacks, shortcuts around a cell, and resets of its state."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import scanjit as sj
from lasagne_like import init
from lasagne_like.cells.base import Cell, features_of
from lasagne_like.cells.structure import flatten, transform
from lasagne_like.utils import Parameter

__all__ = ["HighwayWrapper", "ResetWrapper", "ResidualWrapper", "StackedCells", "Wrapper"]


class StackedCells(Cell):
    """A stack of cells: the output of each cell is the input of the next. The state is the tuple of their states.

    Parameters
    ----------
    cells : list of Cells
    name : str, optional

    Examples
    --------
    >>> from lasagne_like.cells import GRU, LSTM, StackedCells
    >>> cell = StackedCells([LSTM(4), GRU(5)]).build(3)
    >>> cell.state_shape, cell.output_shape
    ((LSTMState(cell=(4,), hid=(4,)), (5,)), (5,))
    """

    def __init__(self, cells: Sequence[Cell], name: str | None = None) -> None:
        super().__init__(name=name)
        given: Any = cells
        if not isinstance(given, list | tuple):
            raise TypeError(f"StackedCells takes a list of cells, got {given!r}")
        self.cells = list(cells)
        if not self.cells:
            raise ValueError("StackedCells needs at least one cell, got an empty list")
        for i, cell in enumerate(self.cells):
            if not isinstance(cell, Cell):
                raise TypeError(f"StackedCells takes cells, but item {i} is a {type(cell).__name__}: {cell!r}")
            if any(cell is other for other in self.cells[:i]):
                raise ValueError(f"{cell!r} is in the stack twice: use cell.clone(), a copy with its own parameters")
        self.flattens_input = self.cells[0].flattens_input

    def make_params(self, input_shape: Any) -> None:
        for i, cell in enumerate(self.cells):
            # in a stack without a name, parameters have the same names as in single cells
            label = i if self.name is not None else None
            input_shape = self.build_inner(cell, input_shape, label).output_shape
        self.state_shape = tuple(cell.state_shape for cell in self.cells)
        self.output_shape = input_shape

    def init_state(self, batch: Any) -> Any:
        return tuple(cell.init_state(batch) for cell in self.cells)

    def begin(self, batch: Any, **kwargs: Any) -> Any:
        other = copy.copy(self)
        other.cells = [cell.begin(batch, **kwargs) for cell in self.cells]
        return other

    def precompute(self, x: Any) -> Any:
        return self.cells[0].precompute(x)

    def recur(self, z: Any, state: Any) -> tuple[Any, Any]:
        x, first = self.cells[0].recur(z, state[0])
        states = [first]
        for cell, own in zip(self.cells[1:], state[1:], strict=True):
            x, new = cell.step(x, own)
            states.append(new)
        return x, tuple(states)


class Wrapper(Cell):
    """The base of cells with an inner cell. By default, a wrapper computes the same as its inner cell.

    Parameters
    ----------
    cell : Cell
    name : str, optional

    Examples
    --------
    A wrapper that halves the output:

    >>> import lasagne_like as lasagne
    >>> class Halved(lasagne.cells.Wrapper):
    ...     def step(self, x, state):
    ...         output, state = self.cell.step(x, state)
    ...         return output / 2, state
    >>> layer = lasagne.layers.RNNLayer((None, None, 3), Halved(lasagne.cells.GRU(5)))
    >>> layer.output_shape, len(layer.get_params())
    ((None, None, 5), 9)
    """

    def __init__(self, cell: Cell, name: str | None = None) -> None:
        super().__init__(name=name)
        if not isinstance(cell, Cell):
            raise TypeError(f"{type(self).__name__} takes a cell, got a {type(cell).__name__}: {cell!r}")
        self.cell = cell
        self.flattens_input = cell.flattens_input

    def make_params(self, input_shape: Any) -> None:
        self.build_inner(self.cell, input_shape)
        self.state_shape, self.output_shape = self.cell.state_shape, self.cell.output_shape

    def init_state(self, batch: Any) -> Any:
        return self.cell.init_state(batch)

    def begin(self, batch: Any, **kwargs: Any) -> Any:
        return self.with_cell(self.cell.begin(batch, **kwargs))

    def precompute(self, x: Any) -> Any:
        return self.cell.precompute(x)

    def recur(self, z: Any, state: Any) -> tuple[Any, Any]:
        return self.cell.recur(z, state)


def _check_shortcut(wrapper: Wrapper, does: str, input_shape: Any) -> None:
    """Raise an error if the output of a cell does not have the shape of its input. `does` is text for the message: it
    says how the wrapper combines them."""
    given = wrapper.cell.output_shape
    if given != input_shape:
        raise ValueError(
            f"{wrapper!r} {does} the output of {wrapper.cell!r}, but the shapes differ: {input_shape} and {given}"
        )


class ResidualWrapper(Wrapper):
    """Adds the input of a cell to its output.

    Parameters
    ----------
    cell : Cell
        Its output has the shape of its input.
    name : str, optional

    Examples
    --------
    >>> from lasagne_like.cells import GRU, ResidualWrapper
    >>> ResidualWrapper(GRU(3)).build(4)
    Traceback (most recent call last):
        ...
    ValueError: <ResidualWrapper> adds the input to the output of <GRU>, but the shapes differ: (4,) and (3,)
    """

    def make_params(self, input_shape: Any) -> None:
        super().make_params(input_shape)
        _check_shortcut(self, "adds the input to", input_shape)

    def precompute(self, x: Any) -> Any:
        return x, self.cell.precompute(x)

    def recur(self, z: Any, state: Any) -> tuple[Any, Any]:
        x, inner = z
        output, state = self.cell.recur(inner, state)
        return transform(lambda a, b: a + b, output, x), state


class HighwayWrapper(Wrapper):
    """A shortcut around a cell, with a gate: `y = C * x + (1 - C) * output`, where `C = sigmoid(x @ W + b)`.

    With `coupled=False`, the factor of the output is a second gate, `sigmoid(x @ W_transform + b_transform)`.

    Parameters
    ----------
    cell : Cell
        Its output has the shape of its input.
    W : initializer, array, shared variable or expression
        Of shape (num_inputs, num_inputs).
    b : initializer, array, shared variable or expression
        Of shape (num_inputs,). By default it starts at 1, so that `y` is mostly the input.
    coupled : bool
    W_transform, b_transform : initializer, array, shared variable or expression
        With `coupled=False`, the weights and the bias of the second gate. By default, the bias starts at -1.
    name : str, optional

    References
    ----------
    Srivastava, Greff and Schmidhuber, "Highway networks", 2015.

    Examples
    --------
    >>> from lasagne_like.cells import GRU, HighwayWrapper
    >>> [p.name for p in HighwayWrapper(GRU(3), name="highway").build(3).get_params()][-2:]
    ['highway.W', 'highway.b']
    """

    def __init__(
        self,
        cell: Cell,
        W: Parameter = init.GlorotUniform(),
        b: Parameter | None = init.Constant(1.0),
        coupled: bool = True,
        W_transform: Any = init.GlorotUniform(),
        b_transform: Any = init.Constant(-1.0),
        name: str | None = None,
    ) -> None:
        super().__init__(cell, name)
        self.coupled = coupled
        self.specs = {"W": W, "b": b, "W_transform": W_transform, "b_transform": b_transform}

    def make_params(self, input_shape: Any) -> None:
        n = features_of(self, input_shape)
        super().make_params(input_shape)
        _check_shortcut(self, "mixes the input with", input_shape)
        self.add_specified((), W=(n, n), b=(n,))
        if not self.coupled:
            self.add_specified((), W_transform=(n, n), b_transform=(n,))

    def precompute(self, x: Any) -> Any:
        carry = sj.sigmoid(x @ self.W + self.b)
        taken = 1 - carry if self.coupled else sj.sigmoid(x @ self.W_transform + self.b_transform)
        return x, carry, taken, self.cell.precompute(x)

    def recur(self, z: Any, state: Any) -> tuple[Any, Any]:
        x, carry, taken, inner = z
        output, state = self.cell.recur(inner, state)
        return carry * x + taken * output, state


class ResetWrapper(Wrapper):
    """Resets the state of a cell to its initial state, before the steps that a second input marks.

    The input is a pair: the input of the cell, and the marks, of shape (batch, 1). The state is reset where the mark is
    not 0. So a row can have several sequences, one after the other (see `lasagne_like.packing`).

    Parameters
    ----------
    cell : Cell
    name : str, optional

    Examples
    --------
    >>> import lasagne_like as lasagne
    >>> from lasagne_like.layers import InputLayer, RNNLayer
    >>> l_in, l_starts = InputLayer((None, None, 3)), InputLayer((None, None, 1))
    >>> RNNLayer([l_in, l_starts], lasagne.cells.ResetWrapper(lasagne.cells.LSTM(4))).output_shape
    (None, None, 4)
    """

    def __init__(self, cell: Cell, name: str | None = None) -> None:
        super().__init__(cell, name)
        self.flattens_input = False

    def make_params(self, input_shape: Any) -> None:
        if not isinstance(input_shape, tuple | list) or len(input_shape) != 2 or input_shape[1] != (1,):
            raise ValueError(
                f"{self!r} takes a pair: the input of {self.cell!r}, and marks of shape (batch, 1) that are not 0 "
                f"where the state is reset; got inputs of shape {input_shape}"
            )
        super().make_params(input_shape[0])

    def precompute(self, x: Any) -> Any:
        return self.cell.precompute(x[0]), sj.not_equal(x[1], 0)

    def recur(self, z: Any, state: Any) -> tuple[Any, Any]:
        inner, anew = z
        first = self.cell.init_state(anew.shape[0])

        def chosen(begin: Any, old: Any) -> Any:
            return sj.where(sj.reshape(anew, (anew.shape[0], *[1] * (old.ndim - 1))), begin, old)

        return self.cell.recur(inner, transform(chosen, first, state) if flatten(state) else state)

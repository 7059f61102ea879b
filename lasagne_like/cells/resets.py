"""A cell whose state is reset where another sequence starts in a row."""

from __future__ import annotations

from typing import Any

import scanjit as sj
from lasagne_like.cells.base import Cell
from lasagne_like.cells.structure import flatten, transform
from lasagne_like.cells.wrappers import Wrapper

__all__ = ["ResetWrapper"]


class ResetWrapper(Wrapper):
    """Resets the state of a cell to its initial state before the steps that a second input marks.

    The input is a pair: the input of the cell, and (batch, 1), which is not 0 where the state is reset. So a row can
    hold several sequences, one after the other: see `lasagne_like.packing`.

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
                f"{self!r} takes a pair: the input of {self.cell!r}, and (batch, 1) that says where to begin anew; got "
                f"inputs of shape {input_shape}"
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

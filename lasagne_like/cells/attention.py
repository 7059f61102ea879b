"""A cell with attention over its last outputs."""

import math
from typing import Any, NamedTuple

import scanjit as sj
from lasagne_like import init
from lasagne_like.cells.base import Cell, features_of
from lasagne_like.cells.structure import flatten
from lasagne_like.cells.wrappers import Wrapper
from lasagne_like.utils import Parameter

__all__ = ["AttentionCellWrapper", "AttentionState"]


class AttentionState(NamedTuple):
    """The state of an `AttentionCellWrapper`: the state of the cell, the result of the attention, and the last outputs,
    the earliest first.

    Examples
    --------
    >>> from lasagne_like.cells import GRU, AttentionCellWrapper
    >>> AttentionCellWrapper(GRU(5), length=3).build(4).state_shape
    AttentionState(cell=(5,), attended=(5,), window=(3, 5))
    """

    cell: Any
    attended: Any
    window: Any


class AttentionCellWrapper(Wrapper):
    """Attention over the last outputs of a cell.

    `H` is the window of the last outputs, `d_` the result of the attention at the step before, and `s` the state of the
    cell::

        y, s = cell([x, d_] @ W_in + b_in, s_)
        a = softmax(tanh(H @ W_window + s @ W_state + b_state) @ v)      (over the window)
        d = sum(a * H)
        output = [y, d] @ W_out + b_out

    Then the output is appended to the window, and the earliest output is removed from it.

    Parameters
    ----------
    cell : Cell
    length : int
        The number of outputs in the window.
    size : int, optional
        The number of features of the output and of d. By default, it is that of the cell's output.
    hidden_size : int, optional
        The number of columns of `W_window` and `W_state`. By default, it is `size`.
    input_size : int, optional
        The number of features that the cell reads. By default, it is that of the input.
    W, b : initializer
        For the weights `W_in`, `W_window`, `W_state` and `W_out`, and for the biases `b_in`, `b_state` and `b_out`.
    v : initializer, array, shared variable or expression
        Of shape (hidden_size,).
    name : str, optional

    References
    ----------
    Bahdanau, Cho and Bengio, "Neural machine translation by jointly learning to align and translate", 2015.

    Examples
    --------
    >>> import lasagne_like as lasagne
    >>> cell = lasagne.cells.AttentionCellWrapper(lasagne.cells.LSTM(5), length=3)
    >>> lasagne.layers.RNNLayer((None, None, 4), cell).output_shape
    (None, None, 5)
    """

    def __init__(
        self,
        cell: Cell,
        length: int,
        size: int | None = None,
        hidden_size: int | None = None,
        input_size: int | None = None,
        W: Parameter = init.GlorotUniform(),
        b: Parameter = init.Constant(0.0),
        v: Parameter = init.Uniform(0.5),
        name: str | None = None,
    ) -> None:
        super().__init__(cell, name)
        if length < 1:
            raise ValueError(f"length of AttentionCellWrapper must be 1 or more steps, got {length}")
        self.length, self.size, self.hidden_size, self.input_size = length, size, hidden_size, input_size
        self._specs = W, b, v

    def make_params(self, input_shape: Any) -> None:
        W, b, v = self._specs
        inputs = features_of(self, input_shape)
        reads = inputs if self.input_size is None else self.input_size
        self.build_inner(self.cell, (reads,))
        given = features_of(self.cell, self.cell.output_shape)
        size = given if self.size is None else self.size
        hidden = size if self.hidden_size is None else self.hidden_size
        states = sum(math.prod(shape) for shape in flatten(self.cell.state_shape))
        self.W_in = self.add_param(W, (inputs + size, reads), name="W_in")
        self.b_in = self.add_param(b, (reads,), name="b_in", regularizable=False)
        self.W_window = self.add_param(W, (size, hidden), name="W_window")
        self.W_state = self.add_param(W, (states, hidden), name="W_state")
        self.b_state = self.add_param(b, (hidden,), name="b_state", regularizable=False)
        self.v = self.add_param(v, (hidden,), name="v")
        self.W_out = self.add_param(W, (given + size, size), name="W_out")
        self.b_out = self.add_param(b, (size,), name="b_out", regularizable=False)
        self.state_shape = AttentionState(self.cell.state_shape, (size,), (self.length, size))
        self.output_shape = (size,)

    def init_state(self, batch: Any) -> Any:
        return Cell.init_state(self, batch)._replace(cell=self.cell.init_state(batch))

    def precompute(self, x: Any) -> Any:
        return x @ self.W_in[: self.input_shape[0]] + self.b_in

    def recur(self, z: Any, state: Any) -> tuple[Any, Any]:
        old = AttentionState(*state)
        y, new = self.cell.step(z + old.attended @ self.W_in[self.input_shape[0] :], old.cell)
        leaves = [leaf if leaf.ndim == 2 else sj.flatten(leaf, 2) for leaf in flatten(new)]
        query = sj.concatenate(leaves, axis=1) @ self.W_state + self.b_state
        scores = sj.sum(sj.tanh(old.window @ self.W_window + query[:, None, :]) * self.v, axis=2)
        attended = sj.sum(sj.softmax(scores, axis=1)[:, :, None] * old.window, axis=1)
        output = sj.concatenate([y, attended], axis=1) @ self.W_out + self.b_out
        window = sj.concatenate([old.window[:, 1:], output[:, None, :]], axis=1)
        return output, AttentionState(new, attended, window)

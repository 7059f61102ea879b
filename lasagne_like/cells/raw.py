"""A loop over a cell in which your own function computes each input and decides when a sequence ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import scanjit as sj
from lasagne_like.cells.base import Cell
from lasagne_like.cells.structure import flatten, matched, transform, unflatten

__all__ = ["raw_loop"]


def raw_loop(cell: Cell, function: Callable[..., Any], max_steps: Any, **kwargs: Any) -> tuple[Any, Any, Any]:
    """Run a cell on inputs that a function computes in each step, until all sequences have ended.

    The function is that of TensorFlow's `raw_rnn`: `function(time, output, state, carried)` returns `(finished, input,
    state, emitted, carried)`. Before the first step, it is called with time 0, and with None for the other arguments.
    After each step, it is called with the number of steps so far (an integer scalar), the output and the state of the
    cell, and the carried value.

    - `finished`, of shape (batch,), says which sequences have ended. From then on, their state does not change, and
      their emitted value is 0. The loop ends when all sequences have ended.
    - `input` is the next input of the cell.
    - `state` is the state for the next step. The first call returns the initial state. Later calls return the state
      that they get, or another one.
    - `emitted` is a row of the result: a tensor of shape (batch, ...), or a structure of tensors. The first call may
      return None. Then the row has the structure of the output of the cell.
    - `carried` is passed to the next call of the function. It may be None. It also changes for sequences that have
      ended.

    Parameters
    ----------
    cell : Cell
        A cell that has been built.
    function : callable
    max_steps : int or integer scalar
        The largest number of steps, 1 or more.
    **kwargs
        Keyword arguments of `cell.begin`, such as `deterministic=True`.

    Returns
    -------
    emitted : symbol of shape (steps, batch, ...), or a structure of symbols
        One row for each step of the loop.
    state : structure of symbols
        For each sequence, the state after its last step.
    carried : structure of symbols or None
        The carried value after the last step of the loop.

    Examples
    --------
    A cell that reads its own last output. Each sequence has its own number of steps:

    >>> import numpy as np
    >>> import scanjit as sj
    >>> from lasagne_like.cells import GRU, raw_loop
    >>> cell, start, most = GRU(3).build(3), sj.matrix("start"), sj.ivector("most")
    >>> def say(time, output, state, carried):
    ...     state = start if state is None else state
    ...     return time >= most, state, state, output, None
    >>> said, last, _ = raw_loop(cell, say, max_steps=10)
    >>> f = sj.function([start, most], [said, last], mode="reference")
    >>> found, state = f(np.ones((2, 3)), np.array([2, 4], "int32"))
    >>> found.shape, bool((found[2:, 0] == 0).all()), bool((found[1, 0] == state[0]).all())
    ((4, 2, 3), True, True)
    """
    if cell.input_shape is None:
        raise ValueError(f"{cell!r} has no parameters yet: call cell.build(input_shape) first")
    if isinstance(max_steps, int) and max_steps < 1:
        raise ValueError(f"max_steps must be 1 or more, got {max_steps}")
    ended, x, state, like, carried = function(sj.constant(0, "int64"), None, None, None)
    ended = sj.as_tensor(ended)
    batch = flatten(x)[0].shape[0]
    matched(cell.input_shape, x, "input that the function chose")
    matched(cell.state_shape, state, "state that the function gave before the first step")
    now = cell.begin(batch, **kwargs)
    like = cell.output_shape if like is None else like
    emitted_at = len(flatten(like))
    sizes = [len(flatten(part)) for part in (x, state, carried)]

    def step(time: Any, over: Any, *leaves: Any) -> Any:
        parts, at = [], 0
        for part, size in zip((x, state, carried), sizes, strict=True):
            parts.append(unflatten(part, leaves[at : at + size]))
            at += size
        output, new = now.step(parts[0], parts[1])
        finished, following, new, emitted, extra = function(time + 1, output, unflatten(state, flatten(new)), parts[2])
        states = matched(state, new, "state that the function gave")
        states = [_kept(over, old, leaf) for old, leaf in zip(flatten(parts[1]), states, strict=True)]
        out = [_kept(over, sj.zeros_like(leaf), leaf) for leaf in matched(like, emitted, "emitted value")]
        following = matched(x, following, "input that the function chose")
        over = sj.logical_or(over, finished)
        carry = [time + 1, over, *following, *states, *matched(carried, extra, "carried value")]
        return [*out, *carry], sj.until(sj.all(over))

    start = [sj.constant(0, "int64"), ended, *map(sj.as_tensor, [*flatten(x), *flatten(state), *flatten(carried)])]
    results = sj.scan(
        step,
        outputs_info=[*[None] * emitted_at, *start],
        n_steps=max_steps,
        name=cell.name or type(cell).__name__,
        return_list=True,
    )
    # a loop makes at least one step: if all sequences ended before it, its results are not used
    none = sj.all(ended)
    emitted = [rows[: sj.where(none, 0, rows.shape[0])] for rows in results[:emitted_at]]
    leaves = [rows[-1] for rows in results[emitted_at + 2 + sizes[0] :]]
    last, extra = leaves[: sizes[1]], leaves[sizes[1] :]
    extra = [sj.where(none, old, leaf) for old, leaf in zip(flatten(carried), extra, strict=True)]
    return unflatten(like, emitted), unflatten(state, last), unflatten(carried, extra)


def _kept(over: Any, old: Any, new: Any) -> Any:
    """The old values for the sequences that have ended, and the new values for the others."""
    return transform(lambda a, b: sj.where(over.dimshuffle(0, *["x"] * (b.ndim - 1)), a, b), old, new)

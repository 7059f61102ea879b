"""The loop over a cell: masks, directions, truncated gradients, unrolling. All recurrent layers use it."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

import scanjit as sj
from lasagne_like.cells.base import Cell
from lasagne_like.cells.structure import flatten, matched, transform, unflatten
from lasagne_like.cells.wrappers import StackedCells

__all__ = ["unfold"]


def unfold(
    cell: Cell,
    x: Any,
    state: Any = None,
    mask: Any = None,
    *,
    backwards: bool = False,
    gradient_steps: int = -1,
    unroll: bool = False,
    precompute: bool = True,
    zero_output_for_mask: bool = False,
    checkpoint: int | Literal["sqrt", "all"] | None = None,
    output_before: Any = None,
    fuse: bool = False,
    **kwargs: Any,
) -> tuple[Any, Any]:
    """Run a cell over sequences.

    Parameters
    ----------
    cell : Cell
        It must have been built.
    x : symbol of shape (time, batch, ...), or a structure of them
    state : as `cell.init_state` gives it, optional
        The state before the first step.
    mask : symbol of shape (time, batch) or (time, 1), optional
        Where it is 0, the state and the output stay as they were. Before the first step that counts, the output is the
        initial state, if it is a part of the state; else it is `output_before`.
    backwards : bool
        Go from the last step to the first. Outputs are in the order of time all the same.
    gradient_steps : int
        Back-propagate through the last so many steps only; -1: all.
    unroll : bool
        No loop, but all steps in a row. The shape of `x` must know how many: `scanjit.specify_shape` tells it.
    precompute : bool
        Whether `cell.precompute` is called for all of time before the loop, rather than in each step. The results are
        the same, to rounding.
    zero_output_for_mask : bool
        The output is 0 where the mask is 0.
    checkpoint : None, "sqrt", "all" or int
        See `scanjit.scan`.
    output_before : symbol of shape (batch, ...), or the structure that the cell gives, optional
        The output of the step before the first one, in a sequence that is run in pieces. 0 if not given.
    fuse : bool
        Of `StackedCells`: one loop for all of them. By default each has its own, one after the other.
    **kwargs
        For `cell.begin`, such as `deterministic=True`.

    Returns
    -------
    outputs : symbol of shape (time, batch, ...), or the structure that the cell gives
    state : the state after the last step

    Examples
    --------
    >>> import scanjit as sj
    >>> from lasagne_like.cells import GRU, unfold
    >>> outputs, state = unfold(GRU(5).build(3), sj.tensor(("T", "B", 3)))
    >>> outputs.type, state.type
    (float64(T, B, 5), float64(B, 5))
    """
    if cell.input_shape is None:
        raise ValueError(f"{cell!r} has no parameters yet: call cell.build(input_shape) first")
    length, batch = flatten(x)[0].shape[:2]
    if mask is not None:
        mask = sj.not_equal(sj.broadcast_to(mask, (length, batch)), 0)
    state = _as_wide(cell.init_state(batch) if state is None else state, x)
    before = output_before
    if before is not None:
        before = matched(cell.output_shape, before, "output before the first step")

    def run(cell: Cell, x: Any, state: Any, before: Any) -> tuple[Any, Any]:
        if type(cell) is StackedCells and not fuse:  # so each cell can precompute for all steps at once
            states = []
            for one, own in zip(cell.cells, state, strict=True):
                # at masked steps only the output of the last cell matters: those of the others feed masked steps
                x, final = run(one, x, own, before if one is cell.cells[-1] else None)
                states.append(final)
            return x, tuple(states)
        step = _Step(cell, x, state, mask, precompute, zero_output_for_mask, before)
        results: Any = sj.scan(
            step,
            sequences=step.sequences,
            outputs_info=[*[None] * step.num_fresh, *step.held, *flatten(state)],
            n_steps=length,
            truncate_gradient=gradient_steps,
            go_backwards=backwards,
            unroll=unroll,
            checkpoint=checkpoint,
            name=cell.name or type(cell).__name__,
            return_list=True,
        )
        return step.read(results, backwards)

    return run(cell.begin(batch, **kwargs), x, state, before)


def _as_wide(state: Any, x: Any) -> Any:
    """A state in the dtypes that it has after a step. If `x` has a float64, all floats of the state become float64."""
    wide = [leaf.dtype for leaf in flatten(x) if leaf.type.kind.floating]
    cast = lambda leaf: sj.cast(leaf, np.result_type(leaf.dtype, *wide)) if leaf.type.kind.floating else leaf
    return transform(cast, state)


class _Step:
    """The step for `scan`: it takes and gives leaves of structures, and applies the mask. `read` takes the results
    apart.

    Where the mask is 0, an output stays as it was. If it is a part of the state, as in most cells, it is read from the
    masked state. Else it is carried from step to step by itself. To find out, one step is computed and looked at.
    """

    def __init__(self, cell: Cell, x: Any, state: Any, mask: Any, precompute: bool, zero: bool, before: Any) -> None:
        self.function = cell.recur if precompute else cell.step
        self.x, self.state, self.output = cell.precompute(x) if precompute else x, state, cell.output_shape
        self.masked = mask is not None
        self.sequences = [*flatten(self.x), *([mask] if self.masked else [])]
        count = len(flatten(self.output))
        self.held: list[Any] = []
        """The initial values of outputs that are carried along."""
        self.places: list[int | None] = [None] * count
        """For each output, its place in the state; None if it is no part of the state, or if that does not matter."""
        self.num_fresh = count
        if self.masked and not zero:
            leaves, states = self._step(transform(lambda rows: rows[0], self.x), state)
            self.places = [next((i for i, part in enumerate(states) if part is leaf), None) for leaf in leaves]
            held = [sj.zeros(leaf.shape, leaf.dtype) for leaf in leaves] if before is None else before
            self.held = [leaf for leaf, place in zip(held, self.places, strict=True) if place is None]
            self.num_fresh = 0

    def _step(self, x: Any, state: Any) -> tuple[list[Any], list[Any]]:
        """The leaves of the output and of the new state of one step."""
        output, new = self.function(x, state)
        return matched(self.output, output, "output of a step"), matched(self.state, new, "state that a step returns")

    def __call__(self, *args: Any) -> list[Any]:
        rows, carried = list(args[: len(self.sequences)]), args[len(self.sequences) :]
        mask = rows.pop() if self.masked else None
        held, old = carried[: len(self.held)], carried[len(self.held) :]
        leaves, states = self._step(unflatten(self.x, rows), unflatten(self.state, old))
        if mask is None:
            return [*leaves, *states]
        states = [_chosen(mask, now, before) for now, before in zip(states, old, strict=True)]
        if self.num_fresh:
            return [*(_chosen(mask, leaf, sj.zeros_like(leaf)) for leaf in leaves), *states]
        outside = [leaf for leaf, place in zip(leaves, self.places, strict=True) if place is None]
        return [*(_chosen(mask, now, before) for now, before in zip(outside, held, strict=True)), *states]

    def read(self, results: list[Any], backwards: bool) -> tuple[Any, Any]:
        """The outputs, in the order of time, and the last state, from the results of the scan."""
        own = len(self.held) + self.num_fresh
        states, remaining = results[own:], iter(results[:own])
        outputs = [next(remaining) if place is None else states[place] for place in self.places]
        if backwards:
            outputs = [rows[::-1] for rows in outputs]
        return unflatten(self.output, outputs), unflatten(self.state, [rows[-1] for rows in states])


def _chosen(mask: Any, now: Any, before: Any) -> Any:
    """One value where a mask of the batch holds, another one elsewhere."""
    return sj.where(mask.dimshuffle(0, *["x"] * (now.ndim - 1)), now, before)

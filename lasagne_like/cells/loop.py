"""The loop over a cell, with masks, both directions, truncated gradients and unrolling. All recurrent layers use it."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

import scanjit as sj
from lasagne_like.cells.base import Cell
from lasagne_like.cells.structure import flatten, matched, transform, unflatten
from lasagne_like.cells.wrappers import StackedCells
from lasagne_like.utils import int_types

__all__ = ["unfold"]


def check_gradient_steps(steps: Any, owner: Any) -> None:
    """Raise an error if `gradient_steps` is no number of steps."""
    if isinstance(steps, bool) or not isinstance(steps, int_types) or int(steps) < -1:
        raise ValueError(f"gradient_steps of {owner} must be -1 (all steps) or an int from 0 on, got {steps!r}")


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
    return_last: bool = False,
    **kwargs: Any,
) -> Any:
    """Run a cell over sequences.

    Parameters
    ----------
    cell : Cell
        A cell that has been built.
    x : symbol of shape (time, batch, ...), or a structure of symbols
    state : structure of symbols, optional
        The state before the first step. By default, it is `cell.init_state(batch)`.
    mask : symbol of shape (time, batch) or (time, 1), optional
        Steps where it is 0 are skipped: state and output do not change. If the first steps are skipped, their output is
        that part of the initial state that the cell returns as output, or `output_before` if the cell returns no part
        of its state.
    backwards : bool
        Whether the loop runs from the last step to the first. The outputs are still in the order of time.
    gradient_steps : int
        The number of steps, counted from the last, through which gradients are propagated. -1 is all of them.
    unroll : bool
        Whether each step is written out, without a loop. The first size of `x` must be an int; `scanjit.specify_shape`
        makes it one.
    precompute : bool
        Whether `cell.precompute` is called once for all steps, before the loop, instead of in each step. The results
        are the same, but for rounding.
    zero_output_for_mask : bool
        Whether the output is 0 at the steps that are skipped.
    checkpoint : None, "sqrt", "all" or int
        See `scanjit.scan`.
    output_before : symbol of shape (batch, ...), or a structure of symbols, optional
        The output of the step before the first one, for a sequence that is run in pieces. By default, it is 0.
    fuse : bool
        Whether all cells of `StackedCells` run in one loop. By default, each cell has its own loop.
    return_last : bool
        Whether `last` is returned, too.
    **kwargs
        Keyword arguments of `cell.begin`, such as `deterministic=True`.

    Returns
    -------
    outputs : symbol of shape (time, batch, ...), or a structure of symbols
    state : structure of symbols
        The state after the last step. Of no steps, it is the state before the first.
    last : symbol of shape (batch, ...), or a structure of symbols
        The output of the last step. Of no steps, it is that part of the state that the cell returns as output. (If the
        cell returns no part of its state, there must be a step, unless there is a mask.)

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
    check_gradient_steps(gradient_steps, cell)
    length, batch = flatten(x)[0].shape[:2]
    if mask is not None:
        mask = sj.not_equal(sj.broadcast_to(mask, (length, batch)), 0)
    begun = cell.begin(batch, **kwargs)
    state = _as_wide(begun, x, cell.init_state(batch) if state is None else state)
    before = output_before
    if before is not None:
        before = matched(cell.output_shape, before, "output before the first step")

    def run(cell: Cell, x: Any, state: Any, before: Any) -> tuple[Any, Any, Any]:
        if type(cell) is StackedCells and not fuse:  # so each cell can precompute for all steps at once
            states, last = [], None
            for one, own in zip(cell.cells, state, strict=True):
                # a step is skipped by all cells, so only the output of the last cell matters there
                x, final, last = run(one, x, own, before if one is cell.cells[-1] else None)
                states.append(final)
            return x, tuple(states), last
        step = _Step(cell, x, state, mask, precompute, zero_output_for_mask, before)
        found: Any = sj.scan(
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
            return_last=True,
        )
        rows, last = found
        return step.read(rows, last, backwards, return_last)

    found = run(begun, x, state, before)
    return found if return_last else found[:2]


def _as_wide(cell: Cell, x: Any, state: Any) -> Any:
    """A state with the dtypes that it has after a step: if `x` has a float64, all floats of the state become float64.
    So they do if it has an int64 that the cell computes with; but if it looks up a row, this row counts."""
    given = flatten(x)
    if not all(leaf.type.kind.floating for leaf in given):
        given = flatten(cell.step(transform(_first, x), state)[1])
    wide = [leaf.dtype for leaf in given if leaf.type.kind.floating]
    cast = lambda leaf: sj.cast(leaf, np.result_type(leaf.dtype, *wide)) if leaf.type.kind.floating else leaf
    return transform(cast, state)


def _first(rows: Any) -> Any:
    """The first row of a sequence. Of no rows, a row of zeros."""
    return sj.zeros(rows.shape[1:], rows.dtype) if rows.type.shape[0] == 0 else rows[0]


class _Step:
    """The step function of the scan. Its arguments and results are the leaves of structures, and it applies the mask.

    An output does not change at the steps that are skipped. In most cells an output is a part of the new state. Then it
    is read from the masked state. Any other output is a carry of its own. The class computes one step to find out which
    outputs are parts of the state.
    """

    def __init__(self, cell: Cell, x: Any, state: Any, mask: Any, precompute: bool, zero: bool, before: Any) -> None:
        self.function = cell.recur if precompute else cell.step
        self.x, self.state, self.output = cell.precompute(x) if precompute else x, state, cell.output_shape
        self.masked, self.zero = mask is not None, zero
        self.sequences = [*flatten(self.x), *([mask] if self.masked else [])]
        count = len(flatten(self.output))
        self.held: list[Any] = []
        """The initial values of the outputs that are carries."""
        self.places: list[int | None] = [None] * count
        """For each output, its position in the state. None if it is no part of the state, or if there is no mask."""
        self.num_fresh = count
        self.last_places: list[int | None] = [None] * count
        """The same for the output of the last step. It is in the state if there is no mask, too."""
        if self.masked:
            leaves, states = self._step(transform(_first, self.x), state)
            found = _places(leaves, states)
            held = [sj.zeros(leaf.shape, leaf.dtype) for leaf in leaves] if before is None else before
            if zero:  # the output of a step may be 0, so it is no part of the state; that of no steps is
                begin = flatten(state)
                held = [one if at is None else begin[at] for one, at in zip(held, found, strict=True)]
            else:
                self.places = found
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
            self.last_places = _places(leaves, states)
            return [*leaves, *states]
        states = [_chosen(mask, now, before) for now, before in zip(states, old, strict=True)]
        outside = [leaf for leaf, place in zip(leaves, self.places, strict=True) if place is None]
        before = map(sj.zeros_like, held) if self.zero else held
        return [*(_chosen(mask, now, old) for now, old in zip(outside, before, strict=True)), *states]

    def read(self, rows: list[Any], last: list[Any], backwards: bool, return_last: bool) -> tuple[Any, Any, Any]:
        """The outputs in the order of time, the last state, and the last output if it is asked for, from the results of
        the scan."""
        own = len(self.held) + self.num_fresh
        remaining = iter(range(own))
        at = [next(remaining) if place is None else own + place for place in self.places]
        outputs = [rows[i][::-1] if backwards else rows[i] for i in at]
        ends = [i if place is None else own + place for i, place in zip(at, self.last_places, strict=True)]
        final = [rows[i][-1] if last[i] is None else last[i] for i in ends] if return_last else None
        return (
            unflatten(self.output, outputs),
            unflatten(self.state, last[own:]),
            None if final is None else unflatten(self.output, final),
        )


def _places(leaves: list[Any], states: list[Any]) -> list[int | None]:
    """For each leaf, its position among the states. None if it is none of them."""
    return [next((i for i, part in enumerate(states) if part is leaf), None) for leaf in leaves]


def _chosen(mask: Any, now: Any, before: Any) -> Any:
    """`now` for the sequences whose mask is not 0, `before` for the others."""
    return sj.where(mask.dimshuffle(0, *["x"] * (now.ndim - 1)), now, before)

"""Observers of the reference interpreter. They see each value when it is computed, and each step of a loop."""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from scanjit.ir import Node
from scanjit.ops.roles import Roles
from scanjit.ops.scan import SCAN

_SHORT = 60
"""Arrays of more elements are shown by their size and range."""


class Moment(NamedTuple):
    """The position of a run inside an op with a graph of its own: the step of a loop (from 0; -1 if it is not known),
    and the row."""

    owner: Node
    number: int
    row: int


At = tuple[Moment, ...]
"""Where a run is: one moment for each loop or branch around, the outermost first."""


class Watch(ABC):
    """The base of observers. Its own methods do nothing."""

    def given(self, node: Node, value: np.ndarray) -> None:
        """Called at the beginning, with the value of each input and shared variable."""

    def computed(self, node: Node, operands: Sequence[Any], value: Any, at: At) -> None:
        """Called when a node has been computed, after all nodes in its inner graphs. An op with several results gives a
        tuple."""

    def stepped(self, step: Step) -> None:
        """Called after each step of a loop."""


@dataclass(frozen=True, eq=False, repr=False)
class Step:
    """A step of a loop that has just been done; what `on_step` of `function` is called with.

    Attributes
    ----------
    scan : the name of the loop, or "scan".
    where : `file:line` of the user's code that made it.
    number : which step it is, from 0; of the loops around it, the outermost first, see `outer`.
    row : the row of the sequences: another number than the step's where they are read from the end.
    outer : the numbers of the steps of the loops around this one.
    rows, carries, constants : what the step was called with, as lists of arrays: a row of each sequence (a tap is a
        sequence of its own), the values from the step before (of several taps the earlier rows too), the rest.
    new_carries : the carries after the step.
    outputs : what the step adds to the stacked results.
    stop : whether its condition ends the loop; None for a loop without `until`.
    """

    scan: str
    where: str
    number: int
    row: int
    outer: tuple[int, ...]
    rows: list[np.ndarray]
    carries: list[np.ndarray]
    constants: list[np.ndarray]
    new_carries: list[np.ndarray]
    outputs: list[np.ndarray]
    stop: bool | None

    def __repr__(self) -> str:
        inside = "".join(f", in step {number} of the loop around" for number in reversed(self.outer))
        lines = [f"step {self.number} of {self.scan}{inside} ({self.where})"]
        lines += [f"  row {i}: {_shown(value)}" for i, value in enumerate(self.rows)]
        pairs = zip(self.carries, self.new_carries, strict=True)
        lines += [f"  carry {i}: {_shown(old)} -> {_shown(new)}" for i, (old, new) in enumerate(pairs)]
        lines += [f"  constant {i}: {_shown(value)}" for i, value in enumerate(self.constants)]
        lines += [f"  output {i}: {_shown(value)}" for i, value in enumerate(self.outputs)]
        lines += ["  the last step, by its condition"] if self.stop else []
        return "\n".join(lines)


class OnStep(Watch):
    """Calls a function after each step."""

    def __init__(self, call: Callable[[Step], Any]) -> None:
        self.call = call

    def stepped(self, step: Step) -> None:
        self.call(step)


def step_of(node: Node, before: Sequence[np.ndarray], after: Sequence[Any], at: At) -> Step:
    """The step of a scan as a `Step`. `at` says where the run is; its last moment is that of this scan."""
    roles, moment = Roles.of(node), at[-1]
    carries, rows, constants = roles.split(before)
    new, outputs, stop = roles.split_results(after)
    return Step(
        scan=node.params["name"] or "scan",
        where=node.where,
        number=moment.number,
        row=moment.row,
        outer=tuple(outer.number for outer in at[:-1] if outer.owner.op is SCAN),
        rows=_arrays(rows),
        carries=_arrays(carries),
        constants=_arrays(constants),
        new_carries=_arrays(new),
        outputs=_arrays(outputs),
        stop=None if stop is None else bool(stop),
    )


def _arrays(values: Sequence[Any]) -> list[np.ndarray]:
    return [np.asarray(value) for value in values]


def described(at: At) -> str:
    """The position of a run as the end of a sentence, the innermost step first: ", in step 3 of scan 'rnn'". "" outside
    of all loops."""
    return "".join(f", in {_step(m)} of {_title(m.owner)}" for m in reversed(at) if m.owner.op is SCAN)


def _step(moment: Moment) -> str:
    return "a step" if moment.number < 0 else f"step {moment.number}"


def _title(node: Node) -> str:
    return f"scan {node.params['name']!r}" if node.params.get("name") else f"the scan at {node.where}"


def _shown(value: np.ndarray) -> str:
    """An array in one line."""
    if value.size > _SHORT:
        return f"{value.dtype}{value.shape} from {value.min()} to {value.max()}"
    return np.array2string(value, max_line_width=10_000, separator=", ").replace("\n", "")

"""Loops over statements: over the steps of a scan, and over blocks of steps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from scanjit import types
from scanjit.records import record
from scanjit.schedule.nests.buffers import Buffer, Ref
from scanjit.schedule.nests.plan import Plan
from scanjit.schedule.nests.statement import Counters, Reference, Statement, at
from scanjit.types import Dimension


@dataclass(frozen=True)
class OwnRows:
    """Rows (the sequences of a batch, say) of which each thread may compute its own through all steps of a loop.

    There are `size` rows, and pieces of `unit` rows stay together. `apart` is a number that is decided for each call: 1
    if each thread computes its own rows, 0 if all threads share every step. `copies` is decided too: how many threads
    need memory of their own at most.
    """

    size: Dimension
    unit: int
    apart: Dimension
    copies: Dimension = 1


@record
class TimeLoop(Statement):
    """Run `suite` `length` times. `step` counts from `start`; `row` is the row read and written (of `total`; from the
    last to the first if `reverse`).

    With `stop` (an int64 in memory) the loop may end early: a step writes `step + 1` there if it is to be the last one,
    else 0. So a thread that is late, and looks when others have come to later steps, goes on as they did. `count`
    (int64) receives the number of steps that ran, which `ran` stands for from then on. `persistent` buffers hand
    something from step to step, or hold what the first step begins with. `plan` says where the carries and outputs of
    the scan lie, if all of its steps run.
    """

    length: Dimension
    step: Dimension
    row: Dimension
    suite: tuple[Statement, ...]
    total: Dimension
    start: Dimension = 0
    reverse: bool = False
    stop: Ref | None = None
    count: Ref | None = None
    ran: Dimension = 0
    unroll: int = 1
    label: str = ""
    own_rows: OwnRows | None = None
    persistent: tuple[Buffer, ...] = ()
    plan: Plan | None = None
    suite_names: ClassVar[tuple[str, ...]] = ("suite",)

    @property
    def title(self) -> str:
        """Its label."""
        return self.label

    @property
    def counters(self) -> tuple[Dimension, ...]:
        """Its step, its row, and how many steps ran."""
        return self.step, self.row, self.ran

    @property
    def dims(self) -> tuple[Dimension, ...]:
        """Its length, where it starts, how many rows there are in all, and how many rows threads may keep."""
        return self.length, self.start, self.total, 0 if self.own_rows is None else self.own_rows.size

    def refs(self) -> Iterator[Reference]:
        """How many steps ran, and whether to stop."""
        if self.count is not None:
            yield self.count.buffer, self.count.offset, True
        if self.stop is not None:
            yield self.stop.buffer, self.stop.offset, False

    @property
    def ends_early(self) -> bool:
        """Whether a step may be the last, or some loop in it ends early."""
        return self.count is not None or super().ends_early

    @property
    def repeats(self) -> bool:
        """Yes: a step is run many times."""
        return True

    @property
    def lasting(self) -> set[Buffer]:
        """The buffers that steps hand on to later steps. Threads that keep rows may be at different steps: then these
        are all buffers that a step touches."""
        own = {buffer for buffer, _, _ in self.refs()} | set(self.persistent)
        return own if self.own_rows is None else own | {buffer for buffer, _, _ in self.all_refs()}

    @property
    def in_steps(self) -> bool:
        """Yes: threads meet in every step."""
        return True

    @property
    def samples(self) -> list[tuple[Counters, Dimension]]:
        """The first step, for all of them: a loop that may end early counts with all its steps."""
        return [(at(self.step, 0) | at(self.row, 0) | at(self.ran, 0), self.length)]


@record
class Blocks(Statement):
    """Run `suite` for stretches of at most `size` of `total` steps: from `first` on, `count` of them; the last stretch
    first if `backwards`.

    With `own_rows`, stretches never meet: each thread may run stretches of its own. A thread then has a copy of each
    buffer in `private`, and `copy` is the number of this copy.
    """

    total: Dimension
    size: Dimension
    first: Dimension
    count: Dimension
    suite: tuple[Statement, ...]
    backwards: bool = False
    own_rows: OwnRows | None = None
    copy: Dimension = 0
    private: tuple[Buffer, ...] = ()
    suite_names: ClassVar[tuple[str, ...]] = ("suite",)

    @property
    def title(self) -> str:
        """That of the first loop in it."""
        return next((statement.title for statement in self.suite if statement.in_steps), "")

    @property
    def counters(self) -> tuple[Dimension, ...]:
        """The first step of a block, how many it has, and the number of the thread's copy of private buffers."""
        return self.first, self.count, self.copy

    @property
    def dims(self) -> tuple[Dimension, ...]:
        """How many steps there are, and how many a block has."""
        return self.total, self.size

    @property
    def repeats(self) -> bool:
        """Yes: a block is run many times."""
        return True

    @property
    def lasting(self) -> set[Buffer]:
        """All that it touches, where threads may be at different blocks."""
        return set() if self.own_rows is None else {buffer for buffer, _, _ in self.all_refs()}

    @property
    def samples(self) -> list[tuple[Counters, Dimension]]:
        """Each of the first block and the last two, as if all were like it: the first and the last may leave out
        statements. Every one counts as a whole block."""
        blocks = -(-self.total // self.size)
        some = dict.fromkeys((0, types.maximum(blocks - 2, 0), types.maximum(blocks - 1, 0)))
        steps = at(self.count, types.minimum(self.total, self.size))
        return [(at(self.first, number * self.size) | steps, blocks) for number in some]

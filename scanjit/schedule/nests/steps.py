"""Loops over statements: over the steps of a scan (`TimeLoop`), and over blocks of steps (`Blocks`). And statements of
which each thread may compute its own rows (`RowsApart`)."""

from collections.abc import Iterator
from functools import cached_property
from typing import ClassVar

from scanjit import types
from scanjit.records import record
from scanjit.schedule.nests.buffers import Buffer, Ref
from scanjit.schedule.nests.plan import Plan
from scanjit.schedule.nests.statement import Counters, Reference, Statement, at
from scanjit.types import Dimension


@record(eq=True)
class OwnRows:
    """Rows (the sequences of a batch, say) of which each thread may compute its own through all steps of a loop.

    There are `size` rows, and `unit` rows stay together. Two numbers are decided in each call. `apart` is 1 if each
    thread computes its own rows, 0 if all threads share every step. `copies` is how many threads, at most, need memory
    of their own.
    """

    size: Dimension
    unit: int
    apart: Dimension
    copies: Dimension = 1

    @cached_property
    def pieces(self) -> Dimension:
        """How many pieces of `unit` rows there are."""
        return (self.size + (self.unit - 1)) // self.unit

    @cached_property
    def several(self) -> Dimension:
        """1 in calls in which several threads keep rows, 0 in others: a thread that has all rows has those of all times
        side by side."""
        return self.apart * types.minimum(self.pieces // 2, 1)


@record
class TimeLoop(Statement):
    """Run `suite` `length` times.

    Attributes
    ----------
    step : counts the steps, from `start` on.
    row : the row of the sequences that a step reads and writes, of `total` rows; `reverse` goes from the last row to
        the first.
    stop : an int64 in memory, if the loop may end early. The last step writes `step + 1` there, all others 0. A thread
        that is late, and looks when others have come to later steps, still finds whether its own step was the last.
    count : an int64 in memory that gets the number of steps that ran. `ran` is its value after the loop.
    unroll : how many copies of a step are written one after the other.
    persistent : buffers that pass something from step to step, or into the first step.
    plan : where the carries and outputs of a scan lie, if these are all of its steps.
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
    title: str = ""
    persistent: tuple[Buffer, ...] = ()
    plan: Plan | None = None
    suite_names: ClassVar[tuple[str, ...]] = ("suite",)
    repeats: ClassVar[bool] = True

    @property
    def counters(self) -> tuple[Dimension, ...]:
        """The step, the row, and the number of steps that ran."""
        return self.step, self.row, self.ran

    @property
    def dims(self) -> tuple[Dimension, ...]:
        """The number of steps, the first step, and the number of rows."""
        return self.length, self.start, self.total

    def refs(self) -> Iterator[Reference]:
        """The places of `count` and `stop`."""
        if self.count is not None:
            yield self.count.buffer, self.count.offset, True
        if self.stop is not None:
            yield self.stop.buffer, self.stop.offset, False

    @property
    def ends_early(self) -> bool:
        """Whether it may stop early, or some loop in it may."""
        return self.count is not None or super().ends_early

    @property
    def lasting(self) -> set[Buffer]:
        """The buffers that steps hand on to later steps."""
        return {buffer for buffer, _, _ in self.refs()} | set(self.persistent)

    @property
    def in_steps(self) -> bool:
        """Yes: threads meet in every step."""
        return True

    @property
    def samples(self) -> list[tuple[Counters, Dimension]]:
        """The first step stands for all. A loop that may end early counts with all of its steps."""
        return [(at(self.step, 0) | at(self.row, 0) | at(self.ran, 0), self.length)]


@record
class RowsApart(Statement):
    """Statements of which each thread may compute its own rows: one loop over time, and nests before and after it. A
    thread then meets no other one between them.

    In a nest before or after the loop, the rows may come several times: those of one step, then those of the next. A
    thread has its own copy of each buffer in `private`; `copy` is the number of this copy. (If rows of two threads lie
    side by side, their cores take lines of the cache from each other: processors fetch what lies behind a row.)
    """

    suite: tuple[Statement, ...]
    own_rows: OwnRows
    copy: Dimension = 0
    private: tuple[Buffer, ...] = ()
    suite_names: ClassVar[tuple[str, ...]] = ("suite",)

    @property
    def loop(self) -> TimeLoop:
        """The loop over time."""
        return next(statement for statement in self.suite if isinstance(statement, TimeLoop))

    @property
    def title(self) -> str:
        """The title of the loop."""
        return self.loop.title

    @property
    def counters(self) -> tuple[Dimension, ...]:
        """The number of the thread's copy of private buffers."""
        return (self.copy,)

    @property
    def dims(self) -> tuple[Dimension, ...]:
        """The number of rows."""
        return (self.own_rows.size,)

    @property
    def lasting(self) -> set[Buffer]:
        """All buffers: the threads may be at different statements and steps."""
        return {buffer for buffer, _ in self.touched}


@record(eq=True)
class Turn:
    """The blocks that a loop over blocks runs in a turn: `blocks` of them, from block `number * blocks` on."""

    number: Dimension
    blocks: Dimension


@record
class Blocks(Statement):
    """Run `suite` for each stretch of `total` steps. A stretch has `count` steps, from step `first` on: `size` of them,
    the last stretch what is left. `backwards` begins with the last stretch.

    With `own_rows`, stretches do not depend on each other, and each thread may run stretches of its own. A thread then
    has its own copy of each buffer in `private`; `copy` is the number of this copy.

    With `turn`, the loop runs only some of its blocks each time (see `Wave`). If the stretches are `fixed`, other loops
    rely on where each of them begins.
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
    turn: Turn | None = None
    fixed: bool = False
    suite_names: ClassVar[tuple[str, ...]] = ("suite",)
    repeats: ClassVar[bool] = True

    @property
    def title(self) -> str:
        """The title of the first loop in it."""
        return next((statement.title for statement in self.suite if statement.in_steps), "")

    @property
    def counters(self) -> tuple[Dimension, ...]:
        """The first step of a block, how many it has, and the number of the thread's copy of private buffers."""
        return self.first, self.count, self.copy

    @property
    def dims(self) -> tuple[Dimension, ...]:
        """How many steps there are, how many a stretch has, and which stretches run."""
        some = () if self.turn is None else (self.turn.number, self.turn.blocks)
        return self.total, self.size, *some

    @property
    def lasting(self) -> set[Buffer]:
        """All buffers of the loop, if threads may be at different stretches."""
        return set() if self.own_rows is None else {buffer for buffer, _ in self.touched}

    @property
    def samples(self) -> list[tuple[Counters, Dimension]]:
        """The first block and the last two, each of which stands for all blocks. The first and the last may leave out
        statements. Every block counts as one of mean length."""
        blocks = -(-self.total // self.size)
        some = dict.fromkeys((0, types.maximum(blocks - 2, 0), types.maximum(blocks - 1, 0)))
        steps = at(self.count, -(-self.total // types.maximum(blocks, 1)))
        return [(at(self.first, number * self.size) | steps, blocks) for number in some]

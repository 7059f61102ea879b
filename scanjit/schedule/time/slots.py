"""Slots: memory for a few turns of a wave, for what one of its loops makes and the others read.

A stack of two layers runs in a wave. Layer 2 reads the rows of `h` that layer 1 has made one turn before:

    turn   layer 1 writes      layer 2 reads
    0      rows 0 to 3
    1      rows 4 to 7         rows 0 to 3
    2      rows 8 to 11        rows 4 to 7

Nobody needs rows 0 to 3 in turn 2. So `h` has two slots of four rows, not one row for each step: layer 1 writes slot 0,
then slot 1, then slot 0 again.

If a step of layer 1 reads the row that the step before has written, a slot has one row more, in front of the others (in
a reverse loop, behind them). At the start of a turn, it gets a copy of the last row of the turn before.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

from scanjit import types
from scanjit.records import record, replace as changed
from scanjit.schedule.nests import Beside, Blocks, Buffer, Nest, Program, Ref, Statement, Wave, row_major
from scanjit.schedule.nests.buffers import Rebase
from scanjit.schedule.nests.extents import extents
from scanjit.schedule.nests.follows import spans
from scanjit.schedule.nests.statement import at
from scanjit.schedule.threads.beside import in_turns
from scanjit.schedule.tiles.apply import with_tile
from scanjit.schedule.time.parts import copy
from scanjit.target import Target
from scanjit.types import Dimension

BLOCKS = 16
"""So many blocks of a loop come one after the other before the next loop has its turn, if all threads run all loops: in
each turn, the weights of the loop must come into the cache again. For layers of 128 units, that takes about 4 % of the
time of a block, so 0.3 % of a turn (estimated, not measured)."""


def in_slots(program: Program) -> Program:
    """The program with slots for what the loops of waves hand on to each other."""
    suite, notes = list(program.suite), list[str]()
    for i, statement in enumerate(suite):
        if isinstance(statement, Beside) and statement.wave is not None:
            found = _slotted(suite, i, statement.wave, {*program.lasting})
            if found:
                suite = _with_slots(suite, i, statement.wave, found, program.target)
                names = ", ".join(sorted({each.buffer.name for each in found}))
                notes.append(f"{statement.title}: in turns, with memory for a few turns of {names}")
    return program.with_suite(suite, notes)


@record(eq=True)
class _Slotted:
    """A buffer that gets slots.

    Parameters
    ----------
    buffer : the buffer, which has a row for each step and `reach` rows more.
    writer : the branch that writes it.
    reverse : whether step 0 has the last row.
    slots : how many slots there may be: one more than the number of turns between writing and reading.
    """

    buffer: Buffer
    writer: int
    reach: int
    reverse: bool
    slots: int

    @property
    def row(self) -> Dimension:
        """How many elements a row has."""
        return row_major(self.buffer.shape)[0]


# ---- which buffers ---------------------------------------------------------------------------------------------------


def _slotted(suite: Sequence[Statement], position: int, wave: Wave, lasting: set[Buffer]) -> list[_Slotted]:
    """The buffers that can have slots, for the wave at a position of a suite. A buffer has none if all steps are one
    turn or if its rows have no elements: slots would save nothing, and no offset would tell them apart."""
    if types.not_negative(1 - wave.total):
        return []
    beside = suite[position]
    assert isinstance(beside, Beside)
    writers: dict[Buffer, set[int]] = {}
    users: dict[Buffer, set[int]] = {}
    for i, branch in enumerate(beside.branches):
        for buffer, writes in branch.touched:
            users.setdefault(buffer, set()).add(i)
            if writes:
                writers.setdefault(buffer, set()).add(i)
    found: list[_Slotted] = []
    for buffer, (writer, *others) in writers.items():
        behind = max(wave.delays[i] for i in users[buffer]) - wave.delays[writer]
        reach = buffer.shape[0] - wave.total if buffer.shape else None
        if buffer.kind != "temporary" or buffer in lasting or others or behind == 0 or not isinstance(reach, int):
            continue
        if row_major(buffer.shape)[0] == 0:
            continue  # rows without elements
        for reverse in (False, True):
            made = _Slotted(buffer, writer, reach, reverse, behind + 1)
            inside = all(_by_turns(made, beside.branches[i], wave) for i in users[buffer])
            if inside and reach >= 0 and _touched_at_ends(made, suite[:position], suite[position + 1 :], wave):
                found.append(made)
                break
    return found


def _by_turns(made: _Slotted, branch: Statement, wave: Wave) -> bool:
    """Whether each block of a branch touches only the rows of its steps. If there are rows more, the writer writes the
    rows that its steps leave to the next block."""
    assert isinstance(branch, Blocks)
    first = wave.total - branch.first - branch.count if made.reverse else branch.first
    touched = spans(branch, made.buffer)
    if touched is None:
        return False
    for span in touched:
        if span.low is None or span.high is None:
            return False
        low, high = span.low - first * made.row, span.high - first * made.row
        least, most = 0, branch.count + made.reach
        if span.writes and made.reach:
            least, most = (0, branch.count) if made.reverse else (made.reach, most)
        if not types.not_negative(low - least * made.row) or not types.not_negative(most * made.row - 1 - high):
            return False
    return True


def _touched_at_ends(made: _Slotted, before: Sequence[Statement], after: Sequence[Statement], wave: Wave) -> bool:
    """Whether statements before the wave only write the rows before the first step, and those after it only read the
    rows behind the last."""
    first, last = (wave.total, 0) if made.reverse else (0, wave.total)
    parts = ((before, True, first), (after, False, last))
    return all(_touches_rows(made, statement, written, row) for part, written, row in parts for statement in part)


def _touches_rows(made: _Slotted, statement: Statement, written: bool, row: Dimension) -> bool:
    """Whether a statement touches only the `reach` rows from `row` on, and only in one way."""
    uses = [writes for buffer, _, writes in statement.all_refs() if buffer is made.buffer]
    own = [extent for extent in extents(statement) if extent.buffer is made.buffer]
    if len(own) < len(uses) or any(writes != written for writes in uses):
        return False
    begin, end = row * made.row, (row + made.reach) * made.row - 1
    ends = [extent.ends() for extent in own]
    return all(
        pair is not None and types.not_negative(pair[0] - begin) and types.not_negative(end - pair[1]) for pair in ends
    )


# ---- the program with slots ------------------------------------------------------------------------------------------


@record(eq=True)
class _Turns:
    """The turns of a wave: `many` turns of `steps` steps, of `total` in all, and the loops that run so."""

    total: Dimension
    steps: Dimension
    many: Dimension
    loops: Sequence[Blocks]

    @classmethod
    def of(cls, loops: Sequence[Blocks]) -> _Turns:
        """The turns of loops that have equally many steps in a turn."""
        total, size, turn = loops[0].total, loops[0].size, loops[0].turn
        assert turn is not None
        steps = types.minimum(size * turn.blocks, total)
        return cls(total, steps, -(-total // types.maximum(steps, 1)), loops)

    def slots(self, made: _Slotted) -> Dimension:
        """How many slots a buffer has: no more than there are turns. One without turns, for the rows before the first
        step."""
        return types.maximum(types.minimum(made.slots, self.many), 1)

    def short(self, made: _Slotted) -> Buffer:
        """The buffer with slots."""
        rows = self.slots(made) * (self.steps + made.reach)
        return changed(made.buffer, shape=(rows, *made.buffer.shape[1:]))

    def place(self, short: Mapping[_Slotted, Buffer], turn: Dimension) -> Rebase:
        """Where the rows of a turn lie in buffers with slots."""
        places = {made.buffer: (new, self._shift(made, turn)) for made, new in short.items()}

        def place(buffer: Buffer, offset: Dimension) -> tuple[Buffer, Dimension]:
            new, shift = places.get(buffer, (buffer, 0))
            return new, offset + shift

        return place

    def _shift(self, made: _Slotted, turn: Dimension) -> Dimension:
        """By how many elements the rows of a turn move."""
        first = types.maximum(self.total - (turn + 1) * self.steps, 0) if made.reverse else turn * self.steps
        return (turn % self.slots(made) * (self.steps + made.reach) - first) * made.row

    def handed_on(self, made: _Slotted, new: Buffer, turn: Dimension) -> Nest:
        """A nest that copies the rows in front of a turn from the slot of the turn before."""
        row = self.total - turn * self.steps if made.reverse else turn * self.steps
        rows = Ref.whole(made.buffer).window(0, row, made.reach)
        turns = types.maximum(turn - 1, 0), turn
        return copy(*(rows.rebased(self.place({made: new}, which)) for which in turns))


def _with_slots(
    suite: Sequence[Statement], position: int, wave: Wave, found: Sequence[_Slotted], target: Target
) -> list[Statement]:
    """The suite with slots for these buffers of the wave at a position."""
    beside = suite[position]
    assert isinstance(beside, Beside)
    loops = [branch for branch in beside.branches if isinstance(branch, Blocks)]
    alone = (types.substitute(loop.size, at(wave.chosen, 0)) for loop in loops)
    size = functools.reduce(types.minimum, alone)
    turns = _Turns.of([in_turns(loop, wave, size, BLOCKS) for loop in loops])
    short = {made: turns.short(made) for made in found}
    branches: list[Statement] = []
    for i, loop in enumerate(turns.loops):
        kept = [(made, new) for made, new in short.items() if made.writer == i and made.reach > 0]
        copies = (with_tile(turns.handed_on(*pair, wave.number), target, once=False) for pair in kept)
        moved = loop.rebased(turns.place(short, wave.number))
        branches.append(changed(moved, suite=(*copies, *moved.suite)))
    slots = {new: made.slots for made, new in short.items()}
    first, last = turns.place(short, 0), turns.place(short, types.maximum(turns.many - 1, 0))
    return [
        *(_rebased(statement, short, first) for statement in suite[:position]),
        changed(beside, branches=tuple(branches), wave=changed(wave, many=turns.many, slots=slots)),
        *(_rebased(statement, short, last) for statement in suite[position + 1 :]),
    ]


def _rebased(statement: Statement, short: Mapping[_Slotted, Buffer], place: Rebase) -> Statement:
    """A statement around the wave, which stays the same object if it touches no slots."""
    buffers = {made.buffer for made in short}
    return statement.rebased(place) if any(buffer in buffers for buffer, _ in statement.touched) else statement

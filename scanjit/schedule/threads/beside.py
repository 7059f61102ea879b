"""Loops over time, put side by side: the two directions of a layer, say, or the layers of a stack.

Threads that share the steps of a loop wait for each other in every step, and a step of a small batch is little work. If
none of several loops reads what another one writes, each can have threads of its own instead.

If a loop reads what another one has made in the same step or earlier, they can run side by side too, in blocks of time:
the second loop is one block behind the first. Threads then meet once a block. This is a *wave*.

This pass puts such loops together. `teams` decides which threads run them, once the sizes are known, and `waves` how
long the blocks are.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import field

from scanjit import types
from scanjit.records import record, replace
from scanjit.schedule.nests import Beside, Blocks, Buffer, Nest, Program, Statement, TimeLoop, Turn, Wave
from scanjit.schedule.nests.follows import follows
from scanjit.types import Dimension

MOST_BRANCHES = 8
"""At most this many loops are put side by side."""


def side_by_side(program: Program) -> Program:
    """The program with loops side by side, in groups (`Beside`).

    Statements that a loop needs stand before its group, statements that need it behind; otherwise the order stays.
    Statements that run `once` are in no group. Nothing moves past a loop that may end early: sizes may depend on how
    many steps it makes.
    """
    suite: list[Statement] = []
    stretch: list[Statement] = []
    for statement in program.suite:
        if statement.ends_early:
            suite += [*_arranged(stretch, program.once), statement]
            stretch = []
        else:
            stretch.append(statement)
    suite += _arranged(stretch, program.once)
    notes = []
    if not any(isinstance(statement, Beside) for statement in suite) and sum(s.in_steps for s in suite) > 1:
        notes = ["no loops side by side: of any two, one needs all steps of the other"]
    return program.with_suite(suite, notes)


def _arranged(suite: list[Statement], once: Collection[Statement]) -> list[Statement]:
    """These statements, with loops side by side, except those in `once`."""
    left, result = list(range(len(suite))), []
    loops = [i for i in left if suite[i] not in once and suite[i].in_steps]
    needs = _needs(suite) if loops else []
    while loops:
        group = loops[:1]
        for i in loops[1:]:
            if len(group) < MOST_BRANCHES and not any(needs[i] >> j & 1 or needs[j] >> i & 1 for j in group):
                group.append(i)
        found = (_Stages(suite, needs, total).with_loops(group).with_loops(loops) for total in _lengths(suite, group))
        stages = max(found, key=lambda found: len(found.loops), default=None)
        if stages is not None and any(stages.delays.values()) and len(stages.loops) > len(group):
            group = sorted(stages.loops)
        else:
            stages = None
        if len(group) == 1:
            loops.remove(group[0])
            continue
        together = sum(1 << i for i in group)
        after = [i for i in left if i > group[-1] or needs[i] & together]
        result += _arranged([suite[i] for i in left if i not in group and i not in after], once)
        left = [i for i in after if i not in group]
        behind = set(left)
        loops = [i for i in loops if i in behind]
        first, many, place = (tuple(types.counter(what) for _ in group) for what in ("first", "many", "place"))
        branches, wave = (tuple(suite[i] for i in group), None) if stages is None else stages.as_wave()
        result.append(Beside(branches, types.counter("apart"), first, many, place, wave))
    return [*result, *(suite[i] for i in left)]


@record(eq=True)
class _Stages:
    """Loops that may be a wave, each by its number in a suite, in blocks of time, and how many blocks each is behind
    the first. Each has `total` steps. `needs` are those of the statements of the suite."""

    suite: Sequence[Statement]
    needs: Sequence[int]
    total: Dimension
    loops: dict[int, Blocks] = field(default_factory=dict)
    delays: dict[int, int] = field(default_factory=dict)

    def with_loops(self, numbers: Sequence[int]) -> _Stages:
        """With each of these loops that can be among them."""
        stages = self
        for number in numbers:
            if number not in stages.loops and len(stages.loops) < MOST_BRANCHES:
                stages = stages._with_loop(number) or stages
        return stages

    def _with_loop(self, number: int) -> _Stages | None:
        """With one more loop. None if that cannot be cut into blocks of the same steps, or must wait until another one
        has ended."""
        loop = _in_blocks(self.suite[number])
        if loop is None or loop.total != self.total:
            return None
        before = [i for i in self.loops if self.needs[number] >> i & 1]
        together = sum(1 << i for i in self.loops)
        for i in range(number):
            if self.needs[number] >> i & 1 and i not in self.loops and self.needs[i] & together:
                return None  # a statement between the loops
        if not all(follows(loop, self.loops[i]) for i in before):
            return None
        delay = max((self.delays[i] + 1 for i in before), default=0)
        return replace(self, loops={**self.loops, number: loop}, delays={**self.delays, number: delay})

    def as_wave(self) -> tuple[tuple[Blocks, ...], Wave]:
        """The loops, and how they run in turns. If they have no threads of their own, there is one turn, in which each
        loop has its own blocks."""
        numbers, chosen, number = sorted(self.loops), types.anonymous_size("steps"), types.counter("turn")
        many = types.maximum(-(-self.total // types.maximum(chosen, 1)) * types.minimum(chosen, 1), 1)
        wave = Wave(tuple(self.delays[i] for i in numbers), self.total, chosen, many, number)
        loops = (self.loops[i] for i in numbers)
        return tuple(in_turns(loop, wave, loop.size, -(-self.total // loop.size)) for loop in loops), wave


def in_turns(loop: Blocks, wave: Wave, size: Dimension, blocks: Dimension) -> Blocks:
    """A loop of a wave. If it has no threads of its own, it runs so many `blocks` of this `size` in a turn."""
    together = types.maximum(1 - wave.chosen, 0)
    turn = Turn(wave.number, types.maximum(blocks * together, 1))
    return replace(loop, size=types.maximum(wave.chosen, size * together), turn=turn)


def _lengths(suite: Sequence[Statement], group: Sequence[int]) -> list[Dimension]:
    """How many steps the loops of a group have, if they can be cut into blocks of time."""
    return list(dict.fromkeys(loop.total for i in group if (loop := _in_blocks(suite[i])) is not None))


def _in_blocks(loop: Statement) -> Blocks | None:
    """A loop over time as a loop over blocks of time; None if it cannot be cut."""
    if isinstance(loop, Blocks):
        stays = loop.backwards or loop.fixed or loop.own_rows is not None or any(map(_begins_anew, loop.suite))
        return None if stays else loop
    if not isinstance(loop, TimeLoop) or loop.start != 0 or loop.unroll is True:
        return None
    first, count = types.counter("first"), types.counter("rows")
    cut = replace(loop, start=first, length=count, plan=None)
    return Blocks(loop.length, types.maximum(loop.length, 1), first, count, (cut,))


def _begins_anew(statement: Statement) -> bool:
    """Whether the bits of what a statement computes depend on where a block begins: lanes go along the steps of a
    linear recurrence, or along the terms of a single number."""
    if not isinstance(statement, Nest) or statement.tile is None:
        return False
    return statement.lanewise is not None or (statement.tile.horizontal and not statement.space)


def _needs(suite: Sequence[Statement]) -> list[int]:
    """For each statement, which statements must stay before it, as an integer: bit i stands for statement i."""
    writers: dict[Buffer, int] = {}
    users: dict[Buffer, int] = {}
    found: list[int] = []
    for i, statement in enumerate(suite):
        direct = 0
        for buffer, written in statement.touched:
            direct |= users.get(buffer, 0) if written else writers.get(buffer, 0)
        for buffer, written in statement.touched:
            users[buffer] = users.get(buffer, 0) | 1 << i
            if written:
                writers[buffer] = writers.get(buffer, 0) | 1 << i
        every = left = direct
        while left:
            last = left.bit_length() - 1
            every |= found[last]
            left &= ~(found[last] | 1 << last)
        found.append(every)
    return found

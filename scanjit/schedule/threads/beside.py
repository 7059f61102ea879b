"""Loops over time that do not depend on each other, put side by side: the two directions of a layer, say.

Threads that share the steps of a loop wait for each other in every step, and a step of a small batch is little work. If
none of several loops reads what another one writes, each can have threads of its own instead. This pass puts such loops
together. `teams` decides which threads run them, once the sizes are known.
"""

from collections.abc import Collection, Sequence

from scanjit import types
from scanjit.schedule.nests import Beside, Buffer, Program, Statement

MOST_BRANCHES = 8
"""At most this many loops are put side by side."""


def side_by_side(program: Program) -> Program:
    """The program with independent loops side by side, in groups (`Beside`).

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
        notes = ["no loops side by side: of any two, one needs the other"]
    return program.with_suite(suite, notes)


def _arranged(suite: list[Statement], once: Collection[Statement]) -> list[Statement]:
    """These statements, with independent loops side by side, except those in `once`."""
    needs = _needs(suite)
    left, result = list(range(len(suite))), []
    loops = [i for i in left if suite[i] not in once and suite[i].in_steps]
    while loops:
        group = [loops.pop(0)]
        for i in loops:
            if len(group) < MOST_BRANCHES and not any(needs[i] >> j & 1 or needs[j] >> i & 1 for j in group):
                group.append(i)
        if len(group) == 1:
            continue
        loops = [i for i in loops if i not in group]
        together = sum(1 << i for i in group)
        after = [i for i in left if i > group[-1] or needs[i] & together]
        result += [suite[i] for i in left if i not in group and i not in after]
        left = [i for i in after if i not in group]
        branches = tuple(suite[i] for i in group)
        first, many, place = (tuple(types.counter(what) for _ in branches) for what in ("first", "many", "place"))
        result.append(Beside(branches, types.counter("apart"), first, many, place))
    return [*result, *(suite[i] for i in left)]


def _needs(suite: Sequence[Statement]) -> list[int]:
    """For each statement, which statements must stay before it, as an integer: bit i stands for statement i."""
    writers: dict[Buffer, int] = {}
    users: dict[Buffer, int] = {}
    found: list[int] = []
    for i, statement in enumerate(suite):
        refs = dict.fromkeys((buffer, written) for buffer, _, written in statement.all_refs())
        direct = 0
        for buffer, written in refs:
            direct |= users.get(buffer, 0) if written else writers.get(buffer, 0)
        for buffer, written in refs:
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

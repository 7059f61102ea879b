"""Rules about what a program says of its statements: which run once, when memory is in use, which have variants."""

from collections.abc import Generator, Iterator, Mapping, Sequence, Set as AbstractSet

from scanjit.schedule.nests.branches import Beside
from scanjit.schedule.nests.buffers import Buffer
from scanjit.schedule.nests.lifetime import Lifetime
from scanjit.schedule.nests.nest import nests_of
from scanjit.schedule.nests.program import Program
from scanjit.schedule.nests.statement import Statement, every_in
from scanjit.schedule.nests.verify.memory import read_before_written
from scanjit.schedule.nests.verify.problem import Problem
from scanjit.types import Dimension

Within = tuple[tuple[Dimension, int], ...]
"""The branches of loops side by side that a statement is in, each as the `apart` of its `Beside` and its number
there."""


def once_is_enough(program: Program) -> Iterator[Problem]:
    """Statements that run once read only memory that is the same in all calls, and no other statement writes where they
    write. The buffers that they fill for others are `lasting`."""
    once = set(program.once)
    others = [statement for statement in program.suite if statement not in once]
    theirs = {each for statement in others for each in statement.touched}
    made = {buffer for job in once for buffer, _, writes in job.refs() if writes}
    for job in program.once:
        if job not in program.suite or not job.repeatable:
            yield job, "it is to run once, but stands in a loop, or must run in every call"
        for buffer, _, writes in job.refs():
            if (buffer, True) in theirs or (writes and buffer.kind != "temporary"):
                yield job, f"it is to run once, and {buffer.name!r} is written in every call"
            elif not writes and buffer not in made and not buffer.fixed:
                yield job, f"it is to run once, and {buffer.name!r} is not the same in all calls"
        lasts = [buffer for buffer in made if (buffer, False) in theirs and buffer not in program.lasting]
        if lasts:
            yield job, f"{lasts[0].name!r} is filled once and read in every call, but does not last"


def forms_fit(program: Program) -> Iterator[Problem]:
    """The variant of a nest for one row stores the same. Threads share a loop of each nest in pieces."""
    known = set(nests_of(program.suite))
    for nest, one in program.single.items():
        if nest not in known or one.tile is None or one.tile.row_block != 1 or one.stores is not nest.stores:
            yield one, "it is no variant for one row of a nest of the program"
    for nest in program.pieces:
        if nest not in program.suite or nest.tile is None or nest.tile.split is None:
            yield nest, "it is computed in pieces, but no loop of it is shared by threads"


def lifetimes_cover_uses(program: Program) -> Iterator[Problem]:
    """Each temporary is in use whenever a statement touches it, also in its branch of a `Beside`. What lasts between
    calls is always in use.

    A buffer that a turn of a loop reads before it writes is in use through the whole loop, unless only a statement that
    also writes it reads it: such a sum may be lost without harm. A program without lifetimes has not come to the last
    pass, and is not checked.
    """
    if not program.lifetimes:
        return
    lives = {life.buffer: life for life in program.lifetimes}
    read = {buffer for statement in every_in(program.suite) for buffer in _read_for_others(statement)}
    moment = yield from _uncovered(program.suite, lives, read, 0, ())
    for buffer, life in zip(program.lasting, program.lifetimes, strict=False):
        if buffer is not life.buffer or life.first >= 0 or life.last < moment:
            yield program.suite[0], f"{buffer.name!r} lasts between calls, but is not in use all the time"


def _read_for_others(statement: Statement) -> set[Buffer]:
    refs = list(statement.refs())
    return {buffer for buffer, _, writes in refs if not writes} - {buffer for buffer, _, writes in refs if writes}


def _uncovered(
    suite: Sequence[Statement],
    lives: Mapping[Buffer, Lifetime],
    read: AbstractSet[Buffer],
    moment: int,
    within: Within,
) -> Generator[Problem, None, int]:
    """The uses of memory outside of its lifetime; returns the moment after these statements."""
    for statement in suite:
        begin = moment
        for number, inner in enumerate(statement.suites):
            beside = ((statement.apart, number),) if isinstance(statement, Beside) else ()
            moment = yield from _uncovered(inner, lives, read, moment, (*within, *beside))
        for buffer in dict.fromkeys(buffer for buffer, _, _ in statement.refs() if buffer.kind == "temporary"):
            life = lives.get(buffer)
            if life is None or not life.first <= begin <= life.last:
                yield statement, f"it touches {buffer.name!r} when that is not in use"
            elif life.first >= 0 and any(number not in life.branches.get(beside, ()) for beside, number in within):
                yield statement, f"it touches {buffer.name!r}, which its branch is not said to use"
        if statement.repeats or statement.lasting:
            kept = statement.lasting | (read_before_written(statement) & read)
            for buffer in kept & lives.keys():
                if not lives[buffer].first <= begin <= moment <= lives[buffer].last:
                    yield statement, f"{buffer.name!r} is to last from turn to turn, but is not in use all the time"
        moment += 1
    return moment

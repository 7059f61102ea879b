"""What statements cost: operations and bytes, for the sizes of a call."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from scanjit.schedule.nests import Job, Sizes, Statement, TimeLoop


class Cost(NamedTuple):
    """All runs of a job: how many, the operations of each, the bytes that each touches, and into how many pieces it
    can be divided among threads. In a step whose threads may keep their rows, also the `loop` over steps, and how many
    of the bytes belong to no single row."""

    statement: Job
    runs: int
    operations: float
    nbytes: float
    pieces: int
    loop: TimeLoop | None = None
    shared: float = 0.0


def costs(suite: Sequence[Statement], sizes: Sizes) -> list[Cost]:
    """The cost of every job of these statements, in order. A loop that may end early counts with all of its steps; the
    last block of time as a whole one."""
    return list(_costs(suite, sizes, 1))


def _costs(suite: Sequence[Statement], sizes: Sizes, runs: int) -> Iterator[Cost]:
    for statement in suite:
        if isinstance(statement, Job):
            work, nbytes = operations(statement, sizes) or 0.0, touched(statement, sizes) or 0.0
            yield Cost(statement, runs, work, nbytes, statement.pieces(sizes))
            continue
        loop = statement if isinstance(statement, TimeLoop) and statement.own_rows is not None else None
        some = []
        for inside, times in statement.samples(sizes):
            found = list(_costs(statement.inner, inside, runs * times))
            if loop is not None:
                found = [c._replace(loop=loop, shared=touched(c.statement, inside, True) or 0.0) for c in found]
            some.append(found)
        for same in zip(*some, strict=True):
            yield max(same, key=lambda cost: (cost.operations * cost.runs, cost.nbytes * cost.runs))


def operations(job: Job, sizes: Sizes) -> float | None:
    """About how many operations a run takes; None where that depends on sizes that are not given."""
    try:
        return job.operations(sizes)
    except KeyError:
        return None


def touched(job: Job, sizes: Sizes, shared: bool = False) -> float | None:
    """How many different bytes a run reads and writes, as `Job.nbytes`; None where that depends on sizes that are not
    given."""
    try:
        return job.nbytes(sizes, shared)
    except KeyError:
        return None

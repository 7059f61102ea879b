"""Rules about threads: no two write one place, and none reads what another one writes at the same time."""

from collections.abc import Iterator, Sequence

from scanjit import types
from scanjit.schedule.nests.branches import Beside
from scanjit.schedule.nests.buffers import Buffer
from scanjit.schedule.nests.follows import follows
from scanjit.schedule.nests.loops import NestLoop
from scanjit.schedule.nests.nest import nests_of
from scanjit.schedule.nests.program import Program
from scanjit.schedule.nests.statement import Statement, every_in
from scanjit.schedule.nests.steps import Blocks, RowsApart
from scanjit.schedule.nests.tile import Tile
from scanjit.schedule.nests.values import Access
from scanjit.schedule.nests.verify.problem import Problem
from scanjit.types import Dimension


def threads_apart(program: Program) -> Iterator[Problem]:
    """If threads share a loop of a nest, every store moves with that loop. A load that begins at the same place as a
    store moves in the same steps: the same thread reads and writes there. A load in a loop of no steps does not count.
    A nest is not shared if two of its points may write the same computed place."""
    for nest in nests_of(program.suite):
        split = None if nest.tile is None else nest.tile.split
        if split is None or any(loop.size == 0 for loop in nest.space):
            continue
        if nest.sequential or any(store.indices and not store.apart for store in nest.stores):
            yield nest, "threads share a nest that writes at computed places"
        accesses = [(access, writes) for access, writes in nest.accesses if all(n.size != 0 for n in access.strides)]
        written: dict[tuple[Buffer, Dimension], Access] = {}
        for access, writes in accesses:
            if writes:
                written.setdefault((access.buffer, access.offset), access)
                if not all(access.strides.get(part, 0) != 0 for part in _loops(split)):
                    yield nest, f"threads share a loop that a store to {access.buffer.name!r} does not move with"
        for access, _ in accesses:
            other = written.get((access.buffer, access.offset))
            if other is not None and _steps(access, split) != _steps(other, split):
                yield nest, f"threads touch each other's places in {access.buffer.name!r}"


def _loops(loop: NestLoop) -> list[NestLoop]:
    parts = loop.parts or (loop,)
    return [part for part in parts if part.size != 1]


def _steps(access: Access, loop: NestLoop) -> list[Dimension]:
    return [access.strides.get(part, 0) for part in _loops(loop)]


def own_rows_apart(program: Program) -> Iterator[Problem]:
    """In a loop whose threads keep rows, a buffer that the loop writes is touched row by row, and its rows are equally
    far apart in all nests: each thread touches only its own rows. In blocks that threads keep, each block writes places
    of its own, or buffers of which every thread has a copy."""
    for statement in every_in(program.suite):
        if isinstance(statement, Blocks) and statement.own_rows is not None and statement.private:
            for buffer, offset, writes in statement.all_refs():
                moves = not set(types.atoms(statement.first)).isdisjoint(types.atoms(offset))
                if writes and not moves and buffer not in statement.private:
                    yield statement, f"all blocks write one place in {buffer.name!r}, though threads keep theirs"
        if isinstance(statement, RowsApart):
            yield from _meeting(statement)


def _meeting(apart: RowsApart) -> Iterator[Problem]:
    rows = apart.own_rows.size
    inner = nests_of([apart])
    written = {access.buffer for nest in inner for access, writes in nest.accesses if writes}
    steps: dict[Buffer, Dimension] = {}
    for nest in inner:
        if nest.tile is None or nest.tile.own is None:
            continue  # another rule says so
        loop, each = _row_loop(nest.tile, rows)
        for access, _ in nest.accesses:
            if access.buffer in written:
                step = access.strides.get(loop, 0) * each
                if step == 0:
                    yield nest, f"all threads touch one place in {access.buffer.name!r}, though each keeps its rows"
                elif steps.setdefault(access.buffer, step) != step:
                    yield nest, f"rows in {access.buffer.name!r} are not those of the other nests of the step"
                elif _leaves_row(access, loop, step, rows):
                    yield nest, f"a row in {access.buffer.name!r} reaches into that of another thread"


def _row_loop(tile: Tile, rows: Dimension) -> tuple[NestLoop, Dimension]:
    """The loop of a nest that goes over the rows that threads keep, and how many iterations of it are one row. It may
    be one of several that are counted together."""
    inner: Dimension = 1
    for loop in reversed(tile.own_loops):
        each = types.exact_quotient(tile.each, inner)
        if each is not None and types.exact_quotient(loop.size, each * rows) is not None:
            return loop, each
        inner = inner * loop.size
    return tile.own_loops[-1], tile.each


def _leaves_row(access: Access, own: NestLoop, step: Dimension, rows: Dimension) -> bool:
    """Whether an access certainly touches more than one row of `step` elements. A loop that moves by a multiple of all
    rows touches the same row of another step."""
    extent = types.remainder(access.offset, step * rows) + step - access.strides.get(own, 0)
    for loop, stride in access.strides.items():
        if loop is not own and types.remainder(stride, step * rows) != 0:
            extent = extent + (loop.size - 1) * stride
    return types.not_negative(extent - step)


def branches_apart(program: Program) -> Iterator[Problem]:
    """If loops stand side by side, none touches memory that another one writes, unless it follows that one: it is at
    least one block behind, and reads nothing that later blocks write."""
    for statement in every_in(program.suite):
        if isinstance(statement, Beside):
            yield from _conflicts(statement, statement.branches)


def _conflicts(beside: Beside, branches: Sequence[Statement]) -> Iterator[Problem]:
    touched = [branch.touched for branch in branches]
    for number, own in enumerate(touched):
        writes = {buffer for buffer, written in own if written}
        for other, refs in enumerate(touched):
            for buffer in writes & {buffer for buffer, _ in refs}:
                if other != number and not _is_behind(beside, other, number, buffer):
                    yield beside, f"a branch writes {buffer.name!r}, which another one touches"


def _is_behind(beside: Beside, second: int, first: int, buffer: Buffer) -> bool:
    wave, behind, ahead = beside.wave, beside.branches[second], beside.branches[first]
    if wave is None or wave.delays[second] <= wave.delays[first]:
        return False
    if buffer in wave.slots:
        turn = set(types.atoms(wave.number))
        places = [dim for branch in (behind, ahead) for other, dim, _ in branch.all_refs() if other is buffer]
        moves = all(not turn.isdisjoint(types.atoms(dim)) for dim in places)
        return moves and wave.delays[second] - wave.delays[first] < wave.slots[buffer]
    return isinstance(behind, Blocks) and isinstance(ahead, Blocks) and follows(behind, ahead, wave.slots)

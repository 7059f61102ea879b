"""Loops over time whose rows never meet: threads may compute their own rows through all steps.

Rows are the sequences of a batch, for example. Threads that share every nest of a step wait for each other after each
nest. In an RNN, what is written for a sequence is read for that sequence alone. So a thread can compute its sequences
from the first step to the last without waiting. It then reads all columns of the weights, not some. Whether that pays
is decided when the sizes are known (`sharing`).

Bands of points (`time.bands`) never meet either. A thread that computes bands of its own needs a copy of every buffer
that holds one band: the states of the band, for example.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from scanjit import types
from scanjit.schedule.nests import (
    Access,
    Blocks,
    Buffer,
    Fetch,
    Nest,
    NestLoop,
    OwnRows,
    Program,
    Search,
    Statement,
    TimeLoop,
)
from scanjit.types import Atom, Dimension

Own = tuple[NestLoop, Dimension]
"""The loop of a nest that goes over the rows, and how many iterations of it are one row: 3 for a loop over the 30
elements of 10 rows."""


def own_rows(program: Program) -> Program:
    """The program with own rows marked. A loop over time whose rows never meet names these rows (`TimeLoop.rows`), and
    each nest in it names its loop over them (`Tile.own`)."""
    made: dict[Statement, Statement] = {}  # a statement may stand in a program twice
    uses = _uses(program.suite)
    for statement in (inside for outer in program.suite for inside in outer.every()):
        if isinstance(statement, Blocks) and statement.own_rows is not None:
            made[statement] = _with_private(statement, uses)
    return program.with_suite(_rebuilt(statement, frozenset(), made) for statement in program.suite)


def _uses(suite: Iterable[Statement]) -> Counter[Buffer]:
    """How many references to each buffer the statements have."""
    return Counter(buffer for statement in suite for buffer, _, _ in statement.all_refs())


def _with_private(blocks: Blocks, uses: Counter[Buffer]) -> Blocks:
    """Blocks of which each thread may run its own. Temporaries that nobody else uses become `private`. If all blocks
    write some other memory, or if a loop before them decides how many rows there are, threads share each block
    instead."""
    assert blocks.own_rows is not None
    own = _uses([blocks])
    private = tuple(buffer for buffer, times in own.items() if buffer.kind == "temporary" and uses[buffer] == times)
    first = set(types.atoms(blocks.first))
    written = [(buffer, offset) for buffer, offset, writes in blocks.all_refs() if writes]
    known = not any(atom.kind == "counter" for atom in types.atoms(blocks.own_rows.size))
    if known and all(buffer in private or not first.isdisjoint(types.atoms(offset)) for buffer, offset in written):
        return replace(blocks, private=private)
    return replace(blocks, own_rows=None, copy=0)


def with_rows(suite: Sequence[Statement]) -> list[TimeLoop | Blocks]:
    """The loops over time, and the blocks, of which threads may compute their own rows."""
    every = (inside for statement in suite for inside in statement.every())
    return [loop for loop in every if isinstance(loop, TimeLoop | Blocks) and loop.own_rows is not None]


def _rebuilt(statement: Statement, counters: frozenset[Atom], made: dict[Statement, Statement]) -> Statement:
    if statement not in made:
        counters = counters.union(*map(types.atoms, statement.counters))
        own = _with_own_rows(statement, counters) if isinstance(statement, TimeLoop) else None
        inner = ([_rebuilt(inside, counters, made) for inside in suite] for suite in statement.suites)
        made[statement] = own or statement.with_suites(*inner)
    return made[statement]


def _with_own_rows(loop: TimeLoop, counters: frozenset[Atom]) -> TimeLoop | None:
    """A loop over time with its rows named; None if its rows meet, or if their number changes with a counter."""
    nests = [statement for statement in loop.suite if isinstance(statement, Nest)]
    if len(nests) < len(loop.suite) or not all(map(_is_plain, nests)) or loop.stop is not None:
        return None
    written = {store.access.buffer for nest in nests for store in (*nest.stores, *nest.finals)}
    for size in _sizes(nests):
        steps: dict[Buffer, Dimension] = {}
        found = [own_loop(nest, size, written, steps) for nest in nests]
        own = [pair for pair in found if pair is not None]
        if len(own) == len(nests) and counters.isdisjoint(types.atoms(size)):
            suite: list[Statement] = []
            unit = 1
            for nest, (rows, each) in zip(nests, own, strict=True):
                assert nest.tile is not None
                rest = nest.tile.rest and rows is nest.tile.rows and each == 1
                suite.append(replace(nest, tile=replace(nest.tile, own=rows, each=each, rest=rest)))
                unit = max(unit, nest.tile.row_block if rows is nest.tile.rows else 1)
            return replace(loop, suite=tuple(suite), own_rows=OwnRows(size, unit, types.counter("apart")))
    return None


def _is_plain(nest: Nest) -> bool:
    return nest.tile is not None and not nest.sequential and not any(store.indices for store in nest.stores)


def _sizes(nests: Sequence[Nest]) -> list[Dimension]:
    """The sizes that may be the number of rows, those of the rows of register tiles first."""
    tiled = [nest.tile.rows.size for nest in nests if nest.tile is not None and nest.tile.rows is not None]
    found = dict.fromkeys([*tiled, *(loop.size for nest in nests for loop in nest.space)])
    return [size for size in found if not isinstance(size, int) or size > 1]


def own_loop(nest: Nest, size: Dimension, written: set[Buffer], steps: dict[Buffer, Dimension]) -> Own | None:
    """The loop of a nest that goes over the rows, if the nest touches only one row, its own, of each buffer that is
    `written` in a step; else None. `steps` gets the distance between two rows of each buffer."""
    singles = nest.tile is not None and nest.tile.singles
    for loop in nest.space:
        each = loop.size // size
        if each * size != loop.size or (singles and loop is nest.space[-1]):
            continue
        met = dict(steps)
        if all(_stays(access, (loop, each), size, met) for access in _accesses(nest, written)):
            if not any(isinstance(v, Fetch | Search) and v.access.buffer in written for v in nest.values):
                steps.update(met)
                return loop, each
    return None


def _accesses(nest: Nest, buffers: set[Buffer]) -> list[Access]:
    return [access for access, _ in nest.accesses() if access.buffer in buffers]


def _stays(access: Access, own: Own, size: Dimension, steps: dict[Buffer, Dimension]) -> bool:
    """Whether an access touches only its own row at every step. All that other loops add to its address must be less
    than the distance to the next row, or a multiple of the size of all rows: that is the same row of another step."""
    rows, each = own
    stride = access.strides.get(rows, 0)
    step = stride * each
    if step == 0 or steps.setdefault(access.buffer, step) != step:
        return False
    offset = types.remainder(access.offset, step * size)
    extent = offset + (each - 1) * stride
    if not types.not_negative(offset):
        return False
    for loop, along in access.strides.items():
        if loop is not rows and types.remainder(along, step * size) != 0:
            if not types.not_negative(along):
                return False
            extent = extent + (loop.size - 1) * along
    return types.not_negative(step - 1 - extent)

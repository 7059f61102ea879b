"""Loops over time whose rows never meet: threads may compute their own rows through all steps.

Rows are the sequences of a batch, for example. Threads that share every nest of a step wait for each other after each
nest. In an RNN, what is written for a sequence is read for that sequence alone. So a thread can compute its sequences
from the first step to the last without waiting. It then reads all columns of the weights, not some. Whether that pays
is decided when the sizes are known (`sharing`).

In a loop over blocks of time, nests before and after the steps go with them (`RowsApart`): in `x @ W` for the steps of
a block, a thread computes its own rows of each step. Each thread has its own copy of the temporaries of a block. Else
rows of two threads would lie side by side, and their cores would take lines of the cache from each other.

Bands of points (`time.bands`) never meet either. A thread that computes bands of its own needs a copy of every buffer
that holds one band: the states of the band, for example.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence

from scanjit import types
from scanjit.records import replace
from scanjit.schedule.nests import (
    Access,
    Blocks,
    Buffer,
    Fetch,
    Nest,
    NestLoop,
    OwnRows,
    Program,
    RowsApart,
    Search,
    Statement,
    TimeLoop,
    every_in,
    reductions_in,
)
from scanjit.types import Atom, Dimension

Own = tuple[NestLoop, Dimension]
"""The loop of a nest that goes over the rows, and how many iterations of it are one row: 3 for a loop over the 30
elements of 10 rows. It may go over all rows several times."""


def own_rows(program: Program) -> Program:
    """The program with own rows marked. A loop over time whose rows never meet is in a `RowsApart`, and each nest in it
    names its loop over these rows (`Tile.own`)."""
    made: dict[Statement, Statement] = {}  # a statement may stand in a program twice
    uses = _uses(program.suite)
    for statement in every_in(program.suite):
        if isinstance(statement, Blocks) and statement.own_rows is not None:
            made[statement] = _with_private(statement, uses)
    return program.with_suite(_Writer(program.once, made, uses).suite(program.suite))


def _uses(suite: Iterable[Statement]) -> Counter[Buffer]:
    """How many references to each buffer the statements have."""
    return Counter(buffer for statement in suite for buffer, _, _ in statement.all_refs())


def _with_private(blocks: Blocks, uses: Counter[Buffer]) -> Blocks:
    """Blocks of which each thread may run its own. Temporaries that nobody else uses become `private`. If all blocks
    write some other memory, or if a loop before them decides how many rows there are, threads share each block
    instead."""
    assert blocks.own_rows is not None
    private = _used_only_in(blocks, uses)
    first = set(types.atoms(blocks.first))
    written = [(buffer, offset) for buffer, offset, writes in blocks.all_refs() if writes]
    known = not any(atom.kind == "counter" for atom in types.atoms(blocks.own_rows.size))
    if known and all(buffer in private or not first.isdisjoint(types.atoms(offset)) for buffer, offset in written):
        return replace(blocks, private=private)
    return replace(blocks, own_rows=None, copy=0)


def _with_copies(apart: RowsApart, uses: Counter[Buffer]) -> RowsApart:
    """Statements with rows, of whose temporaries each thread has its own: those that nobody else uses."""
    private = _used_only_in(apart, uses)
    if len(apart.suite) == 1 or not private:
        return apart
    rows = replace(apart.own_rows, copies=types.anonymous_size("copies"))
    return replace(apart, own_rows=rows, private=private, copy=types.counter("copy"))


def _used_only_in(statement: Statement, uses: Counter[Buffer]) -> tuple[Buffer, ...]:
    """The temporaries that only this statement uses."""
    own = _uses([statement])
    return tuple(buffer for buffer, times in own.items() if buffer.kind == "temporary" and uses[buffer] == times)


def with_rows(suite: Sequence[Statement]) -> list[RowsApart | Blocks]:
    """The statements, and the blocks, of which threads may compute their own rows."""
    return [each for each in every_in(suite) if isinstance(each, RowsApart | Blocks) and each.own_rows is not None]


class _Writer:
    """Marks the rows of statements. `once` are the statements that run once for many calls, `made` those that are
    done. `uses` counts the references to each buffer."""

    def __init__(self, once: Collection[Statement], made: dict[Statement, Statement], uses: Counter[Buffer]) -> None:
        self.once, self.made, self.uses = once, made, uses

    def marked(self, statement: Statement, counters: frozenset[Atom] = frozenset()) -> Statement:
        """A statement in loops with these counters."""
        if statement not in self.made:
            counters = counters.union(types.atoms(*statement.counters))
            inner = [self._suite(suite, counters, isinstance(statement, Blocks)) for suite in statement.suites]
            self.made[statement] = statement.with_suites(*inner)
        return self.made[statement]

    def suite(self, suite: Sequence[Statement]) -> list[Statement]:
        """The statements of a program."""
        return self._suite(suite, frozenset(), False)

    def _suite(self, suite: Sequence[Statement], counters: frozenset[Atom], with_nests: bool) -> list[Statement]:
        """Statements, with each loop whose rows never meet in a `RowsApart`. In a loop over blocks of time, the nests
        before and after the loop go with it as far as they keep to its rows. (Outside of blocks, nests are longer: each
        is computed a piece at a time, so that an interrupt can end it.)"""
        found: list[Statement] = []
        for statement in suite:
            last = found[-1] if found and with_nests else None
            apart: RowsApart | None = None
            if isinstance(statement, TimeLoop):
                apart = _apart([statement], counters.union(types.atoms(*statement.counters)), None)
                while apart is not None and with_nests and found and self._may_go_along(found[-1]):
                    more = _apart([found[-1], *apart.suite], counters, apart.own_rows.size)
                    if more is None:
                        break
                    apart = more
                    found.pop()
            elif isinstance(last, RowsApart) and self._may_go_along(statement):
                apart = _apart([*last.suite, statement], counters, last.own_rows.size)
                if apart is not None:
                    found.pop()
            found.append(self.marked(statement, counters) if apart is None else apart)
        return [_with_copies(each, self.uses) if isinstance(each, RowsApart) else each for each in found]

    def _may_go_along(self, statement: Statement) -> bool:
        """Whether a nest may go along with a loop. A product with a mask computes its rows in an order that is found
        for all of them together."""
        if not isinstance(statement, Nest) or statement.time is not None or statement in self.once:
            return False
        return all(value.guard is None for value in reductions_in(statement.values))


def _apart(suite: Sequence[Statement], counters: frozenset[Atom], size: Dimension | None) -> RowsApart | None:
    """A loop over time, and the nests around it, with their rows named; None if rows meet, or if their number changes
    with a counter. The loop decides the number of rows if `size` is None."""
    place = next(i for i, statement in enumerate(suite) if isinstance(statement, TimeLoop))
    loop, around = suite[place], [*reversed(suite[:place]), *suite[place + 1 :]]
    assert isinstance(loop, TimeLoop)
    steps = [statement for statement in loop.suite if isinstance(statement, Nest)]
    nests = [*steps, *(nest for nest in around if isinstance(nest, Nest))]
    if len(steps) < len(loop.suite) or loop.stop is not None or not all(map(_is_plain, nests)):
        return None
    written = set[Buffer]().union(*(nest.written_buffers for nest in nests))
    for rows in _sizes(steps) if size is None else [size]:
        if not counters.isdisjoint(types.atoms(rows)):
            continue
        apart: dict[Buffer, Dimension] = {}
        own = {nest: found for nest in nests if (found := own_loop(nest, rows, written, apart, nest in around))}
        if len(own) == len(nests):
            marked: dict[Statement, Nest] = {nest: _with_own(nest, rows, *found) for nest, found in own.items()}
            inside = replace(loop, suite=tuple(marked[nest] for nest in steps))
            new: dict[Statement, Statement] = {**marked, loop: inside}
            unit = max(_row_block(nest) for nest in marked.values())
            return RowsApart(tuple(new[each] for each in suite), OwnRows(rows, unit, types.counter("apart")))
    return None


def _row_block(nest: Nest) -> int:
    """How many of its own rows a nest computes together."""
    tile = nest.tile
    return tile.row_block if tile is not None and tile.own is not None and tile.own is tile.rows else 1


def _with_own(nest: Nest, rows: Dimension, own: NestLoop, each: Dimension) -> Nest:
    assert nest.tile is not None
    rest = nest.tile.rest and own is nest.tile.rows and each == 1 and own.size == rows
    return replace(nest, tile=replace(nest.tile, own=own, each=each, rest=rest))


def _is_plain(nest: Nest) -> bool:
    return nest.tile is not None and not nest.sequential and not any(store.indices for store in nest.stores)


def _sizes(nests: Sequence[Nest]) -> list[Dimension]:
    """The sizes that may be the number of rows, those of the rows of register tiles first."""
    tiled = [nest.tile.rows.size for nest in nests if nest.tile is not None and nest.tile.rows is not None]
    found = dict.fromkeys([*tiled, *(loop.size for nest in nests for loop in nest.space)])
    return [size for size in found if not isinstance(size, int) or size > 1]


def own_loop(
    nest: Nest, size: Dimension, written: set[Buffer], steps: dict[Buffer, Dimension], in_turns: bool = False
) -> Own | None:
    """The loop of a nest that goes over the rows, if the nest touches only one row, its own, of each buffer that is
    `written` in a step; else None. `steps` gets the distance between two rows of each buffer. With `in_turns`, the
    loop may go over all rows several times."""
    some_left = nest.tile is not None and nest.tile.left and nest.tile.rows is not None
    accesses = [access for access, _ in nest.accesses if access.buffer in written]
    if any(isinstance(value, Fetch | Search) and value.access.buffer in written for value in nest.values):
        return None
    for loop in nest.space:
        if some_left and loop is nest.space[-1]:
            continue
        for each in _eaches(loop, size, accesses, steps, in_turns):
            met = dict(steps)
            if all(_stays(access, (loop, each), size, met) for access in accesses):
                steps.update(met)
                return _in_row_tile(nest, loop, each)
    return None


def _eaches(
    loop: NestLoop, size: Dimension, accesses: Sequence[Access], steps: dict[Buffer, Dimension], in_turns: bool
) -> Iterator[Dimension]:
    """How many iterations of a loop may be one row. If the loop goes over the rows several times, how far apart they
    are in some buffer may say so."""
    whole = loop.size // size
    if whole * size == loop.size:
        yield whole
    if in_turns:
        strides = [(steps.get(access.buffer), access.strides.get(loop, 0)) for access in accesses]
        known = [types.exact_quotient(step, stride) for step, stride in strides if step is not None]
        for each in dict.fromkeys([*known, 1]):
            if each is not None and each != whole and types.exact_quotient(loop.size, each * size) is not None:
                if types.not_negative(each - 1):
                    yield each


def _in_row_tile(nest: Nest, loop: NestLoop, each: Dimension) -> Own:
    """The loop over the rows, and how many iterations of it are one. If register tiles have rows of several loops, it
    is the one that counts all of these."""
    rows = None if nest.tile is None else nest.tile.rows
    if rows is None or loop not in rows.parts:
        return loop, each
    inner = rows.parts[rows.parts.index(loop) + 1 :]
    return rows, each * types.product(part.size for part in inner)


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

"""Whether one loop over blocks of time may follow another, block by block: two layers of a stack, for example.

Let the first write row t of `h` in step t, and the second read rows `first` to `first + rows - 1` of `h` in a block.
The second may then run a block as soon as the first has run the same block. Meanwhile the first goes on to later
blocks, which write other rows.
"""

from collections.abc import Collection
from typing import NamedTuple

from scanjit import types
from scanjit.schedule.nests.branches import If
from scanjit.schedule.nests.buffers import Buffer, row_major
from scanjit.schedule.nests.extents import bound, extents, factor_of, ranges
from scanjit.schedule.nests.nest import Nest
from scanjit.schedule.nests.statement import Statement, with_outer
from scanjit.schedule.nests.steps import Blocks
from scanjit.schedule.nests.values import Load
from scanjit.types import Atom, Dimension


class Touched(NamedTuple):
    """The elements of a buffer that an access touches in one block, from `low` to `high`. An end that is not known is
    None. `always` says that no condition decides whether the access happens."""

    low: Dimension | None
    high: Dimension | None
    writes: bool
    always: bool


def follows(second: Blocks, first: Blocks, slots: Collection[Buffer] = ()) -> bool:
    """Whether `second` may run each block once `first` has run the same block, while `first` runs later ones. Both have
    equally many steps. What `second` reads of buffers with `slots` is no question (see `Wave`)."""
    ours, theirs = second.touched, first.touched
    touched = {buffer for buffer, _ in theirs}
    if any(writes and buffer in touched for buffer, writes in ours):
        return False
    between = [buffer for buffer, writes in theirs if writes and (buffer, False) in ours and buffer not in slots]
    return all(_is_ahead(first, second, buffer) for buffer in between)


def _is_ahead(first: Blocks, second: Blocks, buffer: Buffer) -> bool:
    """Whether later blocks of `first` write nothing in a buffer that `second` reads in this block."""
    written, read = spans(first, buffer), spans(second, buffer)
    if written is None or read is None or not buffer.shape:
        return False
    counters = dict(zip(types.atoms(second.first, second.count), (first.first, first.count), strict=True))
    read = [_renamed(span, counters) for span in read]
    pairs = [(span, other) for span in written if span.writes for other in read]
    return any(all(way(first, buffer, *pair) for pair in pairs) for way in (_behind, _in_front))


def _behind(first: Blocks, buffer: Buffer, written: Touched, read: Touched) -> bool:
    """Whether later blocks write only behind everything that is read in this block.

    If what is read moves by one row from step to step, and does not leave the buffer in the last step, the end of its
    last row is known, even if the sizes in the row are not.
    """
    begin, count = types.atoms(first.first, first.count)
    if written.low is None or not _moves_forth(written.low, begin, count):
        return False
    later = types.substitute(written.low, {begin: first.first + first.count})
    row, ends = row_major(buffer.shape)[0], [] if read.high is None else [read.high]
    done = first.first + first.count
    if read.high is not None and read.always and {begin, count}.isdisjoint(types.atoms(read.high - row * done)):
        ends.append(row * (done + buffer.shape[0] - first.total) - 1)
    return any(types.not_negative(later - 1 - end) for end in ends)


def _in_front(first: Blocks, buffer: Buffer, written: Touched, read: Touched) -> bool:
    """Whether later blocks write only in front of everything that is read in this block. Here the rows go down; what is
    written does not leave the buffer in the first step."""
    begin, count = types.atoms(first.first, first.count)
    if written.high is None or read.low is None or not _moves_forth(-written.high, begin, count):
        return False
    row, ends = row_major(buffer.shape)[0], [written.high]
    if written.always and begin not in types.atoms(written.high + row * first.first):
        ends.append(row * (buffer.shape[0] - first.first) - 1)
    later = [types.substitute(end, {begin: first.first + first.count}) for end in ends]
    return any(types.not_negative(read.low - 1 - end) for end in later)


def _moves_forth(dim: Dimension, begin: Atom, count: Atom) -> bool:
    """Whether a place moves forth from block to block, however many steps these have."""
    factor = factor_of(dim, begin)
    return factor is not None and types.not_negative(factor) and count not in types.atoms(dim)


def _renamed(span: Touched, counters: dict[Atom, Dimension]) -> Touched:
    low, high = (None if dim is None else types.substitute(dim, counters) for dim in (span.low, span.high))
    return span._replace(low=low, high=high)


def spans(blocks: Blocks, buffer: Buffer) -> list[Touched] | None:
    """What a block touches of a buffer, in terms of its first step and the number of its steps. None if some access is
    not known."""
    found: list[Touched] = []
    for statement, around in with_outer(blocks.suite):
        own = [extent for extent in extents(statement) if extent.buffer is buffer]
        if len(own) < sum(other is buffer for other, _, _ in statement.refs()):
            return None
        counted = tuple(ranges(loop) for loop in around)
        always = not any(isinstance(outer, If) for outer in around) and not _is_conditional(statement, buffer)
        for extent in own:
            span = extent.ends()
            if span is None:
                return None
            low, high = (bound(end, counted, last=last) for end, last in zip(span, (False, True), strict=True))
            found.append(Touched(low, high, extent.writes, always))
    return found


def _is_conditional(statement: Statement, buffer: Buffer) -> bool:
    loads = (value for value in statement.values if isinstance(value, Load)) if isinstance(statement, Nest) else ()
    return any(load.access.buffer is buffer and load.when != 1 for load in loads)

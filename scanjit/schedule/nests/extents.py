"""Where the accesses of statements begin and end, for all turns of the loops around them."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from scanjit import types
from scanjit.schedule.nests.array_job import ArrayJob
from scanjit.schedule.nests.buffers import Buffer, Ref
from scanjit.schedule.nests.nest import Nest
from scanjit.schedule.nests.pack import Pack
from scanjit.schedule.nests.statement import Statement
from scanjit.schedule.nests.steps import Blocks, TimeLoop
from scanjit.schedule.nests.values import Fetch, Search
from scanjit.types import Atom, Dimension

Axes = tuple[tuple[Dimension, Dimension], ...]
"""(size, stride) of each axis that an access goes along."""
Ranges = tuple[tuple[Atom, Dimension, Dimension], ...]
"""Counters, each with its first and its last value."""


class Extent(NamedTuple):
    """An access of a statement: its buffer, its offset, the axes that it goes along, and whether it writes."""

    buffer: Buffer
    offset: Dimension
    axes: Axes
    writes: bool

    def ends(self) -> tuple[Dimension, Dimension] | None:
        """The first and the last element of the access. None if the sign of a stride is not known."""
        return ends(self.offset, self.axes)


def ends(offset: Dimension, axes: Axes) -> tuple[Dimension, Dimension] | None:
    """The first and the last element of an access. None if the sign of a stride is not known."""
    back = [(size, stride) for size, stride in axes if types.not_negative(-stride)]
    forth = [(size, stride) for size, stride in axes if types.not_negative(stride)]
    return None if len(back) + len(forth) < len(axes) else (offset + _sum(back), offset + _sum(forth))


def _sum(axes: Iterable[tuple[Dimension, Dimension]]) -> Dimension:
    return sum(((size - 1) * stride for size, stride in axes), start=0)


def extents(statement: Statement) -> Iterator[Extent]:
    """The accesses of a statement, without those at places that are only known when it runs, and without panels."""
    if isinstance(statement, Nest):
        computed = {value.access for value in statement.values if isinstance(value, Fetch | Search)}
        computed |= {store.access for store in statement.stores if store.indices}
        for access, writes in statement.accesses:
            if access.panel is None and access not in computed:
                axes = tuple((k.size, step) for k, step in access.strides.items())
                yield Extent(access.buffer, access.offset, axes, writes)
        return
    refs: Iterable[tuple[Ref, bool]] = ()
    if isinstance(statement, Pack):
        refs = ((ref, False) for ref in statement.sources)
    elif isinstance(statement, ArrayJob):
        refs = statement.arrays
    for ref, writes in refs:
        yield Extent(ref.buffer, ref.offset, tuple(zip(ref.shape, ref.strides, strict=True)), writes)


def ranges(loop: Statement) -> Ranges:
    """The counters of a loop, each with its first and last value in terms of the counters and sizes around the loop."""
    if isinstance(loop, TimeLoop):
        last = loop.start + loop.length - 1
        rows = (loop.total - 1 - last, loop.total - 1 - loop.start) if loop.reverse else (loop.start, last)
        found = {loop.step: (loop.start, last), loop.row: rows}
    elif isinstance(loop, Blocks):
        found = {loop.first: (0, loop.total - 1)}
    else:
        found = {}
    return tuple((atom, *span) for dim, span in found.items() if (atom := types.as_atom(dim)) is not None)


def bound(dim: Dimension, counted: Iterable[Ranges], last: bool) -> Dimension | None:
    """The smallest or largest value of a dimension over the turns of loops, the innermost first. None if the dimension
    is not a sum of multiples of the counters, or if the sign of a multiple is not known."""
    for some in counted:
        for atom, first, final in some:
            if atom not in set(types.atoms(dim)):
                continue
            factor = factor_of(dim, atom)
            if factor is not None and types.not_negative(factor):
                dim = types.substitute(dim, {atom: final if last else first})
            elif factor is not None and types.not_negative(-factor):
                dim = types.substitute(dim, {atom: first if last else final})
            else:
                return None
    return dim


def factor_of(dim: Dimension, atom: Atom) -> Dimension | None:
    """By how much a dimension grows if an atom grows by 1; None if that depends on the atom."""
    factor = types.substitute(dim, {atom: 1}) - types.substitute(dim, {atom: 0})
    same = types.substitute(dim, {atom: 0}) + factor * types.dim_of(atom) == dim
    return factor if same and atom not in set(types.atoms(factor)) else None

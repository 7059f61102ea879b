"""The rule that nothing is read or written outside of its buffer, as far as sizes and counters decide it.

An access is refused if its first or last element is certainly outside, whatever the sizes are. What depends on sizes
that are not known is left to the emulator, which checks every load and store.
"""

from collections.abc import Iterable, Iterator
from functools import lru_cache

from scanjit import types
from scanjit.schedule.nests.array_job import ArrayJob
from scanjit.schedule.nests.buffers import Buffer, Ref
from scanjit.schedule.nests.nest import Nest
from scanjit.schedule.nests.pack import Pack
from scanjit.schedule.nests.program import Program
from scanjit.schedule.nests.statement import Statement
from scanjit.schedule.nests.steps import Blocks, TimeLoop
from scanjit.schedule.nests.values import Access, Fetch, Reduce, walk_values
from scanjit.schedule.nests.verify.walk import Problem, with_outer
from scanjit.types import Atom, Dimension

Axes = tuple[tuple[Dimension, Dimension], ...]
"""(size, stride) of each axis that an access goes along."""
Ranges = tuple[tuple[Atom, Dimension, Dimension], ...]
"""Counters, each with its first and its last value."""
REMEMBERED = 4096
"""So many answers are kept. Most accesses are the same after the next pass."""


def inside_buffers(program: Program) -> Iterator[Problem]:
    """No access reaches in front of its buffer or behind it."""
    for statement, outer in with_outer(program.suite):
        if not any(_never_runs(loop) for loop in outer):
            ranges = tuple(map(_ranges, reversed(outer)))
            for buffer, offset, axes in _extents(statement):
                for text in _outside(offset, axes, types.product(buffer.shape), ranges):
                    yield statement, text.format(repr(buffer.name))


def _never_runs(loop: Statement) -> bool:
    return (isinstance(loop, TimeLoop) and loop.length == 0) or (isinstance(loop, Blocks) and loop.total == 0)


@lru_cache(REMEMBERED)
def _outside(offset: Dimension, axes: Axes, total: Dimension, ranges: tuple[Ranges, ...]) -> list[str]:
    """How an access certainly reaches outside a buffer of `total` elements: messages, with {} for the name of the
    buffer. An access along an axis of size 0 touches nothing."""
    back = [(size, stride) for size, stride in axes if types.not_negative(-stride)]
    forth = [(size, stride) for size, stride in axes if types.not_negative(stride)]
    if total == 0 or any(size == 0 for size, _ in axes) or len(back) + len(forth) < len(axes):
        return []
    low = _bound(offset + _sum(back), ranges, last=False)
    high = _bound(offset + _sum(forth), ranges, last=True)
    found = []
    if low is not None and types.not_negative(-1 - low):
        found.append(f"it reaches {low} of {{}}, in front of its first element")
    if high is not None and types.not_negative(high - total):
        found.append(f"it reaches {high} of {{}}, which has {total} elements")
    return found


def _sum(axes: Iterable[tuple[Dimension, Dimension]]) -> Dimension:
    return sum(((size - 1) * stride for size, stride in axes), start=0)


def _extents(statement: Statement) -> Iterator[tuple[Buffer, Dimension, Axes]]:
    """Each access of a statement: its buffer, its offset, and the axes that it goes along."""
    if isinstance(statement, Nest):
        yield from _extents_of_nest(statement)
        return
    refs: Iterable[Ref] = ()
    if isinstance(statement, Pack):
        refs = statement.sources
    elif isinstance(statement, ArrayJob):
        refs = (ref for ref, _ in statement.arrays)
    for ref in refs:
        yield ref.buffer, ref.offset, tuple(zip(ref.shape, ref.strides, strict=True))


def _extents_of_nest(nest: Nest) -> Iterator[tuple[Buffer, Dimension, Axes]]:
    """The accesses of a nest, without those at places that are only known when it runs."""
    if any(store.indices for store in nest.stores) or any(loop.size == 0 for loop in nest.space):
        return
    others = _in_empty_sums(nest) | {value.access for value in nest.values if isinstance(value, Fetch)}
    for access, _ in nest.accesses():
        if access.panel is None and access not in others:
            yield access.buffer, access.offset, tuple((k.size, step) for k, step in access.strides.items())


def _in_empty_sums(nest: Nest) -> set[Access]:
    """The accesses of reductions that go over nothing."""
    sums = (value for value in walk_values(nest.roots) if isinstance(value, Reduce))
    inside = walk_values([v for s in sums if any(loop.size == 0 for loop in s.loops) for v in s.operands])
    return {access for value in inside for access in value.accesses}


def _ranges(loop: Statement) -> Ranges:
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


def _bound(dim: Dimension, ranges: Iterable[Ranges], last: bool) -> Dimension | None:
    """The smallest or largest value of a dimension over the turns of loops, the innermost first. None if the dimension
    is not a sum of multiples of the counters, or if the sign of a multiple is not known."""
    for counted in ranges:
        for atom, first, final in counted:
            if atom not in set(types.atoms(dim)):
                continue
            factor = types.substitute(dim, {atom: 1}) - types.substitute(dim, {atom: 0})
            if (
                atom in set(types.atoms(factor))
                or types.substitute(dim, {atom: 0}) + factor * types.dim_of(atom) != dim
            ):
                return None
            if types.not_negative(factor):
                dim = types.substitute(dim, {atom: final if last else first})
            elif types.not_negative(-factor):
                dim = types.substitute(dim, {atom: first if last else final})
            else:
                return None
    return dim

"""The rule that nothing is read or written outside of its buffer, as far as sizes and counters decide it.

An access is refused if its first or last element is certainly outside, whatever the sizes are. What depends on sizes
that are not known is left to the emulator, which checks every load and store.
"""

from collections.abc import Iterator
from functools import lru_cache

from scanjit import types
from scanjit.schedule.nests.extents import Axes, Extent, Ranges, bound, ends, extents, ranges
from scanjit.schedule.nests.nest import Nest
from scanjit.schedule.nests.program import Program
from scanjit.schedule.nests.statement import Statement, with_outer
from scanjit.schedule.nests.steps import Blocks, TimeLoop
from scanjit.schedule.nests.verify.problem import Problem
from scanjit.types import Dimension

REMEMBERED = 4096
"""So many answers are kept. Most accesses are the same after the next pass."""


def inside_buffers(program: Program) -> Iterator[Problem]:
    """No access reaches in front of its buffer or behind it."""
    for statement, outer in with_outer(program.suite):
        if not any(_never_runs(loop) for loop in outer):
            counted = tuple(map(ranges, outer))
            for buffer, offset, axes, _ in _certain(statement):
                for text in _outside(offset, axes, types.product(buffer.shape), counted):
                    yield statement, text.format(repr(buffer.name))


def _never_runs(loop: Statement) -> bool:
    return (isinstance(loop, TimeLoop) and loop.length == 0) or (isinstance(loop, Blocks) and loop.total == 0)


@lru_cache(REMEMBERED)
def _outside(offset: Dimension, axes: Axes, total: Dimension, counted: tuple[Ranges, ...]) -> list[str]:
    """How an access certainly reaches outside a buffer of `total` elements: messages, with {} for the name of the
    buffer. An access along an axis of size 0 touches nothing."""
    span = ends(offset, axes)
    if total == 0 or any(size == 0 for size, _ in axes) or span is None:
        return []
    low, high = bound(span[0], counted, last=False), bound(span[1], counted, last=True)
    found = []
    if low is not None and types.not_negative(-1 - low):
        found.append(f"it reaches {low} of {{}}, in front of its first element")
    if high is not None and types.not_negative(high - total):
        found.append(f"it reaches {high} of {{}}, which has {total} elements")
    return found


def _certain(statement: Statement) -> Iterator[Extent]:
    """The accesses of a statement that certainly happen: not those of a nest that writes at computed places, or that
    has no points."""
    if isinstance(statement, Nest) and (
        any(store.indices for store in statement.stores) or any(loop.size == 0 for loop in statement.space)
    ):
        return iter(())
    return extents(statement)

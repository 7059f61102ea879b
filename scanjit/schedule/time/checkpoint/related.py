"""Which loops may go over their steps in the same stretches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from scanjit import types
from scanjit.schedule.fuse.groups import Group
from scanjit.schedule.nests import Buffer
from scanjit.schedule.tiles.linear import linear
from scanjit.schedule.tiles.merge import merge_loops
from scanjit.schedule.time.chains import Chain
from scanjit.schedule.time.checkpoint.candidate import reads_of
from scanjit.schedule.time.flow import Flow, can_be_cut, the_scan


def related(flow: Flow, chains: Mapping[Group, Chain], root: Group, others: Iterable[Group]) -> tuple[Group, ...]:
    """A loop, and those after it that read what it stores: first those that read it themselves, then those that read
    what was made of it."""
    found = [root]
    fits = [loop for loop in others if flow.at[loop] > flow.at[root] and _fits(root, loop)]
    for directly in (True, False):
        for loop in fits:
            made = set[Buffer]().union(*(flow.writes[member] for member in found))
            reads = made & reads_of(flow, chains, loop) if directly else set(found).intersection(reached(flow, loop))
            if loop not in found and reads and all(_in_order(flow, chains, loop, other, found) for other in found):
                found.append(loop)
    return tuple(sorted(found, key=flow.at.__getitem__))


def is_linear(loop: Group) -> bool:
    """Whether several steps of a loop are computed at a time. How its results are rounded depends on where it begins,
    so it cannot begin elsewhere."""
    nest = the_scan(loop).nest
    return nest is not None and bool(linear(merge_loops(nest)))  # without loops of one iteration, as it will be tiled


def reached(flow: Flow, loop: Group) -> Iterator[Group]:
    """The loops whose results a loop reads, or what nests made of them."""
    seen: set[Group] = set()
    stack = [loop]
    while stack:
        more = flow.needs[stack.pop()] - seen
        seen |= more
        yield from (group for group in more if group not in flow.nests)
        stack += [group for group in more if group in flow.nests]


def depend(flow: Flow, a: Group, b: Group) -> bool:
    """Whether one group needs the other."""
    return a in flow.below[b] or b in flow.below[a]


def _fits(root: Group, loop: Group) -> bool:
    """Whether a loop goes over the steps of another one, or over the last of them."""
    if not can_be_cut(loop) or is_linear(loop):
        return False
    return types.not_negative(the_scan(root).plan.length - the_scan(loop).plan.length)


def _in_order(flow: Flow, chains: Mapping[Group, Chain], loop: Group, other: Group, found: Sequence[Group]) -> bool:
    """Whether one of two loops may wait for the other: if it needs it, or if both go the same way and read what a loop
    made that goes the other way (two gradients of one loop)."""
    if depend(flow, loop, other):
        return True
    both = reads_of(flow, chains, loop) & reads_of(flow, chains, other)
    reverse = the_scan(loop).plan.reverse
    against = [member for member in found if the_scan(member).plan.reverse != reverse]
    return the_scan(other).plan.reverse == reverse and any(both & flow.writes[member] for member in against)

"""Which loops may go over their steps in the same stretches."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from scanjit import types
from scanjit.schedule.nests import Buffer, Nest, Statement
from scanjit.schedule.tiles.linear import linear
from scanjit.schedule.tiles.merge import merge_loops
from scanjit.schedule.time.chains import Chain
from scanjit.schedule.time.checkpoint.candidate import reads_of
from scanjit.schedule.time.flow import Flow, can_be_cut, plan_of
from scanjit.walks import top_down


def related(
    flow: Flow, chains: Mapping[Statement, Chain], root: Statement, others: Iterable[Statement]
) -> tuple[Statement, ...]:
    """A loop, and the later loops that read what it stores, in order. Loops that read it directly are found first, then
    loops that read results of those."""
    found = [root]
    fits = [loop for loop in others if flow.at[loop] > flow.at[root] and _fits(root, loop)]
    for directly in (True, False):
        for loop in fits:
            made = set[Buffer]().union(*(flow.writes[member] for member in found))
            reads = made & reads_of(flow, chains, loop) if directly else set(found).intersection(reached(flow, loop))
            if loop not in found and reads and all(_in_order(flow, chains, loop, other, found) for other in found):
                found.append(loop)
    return tuple(sorted(found, key=flow.at.__getitem__))


def is_linear(loop: Statement) -> bool:
    """Whether several steps of a loop are computed at a time. Rounding then depends on the first step, so the loop
    cannot begin at another one."""
    return isinstance(loop, Nest) and bool(linear(merge_loops(loop)))  # merged as it will be tiled


def reached(flow: Flow, loop: Statement) -> Iterator[Statement]:
    """The loops whose results a loop reads, directly or through nests."""
    met = top_down(flow.needs[loop], lambda statement: flow.needs[statement] if statement in flow.nests else ())
    return (statement for statement in met if statement not in flow.nests)


def depend(flow: Flow, a: Statement, b: Statement) -> bool:
    """Whether one statement needs the other."""
    return a in flow.below[b] or b in flow.below[a]


def _fits(root: Statement, loop: Statement) -> bool:
    """Whether a loop goes over the steps of another one, or over the last of them."""
    if not can_be_cut(loop) or is_linear(loop):
        return False
    return types.not_negative(plan_of(root).length - plan_of(loop).length)


def _in_order(
    flow: Flow, chains: Mapping[Statement, Chain], loop: Statement, other: Statement, found: Sequence[Statement]
) -> bool:
    """Whether it is known which of two loops waits for the other. It is if one needs the other. It also is if both go
    the same way and read a result of a loop that goes the other way, as two gradients of one loop do."""
    if depend(flow, loop, other):
        return True
    both = reads_of(flow, chains, loop) & reads_of(flow, chains, other)
    reverse = plan_of(loop).reverse
    against = [member for member in found if plan_of(member).reverse != reverse]
    return plan_of(other).reverse == reverse and any(both & flow.writes[member] for member in against)

"""Carries of which a step changes a few elements, such as ratings of which a game changes two. They have one place in
memory, where the step writes only these elements."""

from collections.abc import Container, Iterator, Mapping, Sequence

from scanjit import ir
from scanjit.ir import Node
from scanjit.ops import View
from scanjit.ops.index import SCATTER
from scanjit.ops.shape import SET_SLICE
from scanjit.schedule.lower.ops.step import LoweredStep

_CHANGES = (SCATTER, SET_SLICE)
"""The ops whose result is their first operand with some elements changed."""


def overwritten(step: LoweredStep) -> dict[int, list[Node]]:
    """The carries that a step can change in place, by number. Each comes with the nodes that read it, which must be
    computed before its first change."""
    users, found, results = ir.users_among(ir.walk(step.results)), dict[int, list[Node]](), set(step.results)
    changed, needed = dict[int, set[Node]](), dict[int, set[Node]]()
    for i, (before, after) in enumerate(zip(step.carries, step.new, strict=True)):
        changes = list(_changes(before, after, users, results))
        early = _early(before, changes, users, results) if changes else None
        if early is not None:
            changed[i], needed[i] = set(changes), set(ir.walk(early))
            if _waits_for_itself(i, changed, needed):
                del changed[i], needed[i]
            else:
                found[i] = early
    return found


def _waits_for_itself(i: int, changed: Mapping[int, set[Node]], needed: Mapping[int, set[Node]]) -> bool:
    """Whether a carry could be changed only after another one that can be changed only after it, as if two carries
    swap an element."""
    met, stack = set[int](), [i]
    while stack:
        at = stack.pop()
        others = [j for j in changed if j != at and not changed[j].isdisjoint(needed[at])]
        if i in others:
            return True
        stack += [j for j in others if j not in met]
        met.update(others)
    return False


def _changes(
    before: Node, after: Node, users: Mapping[Node, Sequence[Node]], results: Container[Node]
) -> Iterator[Node]:
    """The ops that turn a carry into the next one, the last op first. There are none if one of them cannot change a
    tensor in place, or if anything else reads a result between two of them."""
    chain, node = list[Node](), after
    while node.op in _CHANGES and (node is after or (len(users[node]) == 1 and node not in results)):
        chain.append(node)
        node = node.operands[0]
    if node is before:
        yield from chain


def _early(
    before: Node, changes: Sequence[Node], users: Mapping[Node, Sequence[Node]], results: Container[Node]
) -> list[Node] | None:
    """The nodes to compute before a carry is changed: its readers and, if there are several changes, the values that
    they write. None if a reader depends on the changed carry, or if a step returns the old carry."""
    readers, stack = dict[Node, None](), [before]
    while stack:
        if (node := stack.pop()) in results:
            return None
        for user in users[node]:
            if isinstance(user.op, View):
                stack.append(user)
            elif user is not changes[-1] or node is not before or before in set(user.operands[1:]):
                readers |= dict.fromkeys(users[user] if user.several else [user])
    if not set(changes).isdisjoint(ir.walk(readers)):
        return None
    written = [node for change in changes for node in change.operands[1:]] if len(changes) > 1 else []
    return [*readers, *(node for node in written if node.op not in ir.ORIGINS and node not in readers)]

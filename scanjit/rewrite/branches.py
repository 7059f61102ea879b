"""Branches: what is computed anyway is not computed again inside of them, nor are sizes; and a condition that is known
is none."""

from __future__ import annotations

import operator
from collections.abc import Sequence

from scanjit.ir import PART, Node, replace, walk
from scanjit.ops.branch import IFELSE, cut
from scanjit.ops.stretch import constant_value
from scanjit.rewrite.engine import Note, Rules, in_bodies
from scanjit.walks import bottom_up

rules = Rules()


@rules.rule(PART)
def known_branch(node: Node) -> Node | None:
    """ifelse(True, a, b) -> a;  ifelse(False, a, b) -> b"""
    (whole,) = node.operands
    value = constant_value(whole.operands[0]) if whole.op is IFELSE else None
    if value is None:
        return None
    outputs = whole.params["body"](*whole.operands[1:])
    return outputs[node.params["index"] + (0 if value else len(outputs) // 2)]


def share(outputs: list[Node], notes: list[Note]) -> list[Node]:
    """Make an operand of an ifelse what its branch would compute though the graph around computes it too."""
    order = walk(outputs)
    if any(node.op is IFELSE for node in order):  # what is made of constants and sizes belongs to every graph
        outputs = replace(outputs, cut(outputs, {node for node in order if not node.is_closed}))
    return in_bodies(outputs, lambda inner: share(inner, notes))


def sizes_outside(outputs: list[Node], notes: list[Note]) -> list[Node]:
    """Compute before an ifelse the values that are sizes inside of its branches: memory is planned before it runs."""
    while sizes := _sizes(outputs):  # what depends on an inner branch is another node once that has given up a size
        before, outputs = outputs, share(replace(outputs, cut(outputs, sizes)), notes)
        if all(map(operator.is_, before, outputs)):
            break
    return in_bodies(outputs, lambda inner: sizes_outside(inner, notes))


def _sizes(outputs: Sequence[Node]) -> set[Node]:
    """The nodes inside of branches whose values are sizes there, and that are no operands."""
    branches: dict[Node, list[Node]] = {}

    def below(node: Node) -> Sequence[Node]:
        if node.op is not IFELSE:
            return node.args
        if node not in branches:
            branches[node] = node.params["body"](*node.operands[1:])
        return (*node.args, *branches[node])

    bottom_up(outputs, below)
    found: set[Node] = set()
    for node, inside in branches.items():
        used = {size for inner in walk(inside) for size in inner.args[inner.arity :]}
        found |= {size for size in used - set(node.operands) if not size.is_closed}
    return found

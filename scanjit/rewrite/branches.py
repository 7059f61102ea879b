"""Branches of `ifelse`: values that are computed outside anyway are not computed inside again, and sizes are computed
outside. An ifelse with a constant condition becomes its branch."""

from __future__ import annotations

import operator
from collections.abc import Sequence

from scanjit.ir import PART, Node, constant, dim_nodes, replace, walk
from scanjit.ops.branch import IFELSE, captured, cut
from scanjit.ops.shape import zeros_like
from scanjit.ops.stretch import constant_value
from scanjit.rewrite.engine import Note, Rules, in_bodies
from scanjit.rewrite.unfit import never_fails
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
    """If a branch of an ifelse and the graph around it compute the same value, make that value an operand of the
    ifelse."""
    order = walk(outputs)
    if any(node.op is IFELSE for node in order):  # nodes of constants and named sizes alone belong to every graph
        outputs = replace(outputs, cut(outputs, {node for node in order if not node.is_closed}))
    return in_bodies(outputs, lambda inner: share(inner, notes))


def sizes_outside(outputs: list[Node], notes: list[Note]) -> list[Node]:
    """Compute before an ifelse the values that are sizes inside of its branches: memory is planned before it runs. A
    size whose computation may fail is computed only if the branch is taken; else it is 0."""
    guarded = _guarded(outputs, sizes) if (sizes := _sizes(outputs)) else {}
    while sizes:  # once an inner branch gives up a size, its users are new nodes
        before, outputs = outputs, share(replace(replace(outputs, cut(outputs, sizes)), guarded), notes)
        guarded, sizes = {}, _sizes(outputs)
        if all(map(operator.is_, before, outputs)):
            break
    return in_bodies(outputs, lambda inner: sizes_outside(inner, notes))


def _guarded(outputs: Sequence[Node], sizes: set[Node]) -> dict[Node, Node]:
    """Sizes whose computation may fail, each mapped to an ifelse that computes it only if a branch that uses it is
    taken."""
    computed = set(walk(outputs))
    taken: dict[Node, Node] = {}

    def visit(order: Sequence[Node], active: Node | None) -> None:
        """Find the sizes in branches. `active`: whether the branch around them is taken."""
        for node in order:
            if node in sizes and node not in computed and active is not None:
                taken[node] = taken[node] | active if node in taken else active
            if node.op is IFELSE:
                condition, *operands = node.operands
                inside, half = node.params["body"](*operands), len(node.types)
                given = set(operands)
                for results, chosen in ((inside[:half], condition), (inside[half:], ~condition)):
                    own = [inner for inner in walk(results, given) if inner not in given]
                    visit(own, chosen if active is None else captured(active, [chosen], [constant(False)])[0])

    visit(walk(outputs), None)
    risky = {size: active for size, active in taken.items() if not never_fails([size], computed)}
    return {size: captured(active, [size], [zeros_like(size)])[0] for size, active in risky.items()}


def _sizes(outputs: Sequence[Node]) -> set[Node]:
    """The nodes inside of branches whose values are sizes there. Operands of the ifelse are not included."""
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
        used = {size for inner in walk(inside) for size in dim_nodes(inner.params)}
        found |= {size for size in used - set(node.operands) if not size.is_closed}
    return found

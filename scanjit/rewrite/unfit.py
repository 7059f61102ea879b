"""Sizes that do not fit in a branch: of `ifelse(c, lambda: filter(f, x)[-1], 0)`, where no row of `x` is kept.

Sizes outside of branches are checked before anything runs. In a branch, a size that does not fit is an error only if
the branch is taken, which is known when the function runs. Such a branch must not run, since its memory is planned by
its sizes.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Sequence

from scanjit import types
from scanjit.ir import LEAVES, PART, Node, apply, constant, dim_node, inferred_types, rebuilt, replace, walk
from scanjit.ops.branch import IFELSE, branch, captured, opened
from scanjit.ops.elementwise import GREATER, NOT_EQUAL
from scanjit.ops.scan import SCAN
from scanjit.ops.stretch import zeros_like
from scanjit.types import Condition


def without_unfit(outputs: Sequence[Node]) -> tuple[list[Node], list[Node]]:
    """The outputs, changed so that a branch whose sizes do not fit does not run (its results are zeros); and bool
    scalars, one of which is true if such a branch was taken. For graphs in which no branch computes a size."""
    results: dict[Node, Sequence[Node]] = {}
    found: list[Node] = []

    def replaced(old: Node, new: Node) -> Node | None:
        if old.op is IFELSE and (made := _fitting(new)) is not None:
            results[old], unfit = made
            found.append(unfit)
        given = results.get(old.args[0]) if old.op is PART else None
        return None if given is None else given[old.params["index"]]

    return rebuilt(outputs, replaced), found


def _fitting(node: Node) -> tuple[Sequence[Node], Node] | None:
    """The results of an ifelse that does not run a branch whose sizes do not fit, and a bool: whether such a branch was
    taken. None if all sizes certainly fit."""
    inputs, *halves = opened(node)
    made = [without_unfit(half) for half in halves]
    own = [[_broken(condition) for condition in _conditions(walk(half))] for half, _ in made]
    inside = [found for _, found in made]
    if not any(own) and not any(inside):
        return None
    condition, *operands = node.operands
    pairs = list(zip(inputs, operands, strict=True))
    then, other = ([*half, _any(found)] for half, found in made)
    results: Sequence[Node] = branch(condition, then, other, pairs)
    unfit = _any([])
    if any(own):
        unfit = _taken_unfit(node, replace([_any(broken) for broken in own], dict(pairs)))
        results = captured(unfit, list(map(zeros_like, results)), results, at={*node.operands, unfit})
    *results, deeper = results
    return results, unfit | deeper


def _taken_unfit(node: Node, broken: Sequence[Node]) -> Node:
    """Whether a condition is broken in the branch that is taken. `broken` says it for each branch."""
    condition, then, other = node.operands[0], *broken
    if never_fails(broken, set(node.operands)):
        return (condition & then) | (~condition & other)
    # The computation of `broken` may fail too, so only the branch that is taken may do it.
    flags, found = without_unfit(captured(condition, [then], [other], at=set(node.operands)))
    return _any([*flags, *found])


def never_fails(outputs: Sequence[Node], known: Collection[Node] = ()) -> bool:
    """Whether computing outputs from the `known` nodes raises no error and reads no memory outside of an array,
    for any values of these nodes."""
    nodes = [node for node in walk(outputs, known) if node not in known]
    return all((node.op.never_fails or node.op in LEAVES) and not _uncertain(node) for node in nodes)


def _conditions(nodes: Iterable[Node]) -> list[Condition]:
    """The relations between computed sizes that nodes rely on; in a loop too, where all steps have these sizes."""
    found: dict[tuple[object, ...], Condition] = {}
    for node in nodes:
        for c in _uncertain(node):
            if any(a.kind == "value" for dim in (c.left, c.right) for a in types.atoms(dim)):
                found.setdefault((c.kind, c.left, c.right), c)
    return list(found.values())


def _uncertain(node: Node) -> list[Condition]:
    """The relations between sizes that a node relies on, without those that hold for all sizes."""
    if not node.operands:
        return []
    with types.collecting() as found:
        inferred_types(node)
    if node.op is SCAN:
        body = node.params["body"]
        sizes = {body.inputs[i].dim_atom: dim for i, dim in node.params["sizes"]}
        for c in _conditions(body.nodes()):
            inside = {a.node for dim in (c.left, c.right) for a in types.atoms(dim) if a.kind == "value"}
            if all(value.is_closed or value.dim_atom in sizes for value in inside):
                left, right = (types.substitute(dim, sizes) for dim in (c.left, c.right))
                found.append(c._replace(left=left, right=right))
    return [c for c in found if not types.not_negative(c.right - c.left)]


def _broken(condition: Condition) -> Node:
    """Whether a relation does not hold."""
    return apply(GREATER if condition.kind == "<=" else NOT_EQUAL, dim_node(condition.left), dim_node(condition.right))


def _any(conditions: Sequence[Node]) -> Node:
    return functools.reduce(lambda a, b: a | b, conditions) if conditions else constant(False)

"""Sizes that do not fit in a branch: of `ifelse(c, lambda: filter(f, x)[-1], 0)`, where no row of `x` is kept.

What is written outside of branches is checked before anything runs. In a branch it is an error only if the branch is
taken, which is known when the function runs. Such a branch is not run, for memory is planned by its sizes.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from scanjit import types
from scanjit.ir import PART, Node, apply, constant, dim_node, inferred_types, rebuild, replace, walk
from scanjit.ops.branch import IFELSE, branch, captured, opened
from scanjit.ops.elementwise import GREATER, NOT_EQUAL
from scanjit.ops.stretch import zeros_like
from scanjit.types import Condition


def without_unfit(outputs: Sequence[Node]) -> tuple[list[Node], list[Node]]:
    """The outputs, where no branch runs whose sizes do not fit (its results are zeros); and bool scalars, one of which
    is true if there was such a branch. For graphs in which no branch computes a size."""
    done: dict[Node, Node] = {}
    results: dict[Node, Sequence[Node]] = {}
    found: list[Node] = []
    for node in walk(outputs):
        if node.op is PART and node.args[0] in results:
            done[node] = results[node.args[0]][node.params["index"]]
            continue
        done[node] = new = rebuild(node, tuple(done[arg] for arg in node.args))
        made = _fitting(new) if node.op is IFELSE else None
        if made is not None:
            results[node], unfit = made
            found.append(unfit)
    return [done[output] for output in outputs], found


def _fitting(node: Node) -> tuple[Sequence[Node], Node] | None:
    """The results of an ifelse that does not run a branch whose sizes do not fit, and whether there is one that would
    have been run; None if all fit for certain."""
    inputs, *halves = opened(node)
    made = [without_unfit(half) for half in halves]
    own = [[_broken(condition) for condition in _conditions(half)] for half, _ in made]
    inside = [found for _, found in made]
    if not any(own) and not any(inside):
        return None
    condition, *operands = node.operands
    pairs = list(zip(inputs, operands, strict=True))
    then, other = ([*half, _any(found)] for half, found in made)
    results: Sequence[Node] = branch(condition, then, other, pairs)
    unfit = _any([])
    if any(own):
        here = replace([_any(broken) for broken in own], dict(pairs))
        unfit = (condition & here[0]) | (~condition & here[1])
        results = captured(unfit, list(map(zeros_like, results)), results, at={*node.operands, unfit})
    *results, deeper = results
    return results, unfit | deeper


def _conditions(outputs: Sequence[Node]) -> list[Condition]:
    """The relations between computed sizes that a graph relies on (without those in graphs inside)."""
    found: dict[tuple[object, ...], Condition] = {}
    for node in walk(outputs):
        if node.operands:
            with types.collecting() as relied:
                inferred_types(node)
            for c in relied:
                computed = any(a.kind == "value" for dim in (c.left, c.right) for a in types.atoms(dim))
                if computed and not types.not_negative(c.right - c.left):
                    found.setdefault((c.kind, c.left, c.right), c)
    return list(found.values())


def _broken(condition: Condition) -> Node:
    """Whether a relation does not hold."""
    return apply(GREATER if condition.kind == "<=" else NOT_EQUAL, dim_node(condition.left), dim_node(condition.right))


def _any(conditions: Sequence[Node]) -> Node:
    return functools.reduce(lambda a, b: a | b, conditions) if conditions else constant(False)

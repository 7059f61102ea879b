"""Branches of `ifelse`: values that are computed outside anyway are not computed again inside, sizes are computed
outside, and an ifelse with a constant condition becomes its branch."""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence

from scanjit import errors, types
from scanjit.ir import CONSTANT, PART, Node, as_dim, constant, map_dims, new_input, replace, walk
from scanjit.ops.branch import IFELSE, branch, captured, cut, opened
from scanjit.ops.stretch import constant_value, zeros_like
from scanjit.rewrite.engine import Note, RuleTable, in_bodies
from scanjit.rewrite.unfit import computable, never_fails
from scanjit.walks import bottom_up

rules = RuleTable()


@rules.nested(PART, of=[IFELSE])
def known_branch(node: Node, whole: Node) -> Node | None:
    """ifelse(True, a, b) -> a;  ifelse(False, a, b) -> b"""
    value = constant_value(whole.operands[0])
    if value is None:
        return None
    body = whole.params["body"]
    chosen = body.outputs[node.params["index"] + (0 if value else len(body.outputs) // 2)]
    # sizes of the other need not fit
    return replace([chosen], dict(zip(body.inputs, whole.operands[1:], strict=True)))[0]


@rules.nested(PART, of=[IFELSE])
def known_size(node: Node, whole: Node) -> Node | None:
    """ifelse(c, x[:n], y[:n]) for n = 3 -> ifelse(c, x[:3], y[:3]). A branch that 3 does not fit becomes zeros: it does
    not run (see `rewrite.unfit`)."""
    condition, *operands = whole.operands
    numbers = {i: operands[i] for i, _ in whole.params["sizes"] if operands[i].op is CONSTANT}
    if not numbers:
        return None
    inputs, then, other = opened(whole)
    dims = {inputs[i].dim_atom: as_dim(number) for i, number in numbers.items()}
    typed = [new_input(map_dims(inner.type, lambda dim: types.substitute(dim, dims)), inner.name) for inner in inputs]
    values = {inner: numbers.get(i, typed[i]) for i, inner in enumerate(inputs)}

    def fitting(outputs: Sequence[Node]) -> list[Node]:
        try:
            return replace(outputs, values)
        except (errors.OutOfBoundsError, errors.ShapeError):
            return replace(list(map(zeros_like, outputs)), values)

    results = branch(condition, fitting(then), fitting(other), list(zip(typed, operands, strict=True)))
    return results[node.params["index"]]


def share(outputs: list[Node], notes: list[Note]) -> list[Node]:
    """If a branch of an ifelse and the graph around it compute the same value, make that value an operand of the
    ifelse."""
    order = walk(outputs)
    if any(node.op is IFELSE for node in order):  # nodes of constants and named sizes alone belong to every graph
        outputs = replace(outputs, cut(outputs, {node for node in order if not node.is_closed}))
    return in_bodies(outputs, lambda inner: share(inner, notes))


def sizes_outside(outputs: list[Node], notes: list[Note]) -> list[Node]:
    """Compute values that are sizes inside branches before the ifelse, since memory is planned before it runs. If
    computing a size may fail, it is computed only if its branch is taken; otherwise it is 0."""
    return _sizes_outside(outputs, notes, step=False)


def _sizes_outside(outputs: list[Node], notes: list[Note], step: bool) -> list[Node]:
    """As `sizes_outside`, for a graph or for a `step`."""
    while sizes := _sizes(outputs):  # once an inner branch gives up a size, its users are new nodes
        before, taken, moved = outputs, _taken(outputs, sizes), cut(outputs, sizes)
        guards = _guards(set(walk(outputs)), replace(list(taken), moved), replace(list(taken.values()), moved), step)
        outputs = share(replace(replace(outputs, moved), guards), notes)
        if all(map(operator.is_, before, outputs)):
            break
    return in_bodies(outputs, lambda inner: _sizes_outside(inner, notes, step=True))


def _taken(outputs: Sequence[Node], sizes: set[Node]) -> dict[Node, Node]:
    """Maps each size that only branches compute to a bool: whether a branch that uses it is taken. A size comes behind
    those that it depends on."""
    computed = set(walk(outputs))
    uses: dict[Node, list[tuple[Node, ...]]] = {}
    """For each size: the conditions of the branches around each of its uses, the outer ones first."""

    def visit(order: Sequence[Node], around: tuple[Node, ...]) -> None:
        """Find the sizes in branches. `around`: the conditions that hold there."""
        for node in order:
            if node in sizes and node not in computed and around:
                # Where `a` and `b` hold, `a` does: if `b` is computed from the size, the size depends on `a` alone.
                others = uses.setdefault(node, [])
                if not any(set(other) <= set(around) for other in others):
                    uses[node] = [*(other for other in others if not set(around) <= set(other)), around]
            if node.op is IFELSE:
                condition, *operands = node.operands
                inside, half = node.params["body"](*operands), len(node.types)
                given = set(operands)
                for results, chosen in ((inside[:half], condition), (inside[half:], ~condition)):
                    visit([inner for inner in walk(results, given) if inner not in given], (*around, chosen))

    visit(walk(outputs), ())
    taken = {size: functools.reduce(operator.or_, map(_all, found)) for size, found in uses.items()}
    return {size: taken[size] for size in walk(taken) if size in taken}


def _all(conditions: Sequence[Node]) -> Node:
    """Whether all conditions hold. Each is computed only where those before it hold."""
    return functools.reduce(lambda before, c: captured(before, [c], [constant(False)])[0], conditions)


def _guards(known: set[Node], sizes: Sequence[Node], taken: Sequence[Node], step: bool) -> dict[Node, Node]:
    """Maps sizes whose computation may fail to an ifelse that computes the size only if a branch that uses it is taken.

    A size in a step must be the same in all steps, whichever branches these take. There, a size is computed if all
    sizes that it depends on fit. If they do not, the branch must not run anyway (see `rewrite.unfit`).
    """
    guards: dict[Node, Node] = {}
    for key, active in zip(sizes, taken, strict=True):
        size, wanted = replace([key, active], guards)
        if never_fails([size], known):
            continue
        safe = computable([size], known) if step else None
        if safe is not None:
            wanted = safe
        guards[key] = captured(wanted, [size], [zeros_like(size)], known)[0]
        known.add(guards[key])
    return guards


def _sizes(outputs: Sequence[Node]) -> set[Node]:
    """The nodes inside branches whose values are sizes there, other than operands. There are none once all sizes that
    branches use are operands."""
    branches: dict[Node, list[Node]] = {}

    def below(node: Node) -> Sequence[Node]:
        if node.op is not IFELSE:
            return node.args
        if node not in branches:
            branches[node] = node.params["body"](*node.operands[1:])
        return (*node.args, *branches[node])

    bottom_up(outputs, below)
    found: set[Node] = set()
    needed = False
    for node, inside in branches.items():
        given = set(node.operands)
        own = (inner for inner in walk(inside, given) if inner not in given)
        needed = needed or any(not (size in given or size.is_closed) for inner in own for size in inner.applied.sizes)
        # Sizes that operands are made of come along: so branches that read each other give up theirs together.
        used = {size for inner in walk(inside) for size in inner.applied.sizes}
        found |= {size for size in used - given if not size.is_closed}
    return found if needed else set()

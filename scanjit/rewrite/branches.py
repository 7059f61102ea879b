"""Branches of `ifelse`: values that are computed outside anyway are not computed again inside, sizes are computed
outside, and an ifelse with a constant condition becomes its branch."""

from __future__ import annotations

import operator
from collections.abc import Sequence

from scanjit import errors, types
from scanjit.ir import CONSTANT, PART, Node, as_dim, map_dims, new_input, parts, rebuilt, replace, walk
from scanjit.ops.branch import IFELSE, branch, captured, cut, opened
from scanjit.ops.stretch import constant_value, zeros_like
from scanjit.rewrite.engine import Note, RuleTable, in_bodies
from scanjit.rewrite.unfit import computable, never_fails

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
        outputs = replace(outputs, cut(outputs, {node for node in order if not node.is_closed}, deeper=True))
    return _shared_in_steps(outputs, notes)


def _shared_in_steps(outputs: list[Node], notes: list[Note]) -> list[Node]:
    return in_bodies(outputs, lambda step: share(step, notes), lambda branches: _shared_in_steps(branches, notes))


def sizes_outside(outputs: list[Node], notes: list[Note]) -> list[Node]:
    """Compute values that are sizes inside branches before the ifelse, since memory is planned before it runs. If
    computing a size may fail, it is computed only if its branch is taken; otherwise it is 0."""
    new = _sizes_outside(outputs, step=False)
    return outputs if all(map(operator.is_, outputs, new)) else share(new, notes)


def _sizes_outside(outputs: list[Node], step: bool) -> list[Node]:
    """As `sizes_outside`, for a graph or for a `step`. A size leaves the innermost branch first, then those around
    it."""
    results: dict[Node, Sequence[Node]] = {}

    def replaced(old: Node, new: Node) -> Node | None:
        if new.op is IFELSE:
            results[old] = _without_sizes(new, step)
        return results[old.args[0]][old.params["index"]] if old.op is PART and old.args[0] in results else None

    inside = in_bodies(outputs, lambda inner: _sizes_outside(inner, True), lambda inner: _sizes_outside(inner, step))
    return rebuilt(inside, replaced)


def _without_sizes(node: Node, step: bool) -> Sequence[Node]:
    """The results of an ifelse whose graph computes no size: all are operands.

    A size in a step must be the same in all steps, whichever branches these take. There, a size is computed if all
    sizes that it depends on fit. If they do not, the branch must not run anyway (see `rewrite.unfit`).
    """
    inputs, then, other = opened(node)
    condition, *operands = node.operands
    outer = dict(zip(inputs, operands, strict=True))
    used = [{size for x in walk(half) for size in x.applied.sizes if not size.is_closed} for half in (then, other)]
    sizes = [size for size in walk(then + other) if size not in outer and any(size in some for some in used)]
    for size in sizes:
        [value], known = replace([size], outer), set(outer.values())
        safe = None
        if not never_fails([value], known):
            safe = computable([value], known) if step else None
            if safe is None and not all(size in some for some in used):
                safe = condition if size in used[0] else ~condition
        outer[size] = value if safe is None else captured(safe, [value], [zeros_like(value)], known)[0]
    return branch(condition, then, other, list(outer.items())) if sizes else parts(node)

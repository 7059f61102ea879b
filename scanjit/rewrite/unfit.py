"""Sizes that do not fit in a branch or a step: of `ifelse(c, lambda: filter(f, x)[-1], 0)`, where no row of `x` is
kept, or of `x[:k][2]`, where a step computes k.

Other sizes are checked before anything runs. In a branch, a computed size that does not fit is an error only if the
branch is taken, which is known only when the function runs. Such a branch must not run, because its memory is planned
by its sizes. A loop in whose steps sizes may not fit returns one more value: whether they did not in any of the steps.
The checks are made of the graph as it was written. So rewriting rules may take an op for a cheaper one that has no
check: `ones(k)[-1]` becomes 1. And `x[:k][2]` becomes `x[2]`; so such a step does not run if `x` has no entry 2.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Sequence

from scanjit import ir, types
from scanjit.ir import (
    CONSTANT,
    ORIGINS,
    PART,
    Node,
    apply,
    constant,
    dim_node,
    inferred_types,
    new_input,
    replace,
    walk,
)
from scanjit.ops.branch import IFELSE, branch, captured, opened
from scanjit.ops.elementwise import LESS, NOT_EQUAL
from scanjit.ops.extremes import ALL
from scanjit.ops.index import GATHER, SCATTER
from scanjit.ops.scan import SCAN
from scanjit.ops.shape import IOTA
from scanjit.ops.stretch import zeros_like
from scanjit.rewrite.engine import Results, map_several
from scanjit.rewrite.loop import OpenCarry, OpenScan
from scanjit.rewrite.scan_steps import StepLevel
from scanjit.types import Condition


def without_unfit(
    outputs: Sequence[Node], varying: Collection[Node] = (), step: bool = False
) -> tuple[list[Node], list[Node]]:
    """The outputs, changed so that a branch whose sizes do not fit does not run (its results are zeros); and bool
    scalars, one of which is true if such a branch was taken, or if the sizes of a step did not fit.

    A branch with sizes that depend on `varying` nodes, which have another value in each step, runs anyway: its memory
    is planned for the largest ones. In a `step`, a size does not fit either if computing it reads outside of an array.
    """
    if ir.sizes_are_given(outputs):
        return list(outputs), []
    moving = ir.dependents(walk(outputs), varying)
    found: list[Node] = []

    def fitting(old: Node, new: Node) -> Results | None:
        function = {IFELSE: _fitting, SCAN: _with_fitting_steps}.get(new.op)
        varies = {x for x, before in zip(new.operands, old.operands, strict=True) if before in moving}
        made = None if function is None else function(new, varies, step)
        if made is None:
            return None
        found.append(made[1])
        return made[0]

    return map_several(outputs, fitting), found


def _with_fitting_steps(scan: Node, varying: Collection[Node], _: bool) -> tuple[Results, Node] | None:
    """The results of a loop in whose step no branch runs whose sizes do not fit, and a bool: whether such a branch was
    taken in a step, or the sizes of a step itself did not fit. None if all sizes certainly fit."""
    loop = OpenScan.of(scan)
    inside = [*(c.inner for c in loop.carries), *loop.xs.values()]
    inside += [inner for operand, inner in loop.consts.items() if operand in varying]
    new, found = without_unfit(loop.outputs, inside, step=True)
    outside = {*loop.consts.values()}
    relations = [c for c in conditions(walk(loop.outputs)) if not _are_outside(_values(c), outside)]
    found += map(broken, relations)
    if not found:
        return None
    if hopeless := _hopeless(relations, inside):
        idle = [*map(zeros_like, (*(c.new for c in loop.carries), *loop.ys)), *(constant(True) for _ in loop.ends)]
        new = captured(_any(hopeless), idle, new)
    loop.set_outputs(new)
    never = constant(False)
    before = new_input(never.type)
    loop.carries.append(taken := OpenCarry(never, before, _any([before, *found])))
    made = loop.finish()
    return made.parts(), made.carry(taken)


def _fitting(node: Node, varying: Collection[Node], step: bool) -> tuple[Results, Node] | None:
    """The results of an ifelse that does not run a branch whose sizes do not fit, and a bool: whether such a branch was
    taken. None if all sizes certainly fit."""
    inputs, *halves = opened(node)
    condition, *operands = node.operands
    pairs = list(zip(inputs, operands, strict=True))
    moving = {inner for inner, operand in pairs if operand in varying}
    made = [without_unfit(half, moving, step) for half in halves]
    own = []  # what decides whether a branch can run
    for half, found in made:
        order = walk(half)
        moved, relations = ir.dependents(order, moving), [c for c in conditions(order) if _values(c)]
        varied = [c for c in relations if not moved.isdisjoint(_values(c))]
        own.append([*(broken(c) for c in relations if c not in varied), *_hopeless(varied, moving)])
        found += map(broken, varied)
    if step:
        for (half, _), unfit_sizes in zip(made, own, strict=True):
            safe = [computable([size]) for size in _reading_sizes(half, {*inputs}, moving)]
            unfit_sizes += [~fits for fits in safe if fits is not None and fits.op is not CONSTANT]
    inside = [found for _, found in made]
    if not any(own) and not any(inside):
        return None
    then, other = ([*half, _any(found)] for half, found in made)
    results: Sequence[Node] = branch(condition, then, other, pairs)
    unfit = _any([])
    if any(own):
        unfit = _taken_unfit(node, replace(list(map(_any, own)), dict(pairs)), varying)
        results = captured(unfit, list(map(zeros_like, results)), results, at={*node.operands, unfit})
    *results, deeper = results
    return results, unfit | deeper


def _hopeless(relations: Iterable[Condition], varying: Collection[Node]) -> list[Node]:
    """Bools, one of which is true if one of the relations cannot hold, however many entries a step counts: `x[:k][9]`
    needs an `x` of ten. What relies on it must not run then, as `x[9]` may be read in its place."""
    level = StepLevel([*varying], branch=False, last=False, notes=[])
    most = [level.most(c.right - c.left) for c in relations]
    most += [level.most(c.left - c.right) for c in relations if c.kind == "=="]
    return [apply(LESS, dim_node(dim), 0) for dim in most if dim is not None and not types.not_negative(dim)]


def _reading_sizes(outputs: Sequence[Node], inputs: Collection[Node], varying: Collection[Node]) -> list[Node]:
    """The values that a branch reads by indices and uses as sizes, without those that vary."""
    order = walk(outputs)
    moving = ir.dependents(order, varying)
    used = dict.fromkeys(size for node in order for size in node.applied.sizes if size not in inputs)
    return [size for size in used if size not in moving and any(node.op in _INDEXED for node in ir.walk_inside([size]))]


def _taken_unfit(node: Node, unfit: Sequence[Node], varying: Collection[Node]) -> Node:
    """Whether a condition is broken in the branch that is taken. `unfit` says it for each branch."""
    condition, then, other = node.operands[0], *unfit
    if never_fails(unfit, set(node.operands)):
        return (condition & then) | (~condition & other)
    # The computation of `unfit` may fail too, so only the branch that is taken may do it.
    flags, found = without_unfit(captured(condition, [then], [other], at=set(node.operands)), varying)
    return _any([*flags, *found])


def never_fails(outputs: Sequence[Node], known: Collection[Node] = ()) -> bool:
    """Whether computing outputs from the `known` nodes raises no error and reads no memory outside of an array, for any
    values of these nodes."""
    nodes = [node for node in walk(outputs, known) if node not in known]
    return not any(may_fail(node) or conditions([node]) for node in nodes)


def may_fail(node: Node, loops: bool = True) -> bool:
    """Whether a node may raise an error although its sizes fit. With `loops`, any loop or branch counts as such a
    node."""
    if node.op.never_fails or node.op in ORIGINS or node.op is PART:
        return False
    body = node.params.get("body")
    return loops or not isinstance(body, ir.Graph) or any(may_fail(inner, loops) for inner in body.nodes())


def computable(values: Sequence[Node], known: Collection[Node] = ()) -> Node | None:
    """Whether values can be computed from the `known` nodes: all sizes that they depend on fit, and nothing is read
    outside of an array. Computing this bool never fails; it is the constant True if the values can always be computed.
    None if there is an op that may fail otherwise."""
    safe = constant(True)
    met: set[tuple[object, ...]] = set()
    for node in walk(values, known):
        if node in known:
            continue
        needs = [c for c in conditions([node]) if (c.kind, c.left, c.right) not in met]
        met.update((c.kind, c.left, c.right) for c in needs)
        inside = _runs(node)
        if inside is None:
            return None
        for each in (*(~broken(c) for c in needs), *inside):  # in this order: what is next may rely on those before it
            safe = captured(safe, [each], [constant(False)], known)[0] if safe.op is not CONSTANT else each
    return safe


def _runs(node: Node) -> list[Node] | None:
    """Bools that together say whether a node whose sizes fit can be computed. Each may only be computed if those before
    it are true. None if nobody can foresee whether the op fails."""
    if node.op in _INDEXED:
        first, axis = _INDEXED[node.op], node.params["axis"]
        lengths = map(dim_node, node.operands[0].type.shape[axis:])
        reads = [inside for i, n in zip(node.operands[first:], lengths, strict=False) for inside in (i >= 0, i < n)]
        return [ALL(inside, axes=tuple(range(inside.ndim))) for inside in reads]
    if not may_fail(node, loops=False):
        return []
    found = {IFELSE: _branch_runs, SCAN: _steps_run}.get(node.op, lambda _: None)(node)
    return None if found is None else [found]


def _branch_runs(node: Node) -> Node | None:
    """Whether the branch of an ifelse that is taken can be computed; None if that cannot be foreseen."""
    inputs, *halves = opened(node)
    then, other = (computable(half, {*inputs}) for half in halves)
    if then is None or other is None:
        return None
    return branch(node.operands[0], [then], [other], list(zip(inputs, node.operands[1:], strict=True)))[0]


def _steps_run(scan: Node) -> Node | None:
    """Whether all steps of a loop can be computed; None if that cannot be foreseen."""
    loop = OpenScan.of(scan)
    fits = computable(loop.outputs, {*(c.inner for c in loop.carries), *loop.xs.values(), *loop.consts.values()})
    if fits is None:
        return None
    before = new_input(fits.type)
    goes_on = captured(before, [fits], [constant(False)])[0]
    otherwise = [*map(zeros_like, (*(c.new for c in loop.carries), *loop.ys)), *(constant(True) for _ in loop.ends)]
    loop.set_outputs(captured(goes_on, loop.outputs, otherwise))
    loop.carries.append(carry := OpenCarry(constant(True), before, goes_on))
    return loop.finish().carry(carry)


_INDEXED = {GATHER: 1, SCATTER: 2}
"""The ops that may read or write outside of an array, each with the position of its first index among its operands."""


def conditions(nodes: Iterable[Node]) -> list[Condition]:
    """The relations between sizes that nodes rely on, without those that hold for all sizes. Those of a loop's step are
    included if all steps have these sizes."""
    found: dict[tuple[object, ...], Condition] = {}
    for node in nodes:
        for c in _collected(node):
            if not types.not_negative(c.right - c.left):
                found.setdefault((c.kind, c.left, c.right), c)
    return list(found.values())


def _collected(node: Node) -> list[Condition]:
    """The relations between sizes that a node relies on."""
    if not node.operands and node.op is not IOTA:
        return []
    with types.collecting() as found:
        inferred_types(node)
    if node.op is SCAN:
        body = node.params["body"]
        sizes = {body.inputs[i]: dim for i, dim in node.params["sizes"]}
        outside = {inner.dim_atom: dim for inner, dim in sizes.items()}
        length = node.params["length"]
        some = 1 if types.not_negative(length - 1) else types.minimum(length, 1)  # where there is no step, 0 <= 0
        for c in conditions(body.nodes()):
            if _are_outside(_values(c), sizes):
                left, right = (types.substitute(dim, outside) * some for dim in (c.left, c.right))
                found.append(c._replace(left=left, right=right))
    return found


def _values(condition: Condition) -> list[Node]:
    """The computed sizes that a relation is about. Relations without any are checked before anything runs."""
    return [atom.node for atom in types.atoms(condition.left, condition.right) if atom.kind == "value"]


def _are_outside(values: Iterable[Node], fixed: Collection[Node]) -> bool:
    """Whether computed sizes are the same in all steps, of which `fixed` are inputs: the graph around has them too."""
    return all(value.is_closed or value in fixed for value in values)


def broken(condition: Condition) -> Node:
    """Whether a relation does not hold."""
    left, right = dim_node(condition.left), dim_node(condition.right)
    return apply(LESS, right, left) if condition.kind == "<=" else apply(NOT_EQUAL, left, right)


def _any(conditions: Sequence[Node]) -> Node:
    return functools.reduce(lambda a, b: a | b, conditions) if conditions else constant(False)

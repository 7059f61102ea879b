"""`scan`: one nest with all of its steps, if its elements do not meet; else a loop over time."""

from __future__ import annotations

from scanjit import ir, types
from scanjit.ir import Node
from scanjit.ops.stretch import full
from scanjit.schedule.lower import maps
from scanjit.schedule.lower.lowering import ArrayRule, Lowering
from scanjit.schedule.lower.ops.scan_loop import as_loop
from scanjit.schedule.lower.ops.scan_nest import as_nest, points
from scanjit.schedule.lower.ops.scan_plan import make_plan
from scanjit.schedule.lower.ops.step import Step
from scanjit.schedule.lower.region import Item, name_of
from scanjit.schedule.nests import Buffer, Load, Nest, NestLoop, Ref, Store
from scanjit.schedule.nests.plan import Plan

LEAST_BYTES = 4
"""Sequences of smaller elements are read where they lie: a vector has many, and few of them are in one line."""
SHORT_ROW = 8
"""So are rows that are known to be shorter: there is little to gain."""


class ScanRule(ArrayRule):
    """The rule of `scan`."""

    def lower(self, lowering: Lowering, node: Node) -> None:
        """Put the initial values where the first step finds them, then add the steps."""
        step, first = Step.of(node), len(lowering.items)
        shape = points(step)
        plan = make_plan(lowering, node, step, shape is not None)
        inits, xs, consts = plan.roles.split(node.operands)
        cleared = _cleared(lowering, plan) if plan.roles.until else {}
        for i, init in enumerate(inits):
            if not plan.is_shared(i):
                buffer = plan.carries[i].store.buffer
                lowering.copy(init, plan.first(i), after=[cleared[buffer]] if buffer in cleared else ())
        known = {bound: lowering.place_of(outer) for bound, outer in zip(step.consts, consts, strict=True)}
        sequences = [_by_rows(lowering, x) for x in xs]
        needs, label = lowering.inputs_of((*xs, *consts), first), name_of(node)
        found = None if shape is None else as_nest(lowering, plan, step, shape, known, sequences)
        if found is not None:
            nest, plan = found
            lowering.context.notes.append(f"{label}: one nest with all of its steps")
            block = lowering.add_statement(nest, needs)
            steps, count = plan.length, None
        else:
            loop, region = as_loop(lowering, plan, step, known, sequences)
            block = lowering.add_statement(loop, needs, [region])
            steps, count = plan.length if loop.count is None else loop.ran, loop.count
        places = [*(plan.final(i, steps) for i in range(plan.roles.carries)), *plan.ys, *([count] if count else [])]
        for i, place in enumerate(places):
            lowering.put(ir.PART(node, index=i), place, [block])


def _by_rows(lowering: Lowering, x: Node) -> Ref:
    """Where a sequence lies. If the elements of a row lie apart and the rows side by side, as those of `vmap` over the
    rows of a matrix, it is copied to where a step finds its row in one piece."""
    place = lowering.place_of(x)
    apart = x.ndim > 1 and place.strides[0] == 1 and place.strides[-1] not in (0, 1)
    row = types.product(x.type.shape[1:])
    if not apart or x.dtype.itemsize < LEAST_BYTES or (isinstance(row, int) and row < SHORT_ROW):
        return place
    rows = Ref.whole(Buffer(x.dtype, x.type.shape, "temporary", "rows"))
    space = tuple(map(NestLoop, x.type.shape))
    source, target = (maps.place(ref, maps.identity(space)) for ref in (place, rows))
    copy = Nest(space, (Store(target, Load(x.dtype, source)),), "rows")
    lowering.add_statement(copy, lowering.read_by_others(x))
    return rows


def _cleared(lowering: Lowering, plan: Plan) -> dict[Buffer, Item]:
    """If a scan may end early, set the stacked outputs to zero. Later nests compute with all rows at once, also with
    those of steps that did not run. If such a row holds indices, they must not be out of bounds."""
    stacked = [*plan.ys, *(carry.store for carry in plan.carries if carry.trajectory)]
    return {
        buffer: lowering.copy(full(0, buffer.shape, buffer.dtype), Ref.whole(buffer))
        for buffer in dict.fromkeys(place.buffer for place in stacked)
    }

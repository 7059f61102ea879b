"""`scan`: one nest with all of its steps, if its elements do not meet; else a loop over time."""

from __future__ import annotations

from scanjit import ir
from scanjit.ir import Node
from scanjit.ops.stretch import full
from scanjit.schedule.lower.lowering import ArrayRule, Lowering
from scanjit.schedule.lower.ops.scan_loop import as_loop
from scanjit.schedule.lower.ops.scan_nest import as_nest, points
from scanjit.schedule.lower.ops.scan_plan import make_plan
from scanjit.schedule.lower.ops.step import Step
from scanjit.schedule.lower.region import Item, name_of
from scanjit.schedule.nests import Buffer, Ref
from scanjit.schedule.nests.plan import Plan


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
        sequences = [lowering.place_of(x) for x in xs]
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


def _cleared(lowering: Lowering, plan: Plan) -> dict[Buffer, Item]:
    """If a scan may end early, set the stacked outputs to zero. Later nests compute with all rows at once, also with
    those of steps that did not run. If such a row holds indices, they must not be out of bounds."""
    stacked = [*plan.ys, *(carry.store for carry in plan.carries if carry.trajectory)]
    return {
        buffer: lowering.copy(full(0, buffer.shape, buffer.dtype), Ref.whole(buffer))
        for buffer in dict.fromkeys(place.buffer for place in stacked)
    }

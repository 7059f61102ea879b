"""A scan as a loop over time, with nests in each step."""

from collections.abc import Mapping, Sequence

from scanjit import ir, types
from scanjit.ir import Node
from scanjit.ops.elementwise import MUL
from scanjit.ops.promotion import cast
from scanjit.schedule.lower.lowering import Lowering
from scanjit.schedule.lower.ops.overwrite import overwritten
from scanjit.schedule.lower.ops.step import LoweredStep
from scanjit.schedule.lower.region import Region, name_of
from scanjit.schedule.nests import Buffer, Ref, TimeLoop
from scanjit.schedule.nests.plan import Plan


def as_loop(
    lowering: Lowering, plan: Plan, step: LoweredStep, consts: Mapping[Node, Ref], xs: Sequence[Ref | None]
) -> tuple[TimeLoop, Region]:
    """The loop over the steps of a scan, still empty, and the region of the values that a step computes. A sequence
    that is None counts the rows."""
    rows = dict(zip(step.rows, xs, strict=True))
    step = step.replaced({bound: ir.dim_node(plan.row) for bound, x in rows.items() if x is None})
    known = {bound: plan.before(i) for i, bound in enumerate(step.carries)}
    known |= {bound: x.row(plan.row) for bound, x in rows.items() if x is not None}
    own = [i for i in range(len(step.new)) if not plan.is_shared(i)]
    results = [(step.new[i], plan.after(i)) for i in own]
    carried = {carry.store.buffer for carry in plan.carries}
    ys = dict.fromkeys(zip(step.ys, plan.ys, strict=True))  # an output that stands here twice has one place
    results += [(y, place.row(plan.row)) for y, place in ys if place.buffer not in carried]
    stop = count = None
    if step.stop is not None:
        number = ir.apply(MUL, cast(step.stop, "int64"), ir.dim_node(plan.step + 1))
        stop, count = (Ref.whole(Buffer(number.dtype, (), "temporary", name)) for name in ("stop", "count"))
        results.append((number, stop))
    outputs, targets = zip(*results, strict=True) if results else ((), ())
    early = overwritten(step)
    once = [node for i in own if plan.carries[i].slots == 1 for node in early[i]]
    region = lowering.inside({**consts, **known}, outputs, targets, once)
    loop = TimeLoop(
        length=plan.length,
        step=plan.step,
        row=plan.row,
        suite=(),
        total=plan.length,
        reverse=plan.reverse,
        stop=stop,
        count=count,
        ran=types.counter("ran"),
        unroll=plan.node.params["unroll"] or 1,
        title=name_of(plan.node),
        persistent=tuple(carry.store.buffer for carry in plan.carries),
        plan=plan,
    )
    return loop, region

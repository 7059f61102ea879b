"""Schedule a scan: where its carries and outputs lie; whether it is one nest with time, or a loop of nests."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from scanjit import ir, types
from scanjit.errors import NotSupportedError
from scanjit.ir import Node
from scanjit.ops import Elementwise, View
from scanjit.ops.elementwise import cast
from scanjit.ops.scan import Layout
from scanjit.ops.shape import IOTA, SLICE
from scanjit.ops.stretch import BROADCAST_TO, full
from scanjit.ops.view import DIMSHUFFLE
from scanjit.schedule.lower import maps
from scanjit.schedule.lower.region import Block, Item, Region, name_of
from scanjit.schedule.nests import (
    Access,
    Buffer,
    Nest,
    NestLoop,
    Ref,
    Register,
    Store,
    TimeLoop,
    Value,
    counter,
)
from scanjit.schedule.nests.plan import Body, CarryMemory, Plan
from scanjit.types import Dimension


def schedule_scan(region: Region, node: Node) -> None:
    """Schedule a scan in a region; its parts get their places."""
    layout = Layout.of(node)
    body = open_body(node)
    no_ragged_step(body)
    plan = _plan(region, node, layout, body)
    inits, xs, consts = layout.split(node.operands)
    first = len(region.items)
    cleared = _cleared(region, plan) if layout.until else {}
    for i, init in enumerate(inits):
        buffer = plan.carries[i].store.buffer
        if not _covered(plan, i):
            region.copy(init, plan.first(i), after=[cleared[buffer]] if buffer in cleared else ())
    needs = [item for operand in (*xs, *consts) for item in region.items_of(operand)]
    places = {bound: region.place_of(op) for bound, op in zip(_consts(plan), consts, strict=True)}
    sequences = [region.place_of(x) for x in xs]
    needs += region.items[first:] + [item for operand in (*xs, *consts) for item in region.items_of(operand)]
    for item in needs:
        if hasattr(item, "escapes"):
            item.escapes = True
    nest = _as_nest(region, plan, places, sequences)
    block = Block(dict.fromkeys(needs, False), plan, nest, name_of(node))
    if nest is not None:
        region.context.notes.append(f"{name_of(node)}: one nest with all of its steps")
    else:
        block.frame, inner = _as_loop(region, plan, places, sequences)
        block.bodies.append(inner)
    region.items.append(block)
    _place_parts(region, plan, block)


def _cleared(region: Region, plan: Plan) -> dict[Buffer, Item]:
    """Set what is stacked to zero: what is computed of all rows at once reads those of steps that did not run too, and
    the indices among them must lie inside."""
    made: dict[Buffer, Item] = {}
    for place in [*plan.ys, *(carry.store for carry in plan.carries if carry.trajectory)]:
        buffer = place.buffer
        if buffer not in made:
            region.copy(full(0, buffer.shape, buffer.dtype), Ref.whole(buffer))
            made[buffer] = region.items[-1]
    return made


def open_body(node: Node) -> Body:
    """The body of a scan or an ifelse, with the sizes that depend on values of its constants expressed by sizes
    outside."""
    graph: ir.Graph = node.params["body"]
    if not node.params["sizes"]:
        return Body(list(graph.inputs), list(graph.outputs))
    dims = {graph.inputs[i].dim_atom: dim for i, dim in node.params["sizes"]}
    inputs = [ir.new_input(ir.map_dims(n.type, lambda d: types.substitute(d, dims)), n.name) for n in graph.inputs]
    mapping = dict(zip(graph.inputs, inputs, strict=True))
    for i, dim in node.params["sizes"]:
        mapping[graph.inputs[i]] = cast(ir.dim_node(dim), graph.inputs[i].dtype)
    return Body(inputs, ir.replace(graph.outputs, mapping, dims))


def no_ragged_step(body: Body) -> None:
    """An error if the size of a node, or where it reads, depends on a value that is computed in the body."""
    inputs = set(body.inputs)
    for node in ir.walk(body.outputs):
        own = {key: value for key, value in node.params.items() if not isinstance(value, ir.Graph)}
        sized = [*ir.dim_nodes({"type": node.type}), *ir.dim_nodes(own)]
        if sized and not inputs.isdisjoint(ir.walk(sized)):
            raise NotSupportedError(
                "a size inside a step of a scan depends on a value computed in that step",
                got=f"{node.type}",
                where=node.where,
                fix="use a mask over the full size, or mode='reference'; for the gradient of a while_loop, give it "
                "max_steps, and for that of a scan with until, write it as such a while_loop; for x[t : t + 3], write "
                "x[t + sj.arange(3)]",
            )


def _consts(plan: Plan) -> tuple[Node, ...]:
    return tuple(plan.layout.split(plan.body.inputs)[2])


def _plan(region: Region, node: Node, layout: Layout, body: Body) -> Plan:
    """Give every carry and every output its memory."""
    step, row = (counter(name) for name in ("step", "row"))
    inner, _, _ = layout.split(body.inputs)
    _, ys, _ = layout.split_results(body.outputs)
    plan = Plan(node, layout, body, step, row, [], [])
    apart = _points(plan) is not None
    for i, (before, after) in enumerate(zip(inner, body.outputs, strict=False)):
        lag = layout.lags.get(i)
        trajectory = any(y is after or y is before for y in ys)
        if lag is not None:
            trajectory = trajectory or apart or ir.PART(node, index=i) in region.nodes
            trajectory = trajectory or node.params["checkpoint"] is not None
        slots = 2 if lag is None else lag + 1
        store = _shared_store(plan, i, lag) if trajectory else None
        if store is None:
            reach = 1 if lag is None else lag
            store = _memory(region, node, before, plan.length + reach if trajectory else slots, "carry")
        plan.carries.append(CarryMemory(store, trajectory, lag, slots))
    new = body.outputs[: layout.carries]
    for y in ys:
        plan.ys.append(
            _trajectory(plan, y, inner, new) or _known_y(plan, y, ys) or _memory(region, node, y, plan.length, "ys")
        )
    return plan


def _shared_store(plan: Plan, i: int, lag: Dimension | None) -> Ref | None:
    """The part of an earlier carry's trajectory that is this one's too: the same values are returned, and those before
    the first step are the last of its own."""
    new, inits = plan.body.outputs, plan.node.operands
    reach = 1 if lag is None else lag
    for k, other in enumerate(plan.carries):
        if other.trajectory and other.lag is not None and new[k] is new[i] and not plan.reverse:
            more = other.lag - reach
            if types.not_negative(more) and _is_end(inits[i], inits[k], more):
                return other.store.window(0, more, plan.length + reach)
    return None


def _is_end(x: Node, whole: Node, start: Dimension) -> bool:
    """Whether a tensor certainly holds the rows of another one from `start` on (the last one without the axis)."""
    if x.op is DIMSHUFFLE and x.params["order"] == tuple(range(1, x.args[0].ndim)):
        x = x.args[0]
    (a, first), (b, other) = _from_row(x), _from_row(whole)
    return a is b and (first is None or other is None or first - other == start)


def _from_row(x: Node) -> tuple[Node, Dimension | None]:
    """The tensor that some rows are taken from, and the first of them; None where all rows are the same."""
    if x.op is BROADCAST_TO and x.args[0].ndim < x.ndim:
        return x.args[0], None
    if x.op is SLICE and x.params["step"][0] == 1:
        rest = zip(x.params["start"][1:], x.params["step"][1:], x.type.shape[1:], x.args[0].type.shape[1:], strict=True)
        if all(start == 0 and step == 1 and size == of for start, step, size, of in rest):
            return x.args[0], x.params["start"][0]
    return x, 0


def _covered(plan: Plan, i: int) -> bool:
    """Whether an earlier carry has the memory of this one, and all that is written there."""
    return any(other.store.buffer is plan.carries[i].store.buffer for other in plan.carries[:i])


def _memory(region: Region, scan: Node, row: Node, rows: Dimension, name: str) -> Ref:
    return region.new_memory(scan, row.dtype, (rows, *row.type.shape), name)


def _trajectory(plan: Plan, y: Node, inner: Sequence[Node], new: Sequence[Node]) -> Ref | None:
    """An output that is a carry before or after each step lies in that carry's trajectory."""
    for carry, before, after in zip(plan.carries, inner, new, strict=True):
        if y is after or y is before:
            start = carry.reach if (y is after) != plan.reverse else 0
            return carry.store.window(0, start, plan.length)
    return None


def _known_y(plan: Plan, y: Node, ys: Sequence[Node]) -> Ref | None:
    """The place of an equal output before it."""
    for other, place in zip(ys, plan.ys, strict=False):
        if other is y:
            return place
    return None


def _place_parts(region: Region, plan: Plan, block: Block) -> None:
    """Say where the results of a scan lie."""
    count, steps = None, plan.length
    if isinstance(block.frame, TimeLoop) and block.frame.count is not None:
        count, steps = block.frame.count, block.frame.ran
    places = [plan.final(i, steps) for i in range(plan.layout.carries)] + plan.ys + ([count] if count else [])
    for i, place in enumerate(places):
        part = ir.PART(plan.node, index=i)
        region.places[part] = place
        region.makers[part] = [block]


# ---- a loop of nests -----------------------------------------------------------------------------------------------


def _as_loop(region: Region, plan: Plan, consts: dict[Node, Ref], xs: list[Ref]) -> tuple[TimeLoop, Region]:
    """The loop over the steps of a scan, still empty, and the region of what a step computes."""
    layout, params = plan.layout, plan.node.params
    carries, rows, _ = layout.split(plan.body.inputs)
    # A constant that is also a size is, in the step, the node that it was outside (see `open_body`).
    known = {
        node: ref for node, ref in region.places.items() if node.dim_atom is not None and node not in region.makers
    }
    known.update(consts)
    known.update({bound: plan.before(i) for i, bound in enumerate(carries)})
    known.update({bound: x.row(plan.row) for bound, x in zip(rows, xs, strict=True)})
    counters = [atom for d in (plan.step, plan.row) if (atom := types.as_atom(d)) is not None]
    inner = Region(region.context, known, region, counters)
    new, ys, stop = layout.split_results(plan.body.outputs)
    own = [i for i in range(layout.carries) if not _covered(plan, i)]
    outputs, targets = [new[i] for i in own], [plan.after(i) for i in own]
    placed = {id(place.buffer) for place in (c.store for c in plan.carries)}
    for y, place in zip(ys, plan.ys, strict=True):
        if id(place.buffer) not in placed:
            placed.add(id(place.buffer))
            outputs.append(y)
            targets.append(place.row(plan.row))
    stop_ref = count = None
    if stop is not None:
        stop = cast(stop, "int64")  # the main function reads int64 only
        stop_ref, count = (Ref.whole(Buffer(stop.dtype, (), "temporary", name)) for name in ("stop", "count"))
        outputs.append(stop)
        targets.append(stop_ref)
    inner.schedule(outputs, targets)
    loop = TimeLoop(plan.length, plan.step, plan.row, [], plan.length, reverse=plan.reverse, stop=stop_ref, count=count)
    loop.unroll, loop.label, loop.ran = params["unroll"] or 1, name_of(plan.node), counter("ran")
    loop.persistent = [c.store.buffer for c in plan.carries]
    return loop, inner


# ---- one nest with time --------------------------------------------------------------------------------------------


def _as_nest(region: Region, plan: Plan, consts: dict[Node, Ref], xs: list[Ref]) -> Nest | None:
    """The scan as one nest, if its step is elementwise over one space; each lane has carries of its own."""
    carries, rows, _ = plan.layout.split(plan.body.inputs)
    new, ys, _ = plan.layout.split_results(plan.body.outputs)
    shape = _points(plan)
    if shape is None:
        return None
    space, time = tuple(map(NestLoop, shape)), NestLoop(plan.length)
    builder = maps.Builder(space, lambda n: consts.get(n) or region.constant(n), region.context.code)
    builder.stacked = {bound: (x, time) for bound, x in zip(rows, xs, strict=True)}
    at = maps.identity(space)
    for i, (bound, carry) in enumerate(zip(carries, plan.carries, strict=True)):
        if carry.lag is None:
            init = maps.Load(bound.dtype, maps.place(plan.first(i), at))
            builder.registers[bound] = Register(bound.dtype, init, i)
        else:
            builder.stacked[bound] = carry.store.window(0, carry.lag if plan.reverse else 0, plan.length), time
    try:
        updates = [builder.value(node, at) for node in new]
        outputs = [builder.value(node, at) for node in ys]
    except maps.NotInline:
        return None
    registers = list(builder.registers.values())
    for carry in plan.carries:
        carry.slots = 1
    stores, finals = _nest_stores(plan, at, time, registers, updates, outputs)
    updates = [updates[register.index] for register in registers]
    lags = [carry.lag for carry in plan.carries if carry.lag is not None]
    reach = functools.reduce(types.minimum, lags) if lags else None
    label = "scan_" + (plan.node.params["name"] or "_".join(dict.fromkeys(n.op.name for n in new)))[:30]
    carried = [_before(plan, register.index, at, time) for register in registers]
    unroll = _unrolled(plan)
    return Nest(
        list(space), stores, label, time, plan.reverse, registers, updates, finals, carried, unroll=unroll, reach=reach
    )


def _points(plan: Plan) -> tuple[Dimension, ...] | None:
    """The shape of the carries, if each element of them goes its own way: then all of time may be one nest."""
    carries, _, _ = plan.layout.split(plan.body.inputs)
    new, ys, stop = plan.layout.split_results(plan.body.outputs)
    if stop is not None or not all(map(_inline, ir.walk(plan.body.outputs, sizes=False))):
        return None
    return _one_shape(carries, new, ys)


def _one_shape(carries: Sequence[Node], new: Sequence[Node], ys: Sequence[Node]) -> tuple[Dimension, ...] | None:
    """The shape of all carries and outputs; None if they have several. Two sizes are one where a carry has the first
    before a step and the second after it: a call checks that they are equal."""
    known: dict[Dimension, Dimension] = {}

    def find(dim: Dimension) -> Dimension:
        while dim in known:
            dim = known[dim]
        return dim

    for before, after in zip(carries, new, strict=True):
        for pair in zip(before.type.shape, after.type.shape, strict=True):
            a, b = map(find, pair)
            if a != b:
                known |= {b: a} if isinstance(a, int) else {a: b}
    shapes = {tuple(map(find, node.type.shape)) for node in (*carries, *ys)}
    return shapes.pop() if len(shapes) == 1 else None


def _inline(node: Node) -> bool:
    known = (ir.BOUND, ir.INPUT, ir.CONSTANT, ir.SIZE)
    return isinstance(node.op, Elementwise | View) or node.op in known or node.op is IOTA


MOST_INSIDE = 2000
"""A step of more nodes than this is a loop of nests: one nest would take long to compile."""
LONGEST_STRAIGHT = 64
"""`unroll=True` of an elementwise step makes at most this many copies; a longer scan iterates over such a stretch."""
MOST_OPERATIONS = 4096
"""The copies of an elementwise step have at most so many operations, and there is one copy: compilers take more than
twice as long for twice as many."""


def _unrolled(plan: Plan) -> int:
    unroll, operations = plan.node.params["unroll"], len(plan.node.params["body"].nodes())
    wanted = min(plan.length, LONGEST_STRAIGHT) if unroll is True else int(unroll or 1)
    return max(min(wanted, MOST_OPERATIONS // operations), 1)


def _nest_stores(
    plan: Plan,
    at: maps.IndexMap,
    time: NestLoop,
    registers: Sequence[Register],
    updates: Sequence[Value],
    outputs: Sequence[Value],
) -> tuple[list[Store], list[Store]]:
    """What is stored at every step, and after the last."""
    stores, finals = [], []
    written = set()
    known = {register.index: register for register in registers}
    for i, carry in enumerate(plan.carries):
        if carry.trajectory and not _covered(plan, i):
            written.add(carry.store.buffer)
            stores.append(Store(_over_time(carry.store, at, time, 0 if plan.reverse else carry.reach), updates[i]))
        elif not carry.trajectory:
            finals.append(Store(maps.place(plan.final(i, plan.length), at), known[i]))
    for y, value in zip(plan.ys, outputs, strict=True):
        if y.buffer not in written:
            written.add(y.buffer)
            stores.append(Store(_over_time(y, at, time, 0), value))
    return stores, finals


def _before(plan: Plan, i: int, at: maps.IndexMap, time: NestLoop) -> Access:
    """Where carry i lies before each step, if it is in memory."""
    carry = plan.carries[i]
    if carry.trajectory:
        return _over_time(carry.store, at, time, 1 if plan.reverse else 0)
    return maps.place(plan.first(i), at)


def _over_time(place: Ref, at: maps.IndexMap, time: NestLoop, start: Dimension) -> Access:
    """The access of a stacked output: a row a step."""
    return maps.place(place, ((start, ((time, 1),)), *at))

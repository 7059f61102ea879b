"""A scan as one nest with a loop over time: its step is elementwise, and each element has carries of its own."""

import functools
from collections.abc import Iterator, Mapping, Sequence

from scanjit import ir, types
from scanjit.ir import Node
from scanjit.ops import Elementwise, View
from scanjit.ops.index import GATHER
from scanjit.ops.scan_batch import ended
from scanjit.ops.shape import IOTA
from scanjit.ops.sorting import SEARCHED
from scanjit.records import replace
from scanjit.schedule.lower import maps
from scanjit.schedule.lower.lowering import Lowering
from scanjit.schedule.lower.ops.late import late_last
from scanjit.schedule.lower.ops.step import LoweredStep
from scanjit.schedule.lower.values import NotInline, ValueBuilder
from scanjit.schedule.nests import Access, Buffer, Load, Nest, NestLoop, Ref, Register, Store, Value
from scanjit.schedule.nests.plan import Plan
from scanjit.types import Dimension

LONGEST_STRAIGHT = 64
"""`unroll=True` of an elementwise step makes at most this many copies. A longer scan repeats them."""
SHORT, COPIES = 24, 4
"""A step of one number with at most this many operations is written as many times, one after the other."""
MOST_OPERATIONS = 4096
"""All copies of an elementwise step together have at most this many operations, but there is always one copy. LLVM
takes more than twice as long for twice as many."""


def points(step: LoweredStep) -> tuple[Dimension, ...] | None:
    """The shape of the carries, if each element of a carry depends on no other element: the whole scan may then be one
    nest. Else None."""
    if step.stop is not None and (step.rows or step.ys or ended(step.carries, step.new, step.stop) is None):
        return None
    return _one_shape(step) if all(map(_is_pointwise, ir.walk([*step.new, *step.ys], sizes=False))) else None


def _is_pointwise(node: Node) -> bool:
    plain = (ir.BOUND, ir.INPUT, ir.CONSTANT, ir.SIZE, IOTA, GATHER, SEARCHED)
    return isinstance(node.op, Elementwise | View) or node.op in plain


def _one_shape(step: LoweredStep) -> tuple[Dimension, ...] | None:
    """The shape of all carries and outputs; None if they have several. Two sizes count as one if a carry has the first
    before a step and the second after it: a call checks that they are equal."""
    known: dict[Dimension, Dimension] = {}

    def find(dim: Dimension) -> Dimension:
        while dim in known:
            dim = known[dim]
        return dim

    for before, after in zip(step.carries, step.new, strict=True):
        for pair in zip(before.type.shape, after.type.shape, strict=True):
            a, b = map(find, pair)
            if a != b:
                known |= {b: a} if isinstance(a, int) else {a: b}
    shapes = {tuple(map(find, node.type.shape)) for node in (*step.carries, *step.ys)}
    return shapes.pop() if len(shapes) == 1 else None


def as_nest(
    lowering: Lowering,
    plan: Plan,
    step: LoweredStep,
    shape: tuple[Dimension, ...],
    consts: Mapping[Node, Ref],
    xs: Sequence[Ref | None],
) -> tuple[Nest, Plan] | None:
    """The nest of a scan whose `points` have this shape, and its plan, in which each carry has one slot. None if a step
    reads a carry at another point than its own."""
    space, time = tuple(map(NestLoop, shape)), NestLoop(plan.length)
    at = maps.identity(space)
    builder = _builder(lowering, plan, step, space, time, consts, xs)
    try:
        updates = [builder.value(node, at) for node in step.new]
        outputs = [builder.value(node, at) for node in step.ys]
    except NotInline:
        return None
    values = late_last([*updates, *outputs])
    updates, outputs = values[: len(updates)], values[len(updates) :]
    over = None if step.stop is None else ended(step.carries, step.new, step.stop)
    plan = replace(plan, carries=[replace(carry, slots=1) for carry in plan.carries])
    registers = tuple(builder.registers.values())
    lags = [carry.lag for carry in plan.carries if carry.lag is not None]
    nest = Nest(
        space,
        tuple(_stores(plan, maps.identity((time, *space)), updates, outputs)),
        "scan_" + (plan.node.params["name"] or "_".join(dict.fromkeys(n.op.name for n in step.new)))[:30],
        time,
        plan.reverse,
        registers,
        tuple(updates[register.index] for register in registers),
        tuple(
            Store(maps.place(plan.final(register.index, plan.length), at), register)
            for register in registers
            if not plan.carries[register.index].trajectory
        ),
        tuple(_before(plan, register.index, maps.identity((time, *space))) for register in registers),
        unroll=_unrolled(plan, bool(space)),
        reach=functools.reduce(types.minimum, lags) if lags else None,
        plan=plan,
        until=None if over is None else updates[over],
    )
    return nest, plan


def _builder(
    lowering: Lowering,
    plan: Plan,
    step: LoweredStep,
    space: tuple[NestLoop, ...],
    time: NestLoop,
    consts: Mapping[Node, Ref],
    xs: Sequence[Ref | None],
) -> ValueBuilder:
    """The builder of the values of a step. Rows, and carries with a lag, are read from memory. All other carries are
    registers."""
    at = maps.identity(space)
    builder = lowering.new_builder(space, lambda n: consts.get(n) or lowering.context.constant(n))
    builder.stacked |= {bound: (x, time) for bound, x in zip(step.rows, xs, strict=True)}
    for i, (bound, carry) in enumerate(zip(step.carries, plan.carries, strict=True)):
        if carry.lag is None:
            builder.registers[bound] = Register(bound.dtype, Load(bound.dtype, maps.place(plan.first(i), at)), i)
        else:
            builder.stacked[bound] = carry.store.window(0, carry.lag if plan.reverse else 0, plan.length), time
    return builder


def _unrolled(plan: Plan, wide: bool) -> int:
    """How many copies of a step are written one after the other. If the user does not say, a short step that is not
    `wide` is written several times: to count the steps takes about as long as to compute them."""
    unroll, operations = plan.node.params["unroll"], len(plan.node.params["body"].nodes())
    if not unroll and not wide and operations <= SHORT:
        return COPIES
    most = min(types.as_int(plan.length), LONGEST_STRAIGHT) if unroll is True else int(unroll or 1)
    return max(min(most, MOST_OPERATIONS // operations), 1)


def _stores(plan: Plan, at: maps.IndexMap, updates: Sequence[Value], outputs: Sequence[Value]) -> Iterator[Store]:
    """The stores of each step: carries with a trajectory, and outputs that are no such carry. `at` is the map of row
    and point."""
    carried: set[Buffer] = set()
    written: set[Ref] = set()
    for i, carry in enumerate(plan.carries):
        if carry.trajectory and not plan.is_shared(i):
            carried.add(carry.store.buffer)
            rows = carry.store.window(0, 0 if plan.reverse else carry.reach, plan.length)
            yield Store(maps.place(rows, at), updates[i])
    for y, value in zip(plan.ys, outputs, strict=True):
        if y.buffer not in carried and y not in written:
            written.add(y)
            yield Store(maps.place(y, at), value)


def _before(plan: Plan, i: int, at: maps.IndexMap) -> Access:
    """Where carry i lies before each step, if it is in memory."""
    carry = plan.carries[i]
    if carry.trajectory:
        return maps.place(carry.store.window(0, 1 if plan.reverse else 0, plan.length), at)
    return maps.place(plan.first(i), at[1:])

"""Where the carries and the outputs of a scan lie."""

from collections import Counter
from collections.abc import Sequence

from scanjit import ir, types
from scanjit.ir import Node
from scanjit.ops.roles import Roles
from scanjit.ops.scan import checkpoints
from scanjit.ops.shape import SLICE
from scanjit.ops.stretch import BROADCAST_TO
from scanjit.ops.view import DIMSHUFFLE
from scanjit.records import replace
from scanjit.schedule.lower.lowering import Lowering, is_small
from scanjit.schedule.lower.ops.overwrite import overwritten
from scanjit.schedule.lower.ops.step import LoweredStep
from scanjit.schedule.nests import Ref, with_room
from scanjit.schedule.nests.plan import CarryMemory, Plan
from scanjit.types import Dimension

LITTLE = 256
"""A carry that is known to have at most this many bytes is copied: it may lie in registers."""


def make_plan(lowering: Lowering, node: Node, step: LoweredStep, pointwise: bool, turned: bool = False) -> Plan:
    """Give every carry and every output its memory.

    A carry needs a trajectory (memory for all steps) if its values are also an output. A carry with a lag also needs
    one in three other cases: if the scan may be one nest (`pointwise`), if its last values are read after the loop, or
    if there are checkpoints. If a nest holds a carry in a register, an output of its values can be stored right in a
    larger tensor; if outputs may be `turned`, right in a result of the graph that has its axes in another order. A
    carry that is changed in place may become a result of the graph as it is, so it has no room for full vectors. A
    carry that is another one of a step before is not copied: it is `behind` the other, in its slots.
    """
    roles, length, reverse = Roles.of(node), node.params["length"], node.params["reverse"]
    carries: list[CarryMemory] = []
    given = _stored_in_place(lowering, node, step, turned) if pointwise else {}
    once = {} if pointwise or checkpoints(node) is not None else overwritten(step)
    for i, (before, after) in enumerate(zip(step.carries, step.new, strict=True)):
        lag = roles.lags.get(i)
        trajectory = any((y is after or y is before) and y not in given for y in step.ys)
        if lag is not None:
            trajectory = trajectory or pointwise or ir.PART(node, index=i) in lowering.nodes
            trajectory = trajectory or checkpoints(node) is not None
        slots, reach = (1 if i in once and not trajectory else 2, 1) if lag is None else (lag + 1, lag)
        rows = length + reach if trajectory else slots
        store = _shared(carries, node, step, i, reach) if trajectory else None
        returned = i in once and lowering.whole
        if not trajectory and lag is None and not pointwise and not returned and is_small(before.type.shape):
            store = with_room(before.dtype, (rows, *before.type.shape), "carry")
        store = store or lowering.new_memory(node, before, (rows, *before.type.shape), "carry")
        carries.append(CarryMemory(store, trajectory, lag, slots))
    if not pointwise and checkpoints(node) is None:
        carries = _behind(carries, step)
    known: dict[Node, Ref] = {}
    for y in step.ys:
        if y not in known:
            place = given.get(y) or _carried(carries, step, y, length, reverse)
            known[y] = place or lowering.new_memory(node, y, (length, *y.type.shape), "ys")
    return Plan(node, roles, types.counter("step"), types.counter("row"), carries, [known[y] for y in step.ys])


def _behind(carries: Sequence[CarryMemory], step: LoweredStep) -> list[CarryMemory]:
    """The same carries, some of them behind others, whose memory has a slot for each of these."""
    found, after = list(carries), {before: i for i, before in enumerate(step.carries)}
    next_to = {after[new]: i for i, new in enumerate(step.new) if new in after and _may_share(carries[i])}
    for i, carry in enumerate(carries):
        if step.new[i] in after or not _may_share(carry):
            continue
        line = [i]
        while line[-1] in next_to:
            line.append(next_to[line[-1]])
        if len(line) > 1:
            slots, old = len(line) + 1, carry.store
            buffer = replace(old.buffer, shape=(slots, *old.buffer.shape[1:]))
            store = replace(old, buffer=buffer, shape=(slots, *old.shape[1:]))
            for behind, k in enumerate(line):
                found[k] = replace(carry, store=store, slots=slots, behind=behind)
    return found


def _may_share(carry: CarryMemory) -> bool:
    """Whether a carry without lag lies in slots that other carries may lie in, too."""
    nbytes = carry.store.buffer.nbytes
    little = isinstance(nbytes, int) and nbytes <= 2 * LITTLE
    return carry.lag is None and not carry.trajectory and carry.slots == 2 and not little


def _stored_in_place(lowering: Lowering, node: Node, step: LoweredStep, turned: bool) -> dict[Node, Ref]:
    """The outputs that can be stored right where others want them. With checkpoints or lags there are none: later steps
    read these outputs where carries lie."""
    roles = Roles.of(node)
    if checkpoints(node) is not None or roles.lags:
        return {}
    wanted = {**lowering.turned, **lowering.destinations} if turned else lowering.destinations
    places, often = [wanted.get(ir.PART(node, index=i)) for i in roles.stacks], Counter(step.ys)
    return {y: place for y, place in zip(step.ys, places, strict=True) if place is not None and often[y] == 1}


def _shared(carries: Sequence[CarryMemory], node: Node, step: LoweredStep, i: int, reach: Dimension) -> Ref | None:
    """The part of an earlier carry's trajectory that carry i can use too; None if there is none. A step must return the
    same value for both, and the initial values of carry i must be the last initial values of the other. That is so for
    `h[t - 1]` and `h[t - 3]`."""
    inits = node.operands
    for k, other in enumerate(carries):
        if other.trajectory and other.lag is not None and step.new[k] is step.new[i] and not node.params["reverse"]:
            more = other.lag - reach
            if types.not_negative(more) and _is_end(inits[i], inits[k], more):
                return other.store.window(0, more, node.params["length"] + reach)
    return None


def _is_end(x: Node, whole: Node, start: Dimension) -> bool:
    """Whether `x` certainly holds the rows of `whole` from row `start` to the end. If `x` lacks the axis, it must be
    the last row."""
    if x.op is DIMSHUFFLE and x.params["order"] == tuple(range(1, x.args[0].ndim)):
        x = x.args[0]
    (a, first), (b, other) = _from_row(x), _from_row(whole)
    return a is b and (first is None or other is None or first - other == start)


def _from_row(x: Node) -> tuple[Node, Dimension | None]:
    """The tensor that `x` takes rows from, and the first of these rows; None instead of the row if all rows are the
    same."""
    if x.op is BROADCAST_TO and x.args[0].ndim < x.ndim:
        return x.args[0], None
    if x.op is SLICE and x.params["step"][0] == 1:
        rest = zip(x.params["start"][1:], x.params["step"][1:], x.type.shape[1:], x.args[0].type.shape[1:], strict=True)
        if all(start == 0 and step == 1 and size == of for start, step, size, of in rest):
            return x.args[0], x.params["start"][0]
    return x, 0


def _carried(
    carries: Sequence[CarryMemory], step: LoweredStep, y: Node, length: Dimension, reverse: bool
) -> Ref | None:
    """The place of an output that is a carry before or after each step: in the trajectory of that carry. None for
    another output."""
    for carry, before, after in zip(carries, step.carries, step.new, strict=True):
        if y is after or y is before:
            return carry.store.window(0, carry.reach if (y is after) != reverse else 0, length)
    return None

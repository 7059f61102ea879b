"""`scan`: one nest with all of its steps, if no element depends on another one; else a loop over time."""

from collections.abc import Sequence

from scanjit import ir, types
from scanjit.ir import Node
from scanjit.ops.promotion import Elementwise
from scanjit.ops.roles import Roles
from scanjit.ops.shape import IOTA
from scanjit.ops.stretch import full
from scanjit.schedule.lower import maps
from scanjit.schedule.lower.lowering import ArrayRule, Lowering
from scanjit.schedule.lower.ops.assemblies import copied
from scanjit.schedule.lower.ops.scan_loop import as_loop
from scanjit.schedule.lower.ops.scan_nest import as_nest, points
from scanjit.schedule.lower.ops.scan_plan import make_plan
from scanjit.schedule.lower.ops.step import LoweredStep
from scanjit.schedule.lower.ranges import Carry
from scanjit.schedule.lower.region import Item, name_of
from scanjit.schedule.nests import Access, Buffer, Load, Nest, NestLoop, Ref, Store, Value
from scanjit.schedule.nests.plan import Plan
from scanjit.schedule.tiles.estimates import takes_less_across
from scanjit.types import Dimension

LEAST_BYTES = 4
"""A sequence of smaller elements than this is read where it lies: a line of the cache has many of its rows."""
SHORT_ROW = 8
"""A row that is known to be shorter than this is read where it lies, too: there is little to gain."""


class ScanRule(ArrayRule):
    """The rule of `scan`."""

    def lower(self, lowering: Lowering, node: Node) -> None:
        """Put the initial values where the first step reads them, then add the steps."""
        step, first = LoweredStep.of(node), len(lowering.items)
        roles = Roles.of(node)
        counted = roles.until and ir.PART(node, index=roles.stacks.stop) in lowering.nodes
        shape = None if counted or (roles.until and roles.lags) else points(step)
        across = shape is not None and _across(lowering, node, step, shape)
        plan = make_plan(lowering, node, step, shape is not None, across)
        inits, xs, consts = plan.roles.split(node.operands)
        given = [*zip((*step.rows, *step.consts), (*xs, *consts), strict=True)]
        given.append((ir.dim_node(plan.row), IOTA(length=plan.length)))
        cleared = _cleared(lowering, plan) if plan.roles.until else {}
        for i, init in enumerate(inits):
            if plan.carries[i].behind or not plan.is_shared(i):
                buffer = plan.carries[i].store.buffer
                lowering.copy(init, plan.first(i), after=[cleared[buffer]] if buffer in cleared else ())
        known = {bound: lowering.place_of(outer) for bound, outer in zip(step.consts, consts, strict=True)}
        paired = _paired(step, shape)
        sequences = [
            _by_rows(lowering, x, shape if bound in paired else None, across)
            for bound, x in zip(step.rows, xs, strict=True)
        ]
        label = name_of(node)
        with lowering.context.ranges.inside(given, list(map(Carry, step.carries, inits, step.new))):
            found = None if shape is None else as_nest(lowering, plan, step, shape, known, sequences)
            looped = as_loop(lowering, plan, step, known, sequences) if found is None else None
        if found is not None:
            nest, plan = found
            nest = _with_copies(lowering, nest, lowering.inputs_of(consts, len(lowering.items)))
            lowering.context.notes.append(f"{label}: one nest with all of its steps")
            block = lowering.add_statement(nest, lowering.inputs_of((*xs, *consts), first))
            steps, count = plan.length, None
        else:
            assert looped is not None
            loop, region = looped
            block = lowering.add_statement(loop, lowering.inputs_of((*xs, *consts), first), [region])
            steps, count = plan.length if loop.count is None else loop.ran, loop.count
        places = [*(plan.final(i, steps) for i in range(plan.roles.carries)), *plan.ys, *([count] if count else [])]
        for i, place in enumerate(places):
            lowering.put(ir.PART(node, index=i), place, [block])


def _paired(step: LoweredStep, shape: tuple[Dimension, ...] | None) -> set[Node]:
    """The rows that an elementwise op combines with tensors of this shape. Calls check that they have these sizes."""
    rows, found = {row for row in step.rows if len(row.type.shape) == len(shape or ())}, set[Node]()
    for node in ir.walk(step.results):
        if isinstance(node.op, Elementwise) and node.type.shape == shape:
            found |= rows.intersection(node.operands)
    return {row for row in found if 1 not in row.type.shape}


def _across(lowering: Lowering, node: Node, step: LoweredStep, shape: tuple[Dimension, ...]) -> bool:
    """Whether the nest of a scan reads or writes rows that lie across without copies. It does not if no rows lie
    across, or if copies take less time."""
    roles = Roles.of(node)
    _, xs, consts = roles.split(node.operands)
    places = {x: place for x in (*xs, *consts) if (place := maps.view_ref(x, lowering.locate)) is not None}
    stored = [x for x in xs if x.op is not IOTA]
    targets = [lowering.turned.get(ir.PART(node, index=i)) for i in roles.stacks]
    if not places.keys() >= {*stored, *consts} or not any(map(_lies_across, (*map(places.get, stored), *targets))):
        return False
    plan = make_plan(lowering, node, step, True, True)
    known = {bound: places[x] for bound, x in zip(step.consts, consts, strict=True)}
    with lowering.context.ranges.inside([]):
        found = as_nest(lowering, plan, step, shape, known, [*map(places.get, xs)])
    return found is not None and takes_less_across(found[0])


def _lies_across(place: Ref | None) -> bool:
    """Whether the elements of a row lie apart, and the first elements of all rows are neighbours, as for `vmap` over
    the rows of a matrix."""
    return place is not None and len(place.shape) > 1 and place.strides[0] == 1 and place.strides[-1] not in (0, 1)


def _by_rows(lowering: Lowering, x: Node, points: tuple[Dimension, ...] | None, across: bool) -> Ref | None:
    """Where a sequence lies; None if it counts the rows. If it lies across, and is not to be read so, it is copied so
    that each row lies in one piece. `points` are the sizes of the copied rows, if they are given."""
    if x.op is IOTA:
        return None
    place = lowering.place_of(x)
    row = types.product(x.type.shape[1:])
    short = isinstance(row, int) and row < SHORT_ROW
    if across or not _lies_across(place) or x.dtype.itemsize < LEAST_BYTES or short:
        return place
    shape = x.type.shape if points is None else (x.type.shape[0], *points)
    rows = Ref.whole(Buffer(x.dtype, shape, "temporary", "rows"))
    copied(lowering, x, rows)
    return rows


def _with_copies(lowering: Lowering, nest: Nest, needs: Sequence[Item]) -> Nest:
    """The nest of a scan, with copies of operands that every step reads again, and whose elements lie apart along the
    last loop. An example is one column of a table that has the parameters of each series in a row."""
    *_, lane = nest.space or (NestLoop(1),)
    if isinstance(lane.size, int) and lane.size < SHORT_ROW:
        return nest
    written = nest.written_buffers
    copies: dict[tuple[Buffer, Dimension, tuple[tuple[NestLoop, Dimension], ...]], Access] = {}
    stores: dict[tuple[NestLoop, ...], list[Store]] = {}
    values: dict[Value, Value] = {}
    for value in nest.values:
        if not isinstance(value, Load) or value.access.buffer in written or nest.time in value.access.strides:
            continue
        if value.access.strides.get(lane, 0) in (0, 1) or value.dtype.itemsize < LEAST_BYTES:
            continue
        place = (value.access.buffer, value.access.offset, tuple(value.access.strides.items()))
        if place not in copies:
            over = tuple(loop for loop in nest.space if loop in value.access.strides)
            whole = Ref.whole(Buffer(value.dtype, tuple(loop.size for loop in over), "temporary", "row"))
            copies[place] = maps.place(whole, maps.identity(over))
            stores.setdefault(over, []).append(Store(copies[place], value))
        values[value] = Load(value.dtype, copies[place])
    for over, found in stores.items():
        lowering.add_statement(Nest(over, tuple(found), "row"), needs)
    return nest.rebuilt(values=values) if values else nest


def _cleared(lowering: Lowering, plan: Plan) -> dict[Buffer, Item]:
    """If a scan may end early, set the stacked outputs to zero, and return the items that do so. Later nests compute
    with all rows, also with those of steps that did not run. If such a row holds indices, they must be in bounds."""
    stacked = [*plan.ys, *(carry.store for carry in plan.carries if carry.trajectory)]
    return {
        buffer: lowering.copy(full(0, buffer.shape, buffer.dtype), Ref.whole(buffer))
        for buffer in dict.fromkeys(place.buffer for place in stacked)
    }

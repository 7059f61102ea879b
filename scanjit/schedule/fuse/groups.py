"""Which tasks are computed in one nest.

Tasks of one space join a nest where nothing between them has to be complete in memory first. Inside a nest a value goes
from task to task in a register; what nobody else reads is not stored at all.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from scanjit.schedule.fuse.order import Order
from scanjit.schedule.lower.places import LARGEST
from scanjit.schedule.lower.region import Item, Region, Task
from scanjit.schedule.nests import Load, Nest, NestLoop, Reduce, Store, Value, substitute, walk_values

LOOK_BACK = 200
"""A task joins one of the last so many nests: the time to find it does not grow with the program."""
MOST_REDUCTIONS = 6
"""More accumulators than this in one tile leave too few registers for rows."""


@dataclass(eq=False)
class Group:
    """What becomes one nest, or the statements of one block."""

    members: list[Item]
    sequential: bool = False  # it writes at computed places
    reductions: set[Reduce] = field(default_factory=set)
    values: set[Value] = field(default_factory=set)
    loaded: set[tuple[object, ...]] = field(default_factory=set)

    @property
    def space(self) -> tuple[NestLoop, ...] | None:
        first = self.members[0]
        return first.space if isinstance(first, Task) else None


def fuse(region: Region) -> list[Group]:
    """The items of a region, grouped, in order."""
    groups: list[Group] = []
    where: dict[Item, Group] = {}
    order = Order.of(region.items)
    for item in region.items:
        group = None
        if isinstance(item, Task):
            values = walk_values([store.value for store in item.stores])
            found = {v for v in values if isinstance(v, Reduce)}
            group = _partner(item, found, set(values), groups, where, order)
        if group is None:
            group = Group([])
            groups.append(group)
        if isinstance(item, Task):
            group.sequential |= any(store.indices for store in item.stores)
            group.reductions |= found
            group.values.update(values)
            group.loaded |= _loaded(values)
        group.members.append(item)
        where[item] = group
    _elide(region, where)
    return groups


def _partner(
    task: Task,
    found: set[Reduce],
    values: set[Value],
    groups: list[Group],
    where: dict[Item, Group],
    order: Order,
) -> Group | None:
    """The nest that a task joins: everything it needs is computed before it, or in it at the same point. Of those that
    make nothing for it, the one that loads most of what it loads; else the last. No loop has to wait for another for
    that.

    A nest that makes something for the task is put off for that, if nobody needs it in the meantime."""
    if any(store.indices for store in task.stores):
        return None
    best: Group | None = None
    shared, loaded = -1, _loaded(values)
    needed: dict[Group, bool] = {}
    for item, own_point in task.needs.items():
        needed[where[item]] = needed.get(where[item], True) and own_point
    ready = True  # whether no later nest makes something for the task
    for at in range(len(groups) - 1, max(len(groups) - LOOK_BACK, 0) - 1, -1):
        group = groups[at]
        dependent = group in needed
        fits = group.space is task.space and needed.get(group, True)
        fits = fits and _compatible(task, found, values, group, dependent)
        if fits and not _stays_apart(task, found, group, order):
            if dependent and not ready and best is None:
                if not any(_needs(other, group, where) for other in groups[at + 1 :]):
                    groups.append(groups.pop(at))
                    return group
            common = len(loaded & group.loaded) if ready else -1
            if common > shared:
                best, shared = group, common
        ready = ready and not dependent
    return best


def _stays_apart(task: Task, found: set[Reduce], group: Group, order: Order) -> bool:
    """Whether a task in a nest would make a loop wait for one that it does not need, then or block by block; or make
    rows that are needed for a stretch of steps only together with others."""
    reduces = bool(found or group.reductions)
    waits = order.blocks(group.members, task) or (reduces and order.ties(group.members, task))
    if found and group.reductions:
        sizes = [loop.size for value in found | group.reductions for loop in value.loops]
        waits = waits or order.sums_apart(group.members, task, sizes)
    return waits or order.parts(group.members, task)


def _loaded(values: Iterable[Value]) -> set[tuple[object, ...]]:
    """What the elementwise parts of values load."""
    accesses = (value.access for value in values if isinstance(value, Load))
    return {(access.buffer, access.offset, *access.strides.items()) for access in accesses}


def _needs(group: Group, other: Group, where: dict[Item, Group]) -> bool:
    return any(where[need] is other for member in group.members for need in member.needs)


def _compatible(task: Task, found: set[Reduce], values: set[Value], group: Group, dependent: bool) -> bool:
    if len(group.values) + len(values) > 2 * LARGEST and len(group.values | values) > 2 * LARGEST:
        return False
    if group.sequential:
        return False
    if not found or not group.reductions:
        return dependent or not found
    if len(group.reductions | found) > MOST_REDUCTIONS:
        return False
    return dependent or bool(_read(found) & _read(group.reductions))


def _read(reductions: set[Reduce]) -> set[object]:
    """The buffers that reductions read, with the loops that they read them along."""
    bodies = walk_values([r.body for r in reductions])
    return {(v.access.buffer, v.access.offset, frozenset(v.access.strides)) for v in bodies if isinstance(v, Load)}


def _elide(region: Region, where: dict[Item, Group]) -> None:
    """Drop stores that nobody reads: every reader is in the same nest, at the same point."""
    for item in region.items:
        for need, own_point in item.needs.items():
            if isinstance(need, Task) and (not own_point or where[need] is not where[item]):
                need.escapes = True
    for item in region.items:
        if isinstance(item, Task) and not item.escapes:
            item.stores = []


def nest_of(group: Group) -> Nest:
    """The nest of a group: loads of what a member computes become its value."""
    tasks = [member for member in group.members if isinstance(member, Task)]
    members = set(tasks)
    replace: dict[Value, Value] = {
        load: maker.value
        for task in tasks
        for load, maker in task.loads
        if maker in members and load is not maker.value
    }
    stores = [store for task in tasks for store in task.stores]
    roots = [store.value for store in stores]
    get = substitute(roots, replace)
    label = "_".join(dict.fromkeys(task.node.op.name for task in tasks))[:40]
    space = list(tasks[0].space)
    if any(store.indices for store in stores):
        return Nest(space, stores, label, sequential=True)
    return Nest(space, [Store(store.access, get(store.value)) for store in stores], label)

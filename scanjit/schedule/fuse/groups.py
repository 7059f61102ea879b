"""Which tasks are computed in one nest.

Tasks of one space join a nest where nothing between them has to be complete in memory first. Inside a nest a value goes
from task to task in a register; what nobody else reads is not stored at all.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from scanjit.schedule.fuse.order import Order
from scanjit.schedule.lower.places import LARGEST
from scanjit.schedule.lower.region import Compound, Item, Region, Task
from scanjit.schedule.nests import Load, Nest, NestLoop, Reduce, Store, Value, substitute, walk_values

LOOK_BACK = 200
"""A task joins one of the last so many nests: the time to find it does not grow with the program."""
MOST_REDUCTIONS = 6
"""More accumulators than this in one tile leave too few registers for rows."""


@dataclass(frozen=True, eq=False)
class Group:
    """What becomes one nest: tasks of one space. Or one item that is no task."""

    members: tuple[Item, ...]


@dataclass(eq=False)
class _Open:
    """A group that tasks may still join, and what its tasks do."""

    members: list[Item] = field(default_factory=list)
    reductions: set[Reduce] = field(default_factory=set)
    values: set[Value] = field(default_factory=set)
    loaded: set[tuple[object, ...]] = field(default_factory=set)

    def add(self, task: Task, values: Sequence[Value]) -> None:
        """Let a task join that computes these values."""
        self.members.append(task)
        self.reductions |= _reductions(values)
        self.values.update(values)
        self.loaded |= _loaded(values)

    @property
    def space(self) -> tuple[NestLoop, ...] | None:
        """The space of its tasks; None where no task may join, as where one writes at computed places."""
        first = self.members[0]
        return first.space if isinstance(first, Task) and not first.store.indices else None


@dataclass(frozen=True, eq=False)
class Fused:
    """A region whose items are grouped, in order; the nests of those groups that consist of tasks; and `inside`, for
    each loop and ifelse, the same of the regions in it."""

    region: Region
    groups: list[Group]
    nests: dict[Group, Nest]
    inside: dict[Compound, list[Fused]]


def fuse(region: Region) -> Fused:
    """Put tasks of one space in one nest, where none has to wait for another one to be complete."""
    groups: list[_Open] = []
    where: dict[Item, _Open] = {}
    order = Order.of(region.items)
    for item in region.items:
        if isinstance(item, Task):
            values = walk_values([item.store.value])
            group = _partner(item, values, groups, where, order) or _Open()
            group.add(item, values)
        else:
            group = _Open([item])
        if item is group.members[0]:
            groups.append(group)
        where[item] = group
    stored = _stored(region, where)
    closed = [Group(tuple(group.members)) for group in groups]
    nests = {group: _nest(group, stored) for group in closed if isinstance(group.members[0], Task)}
    inside = {item: list(map(fuse, item.bodies)) for item in region.items if isinstance(item, Compound)}
    return Fused(region, closed, nests, inside)


def _reductions(values: Iterable[Value]) -> set[Reduce]:
    return {value for value in values if isinstance(value, Reduce)}


def _partner(
    task: Task, values: Sequence[Value], groups: list[_Open], where: Mapping[Item, _Open], order: Order
) -> _Open | None:
    """The nest that a task joins; None if it begins one of its own.

    Everything that the task needs is computed before that nest, or in it at the same point. No loop over time has to
    wait for another one because they join. Of several such nests, the task joins the one that loads most of what it
    loads; of equals, the last.

    A nest that makes something for the task may stand before others that do so too. It is then put off to the end, if
    none of those behind it needs it.
    """
    if task.store.indices:
        return None
    found = _reductions(values)
    best: _Open | None = None
    shared, loaded = -1, _loaded(values)
    needed: dict[_Open, bool] = {}
    for item, own_point in task.needs.items():
        needed[where[item]] = needed.get(where[item], True) and own_point
    ready = True  # whether no later nest makes something for the task
    for at in range(len(groups) - 1, max(len(groups) - LOOK_BACK, 0) - 1, -1):
        group = groups[at]
        dependent = group in needed
        fits = group.space is task.space and needed.get(group, True)
        fits = fits and _compatible(found, values, group, dependent)
        if fits and not _stays_apart(task, found, group, order):
            if dependent and not ready and best is None:
                later = [need for other in groups[at + 1 :] for member in other.members for need in member.needs]
                if not any(where[need] is group for need in later):
                    groups.append(groups.pop(at))
                    return group
            common = len(loaded & group.loaded) if ready else -1
            if common > shared:
                best, shared = group, common
        ready = ready and not dependent
    return best


def _stays_apart(task: Task, found: set[Reduce], group: _Open, order: Order) -> bool:
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


def _compatible(found: set[Reduce], values: Collection[Value], group: _Open, dependent: bool) -> bool:
    """Whether one nest may compute what a group does, and these values with these reductions: it does not get too
    long, and two reductions share a tile only if one reads the other's results or both read the same."""
    if len(group.values) + len(values) > 2 * LARGEST and len(group.values.union(values)) > 2 * LARGEST:
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


def _stored(region: Region, where: Mapping[Item, _Open]) -> set[Item]:
    """The tasks whose results are stored. The result of any other is read by its own nest alone, at the point that is
    computed: it stays in a register."""
    stored = {item for item in region.items if item.escapes}
    for item in region.items:
        stored |= {need for need, own_point in item.needs.items() if not own_point or where[need] is not where[item]}
    return stored


def _nest(group: Group, stored: Collection[Item]) -> Nest:
    """The nest of a group: loads of what a member computes become its value."""
    tasks = [member for member in group.members if isinstance(member, Task)]
    members = set(tasks)
    replace: dict[Value, Value] = {
        load: maker.value
        for task in tasks
        for load, maker in task.loads
        if maker in members and load is not maker.value
    }
    stores = [task.store for task in tasks if task in stored]
    get = substitute([store.value for store in stores], replace)
    label = "_".join(dict.fromkeys(task.node.op.name for task in tasks))[:40]
    space = list(tasks[0].space)
    if any(store.indices for store in stores):
        return Nest(space, stores, label, sequential=True)
    return Nest(space, [Store(store.access, get(store.value)) for store in stores], label)

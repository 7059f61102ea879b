"""Which tasks are computed in one nest.

Tasks of one space join a nest if none of them has to wait until another one is complete in memory. Inside a nest,
values pass from task to task in registers. A result that no other nest reads is not stored at all.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import field

from scanjit.ops.promotion import CAST
from scanjit.ops.scan import checkpoints
from scanjit.records import record
from scanjit.schedule.fuse.order import Around, LoopOrder
from scanjit.schedule.lower.places import LARGEST
from scanjit.schedule.lower.region import Item, Region, Single, Task
from scanjit.schedule.nests import (
    Apply,
    Buffer,
    Load,
    Nest,
    NestLoop,
    Reduce,
    Statement,
    TimeLoop,
    Value,
    reductions_in,
    rereads,
    substitute,
    walk_values,
)
from scanjit.schedule.nests.plan import Plan
from scanjit.target import Target
from scanjit.types import Dimension

LOOK_BACK = 200
"""A task joins one of this many last groups, so that the time to find it does not grow with the program."""
MOST_UNRELATED = 8
"""A nest has at most this many tasks that have nothing to do with each other. A nest that copies all weights of a stack
would be long, and no other program would have it. Nests that copy this many are alike, and have one kernel."""
MOST_REDUCTIONS = 6
"""A nest has at most this many reductions."""
FEW_REGISTERS = 16
"""A processor with at most this many vector registers has few."""
Read = tuple[Buffer, Dimension, frozenset[NestLoop]]
"""What reductions read: a buffer, where that begins, and the loops along which they read it."""


@record
class _Work:
    """What a task does: its values, the reductions among them, what its elementwise parts load, and what its reductions
    read. `rereads` says whether the result depends on what the task overwrites."""

    values: Sequence[Value]
    reductions: set[Reduce]
    loaded: set[tuple[object, ...]]
    read: set[Read]
    rereads: bool

    @classmethod
    def of(cls, task: Task) -> _Work:
        values, reductions = task.values, set(reductions_in(task.values))
        written = task.store.access.buffer
        again = task.store.add or any(access.buffer is written for value in values for access in value.accesses)
        return cls(values, reductions, _loaded(values), _read(reductions), again and rereads([task.store]))


@record(frozen=False)
class _Group:
    """Tasks of one space that become one nest, and what they do; or one item that is no task.

    Attributes
    ----------
    number : the place of the group in the order of groups.
    reductions, values, loaded, read, rereads : those of the `_Work` of all members, together.
    around : the loops over time before and after the members.
    readers : the other groups that need a result of this one.
    unrelated : the number of tasks that neither need nor load what tasks before them make or load.
    """

    number: int
    members: list[Item] = field(default_factory=list)
    reductions: set[Reduce] = field(default_factory=set)
    values: set[Value] = field(default_factory=set)
    loaded: set[tuple[object, ...]] = field(default_factory=set)
    read: set[Read] = field(default_factory=set)
    around: Around[Item] = field(default_factory=Around)
    readers: set[_Group] = field(default_factory=set)
    unrelated: int = 0
    rereads: bool = False

    @property
    def fills(self) -> bool:
        """Whether its tasks only store constants. Other tasks join it only if they read these: without other tasks, the
        nest is more often alike another one."""
        return not self.loaded and not self.reductions

    def stores_beside(self, task: Task) -> bool:
        """Whether a task stores every second element, and a member stores the neighbours of these."""
        to = task.store.access
        if 2 not in to.strides.values():
            return False
        return any(isinstance(member, Task) and member.store.access.is_beside(to) for member in self.members)

    def add(self, task: Task, work: _Work, dependent: bool) -> None:
        """Let a task join, whose work is `work`. `dependent` says whether it needs another task of the group."""
        self.unrelated += not dependent and self.loaded.isdisjoint(work.loaded)
        self.members.append(task)
        self.reductions |= work.reductions
        self.read |= work.read
        self.values.update(work.values)
        self.loaded |= work.loaded
        self.rereads |= work.rereads


class _Groups:
    """The groups of a region, while items are put into them one after the other. `where` maps an item to its group.
    `_over` has the groups over each space, in order."""

    def __init__(self, order: LoopOrder[Item], target: Target) -> None:
        self.order, self.target = order, target
        self.where: dict[Item, _Group] = {}
        self._over: dict[tuple[NestLoop, ...], list[_Group]] = {}
        self._count = 0

    def add(self, item: Item) -> None:
        """Put an item into a group."""
        group = self._joined(item) if isinstance(item, Task) else self._begun([item])
        group.around |= self.order.around[item]
        self.where[item] = group
        for need in item.needs:
            if self.where[need] is not group:
                self.where[need].readers.add(group)

    def in_order(self) -> list[_Group]:
        """All groups, in the order of their numbers."""
        return sorted(dict.fromkeys(self.where.values()), key=lambda group: group.number)

    def _begun(self, members: list[Item]) -> _Group:
        """A new group behind all others."""
        self._count += 1
        return _Group(self._count, members)

    def _joined(self, task: Task) -> _Group:
        """The group of a task, which now has the task as a member."""
        work = _Work.of(task)
        group = self._partner(task, work)
        over = self._over.setdefault(task.space, [])
        if group is None:
            group = self._begun([])
            over.append(group)
        if task.store.indices:  # no other task may join one that writes at computed places
            over.remove(group)
        group.add(task, work, any(self.where[need] is group for need in task.needs))
        return group

    def _partner(self, task: Task, work: _Work) -> _Group | None:
        """The group that a task joins; None if it begins a group of its own.

        A group fits if it computes all that the task needs at the same point, or stands behind the groups that do, and
        if no loop over time would wait for another because they join. Of several groups that fit, the task joins the
        one that loads most of what the task loads; of equals, the last one.

        If none fits, the task may join a group that makes something for it, but stands before other such groups. That
        group moves to the end, which is possible if no other group reads its results.

        A task that writes at computed places joins only a group that makes something for it.
        """
        needed: dict[_Group, bool] = {}
        for item, own_point in task.needs.items():
            needed[self.where[item]] = needed.get(self.where[item], True) and own_point
        last = max((group.number for group in needed), default=0)
        around, loaded = self.order.around[task], work.loaded

        def fits(group: _Group) -> bool:
            if not needed.get(group, True) or not self._compatible(task.space, work, group, group in needed):
                return False
            if group not in needed and loaded.isdisjoint(group.loaded) and not group.stores_beside(task):
                if group.unrelated >= MOST_UNRELATED or group.fills != (not loaded and not work.reductions):
                    return False
            return not self._stays_apart(task, work.reductions, group, around)

        over = self._over.get(task.space, [])
        near = [group for group in reversed(over) if group.number > self._count - LOOK_BACK]
        if task.store.indices:
            near = [group for group in near if group in needed and task.store.apart]
        ready = [group for group in near if group.number >= last and fits(group)]
        if ready:
            return max(ready, key=lambda group: (group.stores_beside(task), len(loaded & group.loaded)))
        for group in near:
            if group in needed and group.number < last and not group.readers and fits(group):
                self._count += 1
                group.number = self._count
                over.remove(group)
                over.append(group)
                return group
        return None

    def _compatible(self, space: Sequence[NestLoop], work: _Work, group: _Group, dependent: bool) -> bool:
        """Whether the nest of a group may do this work too.

        Its tile may compute rows twice. So where there are reductions, no result may depend on an element that it
        overwrites. The nest must not get too long. Two reductions share a tile only if one reads the result of the
        other, or both read the same operand. With few registers, lanes must run along this operand: a tile of four
        gates, which share only `h` in `h @ w`, would have a vector of each `w` and few rows. A task with reductions
        joins a group without any only if it needs a result of the group.
        """
        found, values = work.reductions, work.values
        if (found or group.reductions) and (work.rereads or group.rereads):
            return False
        if len(group.values) + len(values) > 2 * LARGEST and len(group.values.union(values)) > 2 * LARGEST:
            return False
        if not found or not group.reductions:
            return dependent or not found
        if len(group.reductions | found) > MOST_REDUCTIONS:
            return False
        both = [loops for _, _, loops in work.read & group.read]
        if space and self.target.registers <= FEW_REGISTERS:
            both = [loops for loops in both if space[-1] in loops]
        return dependent or bool(both)

    def _stays_apart(self, task: Task, found: set[Reduce], group: _Group, around: Around[Item]) -> bool:
        """Whether a task in a group would make a loop over time wait for a loop that it does not need, also if both are
        cut into blocks; or would store rows with others, where alone they need memory for a stretch of steps only."""
        reduces = bool(found or group.reductions)
        waits = self.order.blocks(group.around, around) or (reduces and self.order.ties(group.around, around))
        if found and group.reductions:
            sizes = [loop.size for value in found | group.reductions for loop in value.loops]
            waits = waits or _sums_apart(group.around, around, sizes)
        return waits or _feed_different_loops(group.around, around, task)


def fuse(region: Region, target: Target) -> list[Statement]:
    """The statements of a region: nests, and the items that are no tasks. Tasks over the same space share a nest,
    unless one of them must wait until another one is complete."""
    order = LoopOrder.of({item: item.needs for item in region.items}, lambda item: _loop(item) is not None)
    groups = _Groups(order, target)
    for item in region.items:
        groups.add(item)
    stored = _stored(region, groups.where)
    return [made for group in groups.in_order() if (made := _made(group, stored, target)) is not None]


def _made(group: _Group, stored: Collection[Item], target: Target) -> Statement | None:
    """The statement that a group becomes. None if no other group reads anything that it computes."""
    first = group.members[0]
    if isinstance(first, Single):
        return first.statement.with_suites(*(fuse(region, target) for region in first.regions))
    return _nest(group, stored) if any(member in stored for member in group.members) else None


def _loop(item: Item) -> Plan | None:
    """The plan of a loop over time, else None. A scan that is one nest does not count as a loop, as threads do not meet
    at each of its steps. Nor does an ifelse."""
    statement = item.statement if isinstance(item, Single) else None
    return statement.plan if isinstance(statement, TimeLoop) else None


def _sums_apart(some: Around[Item], other: Around[Item], sizes: Collection[Dimension]) -> bool:
    """Whether two sums need different loops, and one of these loops has as many steps as one of `sizes`, the sizes of
    the sums. A sum over time is computed along with the steps of the last loop that it needs, so these two would go
    along with different loops."""
    return any(plan.length in sizes for loop in some.needs ^ other.needs if (plan := _loop(loop)) is not None)


def _feed_different_loops(some: Around[Item], other: Around[Item], task: Task) -> bool:
    """Whether a task and a group compute rows for different loops, and one of these has checkpoints.

    Rows that only this loop reads need memory for one stretch of steps. In a nest with other rows they would need
    it for all steps.
    """
    alone = (some.feeds - other.feeds, other.feeds - some.feeds)
    return all(alone) and any(_has_checkpoints(loop, task) for loops in alone for loop in loops)


def _has_checkpoints(loop: Item, task: Task) -> bool:
    """Whether a loop has checkpoints, and a task computes one row for each of its steps."""
    plan = _loop(loop)
    if plan is None or checkpoints(plan.node) is None:
        return False
    return bool(task.space) and task.space[0].size == plan.length


def _loaded(values: Iterable[Value]) -> set[tuple[object, ...]]:
    """What the elementwise parts of values load."""
    accesses = [value.access for value in values if type(value) is Load]
    return {(access.buffer, access.offset, *access.strides.items()) for access in accesses}


def _read(reductions: set[Reduce]) -> set[Read]:
    """What the terms of reductions load."""
    terms = walk_values([r.term for r in reductions])
    return {(v.access.buffer, v.access.offset, frozenset(v.access.strides)) for v in terms if isinstance(v, Load)}


def _stored(region: Region, where: Mapping[Item, _Group]) -> set[Item]:
    """The tasks whose results are stored: some other nest reads them, or their own nest reads them at another point.
    All other results stay in registers."""
    stored = set(region.escaping)
    for item in region.items:
        waits = item.waits if isinstance(item, Task) else ()
        read = [need for need in item.needs if need not in waits]
        stored |= {need for need in read if not item.needs[need] or where[need] is not where[item]}
    return stored


def _as_read(load: Value, stored: Value) -> Value:
    """The value that a load of a stored value gives. Floats of 16 bits may be loaded as float32."""
    same = load.dtype == stored.dtype
    return stored if same else Apply(load.dtype, CAST, (stored,), {"dtype": load.dtype})


def _nest(group: _Group, stored: Collection[Item]) -> Nest:
    """The nest of a group: loads of what a member computes become its value."""
    tasks = [member for member in group.members if isinstance(member, Task)]
    members = set(tasks)
    replace: dict[Value, Value] = {
        load: _as_read(load, maker.store.value)
        for task in tasks
        for load, maker in task.loads
        if maker in members and load is not maker.store.value
    }
    stores = tuple(task.store for task in tasks if task in stored)
    get = substitute([value for store in stores for value in store.values], replace)
    label = "_".join(dict.fromkeys(task.node.op.name for task in tasks))[:40]
    made = tuple(store.rebuilt(get) for store in stores)
    together = all(store.apart for store in stores if store.indices)
    return Nest(tasks[0].space, made, label, sequential=not together)

"""Families of loops: one that keeps only some of its carries, and those that read what it stores. They go over their
steps in stretches, the same for all; what one of them reads of another is made again stretch by stretch, and is in
memory for one stretch only.

The loops of a gradient are such a family: the loop of the value goes forth, that of the gradient goes back and reads
it; those of a second derivative read both. Loops that go the same way, one of which reads the other (the layers of a
stack), go over the stretches together, in one `Phase`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from scanjit import types
from scanjit.schedule.fuse.groups import Group
from scanjit.schedule.lower.region import Block, Region
from scanjit.schedule.nests import Buffer, Nest, NestLoop, leaves_of, row_major
from scanjit.schedule.tiles.linear import linear
from scanjit.schedule.time import sums
from scanjit.schedule.time.blocks import Chain, Search, can_be_cut
from scanjit.schedule.time.checkpoint.kept import Ends, indexed
from scanjit.schedule.time.window import Window, lies_in
from scanjit.types import Dimension

MOST_AGAIN = 4
"""The steps of a loop are made again for so many others at most."""


@dataclass(eq=False)
class Phase:
    """Loops that go over the stretches together, from the last stretch to the first if they are `turned`.

    `own` are the groups that are done there for the first time, in order; those in `again` were done before, and what
    they make is needed once more. Where that is true, it is still there for the stretch that comes first.
    """

    turned: bool
    loops: list[Group]
    own: list[Group] = field(default_factory=list)
    again: dict[Group, bool] = field(default_factory=dict)

    @property
    def at(self) -> Group:
        """The last of its loops: all is done there."""
        return self.loops[-1]


@dataclass(eq=False)
class Family:
    """Loops with all that goes along with them.

    `size` is the number of steps between checkpoints, and `root` the loop from whose first step on they are counted.
    `chains` have the loops, by their groups, with the maps and sums over time that are theirs in any case. Buffers that
    are `shrunk` are in memory for one stretch. `kept` are loops whose carries are kept before each stretch, by carry.
    """

    root: Block
    size: Dimension
    chains: dict[Group, Chain]
    phases: list[Phase]
    shrunk: dict[Buffer, Window]
    windows: dict[Group, Window]
    kept: dict[Group, dict[int, Buffer]] = field(default_factory=dict)

    @property
    def sums(self) -> dict[Group, Group]:
        """The sums over time, each with its loop."""
        return {group: loop for loop, chain in self.chains.items() for group in chain.sums}

    def turned(self, loop: Group) -> bool:
        """Whether a loop goes the other way than the root."""
        return block_of(loop).plan.reverse != self.root.plan.reverse

    @property
    def groups(self) -> set[Group]:
        """All groups that the family takes along, and its loops."""
        return {group for phase in self.phases for group in phase.own}

    def phase_at(self, group: Group) -> Phase | None:
        """The phase that is done where a group stands."""
        return next((phase for phase in self.phases if phase.at is group), None)

    @property
    def again(self) -> list[Group]:
        """The loops of which steps are made again."""
        return [loop for loop in self.chains if any(loop in phase.again for phase in self.phases)]


def block_of(group: Group) -> Block:
    """The scan of a group."""
    block = group.members[0]
    assert isinstance(block, Block)
    return block


class Around:
    """The groups of a region, and how they depend on each other."""

    def __init__(
        self, region: Region, groups: list[Group], nests: dict[Group, Nest], chained: Mapping[Group, Chain]
    ) -> None:
        self.region, self.groups, self.nests, self.chained = region, groups, nests, chained
        self.at = {group: i for i, group in enumerate(groups)}
        self.searches: dict[Group, Search] = {}
        self.loops = [group for group in groups if isinstance(group.members[0], Block) and group.members[0].scan]
        any_loop = self.search(self.loops[0])
        self.reads, self.writes, self.needs = any_loop.reads, any_loop.writes, any_loop.needs
        self.order = any_loop.order
        written = Counter(buffer for group in groups for buffer in self.writes[group])
        self.shared = {buffer for buffer, count in written.items() if count > 1}
        self.users: dict[Group, set[Group]] = {group: set() for group in groups}
        self.below: dict[Group, set[Group]] = {}
        for group in groups:
            self.below[group] = set(self.needs[group]).union(*(self.below[need] for need in self.needs[group]))
            for need in self.needs[group]:
                self.users[need].add(group)

    def search(self, loop: Group) -> Search:
        """The search for what goes along with a loop."""
        if loop not in self.searches:
            self.searches[loop] = Search(self.region, self.groups, self.nests, self.at[loop], frozenset())
        return self.searches[loop]

    def chain(self, loop: Group) -> Chain:
        """What goes with a loop in any case."""
        return self.chained.get(loop) or Chain(block_of(loop))

    def related(self, a: Group, b: Group) -> bool:
        """Whether one group needs the other."""
        return a in self.below[b] or b in self.below[a]

    def reads_of(self, loop: Group) -> set[Buffer]:
        """What a loop reads, and what goes with it in any case."""
        return self.reads[loop].union(*(self.reads[group] for group in self.chain(loop).others))

    def reached(self, loop: Group) -> Iterator[Group]:
        """The loops whose results a loop reads, or what is made of them by no other loop."""
        seen: set[Group] = set()
        stack = [loop]
        while stack:
            more = self.needs[stack.pop()] - seen
            seen |= more
            yield from (group for group in more if group not in self.nests)
            stack += [group for group in more if group in self.nests]


def is_linear(group: Group) -> bool:
    """Whether several steps of a loop are done at a time: from where it begins, so that it cannot begin elsewhere."""
    nest = block_of(group).nest
    return nest is not None and bool(linear(nest))


def candidates(around: Around, root: Group, others: Iterable[Group]) -> list[Group]:
    """A loop, and those of others that may be of its family: they read what it stores."""
    found = [root]
    fits = [loop for loop in others if around.at[loop] > around.at[root] and _fits(root, loop)]
    for directly in (True, False):
        for loop in fits:
            made = set().union(*(around.writes[member] for member in found))
            reads = around.reads_of(loop) & made if directly else set(found).intersection(around.reached(loop))
            if loop not in found and reads and all(_in_order(around, loop, member, found) for member in found):
                found.append(loop)
    return sorted(found, key=around.at.__getitem__)


def _fits(root: Group, loop: Group) -> bool:
    """Whether a loop goes over the steps of another one, or over the last of them."""
    return can_be_cut(loop) and not is_linear(loop) and Window.within(block_of(root).plan, block_of(loop).plan.length)


def _in_order(around: Around, loop: Group, member: Group, found: list[Group]) -> bool:
    """Whether one of two loops needs the other, or they go the same way and read what a loop made that goes the other
    way. Of other loops neither is to wait for the other."""
    if around.related(loop, member):
        return True
    both = around.reads_of(loop) & around.reads_of(member)
    reverse = block_of(loop).plan.reverse
    against = [other for other in found if block_of(other).plan.reverse != reverse]
    return block_of(member).plan.reverse == reverse and any(both & around.writes[other] for other in against)


class Draft:
    """A family while it is made: what turns out not to fit is dropped until all does."""

    def __init__(self, around: Around, loops: list[Group], free: Iterable[Group], size: Dimension) -> None:
        self.around, self.loops, self.size, self.root = around, loops, size, loops[0]
        self.nests, self.reads, self.writes = around.nests, around.reads, around.writes
        self.plan = block_of(self.root).plan
        self.maps = {group for group in free if self._window_of(group) is not None}
        self.alone: set[Group] = set()
        self.whole: set[Buffer] = set()
        self.refused = ""

    def family(self) -> Family | None:
        """The family, if that saves any memory; sets `refused` where something is in the way."""
        while len(self.loops) > 1 and self.root in self.loops:
            self._prepare()
            if self._settled() and self._placed() and self._in_step() and self._again() and self._useful():
                if not any(self._stored(loop) & self.shrunk.keys() for loop in self.loops):
                    return None
                chains = {loop: self.chains[loop] for loop in self.loops}
                return Family(block_of(self.root), self.size, chains, self.phases, self.shrunk, self.windows)
        return None

    # ---- who goes along ---------------------------------------------------------------------------------------------

    def _prepare(self) -> None:
        around = self.around
        self.chains = {loop: around.chain(loop) for loop in self.loops}
        self.home = {group: loop for loop, chain in self.chains.items() for group in (loop, *chain.others)}
        self.found = {group: over for chain in self.chains.values() for group, over in chain.sums.items()}
        self.going = self.home.keys() | self.maps
        taken_apart = {group for chain in around.chained.values() for group in chain.sums}  # by what their sums are now
        self.ends = Ends(around.groups, self.nests, self.reads, self.writes, self.going | taken_apart)
        self.windows = {loop: Window.last(self.plan, block_of(loop).plan.length) for loop in self.loops}
        self.windows |= {group: self.windows[loop] for group, loop in self.home.items()}
        self.windows |= {group: window for group in self.maps if (window := self._window_of(group)) is not None}
        self.private = {buffer: self.windows[loop] for loop, c in self.chains.items() for buffer in c.shrunk}
        self.carries = {
            carry.store.buffer: (loop, i)
            for loop in self.loops
            for i, carry in enumerate(block_of(loop).plan.carries)
            if carry.trajectory and not block_of(loop).plan.looks_back(carry.store.buffer)
        }

    def _window_of(self, group: Group) -> Window | None:
        """The steps that a map over time is for, if it goes through what it writes row by row."""
        for loop in self.loops:
            if self.around.search(loop).steps_with_time(group, self.writes[group]):
                return Window.last(self.plan, block_of(loop).plan.length)
        return None

    def _phases(self) -> list[Phase]:
        """The loops, those together that can go together."""
        found: list[Phase] = []
        for loop in self.loops:
            turned = block_of(loop).plan.reverse != self.plan.reverse
            if found and found[-1].turned == turned and loop not in self.alone and self._joins(found[-1], loop):
                found[-1].loops.append(loop)
            else:
                found.append(Phase(turned, [loop]))
        return found

    def _joins(self, phase: Phase, loop: Group) -> bool:
        """Whether nothing in between waits for the loops of a phase, and they need not wait for a loop that they do
        not need."""
        around, earlier = self.around, set(phase.loops)
        between = around.groups[around.at[phase.loops[0]] : around.at[loop]]
        if any(around.below[group] & earlier and group not in self.going for group in between):
            return False
        before = earlier.union(*(around.below[group] for group in earlier))
        more = around.below[loop] - before - {loop}
        loops = [group for group in before if group in around.loops]
        return all(around.related(a, b) for a in more if a in around.loops for b in loops)

    # ---- what is in memory for a stretch only -----------------------------------------------------------------------

    def _settled(self) -> bool:
        """Find the buffers of which one stretch is enough memory; maps that do nothing with them are dropped."""
        while True:
            made = set().union(*(self.writes[group] for group in self.going)) - self.private.keys() - self.whole
            ours = {buffer: window for buffer in made if (window := self._ours(buffer)) is not None}
            self.shrunk = {**self.private, **ours}
            spoiled = set().union(*(self.writes[g] & ours.keys() for g in self.going if self._spoils(g)))
            idle = {m for m in self.maps if not (self.reads[m] | self.writes[m]) & self.shrunk.keys()}
            if not spoiled and not idle:
                return True
            self.whole |= spoiled
            self.maps -= idle
            self.going -= idle
            self.ends.going -= idle

    def _spoils(self, group: Group) -> bool:
        """Whether a map, made again, would write over what others have written since."""
        whole = self.writes[group] - self.shrunk.keys()
        return group not in self.chains and not whole.isdisjoint(self.around.shared)

    def _ours(self, buffer: Buffer) -> Window | None:
        """The rows of a buffer, if only the family uses it, row by row."""
        if buffer.kind != "temporary" or buffer not in self.around.region.buffers or not buffer.shape:
            return None
        loop, carry = self.carries.get(buffer, (None, 0))
        window = self.windows[loop] if loop is not None else Window.of(self.windows.values(), buffer.shape[0])
        if window is None:
            return None
        for group in self.around.groups:
            if buffer not in self.reads[group] | self.writes[group]:
                continue
            if not self._by_rows(group, buffer, window):
                if loop is None or not self.ends.begins_or_ends(group, buffer, block_of(loop).plan, carry):
                    return None
        return window

    def _by_rows(self, group: Group, buffer: Buffer, window: Window) -> bool:
        """Whether a group goes along, and through a buffer row by row."""
        if group not in self.going or not buffer.shape:
            return False
        if buffer in self.writes[group] and self.carries.get(buffer, (group, 0))[0] is not group:
            return False  # it begins the carry, of a loop of one step
        own = self.windows[group]
        if group in self.chains:
            steps = self.around.search(group).steps_by_rows(buffer)
        elif group in self.found:
            steps = sums.covers(self.found[group], self.nests[group], {buffer})
        else:
            steps = any(self.around.search(loop).steps_with_time(group, {buffer}) for loop in self.loops)
        return steps and self._in_rows(group, buffer) and (own == window or self._aligned(group, buffer, own, window))

    def _in_rows(self, group: Group, buffer: Buffer) -> bool:
        """Whether all that is read of a buffer at computed positions is read in one row."""
        step = row_major(buffer.shape)[0]
        found = (indices for nest in self._nests(group) for access, indices in indexed(nest) if access.buffer is buffer)
        return all(lies_in(0, (index.size - 1) * index.stride, step) for indices in found for index in indices)

    def _nests(self, group: Group) -> list[Nest]:
        """The nests of a group, those in a loop too."""
        if group in self.nests:
            return [self.nests[group]]
        block = block_of(group)
        leaves = leaves_of(block.statements) if block.nest is None else [block.nest]
        return [nest for nest in leaves if isinstance(nest, Nest)]

    def _aligned(self, group: Group, buffer: Buffer, own: Window, rows: Window) -> bool:
        """Whether a group that goes over fewer steps reads the rows of just these."""
        step = row_major(buffer.shape)[0]
        shift, most = (own.first_row - rows.first_row) * step, 2 if buffer in self.carries else 1
        offsets = self.around.search(self.home.get(group, self.root)).first_offsets(group, buffer)
        spans = self._spans(group, buffer)
        return spans is not None and all(
            lies_in(offset - shift + low, offset - shift + high, step * most)
            for offset in offsets
            for low, high in spans
        )

    def _spans(self, group: Group, buffer: Buffer) -> list[tuple[Dimension, Dimension]] | None:
        """How far the loops of each access that do not go from row to row go through a buffer, to either side; None if
        it is not certain to which."""
        found: list[tuple[Dimension, Dimension]] = []
        for nest in self._nests(group):
            times: set[NestLoop | None] = {nest.time}
            if group not in self.chains:
                times = {*self.found[group].values()} if group in self.found else {nest.space[0]}
            for access, _ in nest.accesses():
                if access.buffer is buffer:
                    loops = {loop: by for loop, by in access.strides.items() if loop not in times}
                    up = {loop for loop, by in loops.items() if types.not_negative(by)}
                    if not all(types.not_negative(-1 * by) for loop, by in loops.items() if loop not in up):
                        return None
                    ends = {loop: (loop.size - 1) * by for loop, by in loops.items()}
                    low = sum((end for loop, end in ends.items() if loop not in up), start=0)
                    found.append((low, sum((ends[loop] for loop in up), start=0)))
        return found

    # ---- when it is done --------------------------------------------------------------------------------------------

    def _placed(self) -> bool:
        """Find the phase in which each group is done first; False if a map was dropped for which there is none."""
        around, self.phases = self.around, self._phases()
        self.done = {group: i for i, phase in enumerate(self.phases) for loop in phase.loops
                     for group in (loop, *self.chains[loop].others)}  # fmt: skip
        low = dict(self.done)
        made = [group for group in around.groups if group in self.maps]
        for group in made:
            least = self._least(group, low)
            if least is not None and not self._makes(group):
                least = next((p for p in range(least, len(self.phases)) if self._can_be_done(group, p)), None)
                if least is not None:
                    self.done[group] = least
            if least is None:
                self.maps.discard(group)
                return False
            low[group] = least
        for group in reversed(made):
            if self._makes(group):
                users = [self.done[user] for user in around.users[group] if user in self.going]
                if not users or not self._can_be_done(group, min(users)):
                    self.maps.discard(group)
                    return False
                self.done[group] = min(users)
        for i, phase in enumerate(self.phases):
            phase.own = [group for group in around.groups if self.done.get(group) == i]
        return True

    def _makes(self, group: Group) -> bool:
        """Whether a map makes what is in memory for a stretch: it is done where that is needed first."""
        return bool(self.writes[group] & self.shrunk.keys())

    def _least(self, group: Group, low: Mapping[Group, int]) -> int | None:
        """The first phase before whose end there is all that a map needs."""
        at, needs = self.around.at, self.around.needs[group]
        least = max((low[need] for need in needs if need in self.going), default=0)
        others = max((at[need] for need in needs if need not in self.going), default=-1)
        return next((p for p in range(least, len(self.phases)) if at[self.phases[p].at] > others), None)

    def _can_be_done(self, group: Group, p: int) -> bool:
        """Whether a map can be done in a phase: what needs it comes later, and no loop has to wait for that."""
        around, phase = self.around, self.phases[p]
        for user in around.users[group]:
            if user in self.going:
                if self.done.get(user, p) < p:
                    return False
            elif around.at[user] < around.at[phase.at]:
                return False
        return not any(around.order.blocks(loop.members, item) for loop in phase.loops for item in group.members)

    def _in_step(self) -> bool:
        """Whether all that is done in one phase goes row by row through what is made there, by one or by several;
        False if something was dropped, or is to be done apart."""
        for phase in self.phases:
            for group in phase.own:
                used = self.reads[group] | self.writes[group]
                for maker in phase.own:
                    shared = (used & self.writes[maker]) if maker is not group else set()
                    if all(self._row_for_row(group, maker, buffer) for buffer in shared):
                        continue
                    if not {group, maker} & self.maps and self.home[group] is self.home[maker]:
                        continue
                    if group in self.maps or maker in self.maps:
                        self.maps.discard(group if group in self.maps else maker)
                    else:
                        self.alone.add(max(self.home[group], self.home[maker], key=self.around.at.__getitem__))
                    return False
        return True

    def _row_for_row(self, group: Group, maker: Group, buffer: Buffer) -> bool:
        if buffer in self.shrunk:
            return True
        window = self.windows[maker]
        return self._by_rows(group, buffer, window) and self._by_rows(maker, buffer, window)

    # ---- what is made again -----------------------------------------------------------------------------------------

    def _again(self) -> bool:
        """Find what each phase makes again; False if that is too much, or cannot be done: some buffers stay whole."""
        makers: dict[Buffer, list[Group]] = {}
        for group in self.done:
            for buffer in self.writes[group] & self.shrunk.keys():
                makers.setdefault(buffer, []).append(group)
        for p, phase in enumerate(self.phases):
            stack = list(phase.own)
            needed: set[Group] = set()
            while stack:
                for buffer in self.reads[stack.pop()] & self.shrunk.keys():
                    more = [group for group in makers[buffer] if self.done[group] < p and group not in needed]
                    needed.update(more)
                    stack += more
            phase.again = {group: self._is_there(group, p) for group in self.around.groups if group in needed}
        whole = self._read_too_early() or self._made_too_often() or self._lost()
        self.whole |= whole
        return not whole

    def _is_there(self, group: Group, p: int) -> bool:
        """Whether what a group makes is in memory for the stretch where a phase begins."""
        last = max(q for q in range(p) if self.done[group] == q or group in self.phases[q].again)
        return self.phases[last].turned != self.phases[p].turned

    def _read_too_early(self) -> set[Buffer]:
        """Buffers that another loop reads that goes the same way, before any gradient: no steps are made again for
        that."""
        below = self.around.below
        for p, phase in enumerate(self.phases):
            for group in phase.own:
                for buffer in self.reads[group] & self.shrunk.keys() - self.private.keys():
                    for maker in phase.again:
                        if buffer not in self.writes[maker] or self.phases[self.done[maker]].turned != phase.turned:
                            continue
                        others = (loop for q in self.phases[:p] if q.turned != phase.turned for loop in q.loops)
                        if not any(maker in below[loop] and loop in below[group] for loop in others):
                            return {buffer}
        return set()

    def _made_too_often(self) -> set[Buffer]:
        """Buffers that stay whole because their loop would be done too often."""
        for loop in self.loops:
            if sum(loop in phase.again for phase in self.phases) > MOST_AGAIN:
                stored = self._stored(loop) & self.shrunk.keys()
                readers = {
                    buffer: sum(any(buffer in self.reads[g] for g in phase.own) for phase in self.phases)
                    for buffer in stored
                }
                self.refused = "its steps would be made again too often"
                return {buffer for buffer, count in readers.items() if count > 1} or stored
        return set()

    def _lost(self) -> set[Buffer]:
        """What loops store whose carries cannot be kept."""
        for loop in self.loops:
            plan = block_of(loop).plan
            for i in self.kept_carries(loop):
                if not plan.carries[i].trajectory:
                    if not self.ends.is_kept(loop, plan.carries[i].store.buffer, plan, i):
                        self.refused = "a carry is read by another loop"
                        return self._stored(loop) & self.shrunk.keys()
        return set()

    def kept_carries(self, loop: Group) -> list[int]:
        """The carries of a loop that are kept before each stretch."""
        plan = block_of(loop).plan
        short = [i for i, c in enumerate(plan.carries) if c.trajectory and c.store.buffer in self.shrunk]
        if not short and not any(loop in phase.again for phase in self.phases):
            return []
        return sorted([*short, *(i for i, c in enumerate(plan.carries) if not c.trajectory)])

    def _stored(self, loop: Group) -> set[Buffer]:
        """What a loop stores for others, and what goes with it in any case."""
        return set().union(*(self.writes[g] for g in (loop, *self.chains[loop].others))) - self.private.keys()

    def _useful(self) -> bool:
        """Whether all loops have to do with the others; False if some were dropped."""
        idle = []
        for loop in self.loops:
            reads = self.around.reads_of(loop).union(
                *(self.reads[m] for m in self.maps if m in self.around.below[loop] or loop in self.around.below[m])
            )
            others = reads & self.shrunk.keys() - self.private.keys() - self.writes[loop]
            if not others and not any(loop in phase.again for phase in self.phases):
                idle.append(loop)
        self.loops = [loop for loop in self.loops if loop not in idle]
        return not idle

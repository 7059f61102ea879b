"""Loops that may be a family, while it is found out what stands in the way."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from dataclasses import replace as changed
from functools import cached_property
from typing import Any, NamedTuple

from scanjit.schedule.fuse.groups import Group
from scanjit.schedule.nests import Buffer, Nest
from scanjit.schedule.nests.plan import Plan
from scanjit.schedule.time.chains import Chain
from scanjit.schedule.time.flow import Flow, the_scan
from scanjit.schedule.time.rows import is_rowwise
from scanjit.schedule.time.summed import SumLoops
from scanjit.schedule.time.window import Window
from scanjit.types import Dimension


@dataclass(frozen=True)
class Phase:
    """Loops that go through the stretches together, from the last stretch to the first if `backwards`.

    Parameters
    ----------
    own : the groups that are computed here for the first time, in order.
    recomputed : the groups of earlier phases whose results are needed again; True if those of the first stretch are
        still in memory when the phase begins, False if that stretch has to be recomputed too.
    """

    backwards: bool
    loops: tuple[Group, ...]
    own: tuple[Group, ...] = ()
    recomputed: Mapping[Group, bool] = field(default_factory=dict)

    @property
    def at(self) -> Group:
        """The last of its loops: the statements of the phase stand there."""
        return self.loops[-1]


@dataclass(frozen=True, eq=False)
class Candidate:
    """Loops that may be a family, and what is known of them so far.

    Parameters
    ----------
    flow, chains : of the region.
    size : how many steps a stretch has.
    loops : in order. The first is the root: stretches are counted from its first step on.
    free : nests that are in no chain and no other family: they may go along.
    separate : the loops that begin a phase of their own.
    full : the buffers that keep memory for all steps.
    reason : why a wider candidate was refused, for `explain`.
    short : the buffers of which one stretch is enough, each with the steps that its rows are for.
    phases : when what is done.
    """

    flow: Flow
    chains: Mapping[Group, Chain]
    size: Dimension
    loops: tuple[Group, ...]
    free: frozenset[Group]
    separate: frozenset[Group] = frozenset()
    full: frozenset[Buffer] = frozenset()
    reason: str = ""
    short: Mapping[Buffer, Window] = field(default_factory=dict)
    phases: tuple[Phase, ...] = ()

    def without(self, group: Group) -> Refusal:
        """The refusal that tries the same without a rowwise nest."""
        return self.narrower(free=self.free - {group})

    def narrower(self, reason: str = "", **changes: Any) -> Refusal:
        """The refusal that tries the same with these fields changed."""
        return Refusal(reason, changed(self, reason=reason or self.reason, **changes))

    def with_full(self, buffers: AbstractSet[Buffer], reason: str = "") -> Refusal:
        """The refusal that tries the same with memory for all steps of these buffers."""
        return self.narrower(reason, full=self.full | buffers)

    @property
    def plan(self) -> Plan:
        """Of the root."""
        return the_scan(self.loops[0]).plan

    def backwards(self, loop: Group) -> bool:
        """Whether a loop goes the other way than the root."""
        return the_scan(loop).plan.reverse != self.plan.reverse

    @cached_property
    def taken(self) -> Mapping[Group, Chain]:
        """The loops, each with what goes along with it in any case."""
        return {loop: chain_of(self.chains, loop) for loop in self.loops}

    @cached_property
    def home(self) -> Mapping[Group, Group]:
        """The loop of each group that goes along with one in any case; of a loop, itself."""
        return {group: loop for loop, chain in self.taken.items() for group in (loop, *chain.others)}

    @cached_property
    def sums(self) -> Mapping[Group, SumLoops]:
        """The groups that are sums over time."""
        return {group: found for chain in self.taken.values() for group, found in chain.sums.items()}

    @cached_property
    def rowwise(self) -> Mapping[Group, Window]:
        """The free nests that go over the steps of a loop, row by row through what they write."""
        windows = [Window.last(self.plan, the_scan(loop).plan.length) for loop in self.loops]
        found = {
            group: window
            for group in self.free
            for window in windows
            if is_rowwise(self.flow.nests[group], window.length, self.flow.writes[group])
        }
        return {group: found[group] for group in self.flow.groups if group in found}

    @cached_property
    def windows(self) -> Mapping[Group, Window]:
        """The steps of each group of the family."""
        own = {group: Window.last(self.plan, the_scan(loop).plan.length) for group, loop in self.home.items()}
        return {**own, **self.rowwise}

    @property
    def members(self) -> AbstractSet[Group]:
        """All groups of the family."""
        return self.windows.keys()

    @cached_property
    def private(self) -> Mapping[Buffer, Window]:
        """The buffers that are short in any case."""
        return {buffer: self.windows[loop] for loop, chain in self.taken.items() for buffer in chain.short}

    @cached_property
    def carries(self) -> Mapping[Buffer, tuple[Group, int]]:
        """The memory of carries of which all steps are stored, but for those with a lag: each with its loop and
        number."""
        return {
            carry.store.buffer: (loop, i)
            for loop in self.loops
            for i, carry in enumerate(the_scan(loop).plan.carries)
            if carry.trajectory and not the_scan(loop).plan.looks_back(carry.store.buffer)
        }

    @cached_property
    def done(self) -> Mapping[Group, int]:
        """The number of the phase that does each group first."""
        return {group: i for i, phase in enumerate(self.phases) for group in phase.own}

    def is_recomputed(self, loop: Group) -> bool:
        """Whether steps of a loop are computed again."""
        return any(loop in phase.recomputed for phase in self.phases)

    def stored(self, loop: Group) -> AbstractSet[Buffer]:
        """What a loop stores for others, and what goes along with it in any case."""
        groups = (loop, *self.taken[loop].others)
        return set[Buffer]().union(*(self.flow.writes[group] for group in groups)) - self.private.keys()

    def outside(self, group: Group) -> Nest | None:
        """The nest of a group that is not of the family. None if the group is of it, if it is no nest, or if it is a
        sum over time that goes along with some loop."""
        apart = any(group in chain.sums for chain in self.chains.values())
        return None if group in self.members or apart else self.flow.nests.get(group)


class Refusal(NamedTuple):
    """Why a candidate is no family ("" if users need not know), and a narrower one to try instead, if there is any."""

    reason: str
    instead: Candidate | None = None


def chain_of(chains: Mapping[Group, Chain], loop: Group) -> Chain:
    """What goes along with a loop in any case."""
    return chains.get(loop) or Chain(the_scan(loop))


def reads_of(flow: Flow, chains: Mapping[Group, Chain], loop: Group) -> set[Buffer]:
    """The buffers that a loop reads, or what goes along with it in any case."""
    return set[Buffer]().union(*(flow.reads[group] for group in (loop, *chain_of(chains, loop).others)))

"""Candidates: loops that may become a family, and what is known of them so far."""

from __future__ import annotations

from collections.abc import Mapping, Set as AbstractSet
from dataclasses import field
from functools import cached_property
from typing import NamedTuple

from scanjit import types
from scanjit.records import record, replace as changed
from scanjit.schedule.nests import Buffer, Nest, Statement
from scanjit.schedule.nests.plan import Plan
from scanjit.schedule.time.chains import Chain
from scanjit.schedule.time.flow import Flow, plan_of
from scanjit.schedule.time.rows import is_rowwise
from scanjit.schedule.time.sums import SumLoops
from scanjit.types import Dimension


@record(eq=True)
class Window:
    """The last `length` of the `total` steps of a loop. If `reverse`, the loop goes over its rows from the last one to
    the first."""

    total: Dimension
    reverse: bool
    length: Dimension

    @classmethod
    def last(cls, plan: Plan, length: Dimension) -> Window:
        """The last `length` steps of the loop with this plan."""
        return cls(plan.length, plan.reverse, length)

    @property
    def first_row(self) -> Dimension:
        """The first of its rows, counted among all rows."""
        return 0 if self.reverse else self.total - self.length

    def rows_of(self, first: Dimension, rows: Dimension) -> tuple[Dimension, Dimension]:
        """The part of the window in the stretch of `rows` steps from `first` on: its first row, counted from the first
        row of the window, and how many rows it has."""
        skipped = self.total - self.length
        begin, end = (types.maximum(step, skipped) - skipped for step in (first, first + rows))
        return self.length - end if self.reverse else begin, end - begin


@record(eq=True)
class Phase:
    """Loops that go through the stretches together, from the last stretch to the first if `backwards`.

    Parameters
    ----------
    own : the statements that are computed in this phase for the first time, in order.
    recomputed : maps each statement of an earlier phase whose results are needed again to whether its results for the
        first stretch are still in memory when this phase begins (True), or must be recomputed too (False).
    """

    backwards: bool
    loops: tuple[Statement, ...]
    own: tuple[Statement, ...] = ()
    recomputed: Mapping[Statement, bool] = field(default_factory=dict)

    @property
    def at(self) -> Statement:
        """The last of its loops. All statements of the phase stand in the place of this loop."""
        return self.loops[-1]


@record
class Candidate:
    """Loops that may become a family, and what is known of them so far.

    Parameters
    ----------
    flow, chains : those of the suite.
    size : how many steps a stretch has.
    loops : the loops, in order. The first is the root: stretches are counted from its first step on.
    free : nests that are in no chain and in no other family, so that they may go along.
    separate : the loops that begin a phase of their own.
    full : the buffers that keep memory for all steps.
    short : the buffers that have memory for one stretch, each with the steps that its rows are for.
    phases : the phases, in order.
    """

    flow: Flow
    chains: Mapping[Statement, Chain]
    size: Dimension
    loops: tuple[Statement, ...]
    free: frozenset[Statement]
    separate: frozenset[Statement] = frozenset()
    full: frozenset[Buffer] = frozenset()
    short: Mapping[Buffer, Window] = field(default_factory=dict)
    phases: tuple[Phase, ...] = ()

    def without(self, statement: Statement) -> Refusal:
        """The refusal that tries the same candidate without a rowwise nest."""
        return Refusal("", changed(self, free=self.free - {statement}))

    def with_full(self, buffers: AbstractSet[Buffer], reason: str = "") -> Refusal:
        """The refusal that tries the same candidate with memory for all steps of these buffers."""
        return Refusal(reason, changed(self, full=self.full | buffers))

    @property
    def plan(self) -> Plan:
        """Of the root."""
        return plan_of(self.loops[0])

    def backwards(self, loop: Statement) -> bool:
        """Whether a loop goes the other way than the root."""
        return plan_of(loop).reverse != self.plan.reverse

    @cached_property
    def taken(self) -> Mapping[Statement, Chain]:
        """The loops, each with its chain."""
        return {loop: chain_of(self.chains, loop) for loop in self.loops}

    @cached_property
    def home(self) -> Mapping[Statement, Statement]:
        """Maps each statement of a chain to the loop of the chain. A loop maps to itself."""
        return {s: loop for loop, chain in self.taken.items() for s in (loop, *chain.others)}

    @cached_property
    def sums(self) -> Mapping[Statement, SumLoops]:
        """The statements that are sums over time."""
        return {statement: found for chain in self.taken.values() for statement, found in chain.sums.items()}

    @cached_property
    def rowwise(self) -> Mapping[Statement, Window]:
        """The free nests that go over the steps of a loop, row by row through the buffers that they write."""
        windows = [Window.last(self.plan, plan_of(loop).length) for loop in self.loops]
        found = {
            s: window
            for s in self.free
            for window in windows
            if is_rowwise(self.flow.nests[s], window.length, self.flow.writes[s])
        }
        return {s: found[s] for s in self.flow.statements if s in found}

    @cached_property
    def windows(self) -> Mapping[Statement, Window]:
        """The steps that each statement of the candidate goes over."""
        own = {statement: Window.last(self.plan, plan_of(loop).length) for statement, loop in self.home.items()}
        return {**own, **self.rowwise}

    @property
    def members(self) -> AbstractSet[Statement]:
        """All statements of the family."""
        return self.windows.keys()

    @cached_property
    def private(self) -> Mapping[Buffer, Window]:
        """The buffers that are short in a chain already, each with the steps that its rows are for."""
        return {buffer: self.windows[loop] for loop, chain in self.taken.items() for buffer in chain.short}

    @cached_property
    def carries(self) -> Mapping[Buffer, tuple[Statement, int]]:
        """The buffers that hold all steps of a carry, without those of carries with a lag. Each maps to the loop and
        the number of the carry."""
        return {
            carry.store.buffer: (loop, i)
            for loop in self.loops
            for i, carry in enumerate(plan_of(loop).carries)
            if carry.trajectory and not plan_of(loop).looks_back(carry.store.buffer)
        }

    @cached_property
    def done(self) -> Mapping[Statement, int]:
        """The number of the phase that computes each statement for the first time."""
        return {s: i for i, phase in enumerate(self.phases) for s in phase.own}

    def is_recomputed(self, loop: Statement) -> bool:
        """Whether steps of a loop are recomputed."""
        return any(loop in phase.recomputed for phase in self.phases)

    def stored(self, loop: Statement) -> AbstractSet[Buffer]:
        """The buffers that a loop, and the statements of its chain, store for others."""
        statements = (loop, *self.taken[loop].others)
        return set[Buffer]().union(*(self.flow.writes[s] for s in statements)) - self.private.keys()

    def outside(self, statement: Statement) -> Nest | None:
        """The present form of a nest that does not belong to the candidate. None for a statement of the candidate, for
        anything but a nest, and for a sum over time in a chain."""
        apart = any(statement in chain.sums for chain in self.chains.values())
        return None if statement in self.members or apart else self.flow.nests.get(statement)


class Refusal(NamedTuple):
    """Why a candidate is no family ("" if users need not know), and a narrower candidate to try instead, if there is
    one."""

    reason: str
    instead: Candidate | None = None


def chain_of(chains: Mapping[Statement, Chain], loop: Statement) -> Chain:
    """The chain of a loop. A loop without one is a chain by itself."""
    return chains.get(loop) or Chain(loop)


def reads_of(flow: Flow, chains: Mapping[Statement, Chain], loop: Statement) -> set[Buffer]:
    """The buffers that a loop and the statements of its chain read."""
    return set[Buffer]().union(*(flow.reads[s] for s in (loop, *chain_of(chains, loop).others)))

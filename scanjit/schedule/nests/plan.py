"""Where the carries and the outputs of a scan lie in memory, and which steps it goes through."""

from __future__ import annotations

from dataclasses import dataclass

from scanjit.ir import Node
from scanjit.ops.scan import Layout
from scanjit.schedule.nests.buffers import Buffer, Ref
from scanjit.types import Dimension


@dataclass(eq=False)
class CarryMemory:
    """Where a carry lies: all steps one after the other (a trajectory), or its last values in turn, one slot more than
    the steps from when it is returned to when it is read (`slots`; one slot is enough where it lives in a register).
    With a `lag` these are so many steps, else one."""

    store: Ref
    trajectory: bool
    lag: Dimension | None = None
    slots: Dimension = 2

    @property
    def reach(self) -> Dimension:
        """How many steps later a value is read."""
        return 1 if self.lag is None else self.lag

    def rows(self, start: Dimension) -> Ref:
        """The values that there are before or after a step, from a row on: with a lag, several."""
        return self.store.row(start) if self.lag is None else self.store.window(0, start, self.lag)


@dataclass(eq=False)
class Body:
    """A step: its inputs and outputs."""

    inputs: list[Node]
    outputs: list[Node]


@dataclass(eq=False)
class Plan:
    """A scan to be scheduled: its parts, the atoms of its counters, and the places of everything."""

    node: Node
    layout: Layout
    body: Body
    step: Dimension
    row: Dimension
    carries: list[CarryMemory]
    ys: list[Ref]

    def before(self, i: int) -> Ref:
        """Where what a step reads of carry i lies."""
        carry = self.carries[i]
        if carry.trajectory:
            return carry.store.row(self.row + carry.reach if self.reverse else self.row)
        return carry.store.row(self._slot(carry, 0))

    def after(self, i: int) -> Ref:
        """Where what a step returns of carry i is to be put."""
        carry = self.carries[i]
        if carry.trajectory:
            return carry.store.row(self.row if self.reverse else self.row + carry.reach)
        return carry.store.row(self._slot(carry, 1))

    def _slot(self, carry: CarryMemory, returned: int) -> Dimension:
        """The slot that a step reads, or the one for what it returned: one that holds nothing any more. Initial values
        lie from slot 0 on, in the order of time: in a reverse loop the last one is read first, and slots go down."""
        if self.reverse and carry.lag is not None:
            return (carry.lag * (self.step + 1) + returned - 1) % carry.slots  # the lag is -1, counted in slots
        return (self.step + carry.reach * returned) % carry.slots

    def first(self, i: int) -> Ref:
        """Where the initial value of carry i is to be put."""
        carry = self.carries[i]
        return carry.rows(self.length if carry.trajectory and self.reverse else 0)

    def final(self, i: int, steps: Dimension) -> Ref:
        """Where carry i lies after all steps."""
        carry = self.carries[i]
        if not carry.trajectory:
            return carry.store.row(steps % carry.slots)
        return carry.rows(self.length - steps if self.reverse else steps)

    def looks_back(self, buffer: Buffer) -> bool:
        """Whether steps read in a trajectory what others than the one before them have returned."""
        return any(carry.lag is not None and carry.store.buffer is buffer for carry in self.carries)

    @property
    def length(self) -> Dimension:
        return self.node.params["length"]

    @property
    def reverse(self) -> bool:
        return self.node.params["reverse"]

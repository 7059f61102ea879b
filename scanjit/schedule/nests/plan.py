"""Where the carries and the outputs of a scan lie in memory, and which steps it goes through."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from scanjit.ir import Node
from scanjit.ops.roles import Roles
from scanjit.records import record, replace
from scanjit.schedule.nests.buffers import Buffer, Rebase, Ref
from scanjit.types import Dimension


@record
class CarryMemory:
    """Where a carry lies.

    A `trajectory` is memory for the values before the first step and after each step, one after the other. A carry
    without one has a few `slots`, which steps use in turn: one more than its `reach`. A carry that a nest holds in a
    register needs one slot.

    With a `lag`, a step reads what was returned this many steps before: `h[t - 3]` has the lag 3. None stands for the
    usual carry, which the next step reads.

    A carry that is `behind` lies in the slots of another carry: it is what the other was so many steps before, as in
    `lambda x, h, before: (f(x, h, before), h)`.
    """

    store: Ref
    trajectory: bool
    lag: Dimension | None = None
    slots: Dimension = 2
    behind: int = 0

    @property
    def reach(self) -> Dimension:
        """How many steps later a value is read."""
        return 1 if self.lag is None else self.lag

    def rows(self, start: Dimension) -> Ref:
        """The part of the memory that begins at row `start`: one value, or with a lag as many as the lag."""
        return self.store.row(start) if self.lag is None else self.store.window(0, start, self.lag)

    def slot(self, step: Dimension) -> Ref:
        """The slot that this step reads."""
        return self.store.row((step + (self.slots - self.behind if self.behind else 0)) % self.slots)


@record
class Plan:
    """Where the `carries` and the outputs (`ys`) of a scan lie, in the order of its `roles`.

    `step` counts the steps from 0 on. `row` is the row of the sequences that a step reads: the same number, or, in a
    scan that goes backwards, from the last row to the first.
    """

    node: Node
    roles: Roles
    step: Dimension
    row: Dimension
    carries: Sequence[CarryMemory]
    ys: Sequence[Ref]

    def before(self, i: int) -> Ref:
        """The place of the value of carry i that a step reads."""
        carry = self.carries[i]
        if carry.trajectory:
            return carry.store.row(self.row + carry.reach if self.reverse else self.row)
        return self._slot(carry, 0)

    def after(self, i: int) -> Ref:
        """The place of the value of carry i that a step returns."""
        carry = self.carries[i]
        if carry.trajectory:
            return carry.store.row(self.row if self.reverse else self.row + carry.reach)
        return self._slot(carry, 1)

    def _slot(self, carry: CarryMemory, returned: int) -> Ref:
        """The slot that a step reads (`returned` is 0), or the slot for the value that it returns (1). Initial values
        lie from slot 0 on, in the order of time. A reverse loop reads the last of them first, so its slots go down."""
        if self.reverse and carry.lag is not None:
            # the lag is -1, counted in slots
            return carry.store.row((carry.lag * (self.step + 1) + returned - 1) % carry.slots)
        return carry.slot(self.step + carry.reach * returned)

    def first(self, i: int) -> Ref:
        """The place for the initial value of carry i."""
        carry = self.carries[i]
        if carry.behind:
            return carry.slot(0)
        return carry.rows(self.length if carry.trajectory and self.reverse else 0)

    def final(self, i: int, steps: Dimension) -> Ref:
        """Where carry i lies after this number of steps."""
        carry = self.carries[i]
        if not carry.trajectory:
            return carry.slot(steps)
        return carry.rows(self.length - steps if self.reverse else steps)

    def is_shared(self, i: int) -> bool:
        """Whether another carry, which has the same memory, writes both: the one that carry i is `behind`, or an
        earlier one."""
        carry = self.carries[i]
        others = (other for other in self.carries[:i] if not other.behind)
        return carry.behind > 0 or any(other.store.buffer is carry.store.buffer for other in others)

    def looks_back(self, buffer: Buffer) -> bool:
        """Whether a buffer belongs to a carry with a lag: a step then reads values that an earlier step than the last
        one returned."""
        return any(carry.lag is not None and carry.store.buffer is buffer for carry in self.carries)

    def moved(self, place: Callable[[Ref], Ref]) -> Plan:
        """The same plan with carries and outputs at other places."""
        carries = [replace(carry, store=place(carry.store)) for carry in self.carries]
        return replace(self, carries=carries, ys=[place(y) for y in self.ys])

    def rebased(self, place: Rebase) -> Plan:
        """The same plan with elements at other places."""
        return self.moved(lambda ref: ref.rebased(place))

    @property
    def length(self) -> Dimension:
        """How many steps there are at most."""
        return self.node.params["length"]

    @property
    def reverse(self) -> bool:
        """Whether the first step reads the last row."""
        return self.node.params["reverse"]

"""A stretch: some consecutive steps of a scan instead of all. Nests and loops over time, cut to these.

Take steps 2 and 3 of a scan of 6 steps. A nest that makes rows 0 to 5 is cut to rows 2 and 3; a loop over time runs
from step 2 on for 2 steps. A reverse scan goes from the last row to the first: its steps 2 and 3 are rows 3 and 2. In a
short buffer that holds this stretch, row 2 of all rows is row 0.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from scanjit.records import record, replace as changed
from scanjit.schedule.nests import Access, Buffer, Nest, NestLoop, Ref, Statement, TimeLoop, row_major
from scanjit.schedule.nests.plan import Plan
from scanjit.schedule.time.flow import plan_of
from scanjit.types import Dimension


class Short(NamedTuple):
    """A buffer that replaces another one and holds one stretch of it: its row 0 is row `first_row` of the other."""

    buffer: Buffer
    first_row: Dimension


@record(eq=True)
class Stretch:
    """Some steps of a scan.

    Parameters
    ----------
    start : the first of the steps.
    base : the first of their rows. In a reverse scan, this is the row of the last step.
    rows : how many steps there are.
    short : the buffers that are replaced by short ones.
    count : how many of the steps are done: `rows`, or 0 if nothing is to be done.
    """

    start: Dimension
    base: Dimension
    rows: Dimension
    short: Mapping[Buffer, Short]
    count: Dimension

    # ---- nests ------------------------------------------------------------------------------------------------------

    def nest(self, nest: Nest, *times: NestLoop) -> Nest:
        """A nest over only these rows of time. `times` are its loops that go over time."""
        cut = {time: NestLoop(self.count) for time in times}

        def loops(loop: NestLoop) -> NestLoop:
            return cut.get(loop, loop)

        made = nest.rebuilt(lambda access: self._cut(access, cut), loops, [loops(loop) for loop in nest.space])
        return made if nest.time is None else changed(made, time=loops(nest.time))

    def rowwise(self, nest: Nest) -> Nest:
        """The part of a nest whose first loop is time."""
        return self.nest(nest, nest.space[0])

    def _cut(self, access: Access, cut: Mapping[NestLoop, NestLoop]) -> Access:
        buffer, offset = self._place(access.buffer, access.offset)
        skipped = sum((self.base * stride for loop, stride in access.strides.items() if loop in cut), start=0)
        strides = {cut.get(loop, loop): stride for loop, stride in access.strides.items()}
        return changed(access, buffer=buffer, offset=offset + skipped, strides=strides)

    def _place(self, buffer: Buffer, offset: Dimension) -> tuple[Buffer, Dimension]:
        """Where an element lies now: in the short buffer, if one replaces its own."""
        if buffer not in self.short:
            return buffer, offset
        short = self.short[buffer]
        return short.buffer, offset - short.first_row * row_major(buffer.shape)[0]

    # ---- scans ------------------------------------------------------------------------------------------------------

    def scan(self, scan: Statement) -> Statement:
        """The steps of a scan."""
        if isinstance(scan, Nest):
            assert scan.time is not None
            nest = scan.rebuilt(self._begins(scan, plan_of(scan)))
            return changed(self.nest(nest, scan.time), plan=None)
        assert isinstance(scan, TimeLoop)
        return changed(scan.rebased(self._place), length=self.count, start=self.start, plan=None)

    def _begins(self, nest: Nest, plan: Plan) -> Callable[[Access], Access]:
        """A map of accesses that moves the first loads of registers to the carries which the steps before have left."""
        starts: dict[Access, Access] = {}
        for register in nest.registers:
            if plan.carries[register.index].trajectory:
                access = register.init.access  # type: ignore[attr-defined]
                moved = self._before(plan, register.index).offset - plan.first(register.index).offset
                starts[access] = changed(access, offset=access.offset + moved)
        return lambda access: starts.get(access, access)

    def before(self, plan: Plan, i: int) -> Ref:
        """Where carry `i` lies before these steps."""
        return self._before(plan, i).rebased(self._place)

    def _before(self, plan: Plan, i: int) -> Ref:
        return _carry(plan, i, self.start, self.base + (self.rows if plan.reverse else 0))

    def after(self, plan: Plan, i: int) -> Ref:
        """Where carry `i` lies after these steps."""
        row = self.base + (0 if plan.reverse else self.rows)
        return _carry(plan, i, self.start + self.rows, row).rebased(self._place)


def _carry(plan: Plan, i: int, step: Dimension, row: Dimension) -> Ref:
    """Where carry `i` lies before a step. If all steps are stored, its values from `row` on."""
    carry = plan.carries[i]
    return carry.rows(row) if carry.trajectory else carry.slot(step)

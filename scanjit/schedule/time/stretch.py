"""Some steps of a scan instead of all: nests over time and loops over time, cut to a stretch of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from dataclasses import replace as changed

from scanjit.schedule.lower.region import Block, Region
from scanjit.schedule.nests import (
    Access,
    Buffer,
    Nest,
    NestLoop,
    Ref,
    Statement,
    TimeLoop,
    row_major,
)
from scanjit.schedule.nests.plan import Plan
from scanjit.schedule.tiles.apply import tile_nest
from scanjit.types import Dimension


@dataclass(frozen=True)
class Stretch:
    """`rows` rows of time from `base` on: the steps of a scan from `start` on.

    Of the buffers `shrunk`, memory holds one stretch alone, from the row on that is given for each. Only the first
    `count` steps are done: all, or none.
    """

    start: Dimension
    rows: Dimension
    base: Dimension
    shrunk: Mapping[Buffer, Dimension]
    count: Dimension

    @classmethod
    def of(cls, plan: Plan, start: Dimension, rows: Dimension, shrunk: Iterable[Buffer]) -> Stretch:
        """The steps of a scan from `start` on; memory of the buffers `shrunk` holds their rows."""
        base = plan.length - start - rows if plan.reverse else start
        return cls(start, rows, base, dict.fromkeys(shrunk, base), rows)

    # ---- nests ------------------------------------------------------------------------------------------------------

    def nest(self, nest: Nest, *times: NestLoop) -> Nest:
        """A nest over these rows of time only; `times` are its loops that go over time."""
        short = {time: NestLoop(self.count) for time in times}

        def loops(loop: NestLoop) -> NestLoop:
            return short.get(loop, loop)

        space = [loops(loop) for loop in nest.space]
        made = nest.rebuilt(lambda access: self._moved(access, short), loops, space)
        return made if nest.time is None else changed(made, time=loops(nest.time))

    def _moved(self, access: Access, short: Mapping[NestLoop, NestLoop]) -> Access:
        steps = [stride for loop, stride in access.strides.items() if loop in short]
        if not steps:
            return access
        offset = access.offset + (self.base - self.shrunk.get(access.buffer, 0)) * steps[0]
        return changed(access, offset=offset, strides={short.get(k, k): s for k, s in access.strides.items()})

    # ---- scans ------------------------------------------------------------------------------------------------------

    def scan(self, region: Region, block: Block) -> list[Statement]:
        """The steps of a scan (without the packs that are made before it)."""
        if block.nest is None:
            loop = block.statements[-1]
            assert isinstance(loop, TimeLoop)
            body = self._in_rows(loop.body)
            return [changed(loop, length=self.count, start=self.start, body=body)]
        nest = block.nest.rebuilt(self._begins(block))
        assert nest.time is not None
        return tile_nest(region, self.nest(nest, nest.time))

    def _begins(self, block: Block) -> Callable[[Access], Access]:
        """Where the registers of a nest with time begin: where the steps before have left their carries."""
        nest, plan = block.nest, block.plan
        assert nest is not None
        starts: dict[Access, Access] = {}
        for register in nest.registers:
            if plan.carries[register.index].trajectory:
                access = register.init.access  # type: ignore[attr-defined]
                moved = self.first(plan, register.index).offset - plan.first(register.index).offset
                starts[access] = changed(access, offset=access.offset + moved)
        return lambda access: starts.get(access, access)

    def first(self, plan: Plan, i: int) -> Ref:
        """Where carry `i` lies before these steps."""
        return self._carry(plan, i, self.start, self.rows if plan.reverse else 0)

    def last(self, plan: Plan, i: int) -> Ref:
        """Where carry `i` lies after these steps."""
        return self._carry(plan, i, self.start + self.rows, 0 if plan.reverse else self.rows)

    def _carry(self, plan: Plan, i: int, step: Dimension, row: Dimension) -> Ref:
        carry = plan.carries[i]
        if not carry.trajectory:
            return carry.store.row(step % carry.slots)
        return carry.rows(row if carry.store.buffer in self.shrunk else self.base + row)

    def _in_rows(self, body: list[Statement]) -> list[Statement]:
        """Statements of a loop over time, with rows of shrunk buffers counted from the first that memory holds."""

        def offset(buffer: Buffer, old: Dimension) -> Dimension:
            return old - self.shrunk[buffer] * row_major(buffer.shape)[0] if buffer in self.shrunk else old

        return [statement.rebased(offset) for statement in body]

"""Reductions: accumulators, the loops that fill them, and lanes joined at the end."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scanjit.codegen.frame import Point
from scanjit.codegen.guard import GuardWriter
from scanjit.codegen.names import number, suffix
from scanjit.codegen.values import INT64
from scanjit.ir import Op
from scanjit.ops import Reduction
from scanjit.ops.elementwise import MUL
from scanjit.ops.reduce import ARGMAX
from scanjit.ops.stretch import SUM
from scanjit.schedule.nests import Apply, NestLoop, Reduce, walk_values
from scanjit.types import Dimension

CHUNK = 256
"""How many elements (or vectors) are summed before the sum is added to the total."""


@dataclass
class Together:
    """Reductions that share their innermost loop: at each point, the variables that hold their results so far."""

    loop: NestLoop
    reductions: list[Reduce]
    points: list[Point]
    totals: dict[tuple[Reduce, Point], list[str]]


class ReductionWriter(GuardWriter):
    """Writes reductions; those over the same loops share them."""

    def points(self) -> list[Point]:
        """The copies of the body."""
        raise NotImplementedError

    def reduction(self, value: Reduce, point: Point) -> str:
        """The variable that holds the result of a reduction; written first, if need be."""
        own = Point(point.row, point.vector, 1) if self.tile.horizontal else point
        found = self.recall(len(self.scopes) - 1, ("reduced", value, own))
        if found is None:
            self._write_together(value)
            found = self.recall(len(self.scopes) - 1, ("reduced", value, own))
            assert found is not None
        if own.width == point.width:
            return found
        level = self.level_of(self.depends(value))
        return self.remember(level, (value, 0, 0, point.width), "v", f"spread_x{point.width}({found})")

    def _write_together(self, value: Reduce) -> None:
        """Write the loops of a reduction, with all others over the same loops that can be computed by now."""
        depth = len(self.scopes)
        group = []
        for other in walk_values(self.nest.roots):
            if isinstance(other, Reduce) and other.loops == value.loops and other.guard is value.guard:
                if self._ready(other, value):
                    group.append(other)
        lane, self.lane = self.lane, value.loops[-1] if self.tile.horizontal else self.lane
        width = self.tile.lanes if self.tile.horizontal else 0
        points = [Point(p.row, p.vector, width or p.width) for p in self.points_of(lane)]
        totals = {(r, p): self._begin(r, p) for p in points for r in group}
        together = Together(value.loops[-1], group, points, totals)
        if all(loop.size != 0 for loop in value.loops):
            self.open_guard(value, 0, points)
            for loop in value.loops[:-1]:
                name = self.fresh("k")
                self.push(f"for {name} in range({self.size(loop.size)}):", loop, name)
            self.open_guard(value, 1, points)
            self._last_loop(together)
            self.pop(depth)
        self.lane = lane
        for (r, p), names in totals.items():
            self._end(r, p, names)

    def points_of(self, lane: NestLoop | None) -> list[Point]:
        """The copies of the body, when lanes run along `lane`."""
        now, self.lane = self.lane, lane
        try:
            return self.points()
        finally:
            self.lane = now

    def _ready(self, other: Reduce, value: Reduce) -> bool:
        """Whether everything that a reduction's body needs of other reductions is there (for `value`: make it so)."""
        for inner in walk_values([other.body]):
            if isinstance(inner, Reduce):
                for point in self.points():
                    if self.recall(len(self.scopes) - 1, ("reduced", inner, point)) is None:
                        if other is not value:
                            return False
                        self.value(inner, point)
        already = self.recall(len(self.scopes) - 1, ("reduced", other, self.points()[0]))
        return already is None

    def _last_loop(self, together: Together) -> None:
        """The innermost loop: one element at a time, or a vector at a time and a masked tail."""
        lanes = self.tile.lanes if self.tile.horizontal else 1
        size = together.loop.size
        full = size // lanes * lanes
        if full != 0:
            self._chunks(together, full, lanes)
        if lanes > 1 and not (isinstance(size, int) and size == full):
            self._loop(together, self.size(full), self.size(size), lanes, masked=True)

    def _chunks(self, together: Together, stop: Dimension, step: int) -> None:
        """The loop over whole vectors. A long sum of floats is made of sums of chunks, so that its rounding error grows
        with the length of a chunk and the number of chunks, not with their product."""
        sums = [r for r in together.reductions if r.op is SUM and r.dtype.kind == "f"]
        stretch = CHUNK * step
        chain = len(sums) > 0 and sums[0].init is not None and len(sums[0].loops) == 1
        if not sums or chain or self.tile.rows is not None or (isinstance(stop, int) and stop <= stretch):
            self._loop(together, "0", self.size(stop), step)
            return
        depth, start = len(self.scopes), self.fresh("chunk")
        self.push(f"for {start} in range(0, {self.size(stop)}, {stretch}):")
        parts = dict(together.totals)
        parts |= {(r, point): self._start(r, point) for point in together.points for r in sums}
        end = f"min({start} + {stretch}, {self.size(stop)})"
        self._loop(Together(together.loop, together.reductions, together.points, parts), start, end, step)
        for point in together.points:
            for reduction in sums:
                (total,), (part,) = together.totals[reduction, point], parts[reduction, point]
                self.scope.add(f"{total} = {total} + {part}")
        self.pop(depth)

    def _loop(self, together: Together, start: str, stop: str, step: int, masked: bool = False) -> None:
        """One loop over elements or vectors."""
        depth, name, loop = len(self.scopes), self.fresh("k"), together.loop
        bounds = stop if start == "0" and step == 1 else f"{start}, {stop}" + (f", {step}" if step > 1 else "")
        self.push(f"for {name} in range({bounds}):", loop, name, 1 if masked else None)
        if masked:
            mask = self.fresh("mask")
            self.scope.add(f"{mask} = head_x{step}({self.size(loop.size)} - {name})")
            self.masks[-1] = [mask]
        elif self.tile.horizontal:
            self.masks[-1] = None
        self.open_guard(together.reductions[0], 2, together.points)
        for point in together.points:
            mask_now = self.mask(point) if self.tile.horizontal else None
            for reduction in together.reductions:
                names = together.totals[reduction, point]
                for total, text in zip(names, self._combined(reduction, loop, point, names), strict=True):
                    text = text if mask_now is None else f"select({mask_now}, {text}, {total})"
                    self.scope.add(f"{total} = {text}")
        self.pop(depth)

    # ---- one reduction ----------------------------------------------------------------------------------------------

    def _begin(self, reduction: Reduce, point: Point) -> list[str]:
        """The first accumulators: with what a reduction begins with."""
        if reduction.init is None:
            return self._start(reduction, point)
        total = self.fresh("acc")
        self.scope.add(f"{total} = {self.value(reduction.init, point)}")
        return [total]

    def _start(self, reduction: Reduce, point: Point) -> list[str]:
        """Accumulators with the value of an empty reduction."""
        if not isinstance(reduction.op, Reduction):
            dtype = _compared(reduction)
            best, place = self.fresh("best"), self.fresh("place")
            self.scope.add(f"{best} = splat_{suffix(dtype, point.width)}({number(_worst(reduction.op, dtype))})")
            self.scope.add(f"{place} = splat_{suffix(INT64, point.width)}(0)")
            return [best, place]
        total = self.fresh("acc")
        initial = number(np.asarray(reduction.op.initial(reduction.dtype)).astype(reduction.dtype))
        self.scope.add(f"{total} = splat_{suffix(reduction.dtype, point.width)}({initial})")
        return [total]

    def _combined(self, reduction: Reduce, loop: NestLoop, point: Point, names: list[str]) -> list[str]:
        """The accumulators, joined with the body at this point."""
        if not isinstance(reduction.op, Reduction):
            return self._better(reduction, loop, point, names)
        (total,) = names
        body = reduction.body
        product = isinstance(body, Apply) and body.op is MUL and body.dtype.kind == "f"
        if reduction.op is SUM and product:
            left, right = (self.value(arg, point) for arg in body.args)  # type: ignore[attr-defined]
            return [f"fma({left}, {right}, {total})"]
        return [reduction.op.combine.replace("{0}", total).replace("{1}", self.value(body, point))]

    def _better(self, reduction: Reduce, loop: NestLoop, point: Point, names: list[str]) -> list[str]:
        """argmax, argmin: the first of the best; the first NaN, if there is one."""
        best, place = names
        body = self.value(reduction.body, point)
        dtype = _compared(reduction)
        if dtype != reduction.body.dtype:
            cast = self.fresh("b")
            self.scope.add(f"{cast} = cast_{suffix(dtype, point.width)}({body})")
            body = cast
        better, sign = self.fresh("better"), ">" if reduction.op is ARGMAX else "<"
        nan = f" | (isnan({body}) & ~isnan({best}))" if dtype.kind == "f" else ""
        self.scope.add(f"{better} = ({body} {sign} {best}){nan}")
        here = f"splat_{suffix(INT64, point.width)}({self.counter(loop, point)})"
        return [f"select({better}, {body}, {best})", f"select({better}, {here}, {place})"]

    def _end(self, reduction: Reduce, point: Point, names: list[str]) -> None:
        """Join the lanes of a horizontal reduction, and remember the result."""
        result = names[-1]
        own = point
        if self.tile.horizontal:
            own = Point(point.row, point.vector, 1)
            if point.width > 1:
                horizontal = reduction.op.horizontal  # type: ignore[attr-defined]
                result = self.fresh("total")
                self.scope.add(f"{result} = {horizontal}({names[-1]})")
        self.memos[-1]["reduced", reduction, own] = result


def _compared(reduction: Reduce) -> np.dtype:
    """The dtype in which argmax compares."""
    dtype = reduction.body.dtype
    return np.dtype("int8") if dtype.kind == "b" else dtype


def _worst(op: Op, dtype: np.dtype) -> float | int:
    """What everything is at least as good as."""
    if dtype.kind == "f":
        return -np.inf if op is ARGMAX else np.inf
    return int(np.iinfo(dtype).min if op is ARGMAX else np.iinfo(dtype).max)

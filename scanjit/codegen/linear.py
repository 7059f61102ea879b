"""Linear recurrences over time in the lanes of vectors; see `scanjit.schedule.tiles.linear`."""

from __future__ import annotations

from scanjit import types
from scanjit.codegen.frame import Point
from scanjit.codegen.names import suffix
from scanjit.codegen.reduce import ReductionWriter
from scanjit.schedule.nests import NestLoop, Value
from scanjit.schedule.tiles.linear import Linear, linear
from scanjit.types import Dimension

APART = 3
"""Where steps read what earlier ones have stored, several are done at a time only if that was as many vectors of steps
before. (It must be one; but a vector that is read in part from each of two that were just stored waits for both.)"""


class LinearWriter(ReductionWriter):
    """Writes the steps of a linear recurrence, as many at a time as a vector has lanes."""

    def linear_time(self, time: NestLoop) -> Dimension | None:
        """Write the loop over whole vectors of steps, if the nest is such a recurrence; says how many steps these are.
        The variables of the registers hold the carries before and after."""
        lanes = self.tile.lanes
        steps = linear(self.nest) if lanes > 1 else None
        if steps is None:
            return None
        whole, depth, name = time.size // lanes * lanes, len(self.scopes), self.fresh("t")
        if self.nest.reach is not None:
            whole = whole * types.minimum(self.nest.reach // (APART * lanes), 1)
        if whole == 0:
            return None
        carries = dict(self.registers)
        last = {step.register.index: self.fresh("last") for step in steps}
        for index, variable in last.items():
            self.scope.add(f"{variable} = spread_x{lanes}({carries[index, 0]})")
        self.push(f"for {name} in range(0, {self.size(whole)}, {lanes}):", time, name)
        if self.nest.reverse:  # lanes lie in the order of memory: the last one is the first step
            self.index[time, 0] = self.fresh("row")
            self.scope.add(f"{self.index[time, 0]} = {self.size(time.size - lanes)} - {name}")
        finite = self._vector(time, steps, last)
        if finite is not None:
            self._one_by_one(time, carries, last, finite, name)
        self.pop(depth)
        for index, variable in last.items():
            self.scope.add(f"{carries[index, 0]} = lane({variable}, 0)")
        return whole

    def _vector(self, time: NestLoop, steps: list[Linear], last: dict[int, str]) -> str | None:
        """Write a vector of steps, stored if all that is carried is finite; returns that condition, if anything is."""
        point = Point(width=self.tile.lanes)
        self.lane, outer = time, self.lane
        updates = dict(zip(self.nest.registers, self.nest.updates, strict=True))
        after = [self._solve(step, updates[step.register], last[step.register.index], point) for step in steps]
        tests = [f"{name} - {name} == 0.0" for name in after]
        tests = tests if len(tests) == 1 else [f"({test})" for test in tests]
        finite = self._line("finite", f"all_of({' & '.join(tests)})") if tests else None
        depth = len(self.scopes)
        if finite is not None:
            self.push(f"if {finite}:")
        for store in self.nest.stores:
            self.store(store, point)
        end = 0 if self.nest.reverse else point.width - 1
        for step, name in zip(steps, after, strict=True):
            self.scope.add(f"{last[step.register.index]} = spread_x{point.width}(lane({name}, {end}))")
        self.pop(depth)
        self.lane = outer
        return finite

    def _one_by_one(
        self, time: NestLoop, carries: dict[tuple[int, int], str], last: dict[int, str], finite: str, start: str
    ) -> None:
        """Write the same steps one by one, for where a factor overflows or something is infinite already: what is not
        finite then, and how, is what it would be in any order of steps."""
        depth, lanes = len(self.scopes), self.tile.lanes
        self.push(f"if not {finite}:")
        self.registers = dict(carries)
        for index, variable in last.items():
            self.scope.add(f"{carries[index, 0]} = lane({variable}, 0)")
        self.time_loop(time, start, f"{start} + {lanes}", 1)
        for index, variable in last.items():
            self.scope.add(f"{variable} = spread_x{lanes}({carries[index, 0]})")
        self.pop(depth)

    def time_loop(self, time: NestLoop, start: str, stop: str, copies: int, most: int | None = None) -> None:
        """Write a loop over steps, one by one."""
        raise NotImplementedError

    def _solve(self, step: Linear, update: Value, last: str, point: Point) -> str:
        """Write the values of a carry before and after each of the steps of a vector; returns those after."""
        way = "down" if self.nest.reverse else "up"
        term = None if step.term is None else self.value(step.term, point)
        after = term if step.forgets else self._composed(step, term, last, way, point)
        if after is None:
            after = self._line("k", self._splat(step, 0.0, point))
        self.registers[step.register.index, 0] = self._line("c", f"slide_{way}1({after}, {last})")
        self.memos[-1][update, 0, 0, point.width] = after
        return after

    def _composed(self, step: Linear, term: str | None, last: str, way: str, point: Point) -> str:
        """The carry after each step, from the carry before all of them: factors and terms composed by doubling."""
        factor = None if step.factor is None else self.value(step.factor, point)
        level = 0 if step.factor is None else self.level_of(self.depends(step.factor))
        one = self.remember(0, ("one", step.register.dtype, point.width), "one", self._splat(step, 1.0, point))
        zero = self.remember(0, ("zero", step.register.dtype, point.width), "zero", self._splat(step, 0.0, point))
        count = 1
        while count < point.width:
            if term is not None:
                moved = f"slide_{way}{count}({term}, {zero})"
                text = f"{term} + {moved}" if factor is None else f"fma({factor}, {moved}, {term})"
                term = self._line("s", text)
            if factor is not None:
                text = f"{factor} * slide_{way}{count}({factor}, {one})"
                factor = self.remember(level, ("power", factor, count, way), "m", text)
            count *= 2
        if factor is None:
            return last if term is None else self._line("s", f"{last} + {term}")
        text = f"{factor} * {last}" if term is None else f"fma({factor}, {last}, {term})"
        return self._line("s", text)

    def _line(self, hint: str, text: str) -> str:
        name = self.fresh(hint)
        self.scope.add(f"{name} = {text}")
        return name

    def _splat(self, step: Linear, number: float, point: Point) -> str:
        return f"opaque(splat_{suffix(step.register.dtype, point.width)}({number}))"

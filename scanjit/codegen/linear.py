"""Linear recurrences over time in the lanes of vectors; see `scanjit.schedule.tiles.linear`."""

from collections.abc import Callable, Sequence

from scanjit.codegen.frame import Frame, Point
from scanjit.codegen.names import suffix
from scanjit.codegen.values import Values
from scanjit.schedule.nests import Lanewise, Linear, NestLoop, Value


class LinearTime:
    """Writes the steps of a linear recurrence, as many at a time as a vector has lanes.

    Parameters
    ----------
    frame, values : where they are written, and what writes their values.
    steps : writes a loop over steps one by one, from a start to a stop.
    """

    def __init__(self, frame: Frame, values: Values, steps: Callable[[str, str], None]) -> None:
        self.frame, self.values, self._steps = frame, values, steps

    def write(self, time: NestLoop, lanewise: Lanewise) -> None:
        """Write the loop over whole vectors of steps. The variables of the registers hold the carries before and
        after."""
        lanes, steps = self.frame.tile.lanes, lanewise.registers
        depth, name = len(self.frame.scopes), self.frame.fresh("t")
        carries = dict(self.frame.registers)
        last = {step.register.index: self.frame.fresh("last") for step in steps}
        for index, variable in last.items():
            self.frame.scope.add(f"{variable} = spread_x{lanes}({carries[index, 0]})")
        self.frame.push(f"for {name} in range(0, {self.frame.size(lanewise.steps)}, {lanes}):", time, name)
        if self.frame.nest.reverse:  # lanes lie in the order of memory: the last one is the first step
            self.frame.index[time, 0] = self.frame.line("row", f"{self.frame.size(time.size - lanes)} - {name}")
        finite = self._vector(time, steps, last)
        if finite is not None:
            self._one_by_one(time, carries, last, finite, name)
        self.frame.pop(depth)
        for index, variable in last.items():
            self.frame.scope.add(f"{carries[index, 0]} = lane({variable}, 0)")

    def _vector(self, time: NestLoop, steps: Sequence[Linear], last: dict[int, str]) -> str | None:
        """Write a vector of steps, stored if all that is carried is finite; returns that condition, if anything is."""
        point = Point(width=self.frame.tile.lanes)
        self.frame.lane, outer = time, self.frame.lane
        updates = dict(zip(self.frame.nest.registers, self.frame.nest.updates, strict=True))
        after = [self._solve(step, updates[step.register], last[step.register.index], point) for step in steps]
        tests = [f"{name} - {name} == 0.0" for name in after]
        tests = tests if len(tests) == 1 else [f"({test})" for test in tests]
        finite = self.frame.line("finite", f"all_of({' & '.join(tests)})") if tests else None
        depth = len(self.frame.scopes)
        if finite is not None:
            self.frame.push(f"if {finite}:")
        for store in self.frame.nest.stores:
            self.values.store(store, point)
        end = 0 if self.frame.nest.reverse else point.width - 1
        for step, name in zip(steps, after, strict=True):
            self.frame.scope.add(f"{last[step.register.index]} = spread_x{point.width}(lane({name}, {end}))")
        self.frame.pop(depth)
        self.frame.lane = outer
        return finite

    def _one_by_one(
        self, time: NestLoop, carries: dict[tuple[int, int], str], last: dict[int, str], finite: str, start: str
    ) -> None:
        """Write the same steps one by one, for where a factor overflows or something is infinite already: what is not
        finite then, and how, is what it would be in any order of steps."""
        depth, lanes = len(self.frame.scopes), self.frame.tile.lanes
        self.frame.push(f"if not {finite}:")
        self.frame.registers = dict(carries)
        for index, variable in last.items():
            self.frame.scope.add(f"{carries[index, 0]} = lane({variable}, 0)")
        self._steps(start, f"{start} + {lanes}")
        for index, variable in last.items():
            self.frame.scope.add(f"{variable} = spread_x{lanes}({carries[index, 0]})")
        self.frame.pop(depth)

    def _solve(self, step: Linear, update: Value, last: str, point: Point) -> str:
        """Write the values of a carry before and after each of the steps of a vector; returns those after."""
        way = "down" if self.frame.nest.reverse else "up"
        term = None if step.term is None else self.values.value(step.term, point)
        after = term if step.forgets else self._composed(step, term, last, way, point)
        if after is None:
            after = self.frame.line("k", self._splat(step, 0.0, point))
        self.frame.registers[step.register.index, 0] = self.frame.line("c", f"slide_{way}1({after}, {last})")
        self.frame.memos[-1][update, 0, 0, point.width] = after
        return after

    def _composed(self, step: Linear, term: str | None, last: str, way: str, point: Point) -> str:
        """The carry after each step, from the carry before all of them: factors and terms composed by doubling."""
        factor = None if step.factor is None else self.values.value(step.factor, point)
        level = 0 if step.factor is None else self.frame.level_of(self.frame.depends(step.factor))
        one = self.frame.remember(0, ("one", step.register.dtype, point.width), "one", self._splat(step, 1.0, point))
        zero = self.frame.remember(0, ("zero", step.register.dtype, point.width), "zero", self._splat(step, 0.0, point))
        count = 1
        while count < point.width:
            if term is not None:
                moved = f"slide_{way}{count}({term}, {zero})"
                text = f"{term} + {moved}" if factor is None else f"fma({factor}, {moved}, {term})"
                term = self.frame.line("s", text)
            if factor is not None:
                text = f"{factor} * slide_{way}{count}({factor}, {one})"
                factor = self.frame.remember(level, ("power", factor, count, way), "m", text)
            count *= 2
        if factor is None:
            return last if term is None else self.frame.line("s", f"{last} + {term}")
        text = f"{factor} * {last}" if term is None else f"fma({factor}, {last}, {term})"
        return self.frame.line("s", text)

    def _splat(self, step: Linear, number: float, point: Point) -> str:
        return f"opaque(splat_{suffix(step.register.dtype, point.width)}({number}))"

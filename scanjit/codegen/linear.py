"""Linear recurrences over time in the lanes of vectors; see `scanjit.schedule.tiles.linear`."""

from collections.abc import Callable, Sequence

import numpy as np

from scanjit.codegen.frame import Frame, Point
from scanjit.codegen.names import number, suffix
from scanjit.codegen.values import Values
from scanjit.kinds import kind_of
from scanjit.schedule.nests import Lanewise, Linear, Literal, NestLoop, Value, one_of, small


class LinearTime:
    """Writes the steps of a linear recurrence, as many at a time as a vector has lanes.

    Parameters
    ----------
    frame, values : where the steps are written, and the writer of their values.
    steps : writes a loop over steps one by one, from a start to a stop.
    """

    def __init__(self, frame: Frame, values: Values, steps: Callable[[str, str], None]) -> None:
        self.frame, self.values, self._steps = frame, values, steps

    def write(self, time: NestLoop, lanewise: Lanewise) -> None:
        """Write the loop over whole vectors of steps. The variables of the registers hold the carries before and after
        the loop."""
        lanes, steps = self.frame.tile.lanes, lanewise.registers
        depth, name = len(self.frame.scopes), self.frame.fresh("t")
        carries = dict(self.frame.registers)
        last = {step.register.index: self.frame.fresh("last") for step in steps}
        self._enter(carries, last)
        self.frame.push(f"for {name} in range(0, {self.frame.size(lanewise.steps)}, {lanes}):", time, name)
        if self.frame.nest.reverse:  # lanes lie in the order of memory, so that the last lane is the first step
            self.frame.index[time, 0] = self.frame.line("row", f"{self.frame.size(time.size - lanes)} - {name}")
        finite = self._vector(time, steps, last)
        self.frame.registers = dict(carries)
        if finite is not None:
            # A factor overflows, or a number is infinite: one by one, infinities and NaN are those of any other order.
            self.frame.push(f"if not {finite}:")
            self._leave(carries, last, steps)
            self._steps(name, f"{name} + {lanes}")
            self._enter(carries, last)
        self.frame.pop(depth)
        self._leave(carries, last, steps)

    def _vector(self, time: NestLoop, steps: Sequence[Linear], last: dict[int, str]) -> str | None:
        """Write a vector of steps, whose results are stored if all floats that are composed are finite. Returns this
        condition. A carry that forgets the one before it is not composed, nor is one that no step reads."""
        point = Point(width=self.frame.tile.lanes)
        self.frame.lane, outer = time, self.frame.lane
        updates = dict(zip(self.frame.nest.registers, self.frame.nest.updates, strict=True))
        ends: dict[int, str] = {}
        after = [self._solve(step, updates[step.register], last[step.register.index], point, ends) for step in steps]
        composed = [(step, name) for step, name in zip(steps, after, strict=True) if not (step.forgets or step.unread)]
        tests = [f"{name} - {name} == 0.0" for step, name in composed if kind_of(step.register.dtype).floating]
        tests += [self._keeps_zeros(step, point) for step, _ in composed if step.signed]
        tests += [test for step, _ in composed if step.may_wrap for test in self._are_small(step, last, point)]
        tests = tests if len(tests) == 1 else [f"({test})" for test in tests]
        finite = self.frame.line("finite", f"all_of({' & '.join(tests)})") if tests else None
        depth = len(self.frame.scopes)
        if finite is not None:
            self.frame.push(f"if {finite}:")
        self.values.store(point)
        for step, name in zip(steps, after, strict=True):
            index = step.register.index
            self.frame.scope.add(f"{last[index]} = {ends.get(index) or self._end(name, point)}")
        self.frame.pop(depth)
        self.frame.lane = outer
        return finite

    def _are_small(self, step: Linear, last: dict[int, str], point: Point) -> list[str]:
        """The conditions that no sum of integers wraps around in a vector of steps."""
        most, parts = small(step.register.dtype), (step.term, step.low, step.high)
        texts = [last[step.register.index], *(self.values.value(part, point) for part in parts if part is not None)]
        return [f"({text} < {most}) & ({text} > {-most})" for text in texts]

    def _keeps_zeros(self, step: Linear, point: Point) -> str:
        """The condition that no step adds -0.0 to the carry times a constant that is 0 or negative. What this is
        depends on the sign of the carry, also if the product is 0."""
        assert step.factor is not None and step.term is not None
        factor, term = (self.values.value(part, point) for part in (step.factor, step.term))
        integers = np.dtype(f"i{step.register.dtype.itemsize}")
        bits, sign = f"bitcast_{suffix(integers, point.width)}", kind_of(integers).limits[0]
        if isinstance(step.factor, Literal):
            return f"{bits}({term}) != {sign}"
        return f"({bits}({term}) ^ {sign}) | {bits}({factor}) != 0"

    def _enter(self, carries: dict[tuple[int, int], str], last: dict[int, str]) -> None:
        """Write the carries before a vector in all lanes."""
        for index, variable in last.items():
            self.frame.scope.add(f"{variable} = spread_x{self.frame.tile.lanes}({carries[index, 0]})")

    def _leave(self, carries: dict[tuple[int, int], str], last: dict[int, str], steps: Sequence[Linear]) -> None:
        """Write the carries after the last step of a vector."""
        for step in steps:
            index, text = step.register.index, f"lane({last[step.register.index]}, 0)"
            if step.unread:
                text = f"reduce_{'min' if step.low is None else 'max'}({last[index]})"
            self.frame.scope.add(f"{carries[index, 0]} = {text}")

    def _end(self, name: str, point: Point) -> str:
        """The last step of a vector in all lanes."""
        return f"spread_x{point.width}(lane({name}, {0 if self.frame.nest.reverse else point.width - 1}))"

    def _solve(self, step: Linear, update: Value, last: str, point: Point, ends: dict[int, str]) -> str:
        """Write the values of a carry before and after each step of a vector. Returns those after, and adds to `ends`
        the name of the last one in all lanes if it is known already. Of a carry that no step reads, each lane has the
        extremum of its own steps."""
        way = "down" if self.frame.nest.reverse else "up"
        if step.unread:
            op, bound = ("maximum", step.low) if step.high is None else ("minimum", step.high)
            assert bound is not None
            ends[step.register.index] = self.frame.line("s", f"{op}({last}, {self.values.value(bound, point)})")
            return ends[step.register.index]
        term = None if step.term is None else self.values.value(step.term, point)
        after = term if step.forgets else self._composed(step, term, last, way, point, ends)
        if after is None:
            after = self.frame.line("k", self._splat(step, 0, point))
        self.frame.registers[step.register.index, 0] = self.frame.line("c", f"slide_{way}1({after}, {last})")
        self.frame.memos[-1][update, 0, 0, point.width] = after
        return after

    def _composed(self, step: Linear, term: str | None, last: str, way: str, point: Point, ends: dict[int, str]) -> str:
        """The carry after each step, from the carry before all of them: factors, terms and bounds are composed by
        doubling. The last one, for which the next vector waits, is computed once more, from the composed values of the
        last lane: to move it to all lanes would take longer than to compute it.

        A lane that is NaN stays NaN. In the lanes behind it, a bound may hide this until the last line.
        """
        parts = (step.factor, step.low, step.high)
        factor, low, high = (None if part is None else self.values.value(part, point) for part in parts)
        level = 0 if step.factor is None else self.frame.level_of(self.frame.depends(step.factor))
        dtype, kind, count = step.register.dtype, kind_of(step.register.dtype), 1
        far, one, times = small(dtype) << 6, one_of(dtype), "*" if kind.floating else "&"
        least, most = (-far, far) if step.may_wrap else kind.limits
        nothing = -0.0 if kind.floating else 0  # a sum of -0.0 and 0.0 is 0.0

        def slid(name: str, fill: float) -> str:
            key = ("fill", dtype, fill, point.width)
            return f"slide_{way}{count}({name}, {self.frame.remember(0, key, 'fill', self._splat(step, fill, point))})"

        def after(before: str) -> str:
            """The carries after the steps that are composed so far, without bounds."""
            if term is None:
                return before if factor is None else f"{factor} {times} {before}"
            if factor is None:
                return f"{term} + {before}"
            return f"fma({factor}, {before}, {term})" if kind.floating else f"{term} + ({factor} & {before})"

        def nearest(sign: str, text: str, bound: str) -> str:
            name = self.frame.line("b", text)
            return f"select({name} {sign} {bound}, {name}, {bound})"

        def bounded(hint: str) -> str:
            """The carries after the steps, with bounds."""
            text = after(last)
            text = text if high is None else f"minimum({text}, {high})"
            return self.frame.line(hint, text if low is None else f"maximum({text}, {low})")

        while count < point.width:
            lower, upper = low, high
            if high is not None:
                upper = self.frame.line("high", nearest("<", after(slid(high, most)), high))
            if low is not None:
                text = after(slid(low, least))
                text = text if high is None else nearest("<", text, high)
                lower = self.frame.line("low", nearest(">", text, low))
            term = None if term is None else self.frame.line("s", after(slid(term, nothing)))
            if factor is not None:
                text = f"{factor} {times} {slid(factor, one)}"
                factor = self.frame.remember(level, ("power", factor, count, way), "m", text)
            low, high, count = lower, upper, count * 2
        found = bounded("s")
        if factor is not None:
            factor = self.frame.remember(level, ("end", factor), "m", self._end(factor, point))
        term, low, high = (part and self.frame.line("end", self._end(part, point)) for part in (term, low, high))
        ends[step.register.index] = bounded("end")
        return found

    def _splat(self, step: Linear, value: float, point: Point) -> str:
        dtype = step.register.dtype
        return f"opaque(splat_{suffix(dtype, point.width)}({number(dtype.type(value))}))"

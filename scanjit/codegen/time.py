"""Time inside all other loops of a nest: carries are in registers from step to step."""

from collections.abc import Callable
from functools import partial

from scanjit.codegen.across import is_across, write_across
from scanjit.codegen.decisions import Decisions
from scanjit.codegen.frame import Frame, Point
from scanjit.codegen.linear import LinearTime
from scanjit.codegen.memory import write
from scanjit.codegen.neighbours import in_pairs
from scanjit.codegen.still import TOGETHER, StillTime
from scanjit.codegen.values import Values
from scanjit.schedule.nests import NestLoop, Register, Value, loops_of

STRETCH = 1024
"""After so many steps, it is decided anew in which form the next ones are computed."""
LESS = 4
"""To try a form, this many times fewer steps are computed in it."""
OFTEN = 32
"""After each so many stretches, another form is tried. A power of two."""


class TimeInside:
    """Writes the loop over time at a point of the register tile."""

    def __init__(self, frame: Frame, values: Values, time: NestLoop) -> None:
        self.frame, self.values, self.time = frame, values, time
        self.decisions = Decisions(frame, values, self._step)
        self._ended: list[str] = []

    def write(self) -> None:
        """Write the loop over time, and behind it the final stores."""
        frame, nest = self.frame, self.frame.nest
        for point in frame.points():
            for register in nest.registers:
                text = self.values.value(register.init, point)
                frame.registers[register.index, point.vector] = frame.line("c", text)
        if is_across(frame):
            write_across(frame, self.time, self._steps)
        else:
            self._all_steps()
        for point in frame.points():
            for stores in in_pairs(nest.finals):
                kept = [store.value.index for store in stores if isinstance(store.value, Register)]
                write(frame, stores, [frame.registers[index, point.vector] for index in kept], point)

    def _all_steps(self) -> None:
        """Write the loops over all steps."""
        frame, nest = self.frame, self.frame.nest
        size, unroll = self.time.size, max(1, nest.unroll)
        whole = max(unroll, nest.still * TOGETHER)
        full = size // whole * whole if nest.lanewise is None else nest.lanewise.steps
        if nest.guessed or nest.still:
            self._in_forms(frame.size(full), unroll)
        elif nest.lanewise is None:
            self._steps("0", frame.size(full), unroll)
        else:
            LinearTime(frame, self.values, self._steps).write(self.time, nest.lanewise)
        if size != full:
            self._steps(frame.size(full), frame.size(size), 1, max(whole, frame.tile.lanes))

    def _in_forms(self, size: str, copies: int) -> None:
        """Write a loop over so many steps in several forms. A stretch is computed in the form that took less time when
        it was used last. At first each form is tried, and now and then another one: for a short stretch that counts,
        behind one in which the processor learns its branches."""
        frame, depth, forms = self.frame, len(self.frame.scopes), self._forms(copies)
        names = {"form": 0, "turn": 0, "other": 0, "times": LESS, "learns": 1, "end": 0}
        form, turn, other, times, learns, end = (frame.line(name, str(number)) for name, number in names.items())
        took, first = [frame.line("took", "0") for _ in forms], frame.fresh("first")
        frame.push(f"for {first} in range(0, {size}, {STRETCH // LESS}):", self.time, first)
        frame.push(f"if {first} == {end}:")
        frame.scope.add(f"{end} = min({first} + {STRETCH} // {times}, {size})")
        begun = frame.line("begun", "clock()")
        for number, written in enumerate(forms):
            with frame.inside(f"if {form} == {number}:"):
                written(first, end)
                before = frame.line("before", took[number])
                frame.scope.add(f"{took[number]} = (clock() - {begun})*{times}")
                with frame.inside(f"if {learns} < -1:"):
                    frame.scope.add(f"{took[number]} = (3*{before} + min({took[number]}, 2*{before})) // 4")
        frame.scope.add(f"{learns} = {learns} - 1")
        frame.push(f"if {learns} < 0:")
        frame.scope.add(f"{form} = 0")
        least = took[0]
        for number, each in enumerate(took[1:], 1):
            with frame.inside(f"if {each} < {least}:"):
                frame.scope.add(f"{form} = {number}")
            least = frame.line("least", f"min({least}, {each})")
        frame.scope.add(f"{times} = 1")
        frame.scope.add(f"{turn} = ({turn} + 1) & {OFTEN - 1}")
        with frame.inside(f"if {turn} == 0:"):
            frame.scope.add(f"{other} = {other} + 1")
            with frame.inside(f"if {other} == {len(forms)}:"):
                frame.scope.add(f"{other} = 0")
            frame.scope.add(f"{form} = {other}")
        with frame.inside(f"if {turn} == 0 or {least} == 0:"):
            frame.scope.add(f"{times} = {LESS}")
            frame.scope.add(f"{learns} = 1")
        frame.pop(depth)

    def _forms(self, copies: int) -> list[Callable[[str, str], None]]:
        """What writes stretches of steps: with all branches, with those that depend on carries alone, without them,
        and as if they changed nothing."""
        guessed = self.frame.nest.guessed
        alone = tuple(value for value in guessed if not loops_of(value.operands[0]))
        sets = dict.fromkeys([guessed, alone, ()])
        forms: list[Callable[[str, str], None]] = [partial(self._with, guessed=each, copies=copies) for each in sets]
        if self.frame.nest.still:
            still = StillTime(self.frame, self.values, self._steps)
            forms.append(lambda start, stop: still.write(self.time, start, stop, STRETCH))
        return forms

    def _with(self, start: str, stop: str, guessed: tuple[Value, ...], copies: int) -> None:
        """Write a stretch of steps in which some choices are branches."""
        before, self.frame.guessed = self.frame.guessed, guessed
        self._steps(start, stop, self.decisions.copies(copies) if guessed else copies, STRETCH)
        self.frame.guessed = before

    def _steps(self, start: str, stop: str, copies: int = 1, most: int | None = None) -> None:
        """Write a loop over steps, `copies` of them in each turn, with at most `most` turns."""
        frame, depth = self.frame, len(self.frame.scopes)
        ended = "" if frame.nest.until is None else frame.line("ended", "all_of(splat_boolx1(False))")
        name = frame.loop(self.time, "t", (start, stop), copies, most)
        self._turn(name, copies)
        if ended:
            frame.scope.add(f"{ended} = all_of({' & '.join(self._ended)})")
            frame.scope.ends, self._ended = ended, []
        frame.pop(depth)

    def _turn(self, start: str, copies: int) -> None:
        """Write some steps, one after the other."""
        for copy in range(copies):
            self.frame.memos[-1] = {}
            count(self.frame, self.time, f"{start} + {copy}" if copy else start)
            for point in self.frame.points():
                if self.frame.guessed:
                    self.decisions.write(point)
                else:
                    self._step(point)

    def _step(self, point: Point) -> None:
        frame, nest = self.frame, self.frame.nest
        self.values.store(point)
        new = [self.values.value(value, point) for value in nest.updates]
        if nest.until is not None:  # no point is in a masked lane
            text, mask = self.values.value(nest.until, point), frame.mask(point)
            self._ended.append(text if mask is None else f"({text} | ~{mask})")
        names = [frame.registers[register.index, point.vector] for register in nest.registers]
        for i, text in enumerate(new):  # a register that another one takes over is read before it changes
            if text != names[i] and any(text == name for name in names):
                new[i] = frame.line("old", text)
        for name, text in zip(names, new, strict=True):
            if name != text:
                frame.scope.add(f"{name} = {text}")


def count(frame: Frame, time: NestLoop, step: str) -> None:
    """Define the row of a step: its number, or in a reverse scan the rows from the last one on."""
    frame.index[time, 0] = f"({step})" if " " in step else step
    if frame.nest.reverse:
        frame.index[time, 0] = frame.line("row", f"{frame.size(time.size - 1)} - {step.replace('+', '-')}")

"""Time inside all other loops of a nest: carries are in registers from step to step."""

from scanjit.codegen.frame import Frame, Point
from scanjit.codegen.linear import LinearTime
from scanjit.codegen.memory import write
from scanjit.codegen.values import Values
from scanjit.schedule.nests import NestLoop, Register


class TimeInside:
    """Writes the loop over time at a point of the register tile."""

    def __init__(self, frame: Frame, values: Values, time: NestLoop) -> None:
        self.frame, self.values, self.time = frame, values, time

    def write(self) -> None:
        """Write the loop over time, and behind it the final stores."""
        frame, nest = self.frame, self.frame.nest
        for point in frame.points():
            for register in nest.registers:
                text = self.values.value(register.init, point)
                frame.registers[register.index, point.vector] = frame.line("c", text)
        size, unroll = self.time.size, max(1, nest.unroll)
        full = size // unroll * unroll if nest.lanewise is None else nest.lanewise.steps
        if nest.lanewise is None:
            self._steps("0", frame.size(full), unroll)
        else:
            LinearTime(frame, self.values, self._steps).write(self.time, nest.lanewise)
        if size != full:
            self._steps(frame.size(full), frame.size(size), 1, max(unroll, frame.tile.lanes))
        for point in frame.points():
            for store in nest.finals:
                assert isinstance(store.value, Register)
                write(frame, store, frame.registers[store.value.index, point.vector], point)

    def _steps(self, start: str, stop: str, copies: int = 1, most: int | None = None) -> None:
        """Write a loop over steps, `copies` of them in each turn, with at most `most` turns."""
        frame, depth = self.frame, len(self.frame.scopes)
        name = frame.loop(self.time, "t", (start, stop), copies, most)
        for copy in range(copies):
            frame.memos[-1] = {}
            count(frame, self.time, f"{name} + {copy}" if copy else name)
            for point in frame.points():
                self._step(point)
        frame.pop(depth)

    def _step(self, point: Point) -> None:
        frame, nest = self.frame, self.frame.nest
        for store in nest.stores:
            self.values.store(store, point)
        new = [self.values.value(value, point) for value in nest.updates]
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

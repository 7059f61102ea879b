"""Steps computed as if the state did not change, as many at a time as a vector has lanes; see
`scanjit.schedule.tiles.still`."""

from collections.abc import Callable

import numpy as np

from scanjit.codegen.frame import Frame, Point
from scanjit.codegen.names import suffix
from scanjit.codegen.values import Values
from scanjit.kinds import kind_of
from scanjit.ops.elementwise import MAXIMUM, MINIMUM, WHERE
from scanjit.schedule.nests import Apply, NestLoop, Register, Value

TOGETHER = 2
"""So many vectors of steps are a group: there is one test for them."""


class StillTime:
    """Writes the steps of a nest that may change no register.

    Parameters
    ----------
    frame, values : where the steps are written, and the writer of their values.
    steps : writes a loop over steps one by one, from a start to a stop.
    """

    def __init__(self, frame: Frame, values: Values, steps: Callable[[str, str], None]) -> None:
        self.frame, self.values, self._steps = frame, values, steps

    def write(self, time: NestLoop, start: str, stop: str, most: int) -> None:
        """Write a loop over whole groups of vectors, of at most so many steps. Where a lane of a group has another
        state than the one before the group, this is computed once more, step by step."""
        frame, nest, depth = self.frame, self.frame.nest, len(self.frame.scopes)
        carries, point, steps = dict(frame.registers), Point(width=nest.still), nest.still * TOGETHER
        states = {place: frame.line("state", f"spread_x{nest.still}({name})") for place, name in carries.items()}
        name = frame.loop(time, "t", (start, stop), steps, most)
        frame.registers, guessed, frame.guessed = dict(states), frame.guessed, ()
        frame.lane, outer = time, frame.lane
        memos: list[dict[object, str]] = []
        tests: list[str] = []
        with frame.fewer_vectors(lanes=nest.still):
            for first in range(0, steps, nest.still):
                frame.index[time, 0] = f"({name} + {first})" if first else name
                frame.memos[-1] = {}
                tests += [self._stays(*pair, point) for pair in zip(nest.registers, nest.updates, strict=True)]
                memos.append(frame.memos[-1])
            still = frame.line("still", f"all_of({' & '.join(f'({test})' for test in tests)})")
            with frame.inside(f"if {still}:"):
                for number, memo in enumerate(memos):
                    frame.index[time, 0] = f"({name} + {number * nest.still})" if number else name
                    frame.memos[-2] = memo
                    frame.memos[-1] = {}
                    for register, update in zip(nest.registers, nest.updates, strict=True):
                        memo[update, 0, 0, nest.still] = states[register.index, 0]
                    self.values.store(point)
        frame.registers, frame.guessed, frame.lane = carries, guessed, outer
        frame.push(f"if not {still}:")
        self._steps(name, f"{name} + {steps}")
        for place, state in states.items():
            frame.scope.add(f"{state} = spread_x{nest.still}({carries[place]})")
        frame.pop(depth)

    def _stays(self, register: Register, new: Value, point: Point) -> str:
        """A condition for a register to keep all its bits if it becomes `new`. It need not hold wherever it does."""
        kind, state = kind_of(register.dtype), self.values.value(register, point)
        if isinstance(new, Apply) and register in new.args[-2:]:
            condition, other = new.args[0], next((arg for arg in new.args[-2:] if arg is not register), register)
            if new.op is WHERE and condition is not register:
                chosen = self.values.value(condition, point)
                chosen = chosen if new.args[1] is register else f"~{chosen}"
                return f"{chosen} | ({self._stays(register, other, point)})"
            if new.op in (MAXIMUM, MINIMUM):
                sign = "<" if new.op is MAXIMUM else ">"
                same = "" if kind.floating else "="  # -0.0 is not 0.0
                return f"{self.values.value(other, point)} {sign}{same} {state}"
        text = self.values.value(new, point)
        if kind.is_mask:
            return f"~({text} ^ {state})"
        if kind.floating:
            bits = suffix(np.dtype(f"int{8 * register.dtype.itemsize}"), point.width)
            return f"bitcast_{bits}({text}) == bitcast_{bits}({state})"
        return f"{text} == {state}"

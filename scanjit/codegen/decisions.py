"""Steps as decisions: what a step chooses between is written behind branches, as one writes it by hand.

Each condition is one branch, and behind it stands all that depends on it: a step is a tree, with the rest of the step
at each leaf. What is not chosen is not computed, and what follows from the branches before is not asked again.
"""

from collections.abc import Callable, Iterable, Mapping

from scanjit.codegen.frame import Frame, Point
from scanjit.codegen.truths import truth_of
from scanjit.codegen.values import Values
from scanjit.ops.elementwise import AND, INVERT, OR, WHERE, XOR
from scanjit.schedule.nests import Apply, Reduce, Register, Search, Value
from scanjit.walks import bottom_up

MOST_LEAVES = 12
"""A tree has at most so many leaves. Choices that are left are written in them, each as a branch of its own."""
FEW_LEAVES = 8
"""Steps of so many leaves stand one after the other in a turn of the loop."""
DEEPEST = 6
"""So many branches are above a leaf at most."""


class Decisions:
    """Writes the steps of a nest with time as trees.

    Parameters
    ----------
    frame, values : where they are written, and the writer of their values.
    step : writes what is left of a step at a leaf.
    """

    def __init__(self, frame: Frame, values: Values, step: Callable[[Point], None]) -> None:
        self.frame, self.values, self._step, nest = frame, values, step, frame.nest
        self.roots = [*(value for store in nest.stores for value in store.values), *nest.updates]
        parts = bottom_up(self.roots, lambda value: () if isinstance(value, Reduce | Register) else value.operands)
        self._always = [value for value in parts if value.reports or isinstance(value, Reduce | Search)]
        self._depths: dict[tuple[Value, ...], int] = {}

    def copies(self, most: int) -> int:
        """How many of at most so many steps are written one after the other: one, if it has many leaves."""
        return most if self._leaves(Point(), DEEPEST, {}) <= FEW_LEAVES else 1

    def write(self, point: Point) -> None:
        """Write a step. What may report an error is computed whatever is chosen, and so is what has loops."""
        for value in self._always:
            self.values.value(value, point)
        guessed = self.frame.guessed
        if guessed not in self._depths:
            depths = range(DEEPEST, -1, -1)
            self._depths[guessed] = next(depth for depth in depths if self._leaves(point, depth, {}) <= MOST_LEAVES)
        self._decide(point, self._depths[guessed])

    def _decide(self, point: Point, depth: int) -> None:
        frame, time, before = self.frame, self.frame.nest.time, self.frame.decided
        question = self._question(self.roots, point, before) if depth else None
        if question is None or time is None:
            self._step(point)
            return
        counter = frame.index[time, 0]
        for header, answer in ((f"if any_of({self.values.value(question, point)}):", True), ("else:", False)):
            with frame.inside(header, time, counter):
                frame.decided = {**before, question: answer}
                if answer:
                    frame.scope.add("keep_branch()")  # LLVM would compute both, and choose
                self._decide(point, depth - 1)
        frame.decided = before

    def _leaves(self, point: Point, depth: int, decided: Mapping[Value, bool]) -> int:
        question = self._question(self.roots, point, decided) if depth else None
        if question is None:
            return 1
        return sum(self._leaves(point, depth - 1, {**decided, question: answer}) for answer in (True, False))

    def _question(self, values: Iterable[Value], point: Point, decided: Mapping[Value, bool]) -> Value | None:
        """The first condition that must be known before some values can be computed without a choice."""
        done: set[Value] = set()

        def of_all(values: Iterable[Value]) -> Value | None:
            return next((found for value in values if (found := of(value)) is not None), None)

        def of(value: Value) -> Value | None:
            if value in done or isinstance(value, Register) or self.values.is_known(value, point):
                return None
            done.add(value)
            if truth_of(value, decided) is not None:
                return None
            if value in self.frame.guessed and isinstance(value, Apply):
                condition, *chosen = value.args
                if (truth := truth_of(condition, decided)) is None:
                    return asked(condition)
                return of(chosen[not truth]) if chosen else None
            return of_all(value.operands)

        def asked(condition: Value) -> Value:
            """The first part of a condition that is a comparison, or another value without parts."""
            if isinstance(condition, Apply) and not self.values.is_known(condition, point):
                args = condition.args
                if condition.op is WHERE and (truth := truth_of(args[0], decided)) is not None:
                    return asked(args[2 - truth])
                if condition.op in (AND, OR, XOR, INVERT, WHERE):
                    return asked(next(arg for arg in args if truth_of(arg, decided) is None))
                return of_all(args) or condition
            return condition

        return of_all(values)

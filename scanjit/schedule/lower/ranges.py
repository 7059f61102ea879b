"""Between which numbers integers lie: an index that is certainly inside an array needs no check.

The ranges of carries are found by trying. In `where(k == 24, 0, k + 1)` from 0 on, k is 0 at first, then 0 or 1. As
this would go on for long, a range that grows reaches the next of the numbers that stand in the step: k lies between 0
and 24. Once a step takes no carry out of its range, the ranges hold for all steps.

For an axis of unknown size n, ranges are found once more. Their ends may then be n plus a number, as in `where(k == n
- 1, 0, k + 1)`, and they hold if n is at least 1. Code checks only that, once for all steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple, final

from scanjit import ir
from scanjit.ir import Node
from scanjit.kinds import kind_of
from scanjit.ops import View, elementwise as ops
from scanjit.ops.extremes import ArgReduction
from scanjit.ops.index import GATHER, SCATTER
from scanjit.ops.promotion import Elementwise
from scanjit.ops.shape import IOTA
from scanjit.ops.sorting import SEARCHED
from scanjit.schedule.lower.intervals import LONGEST_ROW, BySize, End, Range, greater, joined, lesser
from scanjit.schedule.lower.range_rules import OPPOSITES, RULES, TURNED, kept, limits
from scanjit.types import Dimension
from scanjit.walks import bottom_up


class Carry(NamedTuple):
    """A carry of a scan: as a step reads it, its initial value, and as a step returns it."""

    before: Node
    init: Node
    new: Node


DEEP = 6
"""What a condition says is asked of this many operations in front of a value that it selects."""
MOST_TRIES = 40
"""If the ranges of carries still grow after so many tries, they are not known."""
MOST_WORK = 5000
"""So many operations are looked at to find the ranges of a scan's carries, and as many for all indices of its step.
What is not found by then is not known."""


class _TooLong(Exception):
    pass


class Ranges:
    """The ranges of the integers of a program, as far as they are known.

    They are those of the body that is being lowered (see `inside`).
    """

    def __init__(self) -> None:
        self._body = _Body((), (), None)

    def of(self, node: Node) -> Range | None:
        """The range of the elements of a node; None if it is not known."""
        return self._body.known(0).of(node)

    def is_inside(self, index: Node, size: Dimension) -> bool:
        """Whether an index certainly lies inside an axis that has elements."""
        known = self._body.known(size)
        found, most = known.of(index), known.end(size)
        return found is not None and most is not None and found[0] >= 0 and found[1] < most

    def most_times(self, x: Node, by: Node) -> int | None:
        """How many times a divisor goes into a number that is certainly not negative: never (0), only if both are equal
        (1), or perhaps more often (2). The divisor is a positive number, or a size, which is taken to be positive. None
        for other numbers and divisors."""
        known = self._body.known(by.params["dim"] if by.op is ir.SIZE else 0)
        a, b = known.of(x), known.of(by)
        if a is None or b is None or b[0] != b[1] or not (a[0] >= 0 and b[0] > 0):
            return None
        return 0 if a[1] < b[0] else 1 if a[1] <= b[0] else 2

    def settled(self, node: Node, size: Dimension, locate: Callable[[Node], object]) -> Node:
        """What an index of an axis is, if its conditions are known: `where(k < 0, k + n, k)` is k, if k is not
        negative. A node that lies in memory stays as it is: what it was computed from may be out of reach."""
        known = self._body.known(size)
        while node.op is ops.WHERE and locate(node) is None and (holds := known.of(node.args[0])) in ((0, 0), (1, 1)):
            chosen = node.args[1 if holds == (1, 1) else 2]
            if chosen.type != node.type:
                break
            node = chosen
        return node

    @contextmanager
    def inside(self, given: Iterable[tuple[Node, Node]], carries: Sequence[Carry] = ()) -> Iterator[None]:
        """While the body of a scan or an ifelse is lowered: the ranges in this body. It is `given` rows and constants,
        each with the node outside that it comes from. The inputs of two bodies may be one node, so nothing that is
        known outside holds inside, and nothing that is known inside holds outside."""
        outside = self._body
        self._body = _Body(tuple(given), carries, outside)
        try:
            yield
        finally:
            self._body = outside


@final
class _Body:
    """The body of a scan or an ifelse, or the program around all bodies: what is known in it, with and without an axis
    of unknown size."""

    def __init__(self, given: Sequence[tuple[Node, Node]], carries: Sequence[Carry], outside: _Body | None) -> None:
        self.given, self.carries, self.outside = given, carries, outside
        self._known: dict[Dimension, _Known] = {}

    def known(self, size: Dimension) -> _Known:
        """What is known in this body, if an axis has this size and has elements."""
        size = 0 if isinstance(size, int) else size
        if size not in self._known:
            self._known[size] = _Known(size, self.known(0)._carries if size else {})
            if self.outside is not None:
                self._known[size].begin(self.given, self.carries, self.outside.known(size))
        return self._known[size]


@final
class _Known:
    """What is known in one body, if an axis of unknown `size` has elements; with the size 0, without such an axis."""

    def __init__(self, size: Dimension, carries: Mapping[Node, Range]) -> None:
        self.size, self._carries = size, dict(carries)
        self._given: dict[Node, Range | None] = {}
        self._found: dict[Node, Range | None] = {}
        self._left = MOST_WORK

    def begin(self, given: Iterable[tuple[Node, Node]], carries: Iterable[Carry], outside: _Known) -> None:
        """Find what is known of the inputs of a body."""
        self._given = {**{bound: outside.of(value) for bound, value in given}, **self._carries}
        left = [carry for carry in carries if carry.before not in self._carries]
        self._find_carries(
            left, {carry.before: found for carry in left if (found := outside.of(carry.init)) is not None}
        )

    def of(self, node: Node) -> Range | None:
        """The range of the elements of a node; None if it is not known."""
        try:
            return self._asked(node)
        except _TooLong:
            return None

    def end(self, dim: Dimension) -> End | None:
        """A dimension as a number; None if it is not known."""
        if isinstance(dim, int):
            return dim
        more = dim - self.size
        return BySize(1, LONGEST_ROW) + more if isinstance(more, int) else None

    def _asked(self, node: Node) -> Range | None:
        if not _is_whole(node):
            return None
        if node not in self._found:
            known = self._found
            for part in bottom_up([node], lambda each: () if each in known else list(filter(_is_whole, each.operands))):
                if part not in known:
                    known[part] = self._result(part, self._asked, DEEP, {})
        return self._found[node]

    def _find_carries(self, carries: Sequence[Carry], tried: dict[Node, Range]) -> None:
        """Find the ranges of carries, which begin with those of their initial values. An end that grows reaches the
        last place of the axis of unknown size first."""
        unknown = dict.fromkeys(carry.before for carry in carries)
        size = self.end(self.size) if self.size else None
        last = None if size is None else size - 1
        stops = _numbers_in([carry.new for carry in carries if carry.before in tried])
        for turn in range(MOST_TRIES):
            self._given |= unknown | tried
            self._found.clear()
            try:
                after = {carry.before: self._asked(carry.new) for carry in carries if carry.before in tried}
            except _TooLong:
                break
            grown = {before: _grown(tried[before], found, stops, last) for before, found in after.items()}
            if grown == tried:
                self._left = MOST_WORK
                self._carries |= tried
                return
            tried = {before: found for before, found in grown.items() if found is not None and turn < MOST_TRIES // 2}
        self._given |= unknown
        self._found.clear()
        self._left = MOST_WORK

    def _of(self, node: Node, said: Mapping[Node, Range], deep: int) -> Range | None:
        """The range of a node whose operands are known, where conditions say something about some nodes. They speak
        of the elements at the place where the condition stands, so they say nothing about what a view or a gather
        reads elsewhere."""
        if node in said:
            return said[node]
        if deep <= 0 or not isinstance(node.op, Elementwise) or not _is_whole(node):
            return self._asked(node)
        return self._result(node, lambda part: self._of(part, said, deep - 1), deep, said)

    def _result(
        self, node: Node, of: Callable[[Node], Range | None], deep: int, said: Mapping[Node, Range]
    ) -> Range | None:
        if node in self._given:
            return self._given[node]
        self._left -= 1
        if self._left < 0:
            raise _TooLong
        if node.op is ir.SIZE:
            size = self.end(node.params["dim"])
            return None if size is None else (size, size)
        if node.op is ops.WHERE:
            return self._chosen(node, of, deep, said)
        selected = [part for part in node.operands if part.op is ops.WHERE] if node.op in (ops.ADD, ops.SUB) else []
        if len(selected) == 1 and deep > 0:
            found = self._of_each(node, selected[0], deep, said)
        else:
            found = RULES[node.op](node, of) if node.op in RULES else self._other(node, of)
        least, most = limits(node)
        if found is None and kind_of(node.dtype).is_mask:
            return least, most
        return found if found is not None and least <= found[0] and found[1] <= most else None

    def _chosen(
        self, node: Node, of: Callable[[Node], Range | None], deep: int, said: Mapping[Node, Range]
    ) -> Range | None:
        """The range of a selection: each of its values where the condition is as it has to be for this value."""
        return joined(
            self._of(value, {**said, **told}, deep - 1) if told and deep > 0 else of(value)
            for value, told in self._cases(node, of)
        )

    def _of_each(self, node: Node, selection: Node, deep: int, said: Mapping[Node, Range]) -> Range | None:
        """The range of a sum with one selection, from the sums with each of its values. So it is found that `size +
        where(size < 16, 1, 0)` is at most 16 if `size` is."""
        found: list[Range | None] = []
        for value, told in self._leaves(selection, deep - 1, said):
            of_value = self._of(value, told, deep - 1)
            found.append(None if of_value is None else self._of_sum(node, {**told, selection: of_value}, deep - 1))
        return joined(found)

    def _of_sum(self, node: Node, said: Mapping[Node, Range], deep: int) -> Range | None:
        return RULES[node.op](node, lambda part: self._of(part, said, deep))

    def _leaves(self, node: Node, deep: int, said: Mapping[Node, Range]) -> Iterator[tuple[Node, Mapping[Node, Range]]]:
        """The values that a selection, and the selections among its values, may choose; each with what is known
        then."""
        for value, told in self._cases(node, lambda part: self._of(part, said, deep)):
            if value.op is ops.WHERE and deep > 0:
                yield from self._leaves(value, deep - 1, {**said, **told})
            else:
                yield value, {**said, **told}

    def _cases(self, node: Node, of: Callable[[Node], Range | None]) -> Iterator[tuple[Node, dict[Node, Range]]]:
        """The values of a selection that can be chosen, each with what is then known of other nodes."""
        condition, *values = node.args
        known = of(condition)
        for value, holds in zip(values, (True, False), strict=True):
            told = None if known == (int(not holds),) * 2 else self._told(condition, holds, of)
            if told is not None:
                yield value, told

    def _told(self, condition: Node, holds: bool, of: Callable[[Node], Range | None]) -> dict[Node, Range] | None:
        """What it says about nodes that a condition holds, or does not. None if this cannot be."""
        if condition.op is ops.INVERT:
            return self._told(condition.args[0], not holds, of)
        if condition.op is (ops.AND if holds else ops.OR):
            found: dict[Node, Range] = {}
            for part in condition.args:
                told = self._told(part, holds, of)
                if told is None:
                    return None
                for node, (low, high) in told.items():
                    least, most = found.get(node, (low, high))
                    found[node] = greater(low, least), lesser(high, most)
            return None if any(low > high for low, high in found.values()) else found
        op = condition.op if holds else OPPOSITES.get(condition.op)
        if op not in OPPOSITES:
            return {}
        a, b = condition.args
        if not _is_whole(a) or not _is_whole(b):
            return {}
        of_a, of_b = (of(each) or limits(each) for each in (a, b))
        narrow = {a: kept(op, of_a, of_b), b: kept(TURNED.get(op, op), of_b, of_a)}
        return None if any(low > high for low, high in narrow.values()) else narrow

    def _other(self, node: Node, of: Callable[[Node], Range | None]) -> Range | None:
        """The range of a constant, of places along an axis, or of a view of something known."""
        if node.op is ir.CONSTANT:
            array = node.params["data"].array
            return (int(array.min()), int(array.max())) if array.size else None
        if node.op is SEARCHED:  # how many elements of a row come before a number
            size = self.end(node.operands[0].type.shape[-1])
            return 0, LONGEST_ROW if size is None else size
        if node.op is IOTA or isinstance(node.op, ArgReduction):
            argument = isinstance(node.op, ArgReduction)
            length = node.operands[0].type.shape[node.params["axis"]] if argument else node.params["length"]
            size = self.end(length)
            return (0, size - 1) if size is not None and size > 0 else None
        return of(node.operands[0]) if isinstance(node.op, View) else None


def _is_whole(node: Node) -> bool:
    """Whether a node has integers or truth values."""
    return not node.several and (kind_of(node.dtype).integral or kind_of(node.dtype).is_mask)


def _numbers_in(results: Sequence[Node]) -> list[int]:
    """The integers in what computes some results, and their neighbours."""
    found = {0}
    for node in ir.walk(results, sizes=False):
        if node.op is ir.CONSTANT and not node.ndim and kind_of(node.dtype).integral:
            number = int(node.params["data"].array)
            found |= {number - 1, number, number + 1}
        if node.op in (GATHER, SCATTER):
            found |= {size - 1 for size in node.operands[0].type.shape if isinstance(size, int)}
    return sorted(found)


def _grown(old: Range, new: Range | None, stops: Sequence[int], last: End | None) -> Range | None:
    """A range that holds the old one, to be tried next. An end that moves goes on to the next of `stops`; the largest
    number goes on to `last` before, if that may be."""
    if new is None:
        return None
    low = old[0] if new[0] >= old[0] else max((stop for stop in stops if new[0] >= stop), default=None)
    high: End | None = old[1]
    if not new[1] <= old[1]:
        ahead = last is not None and old[1] <= last and old[1] != last
        high = last if ahead else min((stop for stop in stops if new[1] <= stop), default=None)
    return None if low is None or high is None else (low, high)

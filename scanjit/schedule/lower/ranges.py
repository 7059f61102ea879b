"""Between which numbers integers lie: an index that is certainly inside an array needs no check.

The ranges of carries are found by trying. In `where(k == 24, 0, k + 1)` from 0 on, k is 0 at first, then 0 or 1. As
this would go on for long, a range that grows reaches the next of the numbers that stand in the step: k lies between 0
and 24. Once a step takes no carry out of its range, the ranges hold for all steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

from scanjit import ir
from scanjit.ir import Node, Op
from scanjit.kinds import kind_of
from scanjit.ops import View, elementwise as ops
from scanjit.ops.index import GATHER, SCATTER
from scanjit.ops.order import SEARCHED
from scanjit.ops.promotion import CAST, Elementwise
from scanjit.ops.reduce import ArgReduction
from scanjit.ops.shape import IOTA, SET_SLICE
from scanjit.signatures import OpFunction
from scanjit.types import Dimension
from scanjit.walks import bottom_up


class Carry(NamedTuple):
    """A carry of a scan: as a step reads it, its initial value, and as a step returns it."""

    before: Node
    init: Node
    new: Node


Range = tuple[int, int]
"""The smallest and the largest number."""

LONGEST_ROW = 1 << 60
"""A row of unknown size has fewer elements than this."""
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
        self._given: dict[Node, Range | None] = {}
        self._found: dict[Node, Range | None] = {}
        self._left = MOST_WORK

    def of(self, node: Node) -> Range | None:
        """The range of the elements of a node; None if it is not known."""
        try:
            return self._asked(node)
        except _TooLong:
            return None

    def _asked(self, node: Node) -> Range | None:
        if not _is_whole(node):
            return None
        if node not in self._found:
            known = self._found
            for part in bottom_up([node], lambda each: () if each in known else list(filter(_is_whole, each.operands))):
                if part not in known:
                    known[part] = self._result(part, self._asked, DEEP, {})
        return self._found[node]

    def is_inside(self, index: Node, size: Dimension) -> bool:
        """Whether an index certainly lies inside an axis."""
        if not isinstance(size, int):
            return False
        found = self.of(index)
        return found is not None and found[0] >= 0 and found[1] < size

    def settled(self, node: Node, locate: Callable[[Node], object]) -> Node:
        """What a node is, if its conditions are known: `where(k < 0, k + n, k)` is k, if k is not negative. A node that
        lies in memory stays as it is: what it was computed from may be out of reach."""
        while node.op is ops.WHERE and locate(node) is None and (known := self.of(node.args[0])) in ((0, 0), (1, 1)):
            chosen = node.args[1 if known == (1, 1) else 2]
            if chosen.type != node.type:
                break
            node = chosen
        return node

    @contextmanager
    def inside(self, given: Iterable[tuple[Node, Node]], carries: Sequence[Carry] = ()) -> Iterator[None]:
        """While the body of a scan or an ifelse is lowered: the ranges in this body. It is `given` rows and constants,
        each with the node outside that it comes from. The inputs of two bodies may be one node, so nothing that is
        known outside holds inside, and nothing that is known inside holds outside."""
        known = {bound: self.of(value) for bound, value in given}
        tried = {carry.before: found for carry in carries if (found := self.of(carry.init)) is not None}
        outside = self._given, self._found, self._left
        self._given, self._found, self._left = known, {}, MOST_WORK
        self._find_carries(carries, tried)
        try:
            yield
        finally:
            self._given, self._found, self._left = outside

    def _find_carries(self, carries: Sequence[Carry], tried: dict[Node, Range]) -> None:
        """Find the ranges of carries, which begin with those of their initial values."""
        unknown = dict.fromkeys(carry.before for carry in carries)
        stops = _numbers_in([carry.new for carry in carries if carry.before in tried])
        for turn in range(MOST_TRIES):
            self._given |= unknown | tried
            self._found.clear()
            try:
                after = {carry.before: self._asked(carry.new) for carry in carries if carry.before in tried}
            except _TooLong:
                break
            grown = {before: _grown(tried[before], found, stops) for before, found in after.items()}
            if grown == tried:
                self._left = MOST_WORK
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
        if node.op is ops.WHERE:
            return self._chosen(node, of, deep, said)
        selected = [part for part in node.operands if part.op is ops.WHERE] if node.op in (ops.ADD, ops.SUB) else []
        if len(selected) == 1 and deep > 0:
            found = self._of_each(node, selected[0], deep, said)
        else:
            found = _RULES[node.op](node, of) if node.op in _RULES else _other(node, of)
        least, most = _limits(node)
        if found is None and kind_of(node.dtype).is_mask:
            return least, most
        return found if found is not None and least <= found[0] and found[1] <= most else None

    def _chosen(
        self, node: Node, of: Callable[[Node], Range | None], deep: int, said: Mapping[Node, Range]
    ) -> Range | None:
        """The range of a selection: each of its values where the condition is as it has to be for this value."""
        return _joined(
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
        return _joined(found)

    def _of_sum(self, node: Node, said: Mapping[Node, Range], deep: int) -> Range | None:
        return _RULES[node.op](node, lambda part: self._of(part, said, deep))

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
                    found[node] = max(low, least), min(high, most)
            return None if any(low > high for low, high in found.values()) else found
        op = condition.op if holds else _OPPOSITES.get(condition.op)
        if op not in _OPPOSITES:
            return {}
        a, b = condition.args
        if not _is_whole(a) or not _is_whole(b):
            return {}
        of_a, of_b = (of(each) or _limits(each) for each in (a, b))
        narrow = {a: _kept(op, of_a, of_b), b: _kept(_TURNED.get(op, op), of_b, of_a)}
        return None if any(low > high for low, high in narrow.values()) else narrow


def _is_whole(node: Node) -> bool:
    """Whether a node has integers or truth values."""
    return not node.several and (kind_of(node.dtype).integral or kind_of(node.dtype).is_mask)


def _limits(node: Node) -> Range:
    """The range of the dtype of a node."""
    if kind_of(node.dtype).is_mask:
        return 0, 1
    limits = np.iinfo(node.dtype)
    return int(limits.min), int(limits.max)


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


def _grown(old: Range, new: Range | None, stops: Sequence[int]) -> Range | None:
    """A range that holds the old one and the new one. An end that moves goes on to the next of `stops`."""
    if new is None:
        return None
    low = old[0] if new[0] >= old[0] else max((stop for stop in stops if stop <= new[0]), default=None)
    high = old[1] if new[1] <= old[1] else min((stop for stop in stops if stop >= new[1]), default=None)
    return None if low is None or high is None else (low, high)


def _joined(found: Iterable[Range | None]) -> Range | None:
    """The range that holds all these."""
    lows, highs = [], []
    for each in found:
        if each is None:
            return None
        lows.append(each[0])
        highs.append(each[1])
    return (min(lows), max(highs)) if lows else None


# ---- what conditions say ---------------------------------------------------------------------------------------------

_OPPOSITES: dict[Op, Op] = {ops.LESS: ops.GREATER_EQUAL, ops.LESS_EQUAL: ops.GREATER, ops.EQUAL: ops.NOT_EQUAL}
_OPPOSITES |= {opposite: op for op, opposite in _OPPOSITES.items()}
_TURNED: dict[Op, Op] = {ops.LESS: ops.GREATER, ops.LESS_EQUAL: ops.GREATER_EQUAL}
_TURNED |= {turned: op for op, turned in _TURNED.items()}
"""What `b` is to `a`, for what `a` is to `b`; the same for the two that are not here."""


def _kept(op: Op, a: Range, b: Range) -> Range:
    """The range of what lies in `a` and compares to something in `b` like this."""
    (low, high), (least, most) = a, b
    if op is ops.LESS:
        return low, min(high, most - 1)
    if op is ops.LESS_EQUAL:
        return low, min(high, most)
    if op is ops.GREATER:
        return max(low, least + 1), high
    if op is ops.GREATER_EQUAL:
        return max(low, least), high
    if op is ops.EQUAL:
        return max(low, least), min(high, most)
    if least == most:
        return low + (low == least), high - (high == least)
    return a


# ---- ops -------------------------------------------------------------------------------------------------------------

Rule = Callable[[Node, Callable[[Node], Range | None]], Range | None]


def _of_ranges(rule: OpFunction[Range | None]) -> Rule:
    """A rule that needs the ranges of all operands."""

    def found(node: Node, of: Callable[[Node], Range | None]) -> Range | None:
        ranges = [each for each in map(of, node.operands) if each is not None]
        return rule(*ranges) if len(ranges) == len(node.operands) else None

    return found


def _bounded(rule: OpFunction[Range]) -> Rule:
    """A rule of a minimum or maximum. An operand whose range is not known may be any number of its dtype."""
    return lambda node, of: rule(*(of(part) or _limits(part) for part in node.operands))


def _compared(op: Op) -> Rule:
    """Whether a comparison of integers certainly holds, or certainly does not."""

    def found(a: Range, b: Range) -> Range:
        (low, high), (least, most) = _kept(op, a, b), _kept(_OPPOSITES[op], a, b)
        return (0, 0) if low > high else (1, 1) if least > most else (0, 1)

    return _of_ranges(found)


def _mod(node: Node, of: Callable[[Node], Range | None]) -> Range | None:
    a, b = map(of, node.operands)
    if b is None or b[0] <= 0:
        return None
    return a if a is not None and a[0] >= 0 and a[1] < b[0] else (0, b[1] - 1)


def _and(node: Node, of: Callable[[Node], Range | None]) -> Range | None:
    found = [each for each in map(of, node.operands) if each is not None and each[0] >= 0]
    return (0, min(high for _, high in found)) if found else None


def _shifted(node: Node, of: Callable[[Node], Range | None]) -> Range | None:
    a, b = map(of, node.operands)
    if a is None or b is None or b[0] != b[1] or not 0 <= b[0] < 8 * node.dtype.itemsize:
        return None
    return a[0] >> b[0], a[1] >> b[0]


def _cast(node: Node, of: Callable[[Node], Range | None]) -> Range | None:
    (x,) = node.operands
    return None if kind_of(x.dtype).floating or kind_of(node.dtype).is_mask else of(x)


def _gather(node: Node, of: Callable[[Node], Range | None]) -> Range | None:
    """An index out of bounds, which is an error, gives 0."""
    found = of(node.operands[0])
    return None if found is None else _joined([found, (0, 0)])


def _scatter(node: Node, of: Callable[[Node], Range | None]) -> Range | None:
    return None if node.params.get("add") else _joined(map(of, node.operands[:2]))


def _best(node: Node, of: Callable[[Node], Range | None]) -> Range | None:
    size = node.operands[0].type.shape[node.params["axis"]]
    return (0, size - 1) if isinstance(size, int) and size > 0 else None


def _counted(node: Node, of: Callable[[Node], Range | None]) -> Range | None:
    length = node.params["length"]
    return (0, length - 1) if isinstance(length, int) and length > 0 else None


def _place_in_row(node: Node, of: Callable[[Node], Range | None]) -> Range:
    """How many elements of a row come before a number: never less than none, nor more than all."""
    size = node.operands[0].type.shape[-1]
    return 0, size if isinstance(size, int) else LONGEST_ROW


def _other(node: Node, of: Callable[[Node], Range | None]) -> Range | None:
    """The range of a constant, or of a view of something known."""
    if node.op is ir.CONSTANT:
        array = node.params["data"].array
        return (int(array.min()), int(array.max())) if array.size else None
    if isinstance(node.op, ArgReduction):
        return _best(node, of)
    return of(node.operands[0]) if isinstance(node.op, View) else None


def _clipped(number: int, low: int, high: int) -> int:
    return min(max(number, low), high)


def _product(a: Range, b: Range) -> Range:
    ends = [x * y for x in a for y in b]
    return min(ends), max(ends)


_RULES: dict[Op, Rule] = {
    ops.ADD: _of_ranges(lambda a, b: (a[0] + b[0], a[1] + b[1])),
    ops.SUB: _of_ranges(lambda a, b: (a[0] - b[1], a[1] - b[0])),
    ops.MUL: _of_ranges(_product),
    ops.NEG: _of_ranges(lambda a: (-a[1], -a[0])),
    ops.MAXIMUM: _bounded(lambda a, b: (max(a[0], b[0]), max(a[1], b[1]))),
    ops.MINIMUM: _bounded(lambda a, b: (min(a[0], b[0]), min(a[1], b[1]))),
    ops.CLIP: _bounded(lambda x, low, high: (_clipped(x[0], low[0], high[0]), _clipped(x[1], low[1], high[1]))),
    ops.FLOORDIV: _of_ranges(lambda a, b: (a[0] // b[0], a[1] // b[0]) if b[0] == b[1] > 0 else None),
    ops.RIGHT_SHIFT: _shifted,
    ops.MOD: _mod,
    ops.AND: _and,
    CAST: _cast,
    GATHER: _gather,
    SCATTER: _scatter,
    SET_SLICE: _scatter,
    IOTA: _counted,
    SEARCHED: _place_in_row,
    **{op: _compared(op) for op in _OPPOSITES},
}

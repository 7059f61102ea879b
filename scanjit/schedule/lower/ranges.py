"""Between which numbers integers lie: an index that is certainly inside an array needs no check.

The ranges of carries are found by trying. In `where(k == 24, 0, k + 1)` from 0 on, k is 0 at first, then 0 or 1. As
this would go on for long, a range that grows reaches the next of the numbers that stand in the step: k lies between 0
and 24. Once a step takes no carry out of its range, the ranges hold for all steps.

An axis of unknown size n is asked about on its own: the ends of ranges may then be n plus a number, as in `where(k == n
- 1, 0, k + 1)`, and n is at least 1. Code checks just this, which is the same in all steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple, final

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


@final
class BySize:
    """A number that depends on the unknown size of an axis, linearly: what it is for a size of 1, and of LONGEST_ROW.

    A comparison is true if it holds for both, and so for all sizes between them.
    """

    __slots__ = ("few", "many")

    def __init__(self, few: int, many: int) -> None:
        self.few, self.many = few, many

    def __add__(self, other: End) -> BySize:
        return BySize(self.few + _few(other), self.many + _many(other))

    __radd__ = __add__

    def __neg__(self) -> BySize:
        return BySize(-self.few, -self.many)

    def __sub__(self, other: End) -> BySize:
        return self + -other

    def __rsub__(self, other: End) -> BySize:
        return -self + other

    def __eq__(self, other: object) -> bool:
        return isinstance(other, int | BySize) and (self.few, self.many) == (_few(other), _many(other))

    __hash__ = None  # type: ignore[assignment]

    def __le__(self, other: End) -> bool:
        return self.few <= _few(other) and self.many <= _many(other)

    def __lt__(self, other: End) -> bool:
        return self.few < _few(other) and self.many < _many(other)

    def __ge__(self, other: End) -> bool:
        return self.few >= _few(other) and self.many >= _many(other)

    def __gt__(self, other: End) -> bool:
        return self.few > _few(other) and self.many > _many(other)


End = int | BySize
Range = tuple[End, End]
"""The smallest and the largest number."""


def _few(end: End) -> int:
    return end.few if isinstance(end, BySize) else end


def _many(end: End) -> int:
    return end.many if isinstance(end, BySize) else end


def _below(*ends: End) -> End:
    """An end that is at most as large as each of these, whatever the size is."""
    few, many = min(map(_few, ends)), min(map(_many, ends))
    return few if few == many else BySize(few, many)


def _above(*ends: End) -> End:
    """An end that is at least as large as each of these, whatever the size is."""
    return -_below(*(-end for end in ends))


def _lesser(*ends: End) -> End:
    """One of some ends: that which is less for small sizes, as an upper bound that is needed there."""
    return min(ends, key=lambda end: (_few(end), _many(end)))


def _greater(*ends: End) -> End:
    """One of some ends: that which is greater for small sizes."""
    return max(ends, key=lambda end: (_few(end), _many(end)))


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
        """How many times a divisor goes into a number that is certainly not negative: never (0), or only if both are
        equal (1), or perhaps more often (2). The divisor is a positive number, or a size, for which this is said if it
        is positive. None for other numbers and divisors."""
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
            found = _RULES[node.op](node, of) if node.op in _RULES else self._other(node, of)
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
                    found[node] = _greater(low, least), _lesser(high, most)
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


def _joined(found: Iterable[Range | None]) -> Range | None:
    """The range that holds all these."""
    lows, highs = [], []
    for each in found:
        if each is None:
            return None
        lows.append(each[0])
        highs.append(each[1])
    return (_below(*lows), _above(*highs)) if lows else None


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
        return low, _lesser(high, most - 1)
    if op is ops.LESS_EQUAL:
        return low, _lesser(high, most)
    if op is ops.GREATER:
        return _greater(low, least + 1), high
    if op is ops.GREATER_EQUAL:
        return _greater(low, least), high
    if op is ops.EQUAL:
        return _greater(low, least), _lesser(high, most)
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
    if b is None or not b[0] > 0:
        return None
    return a if a is not None and a[0] >= 0 and a[1] < b[0] else (0, b[1] - 1)


def _and(node: Node, of: Callable[[Node], Range | None]) -> Range | None:
    found = [each for each in map(of, node.operands) if each is not None and each[0] >= 0]
    return (0, _lesser(*(high for _, high in found))) if found else None


def _shifted(node: Node, of: Callable[[Node], Range | None]) -> Range | None:
    a, b = map(of, node.operands)
    if a is None or b is None or b[0] != b[1] or not 0 <= b[0] < 8 * node.dtype.itemsize:
        return None
    return _quotient(a, (1 << b[0],) * 2) if isinstance(b[0], int) else None


def _cast(node: Node, of: Callable[[Node], Range | None]) -> Range | None:
    (x,) = node.operands
    return None if kind_of(x.dtype).floating or kind_of(node.dtype).is_mask else of(x)


def _gather(node: Node, of: Callable[[Node], Range | None]) -> Range | None:
    """An index out of bounds, which is an error, gives 0."""
    found = of(node.operands[0])
    return None if found is None else _joined([found, (0, 0)])


def _scatter(node: Node, of: Callable[[Node], Range | None]) -> Range | None:
    return None if node.params.get("add") else _joined(map(of, node.operands[:2]))


def _most(a: Range, b: Range) -> Range:
    """The range of a maximum."""
    return _greater(a[0], b[0]), _above(a[1], b[1])


def _least(a: Range, b: Range) -> Range:
    """The range of a minimum."""
    return _below(a[0], b[0]), _lesser(a[1], b[1])


def _product(a: Range, b: Range) -> Range | None:
    ends = [x * y for x in a for y in b if not isinstance(x, BySize) and not isinstance(y, BySize)]
    return (min(ends), max(ends)) if len(ends) == 4 else None


def _quotient(a: Range, b: Range) -> Range | None:
    (low, high), (by, most) = a, b
    if isinstance(low, BySize) or isinstance(high, BySize) or isinstance(by, BySize) or by != most or by <= 0:
        return None
    return low // by, high // by


_RULES: dict[Op, Rule] = {
    ops.ADD: _of_ranges(lambda a, b: (a[0] + b[0], a[1] + b[1])),
    ops.SUB: _of_ranges(lambda a, b: (a[0] - b[1], a[1] - b[0])),
    ops.MUL: _of_ranges(_product),
    ops.NEG: _of_ranges(lambda a: (-a[1], -a[0])),
    ops.MAXIMUM: _bounded(_most),
    ops.MINIMUM: _bounded(_least),
    ops.CLIP: _bounded(lambda x, low, high: _least(_most(x, low), high)),
    ops.FLOORDIV: _of_ranges(_quotient),
    ops.RIGHT_SHIFT: _shifted,
    ops.MOD: _mod,
    ops.AND: _and,
    CAST: _cast,
    GATHER: _gather,
    SCATTER: _scatter,
    SET_SLICE: _scatter,
    **{op: _compared(op) for op in _OPPOSITES},
}

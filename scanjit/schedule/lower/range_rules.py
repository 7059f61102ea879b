"""The range of what an op computes from operands with known ranges, and what comparisons say about ranges."""

from collections.abc import Callable

import numpy as np

from scanjit import types
from scanjit.ir import Node, Op
from scanjit.kinds import kind_of
from scanjit.ops import elementwise as ops
from scanjit.ops.extremes import MAX, MIN
from scanjit.ops.index import GATHER, SCATTER
from scanjit.ops.promotion import CAST
from scanjit.ops.shape import SET_SLICE
from scanjit.ops.stretch import SUM
from scanjit.schedule.lower.intervals import BySize, Range, above, below, greater, joined, lesser
from scanjit.signatures import OpFunction

OPPOSITES: dict[Op, Op] = {ops.LESS: ops.GREATER_EQUAL, ops.LESS_EQUAL: ops.GREATER, ops.EQUAL: ops.NOT_EQUAL}
OPPOSITES |= {opposite: op for op, opposite in OPPOSITES.items()}
TURNED: dict[Op, Op] = {ops.LESS: ops.GREATER, ops.LESS_EQUAL: ops.GREATER_EQUAL}
TURNED |= {turned: op for op, turned in TURNED.items()}
"""What `b` is to `a`, for what `a` is to `b`; the same for the two that are not here."""


def kept(op: Op, a: Range, b: Range) -> Range:
    """The range of what lies in `a` and compares to something in `b` like this."""
    (low, high), (least, most) = a, b
    if op is ops.LESS:
        return low, lesser(high, most - 1)
    if op is ops.LESS_EQUAL:
        return low, lesser(high, most)
    if op is ops.GREATER:
        return greater(low, least + 1), high
    if op is ops.GREATER_EQUAL:
        return greater(low, least), high
    if op is ops.EQUAL:
        return greater(low, least), lesser(high, most)
    if least == most:
        return low + (low == least), high - (high == least)
    return a


def limits(node: Node) -> Range:
    """The range of the dtype of a node."""
    if kind_of(node.dtype).is_mask:
        return 0, 1
    found = np.iinfo(node.dtype)
    return int(found.min), int(found.max)


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
    return lambda node, of: rule(*(of(part) or limits(part) for part in node.operands))


def _compared(op: Op) -> Rule:
    """Whether a comparison of integers certainly holds, or certainly does not."""

    def found(a: Range, b: Range) -> Range:
        (low, high), (least, most) = kept(op, a, b), kept(OPPOSITES[op], a, b)
        return (0, 0) if low > high else (1, 1) if least > most else (0, 1)

    return _of_ranges(found)


def _mod(node: Node, of: Callable[[Node], Range | None]) -> Range | None:
    a, b = map(of, node.operands)
    if b is None or not b[0] > 0:
        return None
    return a if a is not None and a[0] >= 0 and a[1] < b[0] else (0, b[1] - 1)


def _and(node: Node, of: Callable[[Node], Range | None]) -> Range | None:
    found = [each for each in map(of, node.operands) if each is not None and each[0] >= 0]
    return (0, lesser(*(high for _, high in found))) if found else None


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
    return None if found is None else joined([found, (0, 0)])


def _scatter(node: Node, of: Callable[[Node], Range | None]) -> Range | None:
    return None if node.params.get("add") else joined(map(of, node.operands[:2]))


def _most(a: Range, b: Range) -> Range:
    """The range of a maximum."""
    return greater(a[0], b[0]), above(a[1], b[1])


def _least(a: Range, b: Range) -> Range:
    """The range of a minimum."""
    return below(a[0], b[0]), lesser(a[1], b[1])


def _product(a: Range, b: Range) -> Range | None:
    ends = [x * y for x in a for y in b if not isinstance(x, BySize) and not isinstance(y, BySize)]
    return (min(ends), max(ends)) if len(ends) == 4 else None


def _quotient(a: Range, b: Range) -> Range | None:
    (low, high), (by, most) = a, b
    if isinstance(low, BySize) or isinstance(high, BySize) or isinstance(by, BySize) or by != most or by <= 0:
        return None
    return low // by, high // by


def _sum(node: Node, of: Callable[[Node], Range | None]) -> Range | None:
    found, count = of(node.operands[0]), _count(node)
    return None if found is None or count is None else _product(found, (count, count))


def _extremum(node: Node, of: Callable[[Node], Range | None]) -> Range | None:
    return of(node.operands[0]) if _count(node) else None


def _count(node: Node) -> int | None:
    """Of how many elements a reduction makes one; None if that is not known."""
    (x,) = node.operands
    count = types.product(x.type.shape[axis] for axis in node.params["axes"])
    return count if isinstance(count, int) else None


RULES: dict[Op, Rule] = {
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
    SUM: _sum,
    MAX: _extremum,
    MIN: _extremum,
    **{op: _compared(op) for op in OPPOSITES},
}

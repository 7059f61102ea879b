"""Elementwise ops and views, which read one element of each operand; constants, sizes and positions read nothing."""

from collections.abc import Sequence

import numpy as np

from scanjit.ir import Node, Op
from scanjit.ops import Elementwise
from scanjit.ops.elementwise import AND, LESS, MOD, WHERE
from scanjit.ops.promotion import is_widening
from scanjit.ops.shape import IOTA
from scanjit.schedule.lower.maps import IndexMap, broadcast_map, view_map
from scanjit.schedule.lower.values import NodeAt, PointRule, ValueBuilder
from scanjit.schedule.nests import Apply, Literal, Load, Position, Value


class ElementwiseRule(PointRule):
    """The rule of elementwise ops. They read each operand at the point that is computed. Where an axis of size 1 is
    broadcast, they read its only entry."""

    def cost(self, op: Op) -> int:
        """The cost that the op states."""
        assert isinstance(op, Elementwise)
        return op.cost

    def reads(self, builder: ValueBuilder, node: Node, at: IndexMap) -> Sequence[NodeAt]:
        """All operands."""
        return [(arg, broadcast_map(arg, node, at)) for arg in node.operands]

    def value(self, builder: ValueBuilder, node: Node, at: IndexMap, values: Sequence[Value]) -> Value:
        """The op, applied to the values of its operands. What lies in memory in 16 bits is loaded as float32."""
        if is_widening(node) and isinstance(values[0], Load) and not values[0].widens:
            return builder.widened(values[0], node.dtype)
        if node.op is MOD and not node.ndim and (rest := _rest(builder, node, values)) is not None:
            return rest
        code = 0 if node.op.never_fails else builder.code(node)
        return Apply(node.dtype, node.op, tuple(values), node.params, code)


def _rest(builder: ValueBuilder, node: Node, values: Sequence[Value]) -> Value | None:
    """The rest of a division of integers without a division, if it is known that the dividend is not negative, and at
    most the divisor: `(k + 1) % n` is 0 if `k + 1` is n, else `k + 1`. The rest of a division by 0, which sizes may be,
    is 0. None if it is not known, and for powers of two, whose rests are bits."""
    times = builder.ranges.most_times(*node.operands)
    x, by = values
    number = int(by.number) if isinstance(by, Literal) else 0
    if times == 0 and number:
        return x
    if times is None or times == 2 or number.bit_count() == 1:
        return None
    truth, zero = np.dtype("bool"), Literal(node.dtype, 0)
    below: Value = Apply(truth, LESS, (x, by), {})
    below = below if number else Apply(truth, AND, (Apply(truth, LESS, (zero, by), {}), below), {})
    return Apply(node.dtype, WHERE, (below, x, zero), {})


class ViewRule(PointRule):
    """The rule of views. They read their operand at another point."""

    def reads(self, builder: ValueBuilder, node: Node, at: IndexMap) -> Sequence[NodeAt]:
        """The operand, at the point that the view reads."""
        return [(node.args[0], view_map(node, at))]

    def value(self, builder: ValueBuilder, node: Node, at: IndexMap, values: Sequence[Value]) -> Value:
        """The value of the operand there."""
        return values[0]


class KnownRule(PointRule):
    """The rule of numbers, sizes and positions. They read nothing and cost nothing. Constants that are arrays lie in
    memory."""

    def cost(self, op: Op) -> int:
        """Nothing."""
        return 0

    def reads(self, builder: ValueBuilder, node: Node, at: IndexMap) -> Sequence[NodeAt]:
        """Nothing."""
        return ()

    def value(self, builder: ValueBuilder, node: Node, at: IndexMap, values: Sequence[Value]) -> Value:
        """A number, a load, or an integer that is affine in loop counters."""
        if "data" in node.params:
            array = node.params["data"].array
            return builder.load(node, builder.reference(node), at) if node.ndim else Literal(node.dtype, array[()])
        start, terms = at[0] if node.op is IOTA else (node.params["dim"], ())
        return Position(node.dtype, start, dict(terms))

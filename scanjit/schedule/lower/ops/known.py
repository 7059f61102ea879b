"""What is known without reading anything: numbers, sizes, and positions (`iota`)."""

from __future__ import annotations

from collections.abc import Sequence

from scanjit.ir import Node, Op
from scanjit.ops.shape import IOTA
from scanjit.schedule.lower.maps import IndexMap
from scanjit.schedule.lower.values import PointRule, Read, ValueBuilder
from scanjit.schedule.nests import Literal, Position, Value


class KnownRule(PointRule):
    """What these have in common: they cost nothing, and read nothing."""

    def cost(self, op: Op) -> int:
        """Nothing."""
        return 0

    def reads(self, builder: ValueBuilder, node: Node, at: IndexMap) -> Sequence[Read]:
        """Nothing."""
        return ()


class ConstantRule(KnownRule):
    """Constants: a scalar is a number in the code, an array lies in memory."""

    def value(self, builder: ValueBuilder, node: Node, at: IndexMap, values: Sequence[Value]) -> Value:
        """The number, or a load."""
        if node.ndim:
            return builder.load(node, builder.reference(node), at)
        return Literal(node.dtype, node.params["data"].array[()])


class CountRule(KnownRule):
    """Sizes, and the positions along an axis: they are counted."""

    def value(self, builder: ValueBuilder, node: Node, at: IndexMap, values: Sequence[Value]) -> Value:
        """An integer that is affine in loop counters."""
        if node.op is IOTA:
            ((start, terms),) = at
            return Position(node.dtype, start, dict(terms))
        return Position(node.dtype, node.params["dim"], {})

"""Elementwise ops: the op, applied to the values of its operands at the same point."""

from __future__ import annotations

from collections.abc import Sequence

from scanjit.ir import Node, Op
from scanjit.ops import Elementwise
from scanjit.schedule.lower.maps import IndexMap, broadcast_map
from scanjit.schedule.lower.values import PointRule, Read, ValueBuilder
from scanjit.schedule.nests import Apply, Value


class ElementwiseRule(PointRule):
    """A rule for all elementwise ops."""

    def cost(self, op: Op) -> int:
        """What the op says."""
        assert isinstance(op, Elementwise)
        return op.cost

    def reads(self, builder: ValueBuilder, node: Node, at: IndexMap) -> Sequence[Read]:
        """Its operands at the same point, where they are not stretched over an axis."""
        return [(arg, broadcast_map(arg, node, at)) for arg in node.operands]

    def value(self, builder: ValueBuilder, node: Node, at: IndexMap, values: Sequence[Value]) -> Value:
        """The op of these."""
        return Apply(node.dtype, node.op, tuple(values), node.params)

"""Views: their operand, read elsewhere."""

from __future__ import annotations

from collections.abc import Sequence

from scanjit.ir import Node
from scanjit.schedule.lower.maps import IndexMap, view_map
from scanjit.schedule.lower.values import PointRule, Read, ValueBuilder
from scanjit.schedule.nests import Value


class ViewRule(PointRule):
    """A rule for all views."""

    def reads(self, builder: ValueBuilder, node: Node, at: IndexMap) -> Sequence[Read]:
        """The operand, where the view says."""
        return [(node.args[0], view_map(node, at))]

    def value(self, builder: ValueBuilder, node: Node, at: IndexMap, values: Sequence[Value]) -> Value:
        """What is there."""
        return values[0]

"""`searched`: how many elements of a sorted row come before a value."""

from collections.abc import Sequence

from scanjit.ir import Node, Op
from scanjit.schedule.lower import maps
from scanjit.schedule.lower.maps import IndexMap
from scanjit.schedule.lower.places import EXPENSIVE
from scanjit.schedule.lower.values import NodeAt, PointRule, ValueBuilder
from scanjit.schedule.nests import Search, Value


class SearchRule(PointRule):
    """The rule of `searched`. The sorted rows lie in memory; what is looked for is a value."""

    needs_array = True

    def cost(self, op: Op) -> int:
        """Much, as a row is looked at several times."""
        return EXPENSIVE

    def reads(self, builder: ValueBuilder, node: Node, at: IndexMap) -> Sequence[NodeAt]:
        """The value to look for."""
        return [(node.operands[1], at)]

    def value(self, builder: ValueBuilder, node: Node, at: IndexMap, values: Sequence[Value]) -> Value:
        """A search in the row that the first indices name."""
        rows = node.operands[0]
        ref = builder.reference(rows)
        access = maps.place(ref, (*at[: rows.ndim - 1], maps.FIXED))
        builder.origins[access] = rows, False
        size, right = rows.type.shape[-1], node.params["side"] == "right"
        return Search(node.dtype, access, values[0], size, ref.strides[-1], right)

"""`gather`: elements of an array at computed indices."""

from collections.abc import Sequence

from scanjit.ir import Node, Op
from scanjit.schedule.lower import maps
from scanjit.schedule.lower.computed import indices_of
from scanjit.schedule.lower.maps import IndexMap
from scanjit.schedule.lower.places import EXPENSIVE
from scanjit.schedule.lower.values import NodeAt, PointRule, ValueBuilder
from scanjit.schedule.nests import Fetch, Load, Value


class GatherRule(PointRule):
    """The rule of `gather`. The array lies in memory; indices are values."""

    needs_array = True

    def cost(self, op: Op) -> int:
        """Much, as indices are checked."""
        return EXPENSIVE

    def reads(self, builder: ValueBuilder, node: Node, at: IndexMap) -> Sequence[NodeAt]:
        """The indices, each at the axes of the result that come from them."""
        settled = [builder.ranges.settled(index, builder.locate) for index in node.operands[1:]]
        return [(index, maps.index_map(index, _middle(node, at))) for index in settled]

    def value(self, builder: ValueBuilder, node: Node, at: IndexMap, values: Sequence[Value]) -> Value:
        """A load at the indices, which are checked."""
        x, axis, middle = node.operands[0], node.params["axis"], _middle(node, at)
        ref = builder.reference(x)
        sure = [builder.ranges.is_inside(*each) for each in zip(node.operands[1:], x.type.shape[axis:], strict=False)]
        found = indices_of(values, ref, axis, at, sure)
        access = maps.place(ref, (*at[:axis], *found.counted, *at[axis + len(middle) :]))
        builder.origins[access] = x, False
        indices = found.checked
        return Fetch(node.dtype, access, indices, builder.code(node)) if indices else Load(node.dtype, access)


def _middle(node: Node, at: IndexMap) -> IndexMap:
    """The map of those axes of the result that come from the indices, without the axes of the array before and behind
    them."""
    x, *indices = node.operands
    axis = node.params["axis"]
    return at[axis : axis + node.ndim - (x.ndim - len(indices))]

"""What is read at computed places: elements of an array (`gather`), and how many elements of a sorted row come before a
value (`searched`)."""

from collections.abc import Sequence

import numpy as np

from scanjit.ir import CONSTANT, Node, Op
from scanjit.schedule.lower import maps
from scanjit.schedule.lower.computed import indices_of
from scanjit.schedule.lower.maps import IndexMap
from scanjit.schedule.lower.places import EXPENSIVE
from scanjit.schedule.lower.values import NodeAt, PointRule, ValueBuilder
from scanjit.schedule.nests import Fetch, Load, Search, Value


class GatherRule(PointRule):
    """The rule of `gather`. The array lies in memory; indices are values."""

    needs_array = True

    def cost(self, op: Op) -> int:
        """Much, as indices are checked."""
        return EXPENSIVE

    def reads(self, builder: ValueBuilder, node: Node, at: IndexMap) -> Sequence[NodeAt]:
        """The indices, each at the axes of the result that come from them."""
        x, *indices = node.operands
        sizes = x.type.shape[node.params["axis"] :]
        settled = [builder.ranges.settled(*each, builder.locate) for each in zip(indices, sizes, strict=False)]
        return [(index, maps.index_map(index, _middle(node, at))) for index in settled]

    def value(self, builder: ValueBuilder, node: Node, at: IndexMap, values: Sequence[Value]) -> Value:
        """A load at the indices, which are checked."""
        x, axis, middle = node.operands[0], node.params["axis"], _middle(node, at)
        ref = builder.reference(x)
        sure = [builder.ranges.is_inside(*each) for each in zip(node.operands[1:], x.type.shape[axis:], strict=False)]
        if all(sure) and _counts(x):
            return values[0]
        found = indices_of(values, ref, axis, at, sure)
        access = maps.place(ref, (*at[:axis], *found.counted, *at[axis + len(middle) :]))
        builder.origins[access] = x, False
        indices = found.checked
        return Fetch(node.dtype, access, indices, builder.code(node)) if indices else Load(node.dtype, access)


def _counts(x: Node) -> bool:
    """Whether an array is known to be 0, 1, 2, ..., so that what is read there is the index."""
    if x.op is not CONSTANT or x.ndim != 1 or x.dtype != np.int64:
        return False
    array = x.params["data"].array
    return array[-1:] == array.size - 1 and np.array_equal(array, np.arange(array.size))


def _middle(node: Node, at: IndexMap) -> IndexMap:
    """The map of the axes of the result that come from the indices. The axes before and behind them are those of the
    array."""
    x, *indices = node.operands
    axis = node.params["axis"]
    return at[axis : axis + node.ndim - (x.ndim - len(indices))]


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

"""`concatenate`: parts one after the other in one buffer."""

from collections.abc import Iterable

from scanjit.ir import Node
from scanjit.schedule.lower import maps
from scanjit.schedule.lower.lowering import AssemblyRule, Lowering
from scanjit.schedule.lower.region import Item
from scanjit.schedule.nests import Ref
from scanjit.types import Dimension


class ConcatenateRule(AssemblyRule):
    """The rule of `concatenate`. Parts that can be computed in their place are; others are copied there."""

    def parts(self, node: Node, whole: Ref) -> Iterable[tuple[Node, Ref]]:
        """All operands, each in its window."""
        axis = node.params["axis"]
        start: Dimension = 0
        for part in node.operands:
            length = part.type.shape[axis]
            yield part, whole.window(axis, start, length)
            start = start + length

    def lower(self, lowering: Lowering, node: Node) -> None:
        """Copy the parts that do not lie in their place."""
        whole = lowering.destination(node)
        makers: list[Item] = []
        for part, window in self.parts(node, whole):
            place = maps.view_ref(part, lowering.places.get)
            if place is None or place.buffer is not window.buffer or place.offset != window.offset:
                makers.append(lowering.copy(part, window))
            makers += lowering.read_by_others(part)
        lowering.put(node, whole, makers)

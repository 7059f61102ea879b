"""`reshape`: the same elements under another shape."""

from collections.abc import Iterable

from scanjit.ir import Node
from scanjit.schedule.lower import maps
from scanjit.schedule.lower.lowering import AssemblyRule, Lowering
from scanjit.schedule.nests import Ref, row_major


class ReshapeRule(AssemblyRule):
    """The rule of `reshape`. A contiguous operand is not copied."""

    def parts(self, node: Node, whole: Ref) -> Iterable[tuple[Node, Ref]]:
        """The operand, if the place of the result is contiguous."""
        if whole.contiguous:
            yield node.operands[0], _under(whole, node.operands[0])

    def lower(self, lowering: Lowering, node: Node) -> None:
        """The memory of the operand, if it is contiguous; else a copy."""
        (x,) = node.operands
        place = maps.view_ref(x, lowering.locate)
        if place is not None and place.contiguous:
            lowering.put(node, _under(place, node), lowering.read_by_others(x))
            return
        whole = lowering.destination(node)
        if not whole.contiguous:
            whole = lowering.new_place(node)
        lowering.put(node, whole, [lowering.copy(x, _under(whole, x))])


def _under(place: Ref, node: Node) -> Ref:
    """Contiguous memory under the shape of a node."""
    return Ref(place.buffer, place.offset, node.type.shape, row_major(node.type.shape))

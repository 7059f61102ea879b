"""`reshape`: the same elements under another shape. `copy`: in memory of their own."""

from collections.abc import Iterable

from scanjit.ir import Node
from scanjit.schedule.lower import maps
from scanjit.schedule.lower.lowering import ArrayRule, AssemblyRule, Lowering
from scanjit.schedule.lower.region import Item
from scanjit.schedule.nests import Load, Nest, NestLoop, Ref, Store, row_major


class ReshapeRule(AssemblyRule):
    """The rule of `reshape`. A contiguous operand is not copied."""

    def parts(self, node: Node, whole: Ref) -> Iterable[tuple[Node, Ref]]:
        """The operand, if the place of the result is contiguous."""
        if whole.contiguous:
            yield node.operands[0], _under(whole, node.operands[0])

    def lower(self, lowering: Lowering, node: Node) -> None:
        """Give the operand's memory another shape if it is contiguous, else copy the operand."""
        (x,) = node.operands
        place = maps.view_ref(x, lowering.locate)
        if place is not None and place.contiguous:
            lowering.put(node, _under(place, node), lowering.read_by_others(x))
            return
        whole = lowering.destination(node)
        if not whole.contiguous:
            whole = lowering.new_memory(node, node, node.type.shape, node.op.name)
        lowering.put(node, whole, [lowering.copy(x, _under(whole, x))])


class CopyRule(ArrayRule):
    """The rule of `copy`."""

    def lower(self, lowering: Lowering, node: Node) -> None:
        """Copy the operand, wherever it lies."""
        (x,) = node.operands
        whole = lowering.new_place(node)
        lowering.put(node, whole, [copied(lowering, x, whole)])


def copied(lowering: Lowering, x: Node, whole: Ref) -> Item:
    """Copy a tensor into memory, in a nest over the sizes of that memory: nests over equal sizes can be joined."""
    space = tuple(map(NestLoop, whole.shape))
    source, target = (maps.place(ref, maps.identity(space)) for ref in (lowering.place_of(x), whole))
    nest = Nest(space, (Store(target, Load(x.dtype, source)),), "rows")
    return lowering.add_statement(nest, lowering.read_by_others(x))


def _under(place: Ref, node: Node) -> Ref:
    """Contiguous memory with the shape of a node."""
    return Ref(place.buffer, place.offset, node.type.shape, row_major(node.type.shape))

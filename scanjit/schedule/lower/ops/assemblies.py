"""The same elements in other memory or under another shape: `reshape`, `copy`, and `concatenate`, which puts parts one
after the other."""

from collections.abc import Iterable

from scanjit.ir import Node
from scanjit.schedule.lower import maps
from scanjit.schedule.lower.lowering import ArrayRule, AssemblyRule, Lowering
from scanjit.schedule.lower.region import Item
from scanjit.schedule.nests import Load, Nest, NestLoop, Ref, Store, row_major
from scanjit.types import Dimension


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

"""Functions that users compiled, for whole arrays: each is called once, with arrays that lie without gaps."""

from scanjit.ir import PART, Node
from scanjit.schedule.lower import maps
from scanjit.schedule.lower.lowering import ArrayRule, Lowering
from scanjit.schedule.nests import Buffer, GuestCall, Ref


class GuestRule(ArrayRule):
    """The rule of `guest_call`. An argument is copied if it does not lie in memory without gaps."""

    def lower(self, lowering: Lowering, node: Node) -> None:
        """Make the copies, and call the function."""
        arguments, needs = [], []
        for operand in node.operands:
            place = maps.view_ref(operand, lowering.locate)
            if place is not None and place.contiguous:
                place = lowering.place_of(operand)
                needs += lowering.items_of(operand)
            else:
                place = Ref.whole(Buffer(operand.dtype, operand.type.shape, "temporary", "argument"))
                needs.append(lowering.copy(operand, place))
            arguments.append(place)
        results = [Ref.whole(Buffer(kind.dtype, kind.shape, "temporary", "result")) for kind in node.types]
        guest = node.params["guest"]
        lowering.context.notes.append(f"{guest.name} at {node.where}: a function of yours, called by one thread")
        call = GuestCall(guest, tuple(arguments), tuple(results), lowering.context.code(node))
        item = lowering.add_statement(call, needs)
        for i, place in enumerate(results):
            lowering.put(PART(node, index=i), place, [item])

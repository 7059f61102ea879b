"""Functions that users compiled, for whole arrays: each is called once, with arrays that lie without gaps."""

from scanjit.ir import PART, Node
from scanjit.schedule.lower.lowering import ArrayRule, Lowering
from scanjit.schedule.nests import Buffer, GuestCall, Ref


class GuestRule(ArrayRule):
    """The rule of `guest_call`. An argument is copied if it does not lie in memory without gaps."""

    def lower(self, lowering: Lowering, node: Node) -> None:
        """Make the copies, and call the function."""
        given = [lowering.laid_out(operand, "argument") for operand in node.operands]
        results = [Ref.whole(Buffer(kind.dtype, kind.shape, "temporary", "result")) for kind in node.types]
        guest = node.params["guest"]
        lowering.context.notes.append(f"{guest.name} at {node.where}: a function of yours, called by one thread")
        call = GuestCall(guest, tuple(place for place, _ in given), tuple(results), lowering.context.code(node))
        item = lowering.add_statement(call, [item for _, items in given for item in items])
        for i, place in enumerate(results):
            lowering.put(PART(node, index=i), place, [item])

"""`ifelse`: two branches, of which the condition lets one run."""

from scanjit import ir
from scanjit.ir import Node
from scanjit.ops.promotion import cast
from scanjit.schedule.lower.lowering import ArrayRule, Lowering
from scanjit.schedule.lower.ops.step import open_body
from scanjit.schedule.nests import Buffer, If, Ref


class IfElseRule(ArrayRule):
    """The rule of `ifelse`. Both branches put their results into the same memory."""

    def lower(self, lowering: Lowering, node: Node) -> None:
        """A region for each branch."""
        condition, *operands = node.operands
        (inputs, results), first = open_body(node), len(lowering.items)
        number = cast(condition, "int64")  # the main function reads int64 only
        flag = lowering.new_place(number)
        lowering.copy(number, flag)
        targets = [Ref.whole(Buffer(kind.dtype, kind.shape, "temporary", "branch")) for kind in node.types]
        known = {inner: lowering.place_of(outer) for inner, outer in zip(inputs, operands, strict=True)}
        needs = lowering.inputs_of(operands, first)
        half, label = len(targets), f"ifelse at {node.where}"
        with lowering.context.ranges.inside(zip(inputs, operands, strict=True)):
            regions = [lowering.inside(known, outputs, targets) for outputs in (results[:half], results[half:])]
        lowering.context.notes.append(f"{label}: only the branch that is chosen runs")
        block = lowering.add_statement(If(flag, (), (), label), needs, regions)
        for i, target in enumerate(targets):
            lowering.put(ir.PART(node, index=i), target, [block])

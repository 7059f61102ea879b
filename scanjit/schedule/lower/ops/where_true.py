"""The places of what is true in rows: a statement of its own reads rows without gaps."""

from scanjit.ir import Node
from scanjit.schedule.lower.lowering import ArrayRule, Lowering
from scanjit.schedule.nests import WhereTrue


class WhereTrueRule(ArrayRule):
    """The rule of `where_true`."""

    def lower(self, lowering: Lowering, node: Node) -> None:
        """Add the statement."""
        truths, needs = lowering.laid_out(node.operands[0], "truths")
        result = lowering.new_place(node)
        lowering.put(node, result, [lowering.add_statement(WhereTrue(truths, result), needs)])

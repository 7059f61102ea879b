"""Rows in the order of two groups: a statement of its own reads rows and groups without gaps."""

from scanjit.ir import Node
from scanjit.schedule.lower.lowering import ArrayRule, Lowering
from scanjit.schedule.nests import Parting


class PartingRule(ArrayRule):
    """The rule of `parted`."""

    def lower(self, lowering: Lowering, node: Node) -> None:
        """Add the statement."""
        values, needs = lowering.laid_out(node.operands[0], "rows")
        groups, more = lowering.laid_out(node.operands[1], "groups")
        result = lowering.new_place(node)
        parting = Parting(values, groups, result)
        lowering.put(node, result, [lowering.add_statement(parting, [*needs, *more])])

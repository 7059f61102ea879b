"""Which nodes are weights."""

from scanjit import ir
from scanjit.ir import BOUND, INPUT, Node


def is_weight(node: Node) -> bool:
    """Whether a node depends on shared variables and constants alone, and no loop or branch makes it."""
    return not any(n.op in (INPUT, BOUND) or "body" in n.params for n in ir.walk([node]))

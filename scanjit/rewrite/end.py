"""The end of a graph: the elementwise ops behind everything else."""

from collections.abc import Sequence

from scanjit.ir import CONSTANT, ORIGINS, Node, walk
from scanjit.ops.elementwise import MUL, WHERE
from scanjit.ops.promotion import CAST, Elementwise
from scanjit.ops.view import View


def without_end(outputs: Sequence[Node]) -> list[Node]:
    """The nodes from which elementwise ops alone compute the outputs, in the order in which a walk meets them.

    Results of loops are among them. For `w - 0.1 * gradient`, the node is `gradient`. For `where(mask, x @ w, 0)`, it
    is the whole: nobody needs the product where the mask is false (see `guards`).
    """
    others: set[Node] = set()
    for node in reversed(walk(outputs)):  # an op comes after all ops that use its result
        if node in others or not isinstance(node.op, Elementwise) or node.applied.sizes or _masks(node):
            others.add(node)
            others.update(node.args)
    met = walk(outputs, others)
    return [node for node in met if node in others and node.op not in ORIGINS and node.op is not CONSTANT]


def _masks(node: Node) -> bool:
    """Whether a node may need its operands only where a mask is true."""
    return node.op is WHERE or (node.op is MUL and any(map(_may_be_zero, node.args)))


def _may_be_zero(node: Node) -> bool:
    """Whether a node is zero where a mask is false, or a view of such a node."""
    while isinstance(node.op, View):
        node = node.args[0]
    return node.op is WHERE or (node.op is CAST and node.args[0].type.kind.is_mask)

"""The end of a graph: the elementwise ops behind everything else."""

from collections.abc import Sequence

from scanjit.ir import CONSTANT, ORIGINS, Node, walk
from scanjit.ops.promotion import Elementwise
from scanjit.walks import bottom_up


def without_end(outputs: Sequence[Node]) -> list[Node]:
    """The nodes from which elementwise ops alone compute the outputs, in the order in which a walk meets them.

    Results of loops are among them. For `w - 0.1 * gradient`, the node is `gradient`.
    """
    others: set[Node] = set()
    for node in reversed(walk(outputs)):  # an op comes after all ops that use its result
        if node in others or not isinstance(node.op, Elementwise) or node.applied.sizes:
            others.add(node)
            others.update(node.args)
    met = bottom_up(outputs, lambda node: () if node in others else node.args)
    return [node for node in met if node in others and node.op not in ORIGINS and node.op is not CONSTANT]
